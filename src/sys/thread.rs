//! Our own threads: their CPU and priority. Others': the CPU they are on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;
use rustc_hash::FxHashMap;

use crate::units::{CpuId, Tid};

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

/// Gives the calling thread a table of descriptors of its own, a copy of the one that all have (`CLONE_FILES`, unshare(2)).
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
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the struct is whole and lives over the call; the kernel only reads it.
    let code = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
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

/// True if we may run threads with real-time priority.
pub fn fifo_allowed(priority: i32) -> bool {
    // In a thread of its own, so that the caller's priority stays as it is.
    // Where no thread can be started none has it.
    let thread = std::thread::Builder::new().spawn(move || set_fifo(priority).is_ok());
    thread.is_ok_and(|it| it.join().unwrap_or(false))
}

/// The calling thread is woken at its time, not up to 50 µs later so that others are woken with it (`PR_SET_TIMERSLACK`, prctl(2)).
pub fn set_exact_timers() {
    // It cannot fail; later than asked is told as late.
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// What brings a thread back from a call in which it waits: a signal that does nothing.
const INTERRUPT: libc::c_int = libc::SIGUSR1;

/// From now on [`interrupt`] may be said in this process.
///
/// # Errors
///
/// Those of `sigaction(2)`.
pub fn allow_interrupts() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is a valid value of it: no flags, so calls are not begun again (`SA_RESTART`, signal(7)).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the struct is whole and lives over the call; what it names does nothing, which every signal handler may.
    let code = unsafe { libc::sigaction(INTERRUPT, &raw const action, std::ptr::null_mut()) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The calling thread's number.
pub fn own_tid() -> Tid {
    Tid(nix::unistd::gettid().as_raw())
}

/// A thread of ours that waits in a call returns from it with `EINTR`, if the kernel lets it.
pub fn interrupt(tid: Tid) {
    let (process, signal) = (std::process::id(), INTERRUPT);
    // SAFETY: numbers only. A thread that has ended is none of this process any more; another one of it that has the number is
    // interrupted in vain.
    unsafe { libc::syscall(libc::SYS_tgkill, process, tid.0, signal) };
}

/// Lets others run for so long.
pub fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}

/// How often the calling thread has left its CPU to others since it began (`ru_nvcsw` and `ru_nivcsw`, getrusage(2)): it slept,
/// or was made to stop, by the kernel's limit for real-time threads, too.
pub fn switches() -> i64 {
    // The number is only compared with itself: one that cannot be had never changes, and it can always be had.
    getrusage(UsageWho::RUSAGE_THREAD)
        .map_or(0, |it| it.voluntary_context_switches() + it.involuntary_context_switches())
}

/// Which CPUs threads are on.
#[derive(Debug, Default)]
pub struct Whereabouts {
    /// Their files, which take twice as long to open as to read.
    files: FxHashMap<i32, File>,
}

/// Files that are kept open: more than threads that take turns on one CPU in the time of a few calls.
const FILES_MAX: usize = 16;

/// A line of `/proc/PID/stat` has 52 numbers and a name of at most 64 bytes; most numbers are small.
const STAT_BYTES: usize = 1024;

impl Whereabouts {
    /// The CPU that a thread is on, or that it ran on last. `None`: it is gone, or `/proc` does not say.
    pub fn cpu_of(&mut self, tid: Tid) -> Option<CpuId> {
        let mut line = [0; STAT_BYTES];
        // A file that was opened for another thread of this number has nothing to say any more.
        if let Some(file) = self.files.get(&tid.0)
            && let Some(cpu) = read_cpu(file, &mut line)
        {
            return Some(cpu);
        }
        // Below `task` are the numbers of the thread alone: those of the process would be added up from all its threads.
        let file = File::open(format!("/proc/{tid}/task/{tid}/stat")).ok()?;
        let cpu = read_cpu(&file, &mut line)?;
        if self.files.len() >= FILES_MAX {
            self.files.clear();
        }
        self.files.insert(tid.0, file);
        Some(cpu)
    }
}

/// The name in parentheses may have anything in it. Behind it stands field 3, and 39 is the CPU (`proc_pid_stat(5)`).
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
            let mut whereabouts = Whereabouts::default();
            let own = Tid(nix::unistd::gettid().as_raw());
            [whereabouts.cpu_of(own), whereabouts.cpu_of(own), whereabouts.cpu_of(Tid(i32::MAX))]
        });
        let found = pinned.join().expect("it ends");
        assert_eq!(found, [Some(CpuId(0)), Some(CpuId(0)), None]);
    }

    #[test]
    fn a_thread_that_is_gone_is_nowhere() {
        let mut whereabouts = Whereabouts::default();
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw()).expect("somebody listens");
            ended.recv().expect_err("the other side goes");
        });
        let tid = Tid(told.recv().expect("a number"));
        assert!(whereabouts.cpu_of(tid).is_some());
        drop(end);
        thread.join().expect("it ends");
        // The kernel lets the joiner go a moment before the thread is taken off the list.
        for _ in 0..1000 {
            if whereabouts.cpu_of(tid).is_none() {
                return;
            }
            pause(std::time::Duration::from_millis(1));
        }
        panic!("it is still told where it is");
    }

    #[test]
    fn sleeping_is_counted() {
        let before = switches();
        pause(std::time::Duration::from_millis(1));
        assert!(switches() > before);
    }
}
