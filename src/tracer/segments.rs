//! Segments of a log: places from which the rest of the log can be read on its own.
//!
//! A segment begins with a marker and a snapshot, as a recording does. The reader of the growing
//! log decides when the next one begins; the session takes the snapshot.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Sender, sync_channel};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::log_message::Message;
use crate::sys::clock;
use crate::units::Pid;

/// Longest time for which the session waits for the log thread.
const WAIT: Duration = Duration::from_secs(5);

/// Requests to begin a segment.
#[derive(Clone, Debug)]
pub struct SegmentRequests(Arc<EventFd>);

impl SegmentRequests {
    /// Creates the channel of requests.
    ///
    /// # Errors
    ///
    /// Those of `eventfd(2)`.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self(Arc::new(EventFd::from_value_and_flags(0, flags)?)))
    }

    /// Requests a segment. Requests that are not served yet are one.
    pub fn request(&self) {
        // The counter is far from its limit.
        let _ = self.0.write(1);
    }

    /// Takes the request, if there is one.
    pub(super) fn take(&self) -> bool {
        self.0.read().is_ok()
    }
}

impl AsFd for SegmentRequests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Marks the begin of a segment in the log. Returns the followed processes; `None`: the log thread
/// does not answer.
pub(super) fn begin(log: &Sender<Message>) -> Option<Vec<Pid>> {
    let (processes, answer) = sync_channel(1);
    log.send(Message::Segment(clock::now(), processes)).ok()?;
    answer.recv_timeout(WAIT).ok()
}
