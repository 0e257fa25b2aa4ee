//! The kernel's caches of files.

use std::fs;

/// Writes all dirty data, then drops the kernel's caches of files: pages, names and inodes
/// (`Documentation/admin-guide/sysctl/vm.rst`, `drop_caches`). Files that other programs have open
/// stay open; their bytes are read from the device again.
///
/// # Errors
///
/// A sentence: this user may not drop caches, or no user of this machine (a container) may.
pub fn drop_all() -> Result<(), String> {
    const PATH: &str = "/proc/sys/vm/drop_caches";
    // Dirty pages would stay in memory.
    nix::unistd::sync();
    fs::write(PATH, "3").map_err(|error| {
        format!(
            "cannot drop caches: {PATH}: {error}; try: sudo iotrace-perf …, or leave out --drop-caches"
        )
    })
}
