//! How far the log is behind: what was sent to its thread and not yet taken, records, names and facts alike.
//!
//! When the disk of the log does not take anything more, this is what grows. Beyond a limit nothing is taken from the rings any
//! more, nor is any name read: the kernel then counts the records for which there is no room, and their calls have no names.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use super::log::Message;

/// How far the log may be behind, in bytes.
const QUEUED_BYTES_MAX: usize = 96 << 20;

/// What waits for the log thread, in bytes.
#[derive(Debug, Default)]
pub struct Queued(AtomicUsize);

impl Queued {
    /// Sends a message that counts until it is taken.
    pub(super) fn send(&self, message: Message, log: &Sender<Message>) {
        // ORDERING: only a measure of how far the log is behind.
        self.0.fetch_add(message.bytes(), Ordering::Relaxed);
        // The log thread ends only after us.
        let _ = log.send(message);
    }

    /// The log thread has this message now.
    pub(super) fn taken(&self, message: &Message) {
        // ORDERING: as in `send`. What was sent by others does not count.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| {
            Some(it.saturating_sub(message.bytes()))
        });
    }

    /// True if nothing more is to be taken from the rings.
    pub(super) fn is_full(&self) -> bool {
        // ORDERING: as in `send`.
        self.0.load(Ordering::Relaxed) > QUEUED_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::super::log::Data;
    use super::super::plan::RingOf;
    use super::*;
    use crate::capture::fact::{Fact, Text};
    use crate::units::{KernelTime, Pid};

    fn facts(bytes: usize) -> Message {
        let (time, which, pid) = (KernelTime(1), Text::CWD, Pid(1));
        let fact = || Fact::Text { time, which, pid, text: vec![b'x'; 4096] };
        Message::Facts((0..bytes / 4096).map(|_| (None, fact())).collect())
    }

    /// Fails if names and facts are sent without an end while the log does not take any.
    #[test]
    fn records_and_facts_are_held_back_alike() {
        let records = |bytes| {
            let (cpu, ring, layout) = (0, RingOf::Main, 0);
            Message::Data(Data { cpu, ring, layout, bytes: vec![0; bytes] })
        };
        for message in [&facts as &dyn Fn(usize) -> Message, &records] {
            let (sender, receiver) = channel();
            let queued = Queued::default();
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
