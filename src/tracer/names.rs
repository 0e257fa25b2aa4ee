//! File names without BPF: read at the moment of the open, by a reader that the program cannot outrun.
//!
//! Each CPU has a small ring that holds only opens, and a thread pinned to that CPU with real-time priority, woken by
//! each exit of an open (with tracefs by each entry, too). It runs before the program gets back to user mode: the argument is still in its buffer and the
//! descriptor still is what it was. It reads both, with the time before and after; whether nothing came in between is
//! decided later, where all records are in order.
//!
//! Records show whether a descriptor was closed. They do not show what a program does with its memory: it may put another
//! path where the argument stood, and make no call that is recorded. So a path counts only if its thread stood still
//! until it was read ([`Hold`]).

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::cpu_names::{CpuNames, NextJob, Reading, RingReader, Stray};
use super::drain::PAUSE;
use super::hold::Hold;
use super::job::{ReadJob, What};
use super::log::Message;
use super::opens::OpenWatch;
use super::queued::Queued;
use super::stream::{Stream, Take};
use super::unanswered::{END_NS_MAX, Unanswered};
use crate::event::decode::Decoder;
use crate::record::Layout;
use crate::sys::{clock, thread};
use crate::units::KernelTime;

/// Above every ordinary task, below the kernel's own interrupt threads (50).
pub const PRIORITY: i32 = 40;

/// Facts that wait for a round, on one CPU: beyond that the ring is not emptied. Rounds come every 50 ms, unless the tracer is stopped.
const FACTS_MAX: usize = 1 << 16;

/// All readers.
#[derive(Debug)]
pub struct NamesReaders {
    cpus: Vec<Cpu>,
    reads: Reads,
    /// What else hears of opens.
    watch: Option<Mutex<OpenWatch>>,
    stop: AtomicBool,
    /// How far the log is behind.
    queued: Arc<Queued>,
    wake: EventFd,
    unanswered: Unanswered,
    /// To the thread that starts readers.
    replace: Mutex<Option<Sender<usize>>>,
}

/// One CPU's ring, and what tells its reader to look at what others have put there.
#[derive(Debug)]
struct Cpu {
    names: Mutex<CpuNames>,
    bell: EventFd,
}

/// What is read beside the links of new descriptors.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    /// The paths of calls. If not, an exit whose entry is not there has none.
    pub arguments: bool,
    /// What arguments point to, too.
    pub exact_args: bool,
    /// Before the program goes on: by threads with real-time priority on the program's CPU. If not, on whichever CPU is idle.
    pub at_once: bool,
}

impl NamesReaders {
    /// Readers for these rings, none for none, and for what the watch hears.
    ///
    /// # Errors
    ///
    /// Those of `eventfd(2)` and `pipe(2)`.
    pub fn new(
        rings: Vec<Stream>,
        decoder: Arc<Decoder>,
        layouts: Vec<Layout>,
        (reads, watch): (Reads, Option<OpenWatch>),
    ) -> io::Result<Self> {
        let reading = Reading { decoder, layouts, reads };
        let cpu = |(index, ring): (usize, Stream)| {
            let names = CpuNames::new(index, ring, reading.clone())?;
            let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
            let bell = EventFd::from_value_and_flags(0, flags)?;
            Ok(Cpu { names: Mutex::new(names), bell })
        };
        let cpus = rings.into_iter().enumerate().map(cpu).collect::<io::Result<_>>()?;
        let wake =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_SEMAPHORE)?;
        let (watch, stop) = (watch.map(Mutex::new), AtomicBool::new(false));
        let (queued, unanswered, replace) =
            (Arc::default(), Unanswered::default(), Mutex::default());
        Ok(Self { cpus, reads, watch, stop, queued, wake, unanswered, replace })
    }

    /// How many CPUs have a ring.
    pub(super) fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// True if something else hears of opens.
    pub(super) fn has_watch(&self) -> bool {
        self.watch.is_some()
    }

    /// Where it is said which CPU needs another reader.
    pub(super) fn replace_by(&self, sender: Option<Sender<usize>>) {
        *lock(&self.replace) = sender;
    }

    /// How far the log is behind; if it is too far, nothing is taken from the rings.
    pub fn queued(&self) -> Arc<Queued> {
        Arc::clone(&self.queued)
    }

    /// Ends the threads.
    pub(super) fn stop(&self) {
        // ORDERING: nothing else is published by this flag; the eventfd wakes the threads.
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.wake.write(1);
    }

    fn goes_on(&self) -> bool {
        // ORDERING: as in stop().
        !self.stop.load(Ordering::Relaxed)
    }

    /// Takes what is in the rings. What is to be read of it, the readers read: [`Self::has_read`].
    pub fn ask(&self) {
        // What comes next says that all rings were taken; the readers may not have run yet.
        let all = |it: &Cpu| lock(&it.names).absorb(Take::All, Hold::NONE);
        let strays = self.cpus.iter().flat_map(all).collect();
        self.settle(strays);
        for cpu in &self.cpus {
            let mut names = lock(&cpu.names);
            names.look_at_last();
            names.asked = names.given;
            if !names.waiting.is_empty() {
                let _ = cpu.bell.write(1);
            }
        }
    }

    /// True if all is read that was asked for, or given up; `ends`: at this time everything is given up.
    pub fn has_read(&self, ends: Option<KernelTime>) -> bool {
        let now = clock::now();
        let is_over = ends.is_some_and(|it| now >= it);
        let mut has_read = true;
        for (index, cpu) in self.cpus.iter().enumerate() {
            let mut names = lock(&cpu.names);
            if names.waits_too_long(now) || is_over && names.now.is_some() {
                self.give_up(&mut names, index);
            }
            if is_over || !names.has_reader {
                let given_up = names.refuse_waiting();
                self.unanswered.miss(given_up);
            }
            has_read &= names.over >= names.asked;
        }
        has_read
    }

    /// When the end of a recording does not wait for readers any more.
    pub fn ends(now: KernelTime) -> KernelTime {
        KernelTime(now.0.saturating_add(END_NS_MAX))
    }

    /// The reader waits for something that does not answer: another one takes its place.
    fn give_up(&self, names: &mut CpuNames, index: usize) {
        let Some((job, late)) = names.lose_reader() else { return };
        let may_replace = self.unanswered.give_up(job.ended.tid);
        self.unanswered.miss(late);
        let replace = lock(&self.replace);
        let told = replace.as_ref().filter(|_| may_replace).map(|it| it.send(index));
        names.has_reader = matches!(told, Some(Ok(())));
    }

    /// How many readers were given up.
    pub(super) fn given_up(&self) -> usize {
        self.unanswered.readers()
    }

    /// A CPU has no reader any more.
    pub(super) fn has_none(&self, index: usize) {
        if let Some(cpu) = self.cpus.get(index) {
            lock(&cpu.names).has_reader = false;
        }
    }

    /// What was taken and read since the last call.
    pub fn collect(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        for cpu in &self.cpus {
            let mut names = lock(&cpu.names);
            messages.extend(names.opens.message());
            if !names.facts.is_empty() {
                messages.push(Message::Facts(std::mem::take(&mut names.facts)));
            }
        }
        let heard = self.watch.as_ref().map(|it| lock(it).facts()).filter(|it| !it.is_empty());
        messages.extend(heard.map(Message::Facts));
        messages
    }

    /// Takes what the watch has heard until now: what it hears later was opened later.
    pub fn look_at_opens(&self) {
        if let Some(watch) = &self.watch {
            lock(watch).absorb(true);
        }
    }

    /// What was not heard or read, for people.
    pub fn warnings(&self) -> Vec<String> {
        let unheard = self.watch.as_ref().and_then(|it| lock(it).warning());
        unheard.into_iter().chain(self.unanswered.warning()).collect()
    }

    /// Closes the rings: a reader that waits for something holds none open.
    pub fn close(&self) {
        for cpu in &self.cpus {
            let mut names = lock(&cpu.names);
            names.opens.ring = None;
            names.now = None;
        }
    }

    pub(super) fn watch_opens(&self) -> io::Result<()> {
        let Some(watch) = &self.watch else { return Ok(()) };
        // Of what waits long it is often not known whose it is. Without the right to it, it takes its turn.
        let _ = thread::set_large_share();
        let bell = lock(watch).bell()?;
        while self.goes_on() {
            let has_mounted = bell.wait(&self.wake);
            if has_mounted {
                lock(watch).mounts_changed();
            }
            if self.queued.is_full() {
                // The kernel says when its queue is full.
                thread::pause(PAUSE);
                continue;
            }
            lock(watch).absorb(false);
        }
        Ok(())
    }

    /// Reads what is opened on one CPU, until told to stop or given up.
    pub(super) fn read_cpu(&self, index: usize) -> io::Result<()> {
        let Some(mine) = self.cpus.get(index) else { return Ok(()) };
        let mut reader = lock(&mine.names).reader()?;
        let number = lock(&mine.names).opens.cpu;
        let placed = if self.reads.at_once {
            thread::pin(number).and_then(|()| thread::set_fifo(PRIORITY))
        } else {
            // Without the right to it, it takes its turn.
            let _ = thread::set_large_share();
            Ok(())
        };
        let mut woken = thread::switches();
        while self.goes_on() {
            // What was recorded while we slept elsewhere than here did not find us waiting.
            let waited = thread::switches() == woken;
            reader.wait(&self.wake, &mine.bell);
            woken = thread::switches();
            if self.queued.is_full() || lock(&mine.names).facts.len() > FACTS_MAX {
                // The kernel counts what it loses until the log has caught up; the ring may stay readable all the time.
                thread::pause(PAUSE);
                if !self.read_waiting(mine, &mut reader) {
                    return placed;
                }
                continue;
            }
            // One without its place comes too late.
            let hold = if waited && placed.is_ok() { Hold::since(woken) } else { Hold::NONE };
            // One look takes longer than many opens: the ring is not to run over meanwhile.
            loop {
                let strays = lock(&mine.names).absorb(Take::Page, hold);
                self.settle(strays);
                if !self.read_waiting(mine, &mut reader) {
                    return placed;
                }
                let may_look = self.goes_on() && !self.queued.is_full();
                if !may_look || !lock(&mine.names).look() {
                    break;
                }
            }
        }
        placed
    }

    /// Reads what waits for that on this CPU. False if the reader was given up meanwhile.
    fn read_waiting(&self, cpu: &Cpu, reader: &mut RingReader) -> bool {
        loop {
            let job = match lock(&cpu.names).begin(reader) {
                NextJob::ReadJob(job) => job,
                NextJob::Nothing => return true,
                NextJob::GivenUp => return false,
            };
            let reads = self.reads;
            let facts = if job.reads_memory(reads) && self.unanswered.refuses(job.ended.tid) {
                job.refused(reads, Errno::ETIMEDOUT)
            } else {
                job.read(reads, &mut reader.whereabouts)
            };
            if !lock(&cpu.names).end(reader, job.pid, facts) {
                return false;
            }
        }
    }

    /// Finds the entries of calls that were entered on another CPU: they are in that CPU's ring. What else is found there is for that
    /// CPU's reader, which will not see it any more.
    fn settle(&self, strays: Vec<Stray>) {
        let mut waiting = VecDeque::from(strays);
        while let Some(stray) = waiting.pop_front() {
            let entered = self.cpus.iter().enumerate().find_map(|(index, cpu)| {
                let mut names = lock(&cpu.names);
                waiting.extend(names.absorb(Take::All, Hold::NONE));
                if index != stray.index && !names.waiting.is_empty() {
                    let _ = cpu.bell.write(1);
                }
                let tid = stray.ended.tid.0;
                let is_its = names.entered.get(&tid).is_some_and(|it| it.call == stray.ended.call);
                is_its.then(|| names.entered.remove(&tid)).flatten()
            });
            if let (Some(enter), Some(its_cpu)) = (entered, self.cpus.get(stray.index)) {
                let (pid, ended, what) =
                    (stray.pid, stray.ended, What::Arguments(enter, stray.hold));
                lock(&its_cpu.names).put(ReadJob { pid, ended, what });
            }
        }
    }
}

/// A reader that panicked has lost its own names, not those of others.
fn lock<T>(its: &Mutex<T>) -> MutexGuard<'_, T> {
    its.lock().unwrap_or_else(PoisonError::into_inner)
}
