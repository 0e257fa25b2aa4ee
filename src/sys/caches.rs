//! What the kernel keeps of files in memory.

use std::fs;

/// Writes what has to be written, and has the kernel forget what it keeps of files: pages, names and inodes
/// (`Documentation/admin-guide/sysctl/vm.rst`, `drop_caches`). What other programs have open stays open; it is read from its device again.
///
/// # Errors
///
/// A sentence: this user may not, or this machine (a container) does not let anybody.
pub fn drop_all() -> Result<(), String> {
    const PATH: &str = "/proc/sys/vm/drop_caches";
    // What is not yet written stays in memory.
    nix::unistd::sync();
    fs::write(PATH, "3").map_err(|it| {
        format!(
            "cannot drop caches: {PATH}: {it}; try: sudo iotrace-perf …, or leave out --drop-caches"
        )
    })
}
