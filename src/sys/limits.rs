//! Resource limits of this process, and the numbers of CPUs.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one and returns it. The traced program is started before and keeps
/// its own.
pub fn raise_open_files() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

/// Numbers of the CPUs that are online.
pub fn online_cpus() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    parse_cpu_list(text.trim())
}

/// `0-3,8,10-11` as the kernel prints CPU lists.
fn parse_cpu_list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn cpu_lists_have_ranges_and_holes() {
        assert_eq!(super::parse_cpu_list("0-2,5,7-8"), [0, 1, 2, 5, 7, 8]);
        assert!(super::parse_cpu_list("").is_empty());
    }
}
