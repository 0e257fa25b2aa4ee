//! The drain thread: takes what is in the rings and hands it on, so that the kernel always has room.

use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use super::log::{Data, Message};
use super::names::NamesReaders;
use super::queued::Queued;
use super::stream::{Stream, Take};
use super::switched::SwitchWatch;
use crate::sys::trace_ring::PagePipe;
use crate::sys::{capabilities, clock, thread};
use crate::units::KernelTime;

/// The rings are looked at this often, at most and at least, by how full they are found. They wake nobody before they
/// are nearly full, since a wake-up is paid by the traced program.
const LOOK_MS: std::ops::RangeInclusive<u16> = 1..=20;

/// A round at most this often: longer than any time a record may take from its time stamp to its place in the ring.
pub const ROUND_NS_MIN: u64 = 50_000_000;

/// A CPU whose ring has so many bytes at a look is busy with the program.
const BUSY_BYTES: usize = 256 << 10;

/// How long the drain thread lets the log thread work when that is too far behind.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// The lowest real-time priority: before all ordinary threads, behind everything that has its own.
const PRIORITY: i32 = 1;

/// Everything that the drain thread works with.
#[derive(Debug)]
pub struct Drain {
    /// The rings of its group of CPUs.
    pub rings: Vec<Stream>,
    /// Number of the group.
    pub group: usize,
    /// Carries pages.
    pub pipe: PagePipe,
    /// Bytes of a main ring.
    pub ring_bytes: usize,
    /// The readers of the names rings; one of the drain threads looks after them.
    pub names: Option<Arc<NamesReaders>>,
    /// How it runs.
    pub place: Place,
    /// Where it all goes.
    pub log: Sender<Message>,
    /// What is on its way there.
    pub queued: Arc<Queued>,
    /// Whether the rings stay on; one of the drain threads looks after it.
    pub switches: Option<SwitchWatch>,
    /// Buffers that the log is done with.
    pub spare: Arc<Mutex<Receiver<Vec<u8>>>>,
    /// A buffer that was not needed.
    pub empty: Option<Vec<u8>>,
    /// The first thing that went wrong: once is enough to know that something is missing.
    pub failed: Option<std::io::Error>,
    /// Where this thread does not run at the moment.
    pub avoided: Option<u32>,
    /// Readable when the recording is over.
    pub stop: Arc<EventFd>,
}

/// Where and how one of our threads runs.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// On these CPUs only; empty: anywhere.
    pub cpus: Vec<u32>,
    /// Real-time priority that the user gives the log thread; the drain threads run above it.
    pub realtime: Option<i32>,
}

impl Place {
    /// Takes the place, with this real-time priority. Without the right to it, it takes its turn like everybody else.
    pub fn take(&self, priority: Option<i32>) {
        if let Some(priority) = priority {
            let _ = thread::set_fifo(priority);
        }
        if !self.cpus.is_empty() {
            let _ = thread::run_on(&self.cpus);
        }
    }
}

/// What is left when it is over.
#[derive(Debug)]
pub struct Drained {
    /// The rings: they must be gone before the events are closed.
    pub rings: Vec<Stream>,
    /// The first thing that went wrong.
    pub error: Option<std::io::Error>,
    /// What to say of rings that were switched off meanwhile.
    pub switched: Option<String>,
}

impl Drain {
    /// Runs until told to stop; then takes what is left.
    pub fn run(mut self) -> Drained {
        // It sleeps most of the time and copies when it runs; on a busy machine it must not wait for its turn while the
        // rings run over. Without the right to it, it takes its turn.
        self.place.take(Some(self.place.realtime.map_or(PRIORITY, |it| it.saturating_add(1))));
        // Only a precaution.
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
        let switched = self.switches.as_ref().and_then(SwitchWatch::told);
        Drained { rings: self.rings, error: self.failed, switched }
    }

    /// Until a perf ring is nearly full, it is time to look, or the recording is over: then true.
    fn wait(&self, look_ms: u16) -> bool {
        let mut fds = vec![PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)];
        let wakes = self.rings.iter().filter(|it| it.owner().is_some());
        fds.extend(wakes.map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
        // An interrupted wait is as good as any.
        let _ = poll(&mut fds, PollTimeout::from(look_ms));
        fds.first().and_then(PollFd::any).unwrap_or(false)
    }

    /// Takes what is in the rings, unless the log is too far behind: then the kernel counts what it loses meanwhile. At
    /// the end everything is taken. The most that was taken from one, in bytes; `None` if nothing was taken.
    fn take_all(&mut self, over: bool, due: bool) -> Option<usize> {
        if !over && self.queued.is_full() {
            // Until it has caught up a little; the rings may stay readable all the time.
            thread::pause(PAUSE);
            return None;
        }
        let how = if due { Take::All } else { Take::Cheap };
        let (mut fullest, mut busiest) = (0, None);
        let mut failed = Ok(());
        for place in 0..self.rings.len() {
            // One that another group looks for at this moment is made anew.
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
            // The others are taken all the same.
            failed = failed.and(taken);
        }
        self.avoid(busiest.filter(|_| fullest > BUSY_BYTES));
        self.failed = self.failed.take().or(failed.err());
        Some(fullest)
    }

    /// Leaves the CPU where most is recorded to the program: a real-time thread that wakes there would take its time.
    fn avoid(&mut self, busiest: Option<u32>) {
        if busiest.is_none() || busiest == self.avoided {
            return;
        }
        let others: Vec<u32> =
            self.place.cpus.iter().copied().filter(|it| Some(*it) != busiest).collect();
        // On its only CPU it stays.
        if !others.is_empty() && thread::run_on(&others).is_ok() {
            self.avoided = busiest;
        }
    }

    fn send(&self, message: Message) {
        self.queued.send(message, &self.log);
    }

    /// Everything that was written to these rings before `before` has been taken: says so, with what the names readers
    /// have.
    fn round(&self, before: KernelTime) {
        for message in self.names.iter().flat_map(|it| it.collect()) {
            self.send(message);
        }
        self.send(Message::Round(self.group, before));
    }
}

/// When to look again: so that a ring at the same rate is a quarter full by then, if it is now a little.
fn next_look(look_ms: u16, fullest: usize, ring_bytes: usize) -> u16 {
    let next = match fullest {
        it if it > ring_bytes / 4 => look_ms / 2,
        it if it < ring_bytes / 16 => look_ms + 1,
        _ => look_ms,
    };
    // A small ring fills as much faster.
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
