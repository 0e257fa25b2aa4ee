//! CPUs that are online, and their NUMA nodes.

use std::fs;

/// Numbers of the CPUs that are online.
pub fn online_cpus() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    parse_cpu_list(text.trim()).unwrap_or_default()
}

/// CPUs of each NUMA node that has any; none if the kernel does not report nodes.
pub fn numa_nodes() -> Vec<Vec<u32>> {
    let nodes = fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    let cpus = nodes.filter_map(|it| fs::read_to_string(it.path().join("cpulist")).ok());
    let mut nodes: Vec<Vec<u32>> =
        cpus.filter_map(|it| parse_cpu_list(it.trim())).filter(|it| !it.is_empty()).collect();
    nodes.sort_unstable();
    nodes
}

/// Parses a CPU list as the kernel prints it: `0-3,8,10-11`. `None` for any other text.
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    ranges.map(|it| it.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn cpu_lists_have_ranges_and_holes() {
        assert_eq!(super::parse_cpu_list("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(super::parse_cpu_list(""), None);
        assert_eq!(super::parse_cpu_list("1,x"), None);
    }
}
