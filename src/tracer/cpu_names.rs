//! One CPU's ring of names: what was taken from it, what is to be read of it, and what its reader is at.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use rustc_hash::FxHashMap;

use super::hold::Hold;
use super::job::{Ended, ReadJob, What};
use super::log::{Data, Message};
use super::names::Reads;
use super::plan::RingOf;
use super::stream::{Stream, Take};
use super::unanswered::{LOOKS, READ_NS_MAX};
use crate::capture::fact::Fact;
use crate::event::decode::Decoder;
use crate::event::syscall_table::Class;
use crate::event::{EventKind, SysEnter};
use crate::record::page::{self, Entry};
use crate::record::parse::Body;
use crate::record::{Layout, records};
use crate::sys::clock;
use crate::sys::thread::{self, Whereabouts};
use crate::sys::trace_ring::PagePipe;
use crate::units::{self, CpuId, KernelTime, Tid};

/// Opens that wait to be looked at, on one CPU: more than can be looked at in a round.
const LATER_MAX: usize = 4096;
/// Among how many of them the same descriptor is looked for.
const LOOKED_FOR_MAX: usize = 64;
/// Looks, some 20 to 50 us each, at the end of a round, where the records of calls wait meanwhile.
const LAST_LOOKS: usize = 16;

/// What one CPU's reader has. It is locked for short times only: never while something is read that may not answer.
#[derive(Debug)]
pub(super) struct CpuNames {
    /// Its place among the readers.
    index: usize,
    pub opens: Taken,
    reading: Reading,
    pipe: PagePipe,
    /// Facts about them, with the process concerned.
    pub facts: Vec<(Option<units::Pid>, Fact)>,
    /// Opens that nobody has looked at yet, where that is not done at once.
    later: VecDeque<(Option<units::Pid>, Ended)>,
    /// The calls that were entered on this CPU and have not ended.
    pub entered: FxHashMap<i32, SysEnter>,
    /// What is to be read, the oldest first.
    pub waiting: VecDeque<ReadJob>,
    /// What the reader reads now.
    pub now: Option<CurrentJob>,
    /// How many jobs there were, and how many of them are over.
    pub given: u64,
    pub over: u64,
    /// So many had come when the round was asked for.
    pub asked: u64,
    /// How many readers were given up.
    generation: u64,
    /// It has a reader.
    pub has_reader: bool,
}

/// What a reader reads.
#[derive(Debug)]
pub(super) struct CurrentJob {
    job: ReadJob,
    since: KernelTime,
    /// How often it was seen at it.
    looks: u32,
    /// The reader's descriptor of the ring: of one that is given up it must be closed.
    ready: Option<OwnedFd>,
}

/// A ring and the records taken from it since the last round.
#[derive(Debug)]
pub(super) struct Taken {
    pub cpu: u32,
    kind: RingOf,
    layout: u16,
    /// `None`: it is closed.
    pub ring: Option<Stream>,
    bytes: Vec<u8>,
}

impl Taken {
    fn new(ring: Stream) -> Self {
        let (cpu, kind, layout) = (ring.cpu, ring.ring, ring.layout());
        Self { cpu, kind, layout, ring: Some(ring), bytes: Vec::new() }
    }

    /// What is new in the ring.
    fn more(&mut self, how: Take, pipe: &mut PagePipe) -> &[u8] {
        let start = self.bytes.len();
        // What cannot be taken is counted by the kernel as left in the ring.
        if self.ring.as_mut().is_some_and(|it| it.take(how, pipe, &mut self.bytes).is_err()) {
            // It may stay readable; nobody must wait for us meanwhile.
            thread::pause(std::time::Duration::from_millis(1));
        }
        self.bytes.get(start..).unwrap_or_default()
    }

    pub(super) fn message(&mut self) -> Option<Message> {
        let bytes = std::mem::take(&mut self.bytes);
        let (cpu, ring, layout) = (self.cpu, self.kind, self.layout);
        (!bytes.is_empty()).then_some(Message::Data(Data { cpu, ring, layout, bytes }))
    }
}

/// How records are read, the same on every CPU.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub decoder: Arc<Decoder>,
    /// By the index of the header.
    pub layouts: Vec<Layout>,
    pub reads: Reads,
}

/// What a hit says of whom and when; perf says of which process, too.
#[derive(Clone, Copy, Debug)]
struct Hit<'a> {
    pid: Option<units::Pid>,
    tid: Tid,
    time: KernelTime,
    payload: &'a [u8],
}

impl Reading {
    fn each_hit(&self, layout: u16, bytes: &[u8], mut with: impl FnMut(Hit<'_>)) {
        match self.layouts.get(usize::from(layout)) {
            Some(Layout::Perf(layout)) => {
                for (_, record) in records(bytes).flatten() {
                    let Ok(record) = record.parse(layout) else { continue };
                    let Body::Sample(payload) = record.body else { continue };
                    let (pid, tid, time) = (Some(record.pid), record.tid, record.time);
                    with(Hit { pid, tid, time, payload });
                }
            }
            Some(Layout::Pages(layout)) => {
                for entry in page::entries(bytes, *layout).flatten() {
                    let Entry::Hit(start, time) = entry else { continue };
                    let payload = page::payload(bytes.get(start..).unwrap_or_default());
                    let thread = payload.and_then(|it| Some((it, self.decoder.thread(it)?)));
                    let Some((payload, tid)) = thread else { continue };
                    with(Hit { pid: None, tid, time, payload });
                }
            }
            None => {}
        }
    }
}

/// A reader, as its CPU knows it.
#[derive(Debug)]
pub(super) struct RingReader {
    generation: u64,
    ready: Option<OwnedFd>,
    pub whereabouts: Whereabouts,
}

impl RingReader {
    /// Until there is something in the ring, or others have put something there.
    pub(super) fn wait(&self, wake: &EventFd, bell: &EventFd) {
        let input = |it| PollFd::new(it, PollFlags::POLLIN);
        let mut fds = vec![input(wake.as_fd()), input(bell.as_fd())];
        fds.extend(self.ready.as_ref().map(|it| input(it.as_fd())));
        // An interrupted wait is as good as any.
        let _ = poll(&mut fds, PollTimeout::NONE);
        if fds.get(1).and_then(PollFd::any).unwrap_or(false) {
            let _ = bell.read();
        }
    }
}

/// What a reader is to do next.
#[derive(Debug)]
pub(super) enum NextJob {
    ReadJob(ReadJob),
    Nothing,
    /// Another reader has its place.
    GivenUp,
}

impl CpuNames {
    /// Of this ring, the one of this place.
    ///
    /// # Errors
    ///
    /// Those of `pipe(2)`.
    pub(super) fn new(index: usize, ring: Stream, reading: Reading) -> io::Result<Self> {
        Ok(Self {
            index,
            opens: Taken::new(ring),
            reading,
            pipe: PagePipe::new()?,
            facts: Vec::new(),
            later: VecDeque::new(),
            entered: FxHashMap::default(),
            waiting: VecDeque::new(),
            now: None,
            given: 0,
            over: 0,
            asked: 0,
            generation: 0,
            has_reader: true,
        })
    }

    /// A reader for this CPU.
    pub(super) fn reader(&mut self) -> io::Result<RingReader> {
        let ready = self.opens.ring.as_ref().map(|it| it.as_fd().try_clone_to_owned());
        let (generation, whereabouts) = (self.generation, Whereabouts::default());
        Ok(RingReader { generation, ready: ready.transpose()?, whereabouts })
    }

    /// Takes what is in the ring; the name of each open that has ended is to be read. Those that were entered elsewhere.
    pub(super) fn absorb(&mut self, how: Take, hold: Hold) -> Vec<Stray> {
        let Self { opens, reading, pipe, later, entered, index, waiting, given, .. } = self;
        let cpu = CpuId(opens.cpu);
        let mut ended = Vec::new();
        let layout = opens.layout;
        let mut hits = 0;
        reading.each_hit(layout, opens.more(how, pipe), |hit| {
            hits += 1;
            match reading.decoder.decode(hit.payload) {
                Ok(EventKind::SysEnter(enter)) => {
                    entered.insert(hit.tid.0, enter);
                }
                Ok(EventKind::SysExit(exit)) => {
                    let is_open = exit.call.call().class == Class::Open;
                    let (tid, record_time, ret) = (hit.tid, hit.time, exit.ret);
                    let call = Ended { cpu, tid, record_time, call: exit.call, is_open, ret };
                    // The link first: each moment more is one in which another CPU may take the thread over.
                    if reading.reads.at_once {
                        if call.has_link() {
                            waiting.push_back(ReadJob {
                                pid: hit.pid,
                                ended: call,
                                what: What::Link,
                            });
                            *given += 1;
                        }
                    } else if call.is_open && ret >= 0 {
                        put_off(later, (hit.pid, call));
                    }
                    // One of a later open of the thread is told by its address.
                    let enter = entered.remove(&hit.tid.0).filter(|it| it.call == exit.call);
                    ended.push((hit.pid, call, enter, hits));
                }
                _ => {}
            }
        });
        let (index, reads) = (*index, reading.reads);
        let mut strays = Vec::new();
        for (pid, ended, enter, number) in ended {
            // What the CPU has recorded since, it has recorded while nobody stopped it: this one did not wake us.
            let hold = if number == hits { hold } else { Hold::NONE };
            match enter {
                Some(enter) => self.put(ReadJob { pid, ended, what: What::Arguments(enter, hold) }),
                // All of it that is here.
                None if !reads.arguments && !reads.exact_args && ended.is_open => {}
                None => strays.push(Stray { index, pid, ended, hold }),
            }
        }
        strays
    }

    /// One more thing to be read.
    pub(super) fn put(&mut self, job: ReadJob) {
        self.waiting.push_back(job);
        self.given += 1;
    }

    /// What was opened last of all that waits is to be looked at. False if nothing waits.
    pub(super) fn look(&mut self) -> bool {
        let Some((pid, ended)) = self.later.pop_back() else { return false };
        self.put(ReadJob { pid, ended, what: What::Link });
        true
    }

    /// The same for the last few; the records of all of them are written now, and of the others nobody will ask.
    pub(super) fn look_at_last(&mut self) {
        for _ in 0..LAST_LOOKS {
            if !self.look() {
                break;
            }
        }
        self.later.clear();
    }

    /// What the reader is to read next.
    pub(super) fn begin(&mut self, reader: &mut RingReader) -> NextJob {
        if self.generation != reader.generation {
            return NextJob::GivenUp;
        }
        let Some(job) = self.waiting.pop_front() else { return NextJob::Nothing };
        let ready = reader.ready.take();
        self.now = Some(CurrentJob { job, since: clock::now(), looks: 0, ready });
        NextJob::ReadJob(job)
    }

    /// The reader has read that. False if it was given up meanwhile.
    pub(super) fn end(
        &mut self,
        reader: &mut RingReader,
        pid: Option<units::Pid>,
        facts: Vec<Fact>,
    ) -> bool {
        if self.generation != reader.generation {
            return false;
        }
        reader.ready = self.now.take().and_then(|it| it.ready);
        self.facts.extend(facts.into_iter().map(|it| (pid, it)));
        self.over += 1;
        true
    }

    /// True if the reader was seen often enough to wait for something.
    pub(super) fn waits_too_long(&mut self, time: KernelTime) -> bool {
        let Some(now) = &mut self.now else { return false };
        let is_long = time.0.saturating_sub(now.since.0) > READ_NS_MAX;
        now.looks += u32::from(is_long);
        now.looks >= LOOKS
    }

    /// Gives the reader up: what it reads, which is given back, and what came too late for that reason; how many calls more that are.
    pub(super) fn lose_reader(&mut self) -> Option<(ReadJob, usize)> {
        let job = self.now.take()?.job;
        self.generation += 1;
        self.refuse(job);
        let reads = self.reading.reads;
        let (late, waiting): (Vec<ReadJob>, Vec<ReadJob>) =
            self.waiting.drain(..).partition(|it| it.must_be_in_time(reads));
        late.iter().for_each(|it| self.refuse(*it));
        self.waiting = waiting.into();
        self.waiting.iter_mut().for_each(ReadJob::held_by_nothing);
        Some((job, late.len()))
    }

    /// Nothing is read any more of all that waits; how many calls that are.
    pub(super) fn refuse_waiting(&mut self) -> usize {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.iter().for_each(|it| self.refuse(*it));
        waiting.len()
    }

    fn refuse(&mut self, job: ReadJob) {
        let facts = job.refused(self.reading.reads, Errno::ETIMEDOUT);
        self.facts.extend(facts.into_iter().map(|it| (job.pid, it)));
        self.over += 1;
    }
}

/// Opens to be looked at. What was opened before with the same number is closed.
fn put_off(later: &mut VecDeque<(Option<units::Pid>, Ended)>, new: (Option<units::Pid>, Ended)) {
    let same = |it: &(Option<units::Pid>, Ended)| {
        let is_its = it.0.is_some() && it.0 == new.0 || it.1.tid == new.1.tid;
        is_its && it.1.ret == new.1.ret
    };
    if let Some(back) = later.iter().rev().take(LOOKED_FOR_MAX).position(same) {
        later.remove(later.len() - 1 - back);
    }
    if later.len() >= LATER_MAX {
        later.pop_front();
    }
    later.push_back(new);
}

/// A call that has ended on one CPU and was entered on another one.
#[derive(Debug)]
pub(super) struct Stray {
    /// The reader whose facts its names are.
    pub index: usize,
    pub pid: Option<units::Pid>,
    pub ended: Ended,
    /// Of the reader that found it.
    pub hold: Hold,
}
