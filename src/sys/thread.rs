//! Threads: CPU, priority and interruption of our own ones, and the CPU of others.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;
use rustc_hash::FxHashMap;

use crate::units::{CpuId, Tid};

/// Name of the thread that ends this process at a second signal.
pub const SIGNAL_THREAD: &str = "iotrace-signals";

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

/// Gives the calling thread a descriptor table of its own, a copy of the shared one (`CLONE_FILES`,
/// unshare(2)).
///
/// # Errors
///
/// `ENOMEM`.
pub fn own_descriptors() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_FILES)?)
}

/// Makes the calling thread run before all ordinary ones (`SCHED_FIFO`, sched(7)).
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_NICE`, or where a cgroup has no real-time budget.
pub fn set_fifo(priority: i32) -> io::Result<()> {
    // The kernel's `struct sched_param` is this number. The function of musl refuses every call,
    // because it would be for a thread and POSIX wants it for a process.
    let parameter: libc::c_int = priority;
    // SAFETY: the number outlives the call; the kernel only reads it.
    let code = unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const parameter)
    };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives the calling thread the largest share that an ordinary one can have (nice(2): -20).
///
/// # Errors
///
/// `EACCES` without `CAP_SYS_NICE`.
pub fn set_large_share() -> io::Result<()> {
    // SAFETY: numbers only; 0 is the calling thread (setpriority(2): on Linux a thread's own).
    let code = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// True if this process may run threads with real-time priority.
pub fn fifo_allowed(priority: i32) -> bool {
    // In a thread of its own, so that the caller's priority does not change. Without a thread there
    // is no priority, either.
    let thread = std::thread::Builder::new().spawn(move || set_fifo(priority).is_ok());
    thread.is_ok_and(|it| it.join().unwrap_or(false))
}

/// Wakes the calling thread exactly at its time. By default the kernel delays it by up to 50 µs, to
/// wake it together with others (`PR_SET_TIMERSLACK`, prctl(2)).
pub fn set_exact_timers() {
    // The call cannot fail; a late wake-up is reported as lateness anyway.
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// Signal without effect, which makes a blocked call return.
const INTERRUPT: libc::c_int = libc::SIGUSR1;

/// Installs the handler that [`interrupt`] needs.
///
/// # Errors
///
/// Those of `sigaction(2)`.
pub fn allow_interrupts() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is a valid value of it: without flags, so calls are not
    // restarted (`SA_RESTART`, signal(7)).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the struct is complete and outlives the call; the handler does nothing, which every
    // handler may.
    let code = unsafe { libc::sigaction(INTERRUPT, &raw const action, std::ptr::null_mut()) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Number of the calling thread.
pub fn own_tid() -> Tid {
    Tid(nix::unistd::gettid().as_raw())
}

/// Makes a blocked call of one of our threads return with `EINTR`, if the kernel allows that.
pub fn interrupt(tid: Tid) {
    let (process, signal) = (std::process::id(), INTERRUPT);
    // SAFETY: numbers only. A thread that has ended does not belong to this process any more;
    // another thread of ours with that number is interrupted without harm.
    unsafe { libc::syscall(libc::SYS_tgkill, process, tid.0, signal) };
}

/// Sleeps for this time.
pub fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}

/// Number of context switches of the calling thread since its start (`ru_nvcsw` and `ru_nivcsw`,
/// getrusage(2)): it slept, or was preempted, by the kernel's limit for real-time threads, too.
pub fn switches() -> i64 {
    // The number is only compared with itself, and the call cannot fail; a constant would mean no
    // switches.
    getrusage(UsageWho::RUSAGE_THREAD)
        .map_or(0, |it| it.voluntary_context_switches() + it.involuntary_context_switches())
}

/// Lookup of the CPUs on which threads run.
#[derive(Debug, Default)]
pub struct CpuLookup {
    /// Open `stat` files, as an open takes twice as long as a read.
    files: FxHashMap<i32, File>,
}

/// Limit on the files that are kept open: more than the threads that take turns on one CPU in the
/// time of a few calls.
const FILES_MAX: usize = 16;

/// Limit on a line of `/proc/PID/stat`: 52 numbers, most of them small, and a name of at most 64
/// bytes.
const STAT_BYTES: usize = 1024;

impl CpuLookup {
    /// CPU that a thread is on, or that it ran on last. `None`: the thread has ended, or `/proc`
    /// has no number.
    pub fn cpu_of(&mut self, tid: Tid) -> Option<CpuId> {
        let mut line = [0; STAT_BYTES];
        // A file that was opened for an earlier thread of this number cannot be read any more.
        if let Some(file) = self.files.get(&tid.0)
            && let Some(cpu) = read_cpu(file, &mut line)
        {
            return Some(cpu);
        }
        // Files in `task` have the numbers of the thread alone: those of the process would be
        // summed over all its threads.
        let file = File::open(format!("/proc/{tid}/task/{tid}/stat")).ok()?;
        let cpu = read_cpu(&file, &mut line)?;
        if self.files.len() >= FILES_MAX {
            self.files.clear();
        }
        self.files.insert(tid.0, file);
        Some(cpu)
    }
}

/// Reads the CPU from a `stat` file. The name in parentheses may have any characters; it is
/// followed by field 3, and field 39 is the CPU (`proc_pid_stat(5)`).
fn read_cpu(file: &File, line: &mut [u8]) -> Option<CpuId> {
    let length = file.read_at(line, 0).ok()?;
    let stat = line.get(..length)?;
    let name_end = stat.iter().rposition(|&it| it == b')')?;
    let field = stat.get(name_end + 2..)?.split(|&it| it == b' ').nth(39 - 3)?;
    std::str::from_utf8(field).ok()?.parse().ok().map(CpuId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_where_it_was_put() {
        // In a thread of its own: a test must not move the others.
        let pinned = std::thread::spawn(|| {
            pin(0).expect("the first CPU is there");
            let mut whereabouts = CpuLookup::default();
            let own = Tid(nix::unistd::gettid().as_raw());
            [whereabouts.cpu_of(own), whereabouts.cpu_of(own), whereabouts.cpu_of(Tid(i32::MAX))]
        });
        let found = pinned.join().expect("it ends");
        assert_eq!(found, [Some(CpuId(0)), Some(CpuId(0)), None]);
    }

    #[test]
    fn a_thread_that_is_gone_is_nowhere() {
        let mut whereabouts = CpuLookup::default();
        let (report, reported) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            report.send(nix::unistd::gettid().as_raw()).expect("a receiver");
            ended.recv().expect_err("the other side goes");
        });
        let tid = Tid(reported.recv().expect("a number"));
        assert!(whereabouts.cpu_of(tid).is_some());
        drop(end);
        thread.join().expect("it ends");
        // The kernel releases the joiner a moment before it removes the thread from the list.
        for _ in 0..1000 {
            if whereabouts.cpu_of(tid).is_none() {
                return;
            }
            pause(std::time::Duration::from_millis(1));
        }
        panic!("an ended thread still has a CPU");
    }

    #[test]
    fn sleeping_is_counted() {
        let before = switches();
        pause(std::time::Duration::from_millis(1));
        assert!(switches() > before);
    }
}
