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
use crate::sys::spawn::{PausedChild, process_fd};

/// Opens descriptors that become readable when the launched program, or a process attached to, has
/// ended.
pub(super) fn awaited(
    options: &Options,
    held: Option<&PausedChild>,
) -> Result<Vec<OwnedFd>, TracerError> {
    let pids: Vec<i32> = match (held, &options.follow) {
        (Some(program), _) => vec![program.pid()],
        (None, Follow::Attached(pids)) => pids.clone(),
        (None, _) => Vec::new(),
    };
    let mut fds = Vec::new();
    for pid in pids {
        match process_fd(pid) {
            Ok(fd) => fds.push(fd),
            // The process has ended since it was found.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => {
                return Err(TracerError::System { what: "watch a process", source: error });
            }
        }
    }
    Ok(fds)
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
    ends: &[OwnedFd],
    timeout: PollTimeout,
) -> WaitResult {
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
    let _ = poll(&mut fds, timeout);
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

/// Returns the remaining time; `None` if the time is over.
pub(super) fn time_left(deadline: Option<u64>) -> Option<PollTimeout> {
    let Some(deadline) = deadline else { return Some(PollTimeout::NONE) };
    let left = deadline.checked_sub(clock::now().0).filter(|&it| it > 0)?;
    let milliseconds = i32::try_from(left.div_ceil(1_000_000)).unwrap_or(i32::MAX);
    Some(PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX))
}

/// Returns the duration in nanoseconds.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
