//! Listener to opens: what the names readers need of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;

use crate::capture::fact::Fact;
use crate::units::Pid;

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

    /// Returns a warning about missed events.
    fn warning(&self) -> Option<String>;

    /// Time between two reads of the queue while files are opened; `None`: each event wakes the
    /// listener.
    fn pause(&self) -> Option<Duration>;
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
