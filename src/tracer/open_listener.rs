//! Listener to opens: what the names readers need of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use rustc_hash::FxHashSet;

use crate::capture::fact::Fact;
use crate::units::{Pid, Tid};

/// A queue of opens that the kernel fills, and the facts that were made of its events.
pub trait OpenListener: std::fmt::Debug + Send {
    /// Returns duplicated descriptors that become readable when there is work to do.
    ///
    /// # Errors
    ///
    /// Errors of `dup(2)`.
    fn bell(&self) -> io::Result<Waker>;

    /// Updates the listener after mounts have changed.
    fn mounts_changed(&mut self);

    /// Takes the events that are in the queue now, or only some of them, so that threads that wait
    /// for this listener have a turn. Returns true if another thread's open was among them.
    fn absorb(&mut self, all: bool) -> bool;

    /// Returns the facts since the last call, including all files that were opened before this
    /// call.
    fn facts(&mut self) -> Vec<(Option<Pid>, Fact)>;

    /// Ends the listening: opens from now on are not reported.
    fn end(&mut self);

    /// Returns a warning about missed events.
    fn warning(&self) -> Option<String>;

    /// Time between two reads of the queue while files are opened; `None`: each event wakes the
    /// listener.
    fn pause(&self) -> Option<Duration>;
}

/// Largest number of threads that are remembered as not belonging to the tracer.
const THREADS_MAX: usize = 1 << 16;

/// Threads that do not belong to the tracer.
#[derive(Debug, Default)]
pub(super) struct ForeignThreads {
    known: FxHashSet<Tid>,
}

impl ForeignThreads {
    /// True if the thread does not belong to the tracer.
    pub(super) fn has(&mut self, tid: Tid) -> bool {
        let is_known = self.known.contains(&tid);
        if is_known || std::fs::exists(format!("/proc/self/task/{tid}")).unwrap_or(false) {
            return is_known;
        }
        if self.known.len() >= THREADS_MAX {
            self.known.clear();
        }
        self.known.insert(tid);
        true
    }
}

/// Descriptors that become readable when a listener has work to do.
#[derive(Debug)]
pub struct Waker {
    pub(super) events: OwnedFd,
    pub(super) mounts: OwnedFd,
}

impl Waker {
    /// Duplicates the descriptors of a listener.
    ///
    /// # Errors
    ///
    /// Errors of `dup(2)`.
    pub(super) fn of(events: BorrowedFd<'_>, mounts: BorrowedFd<'_>) -> io::Result<Self> {
        let again = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
        Ok(Self { events: again(events)?, mounts: again(mounts)? })
    }

    /// Waits until a file was opened or mounts have changed, or `wake` is readable. Returns true if
    /// mounts have changed: the kernel reports each change once.
    pub(super) fn wait(&self, wake: &EventFd) -> bool {
        let mut fds = [
            PollFd::new(self.mounts.as_fd(), PollFlags::POLLPRI),
            PollFd::new(self.events.as_fd(), PollFlags::POLLIN),
            PollFd::new(wake.as_fd(), PollFlags::POLLIN),
        ];
        // An interrupted wait counts as a completed one.
        let _ = poll(&mut fds, PollTimeout::NONE);
        fds.first().and_then(PollFd::any).unwrap_or(false)
    }

    /// Waits for this time, or until mounts have changed or `wake` is readable. Returns true if
    /// mounts have changed.
    pub(super) fn pause(&self, wake: &EventFd, pause: Duration) -> bool {
        let mut fds = [
            PollFd::new(self.mounts.as_fd(), PollFlags::POLLPRI),
            PollFd::new(wake.as_fd(), PollFlags::POLLIN),
        ];
        // Not `poll(2)`, which waits for whole milliseconds.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(pause)), None);
        fds.first().and_then(PollFd::any).unwrap_or(false)
    }
}
