//! Wait for the end of a recording: end of the program, signals, time limit.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use super::error::TracerError;
use super::log_limits::LogSignals;
use super::options::{Follow, Options};
use super::segments::SegmentRequests;
use crate::sys::clock;
use crate::sys::mounts::MountWatch;
use crate::sys::proc;
use crate::sys::spawn::{PausedChild, Running, process_fd};
use crate::units::{Pid, Tid};

/// Time between two looks at the threads that are recorded, in milliseconds: a descriptor of a
/// thread exists only on kernels from 6.9 on.
const THREADS_MS: u16 = 200;

/// Tasks whose ends end a recording: the launched program, or the processes or threads attached to.
pub(super) struct AwaitedEnds {
    /// Descriptors that become readable when a process has ended.
    processes: Vec<OwnedFd>,
    /// Threads, if only these are recorded.
    threads: Vec<AwaitedThread>,
    has_end: bool,
}

/// A thread that is waited for.
struct AwaitedThread {
    process: Pid,
    tid: Tid,
    /// Auxiliary vector of the program that it runs: each exec makes a new one.
    program: Vec<u8>,
}

impl AwaitedThread {
    fn new(tid: i32) -> Option<Self> {
        let tid = Tid(tid);
        let process = proc::process_of(tid)?;
        Some(Self { process, tid, program: auxiliary_vector(process) })
    }

    /// True if the thread exists, or may be the one that has executed another program: that thread
    /// gets the number of its process, and all others end.
    fn lives(&mut self) -> bool {
        if proc::process_of(self.tid) == Some(self.process) {
            return true;
        }
        let program = auxiliary_vector(self.process);
        let has_executed = !program.is_empty() && program != self.program;
        if has_executed {
            self.tid = Tid(self.process.0);
            self.program = program;
        }
        has_executed
    }
}

/// Returns the auxiliary vector of a process; empty if it cannot be read.
fn auxiliary_vector(process: Pid) -> Vec<u8> {
    std::fs::read(format!("/proc/{process}/auxv")).unwrap_or_default()
}

impl AwaitedEnds {
    /// Begins to wait for the tasks of a recording.
    pub(super) fn of(options: &Options, held: Option<&PausedChild>) -> Result<Self, TracerError> {
        let pids: Vec<i32> = match (held, &options.follow) {
            (Some(program), _) => {
                let joined = options.joined().map(|pid| pid.0);
                std::iter::once(program.pid()).chain(joined).collect()
            }
            (None, Follow::Attached(pids)) => pids.clone(),
            (None, _) => Vec::new(),
        };
        let has_end = held.is_some() || matches!(options.follow, Follow::Attached(_));
        let threads = options.threads.iter().copied().filter_map(AwaitedThread::new).collect();
        let mut ends = Self { processes: Vec::new(), threads, has_end };
        if !options.threads.is_empty() && ends.threads.is_empty() {
            // All of them have ended since they were found.
            return Ok(ends);
        }
        for pid in pids {
            match process_fd(pid) {
                Ok(fd) => ends.processes.push(fd),
                // The process has ended since it was found.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => {
                    return Err(TracerError::System { what: "watch a process", source: error });
                }
            }
        }
        Ok(ends)
    }

    /// True if all of the tasks have ended.
    pub(super) fn are_over(&mut self) -> bool {
        if !self.threads.is_empty() {
            self.threads.retain_mut(AwaitedThread::lives);
            if self.threads.is_empty() {
                self.processes.clear();
            }
        }
        self.has_end && self.processes.is_empty()
    }

    /// Forgets the processes that have ended.
    pub(super) fn remove(&mut self, ended: Vec<usize>) {
        // From the end, so that the indices of the others stay valid.
        for place in ended.into_iter().rev() {
            self.processes.remove(place);
        }
    }

    /// Returns the timeout, shortened if threads are waited for.
    fn shortened(&self, timeout: PollTimeout) -> PollTimeout {
        // A negative number is a wait without an end.
        let is_short = (0..i32::from(THREADS_MS)).contains(&i32::from(timeout));
        if self.threads.is_empty() || is_short { timeout } else { THREADS_MS.into() }
    }
}

/// Events that ended a wait.
pub(super) struct WaitResult {
    /// Name of the state of the log that ends the recording, if it has come.
    pub(super) ended_by_log: Option<&'static str>,
    /// A list of asynchronous operations is longer than all before.
    pub(super) lists_grown: bool,
    /// Something was mounted or unmounted.
    pub(super) mounts_changed: bool,
    /// A segment of the log is to begin.
    pub(super) segment_wanted: bool,
    /// Indices of the processes that have ended, ascending.
    pub(super) ended: Vec<usize>,
}

/// Waits until one of the descriptors is readable, or the timeout is over.
pub(super) fn wait_for(
    signals: BorrowedFd<'_>,
    log: &LogSignals,
    lists_grown: &EventFd,
    mounts: Option<&MountWatch>,
    segments: Option<&SegmentRequests>,
    awaited: &AwaitedEnds,
    timeout: PollTimeout,
) -> WaitResult {
    let ends = awaited.processes.as_slice();
    let mut fds = vec![
        PollFd::new(signals, PollFlags::POLLIN),
        PollFd::new(log.failed.as_fd(), PollFlags::POLLIN),
        PollFd::new(log.full.as_fd(), PollFlags::POLLIN),
        PollFd::new(log.counted.as_fd(), PollFlags::POLLIN),
        PollFd::new(lists_grown.as_fd(), PollFlags::POLLIN),
    ];
    fds.extend(ends.iter().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
    fds.extend(segments.map(|requests| PollFd::new(requests.as_fd(), PollFlags::POLLIN)));
    fds.extend(mounts.map(|it| PollFd::new(it.as_fd(), PollFlags::POLLPRI)));
    // An interrupted wait counts as a completed one: the caller checks everything again.
    let _ = poll(&mut fds, awaited.shortened(timeout));
    let ready: Vec<bool> = fds.iter().map(|it| it.any().unwrap_or(false)).collect();
    let at = |place: usize| ready.get(place).copied().unwrap_or(false);
    let states = [(1, "log not writable"), (2, "log size"), (3, "operations")];
    let ended_by_log = states.iter().find(|(place, _)| at(*place)).map(|(_, name)| *name);
    let ended = (0..ends.len()).filter(|it| at(it + 5)).collect();
    let after_ends = ends.len() + 5;
    let mounts_changed = at(after_ends + usize::from(segments.is_some()));
    let segment_wanted = segments.is_some() && at(after_ends);
    WaitResult { ended_by_log, lists_grown: at(4), mounts_changed, segment_wanted, ended }
}

/// Time after the failure of the launched program in which the processes that have joined it may
/// end, too, ns: the launcher learns of the failure when the recording is over, and then ends the
/// others.
const OTHERS_NS: u64 = 2_000_000_000;

/// Time at which a recording ends by itself.
pub(super) struct Deadline {
    /// End of the wanted duration.
    duration: Option<u64>,
    /// End of the time after the failure of the launched program.
    failure: Option<u64>,
    /// True if other processes have joined the launched program.
    has_joined: bool,
}

impl Deadline {
    /// Begins the time of a recording.
    pub(super) fn of(options: &Options) -> Self {
        let duration = options.duration;
        let duration = duration.map(|time| clock::now().0.saturating_add(nanoseconds(time)));
        Self { duration, failure: None, has_joined: options.joined().next().is_some() }
    }

    /// Checks whether the launched program has failed while others run on.
    pub(super) fn check(&mut self, program: Option<&Running>) {
        let is_checked = self.has_joined && self.failure.is_none();
        if is_checked && program.is_some_and(Running::has_failed) {
            self.failure = Some(clock::now().0.saturating_add(OTHERS_NS));
        }
    }

    /// Returns the remaining time.
    ///
    /// # Errors
    ///
    /// The time is over: the reason for which the recording ends.
    pub(super) fn left(&self) -> Result<PollTimeout, &'static str> {
        let duration = time_left(self.duration).ok_or("duration")?;
        match self.failure {
            Some(failure) if self.duration.is_none_or(|end| failure < end) => {
                time_left(Some(failure)).ok_or("failed rank")
            }
            _ => Ok(duration),
        }
    }
}

/// Returns the remaining time; `None` if the time is over.
fn time_left(deadline: Option<u64>) -> Option<PollTimeout> {
    let Some(deadline) = deadline else { return Some(PollTimeout::NONE) };
    let left = deadline.checked_sub(clock::now().0).filter(|&it| it > 0)?;
    let milliseconds = i32::try_from(left.div_ceil(1_000_000)).unwrap_or(i32::MAX);
    Some(PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX))
}

/// Returns the duration in nanoseconds.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
