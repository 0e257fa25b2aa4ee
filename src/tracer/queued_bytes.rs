//! Backlog of the log thread: bytes of messages that were sent and not yet taken, whether records,
//! names or facts.
//!
//! The backlog grows when the disk of the log is full or slow. Beyond a limit nothing is taken from
//! the rings any more, and no name is read. The kernel then counts the records for which there is
//! no room, and their calls have no names.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::log_message::Message;

/// Largest backlog, in bytes.
const QUEUED_BYTES_MAX: usize = 96 << 20;

/// Pause of a thread that takes records while the backlog is full.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// Bytes that wait for the log thread.
#[derive(Debug, Default)]
pub struct QueuedBytes(AtomicUsize);

impl QueuedBytes {
    /// Sends a message that counts until the log thread takes it.
    pub(super) fn send(&self, message: Message, log: &Sender<Message>) {
        // ORDERING: the value only measures the backlog.
        self.0.fetch_add(message.bytes(), Ordering::Relaxed);
        // The log thread ends after all its senders.
        let _ = log.send(message);
    }

    /// Subtracts a message that the log thread has taken.
    pub(super) fn taken(&self, message: &Message) {
        // ORDERING: as in `send`. Messages that did not come through `send` do not count.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |queued| {
            Some(queued.saturating_sub(message.bytes()))
        });
    }

    /// True if no more data may be taken from the rings.
    pub(super) fn is_full(&self) -> bool {
        // ORDERING: as in `send`.
        self.0.load(Ordering::Relaxed) > QUEUED_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::super::log_message::Data;
    use super::super::tracepoint_plan::RingKind;
    use super::*;
    use crate::capture::fact::{Fact, Text};
    use crate::units::{KernelTime, Pid};

    fn facts(bytes: usize) -> Message {
        let (time, which, pid) = (KernelTime(1), Text::CWD, Pid(1));
        let fact = || Fact::Text { time, which, pid, text: vec![b'x'; 4096] };
        Message::Facts((0..bytes / 4096).map(|_| (None, fact())).collect())
    }

    /// Fails if names and facts are sent without limit while the log thread takes none.
    #[test]
    fn records_and_facts_are_held_back_alike() {
        let records = |bytes| {
            let (cpu, ring, layout) = (0, RingKind::Main, 0);
            Message::Data(Data { cpu, ring, layout, bytes: vec![0; bytes] })
        };
        for message in [&facts as &dyn Fn(usize) -> Message, &records] {
            let (sender, receiver) = channel();
            let queued = QueuedBytes::default();
            let mut sent = 0;
            while !queued.is_full() {
                queued.send(message(1 << 20), &sender);
                sent += 1 << 20;
                assert!(sent <= QUEUED_BYTES_MAX + (1 << 20), "nothing holds it back");
            }
            assert!(sent > QUEUED_BYTES_MAX / 2, "it is held back too early");
            while queued.is_full() {
                queued.taken(&receiver.recv().expect("it was sent"));
            }
        }
    }
}
