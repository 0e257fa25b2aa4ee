//! Resource limits and use of this process, and the numbers of CPUs.

use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike as _;

/// Raises the soft limit of open files to the hard one and returns it. The traced program is started before and keeps
/// its own.
pub fn raise_open_files() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

/// CPU time that this process has used, all threads, ns.
pub fn own_cpu_ns() -> u64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0 };
    let time = usage.user_time() + usage.system_time();
    u64::try_from(time.num_microseconds()).unwrap_or(0) * 1000
}

/// How many addresses a chain of perf's has at most: `kernel.perf_event_max_stack`, which is 127 (`PERF_MAX_STACK_DEPTH`) unless
/// somebody has changed it.
pub fn chain_frames_max() -> u64 {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_max_stack").unwrap_or_default();
    text.trim().parse().unwrap_or(127)
}

/// Numbers of the CPUs that are online.
pub fn online_cpus() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    parse_cpu_list(text.trim()).unwrap_or_default()
}

/// The CPUs of each node of memory that has any; none if the kernel does not tell.
pub fn numa_nodes() -> Vec<Vec<u32>> {
    let nodes = fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    let cpus = nodes.filter_map(|it| fs::read_to_string(it.path().join("cpulist")).ok());
    let mut nodes: Vec<Vec<u32>> =
        cpus.filter_map(|it| parse_cpu_list(it.trim())).filter(|it| !it.is_empty()).collect();
    nodes.sort_unstable();
    nodes
}

/// `0-3,8,10-11` as the kernel prints CPU lists. `None` if it is something else.
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
