//! Work of a thread of ours in a process of its own, which has the thread's memory and descriptors (`CLONE_VM`, `CLONE_FILES`, clone(2)).
//!
//! A call may wait in the kernel for a server of a file system, and no signal ends the wait once the server has taken the request
//! (`request_wait_answer()` in `fs/fuse/dev.c`). A process has not ended before its last thread has, so its parent would wait for the
//! server, too. The wait of a process that is not ours holds nothing of us up. It costs a call nothing: memory, descriptors and
//! thread-local values are those of the thread, which waits meanwhile as vfork(2) waits, and ends with a signal.

use std::any::Any;
use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use nix::sys::signal::{SigSet, Signal};

use super::{limits, thread};
use crate::units::Tid;

/// Bytes of the stack, of which the lowest page is never there.
const STACK_BYTES: usize = 512 << 10;

const GUARD_BYTES: usize = 64 << 10;

/// Signals that stop such a process with the others of its group. It takes no other one: those are for the tracer.
const STOPPING: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];

/// Numbers of the processes that are at work.
static AT_WORK: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Processor time of those that have ended, ns.
static ENDED_CPU_NS: AtomicU64 = AtomicU64::new(0);

/// Work and its result.
struct Work<F, T> {
    tracer: i32,
    run: Option<F>,
    result: Option<Result<T, Box<dyn Any + Send>>>,
}

/// Runs this in a process of its own, and waits for it. The calling thread takes no signals any more.
///
/// # Errors
///
/// Those of `mmap(2)` and `clone(2)`.
pub fn run<T>(run: impl FnOnce() -> T) -> io::Result<T> {
    let mut taken = SigSet::all();
    STOPPING.into_iter().for_each(|it| taken.remove(it));
    taken.thread_set_mask()?;
    let tracer = std::process::id().cast_signed();
    let mut work = Work { tracer, run: Some(run), result: None };
    let result = started(&mut work);
    result.and_then(|()| match work.result {
        Some(Ok(result)) => Ok(result),
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => Err(io::Error::other("a process of the tracer was killed")),
    })
}

/// True for a process that is at work for us.
pub fn is_at_work(tid: Tid) -> bool {
    at_work().contains(&tid.0)
}

/// Processor time of all that worked for us, ns: no account of this process has it.
pub fn cpu_ns() -> u64 {
    // ORDERING: a number that nothing depends on.
    let ended = ENDED_CPU_NS.load(Ordering::Relaxed);
    let at_work = at_work();
    let now = at_work.iter().filter_map(|it| {
        // On the processor, ns; waiting for it; how often (Documentation/scheduler/sched-stats.rst).
        let text = std::fs::read_to_string(format!("/proc/{it}/schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    ended.saturating_add(now.sum())
}

fn at_work() -> MutexGuard<'static, BTreeSet<i32>> {
    AT_WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All of them.
pub fn all() -> Vec<Tid> {
    at_work().iter().map(|it| Tid(*it)).collect()
}

/// Closes all descriptors of this process, which is about to end, if a process that shares them does not end with it: otherwise a
/// reader of our output would wait for that.
pub fn close_what_is_shared() {
    if at_work().is_empty() {
        return;
    }
    // SAFETY: numbers only. Nothing of this process uses a descriptor after this (this function's contract).
    unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0) };
}

fn started<F: FnOnce() -> T, T>(work: &mut Work<F, T>) -> io::Result<()> {
    let bytes = NonZeroUsize::new(STACK_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_STACK | MapFlags::MAP_NORESERVE;
    // SAFETY: new memory, at an address of the kernel's choice.
    let stack = unsafe { mmap_anonymous(None, bytes, access, flags) }?;
    // SAFETY: the lowest part of the memory that was just mapped, which nothing uses yet.
    let guarded = unsafe { mprotect(stack, GUARD_BYTES, ProtFlags::PROT_NONE) };
    let done = guarded.map_err(io::Error::from).and_then(|()| on_stack(stack, work));
    // SAFETY: what was mapped above; the process that used it has ended, or there was none.
    unsafe { munmap(stack, STACK_BYTES) }?;
    done
}

fn on_stack<F: FnOnce() -> T, T>(stack: NonNull<c_void>, work: &mut Work<F, T>) -> io::Result<()> {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::CLONE_FS;
    // SAFETY: the end of the memory that was mapped, which is aligned to pages.
    let top = unsafe { stack.as_ptr().cast::<u8>().add(STACK_BYTES) };
    let argument = std::ptr::from_mut(work).cast::<c_void>();
    // SAFETY: `begin` gets what it expects, which lives until it has ended: this thread does not go on before (`CLONE_VFORK`), so nothing
    // else uses `work` or this thread's local values meanwhile. The stack is used by nothing else.
    let pid = unsafe { libc::clone(begin::<F, T>, top.cast(), flags, argument) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: numbers, and a null pointer for a status that is not wanted. No other call waits for a child without a signal (`__WALL`).
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
    at_work().remove(&pid);
    Ok(())
}

extern "C" fn begin<F: FnOnce() -> T, T>(work: *mut c_void) -> c_int {
    // SAFETY: `on_stack` gives it to us alone.
    let work = unsafe { &mut *work.cast::<Work<F, T>>() };
    // A tracer that is killed takes us along.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    if nix::unistd::getppid().as_raw() != work.tracer {
        return 1;
    }
    at_work().insert(thread::own_tid().0);
    if let Some(run) = work.run.take() {
        work.result = Some(catch_unwind(AssertUnwindSafe(run)));
    }
    // ORDERING: as in `cpu_ns`.
    ENDED_CPU_NS.fetch_add(limits::process_cpu_ns(), Ordering::Relaxed);
    0
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn work_has_the_memory_and_the_descriptors_of_its_thread() {
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            let mut seen = 0;
            let file = run(|| {
                seen = 7;
                let own = thread::own_tid();
                tell.send((std::process::id(), own, is_at_work(own))).expect("it is heard");
                File::open("/proc/self/exe").expect("it is there")
            });
            let file = file.expect("it runs");
            (seen, nix::sys::stat::fstat(&file).is_ok(), file.as_raw_fd())
        });
        let (pid, tid, was_at_work) = told.recv().expect("it is told");
        let (seen, is_open, _) = thread.join().expect("it ends");
        assert_eq!((seen, is_open, was_at_work), (7, true, true));
        assert_eq!(pid, tid.0.cast_unsigned(), "a process of its own");
        assert!(pid != std::process::id() && !is_at_work(tid));
    }

    #[test]
    fn a_panic_is_that_of_its_thread() {
        let thread = std::thread::spawn(|| run(|| panic!("as told")));
        let panic = thread.join().expect_err("it has panicked");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"as told"));
    }
}
