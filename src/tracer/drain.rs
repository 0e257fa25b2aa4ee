//! Drain thread: empties the rings into the log thread's queue, so that the kernel always has room.

use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use super::log_message::{Data, Message};
use super::name_readers::NamesReaders;
use super::queued_bytes::{PAUSE, QueuedBytes};
use super::ring_stream::{RingStream, Take};
use super::switched::SwitchWatch;
use super::thread_placement::ThreadPlacement;
use crate::sys::trace_ring::PagePipe;
use crate::sys::{capabilities, clock, thread};
use crate::units::KernelTime;

/// Shortest and longest interval between two looks at the rings; the fill level decides. Rings wake
/// no thread before they are nearly full, because the traced program pays for a wake-up.
const LOOK_MS: std::ops::RangeInclusive<u16> = 1..=20;

/// Shortest interval between rounds: longer than any record may take from its time stamp to its
/// place in the ring.
pub const ROUND_NS_MIN: u64 = 50_000_000;

/// A CPU whose ring holds this many bytes at a look is busy with the program.
const BUSY_BYTES: usize = 256 << 10;

/// The lowest real-time priority: above all ordinary threads, below all threads with another
/// real-time priority.
const PRIORITY: i32 = 1;

/// State of a drain thread.
#[derive(Debug)]
pub struct Drain {
    /// Rings of the thread's group of CPUs.
    pub rings: Vec<RingStream>,
    /// Number of the group.
    pub group: usize,
    /// Pipe that carries pages.
    pub pipe: PagePipe,
    /// Bytes of a main ring.
    pub ring_bytes: usize,
    /// Readers of the names rings, if this is the drain thread that collects from them.
    pub names: Option<Arc<NamesReaders>>,
    /// CPUs and priority of the thread.
    pub place: ThreadPlacement,
    /// Queue of the log thread.
    pub log: Sender<Message>,
    /// Bytes that are in the queue.
    pub queued: Arc<QueuedBytes>,
    /// Watch on the switches of rings, if this is the drain thread that checks them.
    pub switches: Option<SwitchWatch>,
    /// Buffers that the log thread has finished with.
    pub spare: Arc<Mutex<Receiver<Vec<u8>>>>,
    /// A buffer that the last look did not need.
    pub empty: Option<Vec<u8>>,
    /// The first error: one is enough to know that data is missing.
    pub failed: Option<std::io::Error>,
    /// CPU that this thread avoids at the moment.
    pub avoided: Option<u32>,
    /// Readable when the recording is over.
    pub stop: Arc<EventFd>,
}

/// Result of a drain thread.
#[derive(Debug)]
pub struct Drained {
    /// The rings: they must be dropped before the events are closed.
    pub rings: Vec<RingStream>,
    /// The first error.
    pub error: Option<std::io::Error>,
    /// Message about rings that were switched off in the meantime.
    pub switched: Option<String>,
}

impl Drain {
    /// Runs until the stop event is signalled; then takes the remaining data.
    pub fn run(mut self) -> Drained {
        // The thread sleeps most of the time and copies when it runs. On a busy machine it must not
        // wait to be scheduled while the rings overflow. Without the right to a real-time priority
        // it keeps the ordinary one.
        self.place.take(Some(self.place.realtime.map_or(PRIORITY, |it| it.saturating_add(1))));
        // A precaution only.
        let _ = capabilities::keep_for_reading();
        let mut look_ms = *LOOK_MS.start();
        let mut last_round = clock::now();
        let mut over = false;
        while !over {
            over = self.wait(look_ms);
            let before = clock::now();
            self.switches.iter_mut().for_each(|it| it.look(before));
            let due = over || before.0.saturating_sub(last_round.0) >= ROUND_NS_MIN;
            let Some(fullest) = self.take_all(over, due) else { continue };
            look_ms = next_look(look_ms, fullest, self.ring_bytes);
            if due {
                self.round(before);
                last_round = before;
            }
        }
        let switched = self.switches.as_ref().and_then(SwitchWatch::warning);
        Drained { rings: self.rings, error: self.failed, switched }
    }

    /// Waits until a perf ring is nearly full, the interval is over, or the recording is over;
    /// returns true in the last case.
    fn wait(&self, look_ms: u16) -> bool {
        let mut fds = vec![PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)];
        let wakes = self.rings.iter().filter(|it| it.owner().is_some());
        fds.extend(wakes.map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
        // An interrupted wait counts as a completed one.
        let _ = poll(&mut fds, PollTimeout::from(look_ms));
        fds.first().and_then(PollFd::any).unwrap_or(false)
    }

    /// Takes the content of the rings, unless the log thread's queue is full: then the kernel
    /// counts what it loses in the meantime. At the end all data is taken. Returns the most bytes
    /// that one ring had; `None` if nothing was taken.
    fn take_all(&mut self, over: bool, due: bool) -> Option<usize> {
        if !over && self.queued.is_full() {
            // Gives the log thread time to catch up; the rings may stay readable all the time.
            thread::pause(PAUSE);
            return None;
        }
        let how = if due { Take::All } else { Take::Cheap };
        let (mut fullest, mut busiest) = (0, None);
        let mut failed = Ok(());
        for place in 0..self.rings.len() {
            // A new buffer is allocated if another group holds the lock at this moment.
            let spare = || self.spare.try_lock().ok().and_then(|it| it.try_recv().ok());
            let empty = self.empty.take().or_else(spare);
            let mut bytes = empty.unwrap_or_default();
            let Some(ring) = self.rings.get_mut(place) else { break };
            let taken = ring.take(how, &mut self.pipe, &mut bytes);
            if bytes.len() > fullest {
                (fullest, busiest) = (bytes.len(), Some(ring.cpu));
            }
            let data = Data { cpu: ring.cpu, ring: ring.ring, layout: ring.layout(), bytes };
            if data.bytes.is_empty() {
                self.empty = Some(data.bytes);
            } else {
                self.send(Message::Data(data));
            }
            // The other rings are taken all the same.
            failed = failed.and(taken);
        }
        self.avoid(busiest.filter(|_| fullest > BUSY_BYTES));
        self.failed = self.failed.take().or(failed.err());
        Some(fullest)
    }

    /// Leaves the CPU that records the most to the program: a real-time thread that wakes there
    /// would take CPU time from the program.
    fn avoid(&mut self, busiest: Option<u32>) {
        if busiest.is_none() || busiest == self.avoided {
            return;
        }
        let others: Vec<u32> =
            self.place.cpus.iter().copied().filter(|it| Some(*it) != busiest).collect();
        // A thread with a single CPU stays there.
        if !others.is_empty() && thread::run_on(&others).is_ok() {
            self.avoided = busiest;
        }
    }

    fn send(&self, message: Message) {
        self.queued.send(message, &self.log);
    }

    /// Reports that all data written to these rings before `before` has been taken, after sending
    /// the names that the readers have collected.
    fn round(&self, before: KernelTime) {
        for message in self.names.iter().flat_map(|it| it.collect()) {
            self.send(message);
        }
        self.send(Message::Round(self.group, before));
    }
}

/// Returns the next interval, chosen so that a ring with an unchanged rate is filled to between a
/// sixteenth and a quarter.
fn next_look(look_ms: u16, fullest: usize, ring_bytes: usize) -> u16 {
    let next = match fullest {
        it if it > ring_bytes / 4 => look_ms / 2,
        it if it < ring_bytes / 16 => look_ms + 1,
        _ => look_ms,
    };
    // A smaller ring fills correspondingly faster.
    let longest = (usize::from(*LOOK_MS.end()) * ring_bytes) >> 23;
    let longest =
        u16::try_from(longest).unwrap_or(u16::MAX).clamp(*LOOK_MS.start(), *LOOK_MS.end());
    next.clamp(*LOOK_MS.start(), longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuller_rings_are_looked_at_more_often() {
        assert_eq!(next_look(8, 3 << 20, 8 << 20), 4);
        assert_eq!(next_look(8, 1 << 20, 8 << 20), 8);
        assert_eq!(next_look(8, 0, 8 << 20), 9);
        assert_eq!(next_look(20, 0, 8 << 20), 20);
        assert_eq!(next_look(1, 8 << 20, 8 << 20), 1);
        assert_eq!(next_look(20, 0, 512 << 10), 1, "a small ring");
    }
}
