//! Our own threads: their CPU and priority.

use std::io;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Binds the calling thread to one CPU.
///
/// # Errors
///
/// `EINVAL` if the CPU is offline or outside our cpuset.
pub fn pin(cpu: u32) -> io::Result<()> {
    run_on(&[cpu])
}

/// Lets the calling thread run on these CPUs only.
///
/// # Errors
///
/// `EINVAL` if none of them is online and in our cpuset.
pub fn run_on(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(usize::try_from(cpu).map_err(io::Error::other)?)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set)?;
    Ok(())
}

/// Makes the calling thread run before all ordinary ones (`SCHED_FIFO`, sched(7)).
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_NICE`, or where a cgroup has no real-time budget.
pub fn set_fifo(priority: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the struct is whole and lives over the call; the kernel only reads it.
    let code = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// True if we may run threads with real-time priority.
pub fn fifo_allowed(priority: i32) -> bool {
    // In a thread of its own, so that the caller's priority stays as it is.
    std::thread::spawn(move || set_fifo(priority).is_ok()).join().unwrap_or(false)
}

/// Lets others run for so long.
pub fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}
