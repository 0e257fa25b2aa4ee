//! Sieve: in process mode, block requests and io_uring operations of other programs stay out of the
//! log, and so do file-system events of their files.
//!
//! Input are the records of the rings, in rounds, and facts. Output is a mark for each record of a
//! block, file-system or io_uring tracepoint, and counts of the requests that are left out.
//!
//! ```text
//!   round N+1 is complete ──► records before the time of round N, in order
//!                                             │
//!                                             ▼
//!                                      requests, places
//!                                             │
//!                                             ▼
//!                                           marks
//!                         round N is written when all its marks are known
//! ```
//!
//! A request is the program's if one of its threads has queued a bio of the request. It is also the
//! program's if a bio of it writes to a location that belongs, or may belong, to a file that the
//! program has opened: then another thread writes back the program's data. The decision is made
//! when the request goes to its driver. Undecided records are held back for at most
//! [`HELD_ROUNDS_MAX`] rounds and [`HELD_BYTES_MAX`] bytes, then they are kept.

mod count;
mod marks;
mod places;
mod requests;
mod rings;

use std::collections::HashMap;

use rustc_hash::FxHashSet;

pub(super) use self::marks::Mark;
use self::marks::{RecordMarks, RecordRef};
use self::places::FilePlaces;
use self::requests::{BlockRecord, SievedRequests};
use self::rings::UringOwners;
use super::log_message::Data;
use super::process_tree::Tree;
use super::source::Described;
use crate::block::{BlockOptions, EventContext};
use crate::capture::fact::{Fact, NameOf, Text};
use crate::capture::header::{Disk, Others};
use crate::event::block::BlockEvent;
use crate::event::block_shape::BLOCK_POINTS;
use crate::event::decode::{Decoder, common_type};
use crate::event::fs::{FS_POINTS, FsEvent, WRITEBACK_POINTS};
use crate::event::probe_events::{FILE_PREFIX, GROUP_PREFIX};
use crate::event::uring::{URING_POINTS, UringEvent};
use crate::event::{EventKind, FileStat, ProbeObservation};
use crate::record::abi::record_type;
use crate::record::page::{self, PageEntry};
use crate::record::{Layout, records};
use crate::sys::{clock, disks};
use crate::units::{CpuId, DevId, KernelTime, Pid, Tid};

/// Largest number of rounds that are held back: one second.
pub(super) const HELD_ROUNDS_MAX: usize = 20;

/// Largest size of the records that are held back, in bytes.
pub(super) const HELD_BYTES_MAX: usize = 32 << 20;

/// Decoded event.
#[derive(Debug)]
enum SievedEvent {
    Block(BlockEvent),
    Fs(FsEvent),
    Uring(UringEvent),
    /// A descriptor got a file.
    File(FileStat),
    Lost,
}

#[derive(Debug)]
struct ArrivedRecord {
    time: KernelTime,
    cpu: CpuId,
    pid: Pid,
    tid: Tid,
    record: RecordRef,
    what: SievedEvent,
}

/// State of the sieve.
#[derive(Debug)]
pub(super) struct Sieve {
    decoder: Decoder,
    /// Tracepoints whose records are marked.
    marked: FxHashSet<u16>,
    /// Probes that report files.
    probes: FxHashSet<u16>,
    arrived: Vec<ArrivedRecord>,
    /// Records that cannot be parsed: the reader of the log reports the error.
    odd: Vec<RecordRef>,
    /// Files from facts, and the time by which each was open, with its process, or its thread as
    /// reported by fanotify.
    files: Vec<(Option<Pid>, Option<Tid>, KernelTime, FileStat)>,
    /// Mounts, if a fact has reported them.
    mounted: Option<Vec<u8>>,
    marks: RecordMarks,
    requests: SievedRequests,
    places: FilePlaces,
    rings: UringOwners,
    /// Block devices by their device nodes.
    nodes: HashMap<(DevId, u64), DevId>,
    /// A newer list of disks, and the time of reading it: earlier records may concern disks that
    /// are gone.
    newer: Option<(KernelTime, Vec<Disk>)>,
}

impl Sieve {
    /// Returns a sieve for these tracepoints; `None` if none of them is to be marked.
    pub(super) fn new(tracepoints: &[Described], machine: &str, disks: &[Disk]) -> Option<Self> {
        let mut decoder = Decoder::new(machine);
        let (mut marked, mut probes) = (FxHashSet::default(), FxHashSet::default());
        let is_there = |wanted: &str| tracepoints.iter().any(|it| it.planned.name == wanted);
        for it in tracepoints {
            let (system, name) = (&*it.planned.system, it.planned.name.as_str());
            let is_block = system == "block" && BLOCK_POINTS.iter().any(|it| it.0 == name);
            let is_fs = FS_POINTS.iter().any(|it| (it.0, it.1) == (system, name));
            let is_ring = system == "io_uring" && URING_POINTS.iter().any(|it| it.0 == name);
            let is_probe = system.starts_with(GROUP_PREFIX) && name.starts_with(FILE_PREFIX);
            if !(is_block || is_fs || is_ring || is_probe)
                || decoder.add(system, name, it.id, &it.format).is_err()
            {
                continue;
            }
            if is_probe {
                probes.insert(it.id)
            } else {
                marked.insert(it.id)
            };
        }
        let options = BlockOptions {
            merges_recorded: is_there("block_bio_backmerge"),
            requeues_recorded: is_there("block_rq_requeue"),
            ..BlockOptions::default()
        };
        let writeback = WRITEBACK_POINTS.iter().any(|it| is_there(it));
        let mut sieve = Self {
            decoder,
            marked,
            probes,
            arrived: Vec::new(),
            odd: Vec::new(),
            files: Vec::new(),
            mounted: None,
            marks: RecordMarks::default(),
            requests: SievedRequests::new(options),
            places: FilePlaces::new(writeback),
            rings: UringOwners::default(),
            nodes: HashMap::new(),
            newer: None,
        };
        sieve.has_only_disks(disks);
        (!sieve.marked.is_empty()).then_some(sieve)
    }

    fn has_only_disks(&mut self, all: &[Disk]) {
        self.requests.has_only_disks(all);
        self.places.has_only_disks(all);
        self.nodes = disks::nodes(all);
    }

    /// Reads the current list of disks.
    fn look_at_disks(&mut self) {
        let all = disks::disks();
        self.requests.add_disks(&all);
        self.places.add_disks(&all);
        self.nodes.extend(disks::nodes(&all));
        self.newer = Some((clock::now(), all));
    }

    /// True if records of this tracepoint are marked.
    pub(super) fn marks(&self, id: u16) -> bool {
        self.marked.contains(&id)
    }

    /// Takes the records of a ring. Returns the number of their chunk.
    pub(super) fn take(&mut self, data: &Data, layout: Layout) -> u64 {
        let chunk = self.marks.next_chunk();
        let mut index = 0;
        let cpu = CpuId(data.cpu);
        match layout {
            Layout::Perf(layout) => {
                for (_, record) in records(&data.bytes).flatten() {
                    let Some(time) = record.time(&layout) else { continue };
                    let (pid, tid) = record.task(&layout).unwrap_or((Pid(-1), Tid(-1)));
                    if record.kind == record_type::LOST {
                        self.lost(time, data.cpu);
                    } else if let Some(payload) = record.payload(&layout) {
                        let at = EventContext { time, cpu, pid, tid };
                        self.hit(at, payload, chunk, &mut index);
                    }
                }
            }
            Layout::Pages(layout) => {
                for entry in page::entries(&data.bytes, layout).flatten() {
                    match entry {
                        PageEntry::Hit(start, time) => {
                            let bytes = data.bytes.get(start..).unwrap_or_default();
                            let Some(payload) = page::payload(bytes) else { continue };
                            let at = EventContext { time, cpu, pid: Pid(-1), tid: Tid(-1) };
                            self.hit(at, payload, chunk, &mut index);
                        }
                        PageEntry::Lost(time, _) => self.lost(time, data.cpu),
                    }
                }
            }
        }
        self.marks.add(index);
        self.odd.drain(..).for_each(|it| self.marks.set(it, Mark::Kept));
        chunk
    }

    fn hit(&mut self, at: EventContext, payload: &[u8], chunk: u64, index: &mut usize) {
        let Some(id) = common_type(payload) else { return };
        let is_marked = self.marked.contains(&id);
        if !is_marked && !self.probes.contains(&id) {
            return;
        }
        let record = RecordRef { chunk, index: *index };
        *index += usize::from(is_marked);
        let what = match self.decoder.decode(payload) {
            Ok(EventKind::Block(event)) => SievedEvent::Block(event),
            Ok(EventKind::Fs(event)) => SievedEvent::Fs(event),
            Ok(EventKind::Uring(event)) => SievedEvent::Uring(event),
            Ok(EventKind::Probed(it)) => match *it {
                ProbeObservation::File { stat, .. } => SievedEvent::File(stat),
                _ => return,
            },
            _ => return self.odd.push(record),
        };
        let EventContext { time, cpu, pid, tid } = at;
        let tid = if tid.0 < 0 { self.decoder.thread(payload).unwrap_or(tid) } else { tid };
        self.arrived.push(ArrivedRecord { time, cpu, pid, tid, record, what });
    }

    fn lost(&mut self, time: KernelTime, cpu: u32) {
        let record = RecordRef { chunk: u64::MAX, index: 0 };
        let (cpu, pid, tid) = (CpuId(cpu), Pid(-1), Tid(-1));
        self.arrived.push(ArrivedRecord { time, cpu, pid, tid, record, what: SievedEvent::Lost });
    }

    /// Stores the file or the mounts that a fact reports.
    pub(super) fn note(&mut self, pid: Option<Pid>, fact: &Fact) {
        match fact {
            Fact::Name { of: NameOf::Link, stat: Some(stat), end, .. }
            | Fact::Fd { stat: Some(stat), end, .. } => self.files.push((pid, None, *end, *stat)),
            Fact::Opened { tid, stat: Some(stat), end, .. } => {
                self.files.push((pid, Some(*tid), *end, *stat));
            }
            Fact::Text { which: Text::BLOCKS, text, .. } => self.mounted = Some(text.clone()),
            _ => {}
        }
    }

    /// Makes all decisions that are possible after all records before this time have been taken.
    pub(super) fn advance(&mut self, until: KernelTime, tree: &Tree) {
        if let Some(text) = self.mounted.take() {
            self.places.mounted(&text);
            self.look_at_disks();
        }
        for (pid, tid, end, stat) in std::mem::take(&mut self.files) {
            let is_own = pid.is_none_or(|it| tree.has(it))
                && tid.is_none_or(|it| tree.has_task(Pid(-1), it));
            if is_own {
                self.opened(end, &stat);
            }
        }
        let (mut due, later): (Vec<ArrivedRecord>, Vec<ArrivedRecord>) =
            std::mem::take(&mut self.arrived).into_iter().partition(|it| it.time < until);
        self.arrived = later;
        due.sort_by_key(|it| it.time);
        for it in due {
            let ArrivedRecord { time, cpu, pid, tid, record, what } = it;
            let by_own = tree.has_task(pid, tid);
            if let Some((_, disks)) = self.newer.take_if(|it| it.0 <= time) {
                self.has_only_disks(&disks);
            }
            match what {
                SievedEvent::Block(event) => {
                    if self.requests.is_of_unknown(&event) {
                        self.look_at_disks();
                    }
                    let hit =
                        BlockRecord { at: EventContext { time, cpu, pid, tid }, record, by_own };
                    self.requests.push(&hit, &event, &mut self.places, &mut self.marks);
                }
                SievedEvent::Fs(event) => {
                    let mark = self.places.learn(time, &event, by_own);
                    self.marks.set(record, mark);
                }
                SievedEvent::Uring(event) => {
                    let mark = self.rings.learn(&event, by_own);
                    self.marks.set(record, mark);
                }
                SievedEvent::File(stat) if by_own => self.opened(time, &stat),
                SievedEvent::File(_) => {}
                SievedEvent::Lost => {
                    self.requests.records_lost(&mut self.marks);
                    self.places.records_lost();
                    self.rings.records_lost();
                }
            }
        }
    }

    fn opened(&mut self, time: KernelTime, stat: &FileStat) {
        if self.places.opened(time, stat) {
            return;
        }
        let node = (stat.dev, stat.ino);
        if !self.nodes.contains_key(&node) {
            self.look_at_disks();
        }
        self.places.opened_device(self.nodes.get(&node).copied());
    }

    /// True if all records of a chunk have their marks.
    pub(super) fn is_decided(&self, chunk: u64) -> bool {
        self.marks.is_decided(chunk)
    }

    /// Keeps all undecided records in the chunks up to this one; `is_end` is true if no records
    /// follow.
    pub(super) fn keep_undecided(&mut self, until: u64, is_end: bool) {
        self.requests.keep_undecided(until, is_end, &mut self.marks);
        self.marks.keep_undecided(until);
    }

    /// Removes the first chunk, which goes to the log, and returns its marks.
    pub(super) fn take_first(&mut self) -> Vec<Mark> {
        self.marks.take_first()
    }

    /// Returns the facts to write before the chunk.
    pub(super) fn take_facts(&mut self) -> Vec<Fact> {
        self.places.take_facts()
    }

    /// Returns the counts of omitted requests.
    pub(super) fn into_others(mut self) -> Others {
        self.requests.finish();
        Others {
            devices: self.requests.left_out.into_devices(),
            kept_undecided: self.requests.kept_undecided,
            places_given_up: self.places.given_up,
        }
    }
}

#[cfg(test)]
mod tests;
