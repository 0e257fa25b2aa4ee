//! The drain thread: takes what is in the rings and hands it on, so that the kernel always has room.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use super::log::{Data, Message};
use super::names::NamesReaders;
use super::plan::RingOf;
use super::rings::CpuRing;
use crate::sys::{clock, thread};
use crate::units::KernelTime;

/// A round at least this often: bounds what a crash costs.
const ROUND_MS: u16 = 100;

/// A round at most this often: longer than any time a record may take from its time stamp to its place in the ring.
const ROUND_NS_MIN: u64 = 50_000_000;

/// Records that may wait for the log thread, in bytes.
const QUEUED_BYTES_MAX: usize = 256 << 20;

/// How long the drain thread lets the log thread work when that is too far behind.
const PAUSE: Duration = Duration::from_millis(5);

/// The lowest real-time priority: before all ordinary threads, behind everything that has its own.
const PRIORITY: i32 = 1;

/// Everything that the drain thread works with.
#[derive(Debug)]
pub struct Drain {
    /// The main ring of each CPU.
    pub rings: Vec<CpuRing>,
    /// The readers of the names rings.
    pub names: Arc<NamesReaders>,
    /// Where it all goes.
    pub log: Sender<Message>,
    /// Bytes of data on their way there.
    pub queued: Arc<AtomicUsize>,
    /// Buffers that the log is done with.
    pub spare: Receiver<Vec<u8>>,
    /// A buffer that was not needed.
    pub empty: Option<Vec<u8>>,
    /// Readable when the recording is over.
    pub stop: Arc<EventFd>,
}

impl Drain {
    /// Runs until told to stop; then takes what is left. Gives the rings back: they must be unmapped before the events
    /// are closed.
    pub fn run(mut self) -> Vec<CpuRing> {
        // It sleeps most of the time and copies when it runs; on a busy machine it must not wait for its turn while the
        // rings run over. Without the right to it, it takes its turn.
        let _ = thread::set_fifo(PRIORITY);
        let mut last_round = clock::now();
        let mut over = false;
        while !over {
            over = self.wait();
            let before = clock::now();
            let taken = self.take_all(over);
            let due = before.0.saturating_sub(last_round.0) >= ROUND_NS_MIN;
            if over || (taken && due) {
                self.round(before);
                last_round = before;
            }
        }
        self.rings
    }

    /// Until a ring has reached its watermark, or a round is due. True if the recording is over.
    fn wait(&self) -> bool {
        let mut fds = vec![PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.rings.iter().map(|it| PollFd::new(it.owner.as_fd(), PollFlags::POLLIN)));
        // An interrupted wait is as good as any.
        let _ = poll(&mut fds, PollTimeout::from(ROUND_MS));
        fds.first().and_then(PollFd::any).unwrap_or(false)
    }

    /// Takes what is in the rings, unless the log is too far behind: then the kernel counts what it loses meanwhile. At
    /// the end everything is taken. True if it was.
    fn take_all(&mut self, over: bool) -> bool {
        // ORDERING: only a measure of how far the log is behind.
        if !over && self.queued.load(Ordering::Relaxed) > QUEUED_BYTES_MAX {
            // Until it has caught up a little; the rings may stay readable all the time.
            thread::pause(PAUSE);
            return false;
        }
        for place in 0..self.rings.len() {
            let empty = self.empty.take().or_else(|| self.spare.try_recv().ok());
            let mut bytes = empty.unwrap_or_default();
            let Some(ring) = self.rings.get_mut(place) else { break };
            ring.ring.take(&mut bytes);
            let data = Data { cpu: ring.cpu, stream: RingOf::Main.index(), bytes };
            if data.bytes.is_empty() {
                self.empty = Some(data.bytes);
            } else {
                self.send(Message::Data(data));
            }
        }
        true
    }

    fn send(&self, message: Message) {
        if let Message::Data(data) = &message {
            // ORDERING: only a measure of how far the log is behind.
            self.queued.fetch_add(data.bytes.len(), Ordering::Relaxed);
        }
        // The log thread ends only after us.
        let _ = self.log.send(message);
    }

    /// Everything that was written before `before` has been taken: says so, with what the names readers have.
    fn round(&self, before: KernelTime) {
        for message in self.names.collect() {
            self.send(message);
        }
        self.send(Message::Round(before));
    }
}
