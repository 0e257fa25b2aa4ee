//! Copies of stacks → the functions through which programs came to hits: found at the end, when all that was in memory is known.
//!
//! The log is read once more, and the copies in it are given to helpers ([`apart`]): what tells how to go back stands in files that
//! programs have made. What a helper did not survive has no functions of its program, and the reason is told.

pub mod apart;
mod cfi;
mod question;
mod walk;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::chains::SeenChains;
use super::code::{Code, CodeFile};
use crate::capture::fact::{Fact, Unwound, UnwoundHit, UserStack};
use crate::capture::format::{FrameHeader, FrameKind};
use crate::capture::later;
use crate::record::program::{ABI_64, Program, x86};
use crate::record::{Layout, SampleLayout, records};
use crate::sys::clock;
use crate::sys::helper::{self, Bounds, Said};
use crate::units::{KernelTime, Pid, Tid};
use cfi::Registers;
use question::{AskedFile, Event, Question, decode_ways};
use walk::{Mapped, Sampled};

/// What a helper is called by: a verb that is not told.
pub const VERB: &str = "unwind-stacks";

/// Stacks of one question, in bytes.
const QUESTION_BYTES: usize = 24 << 20;

/// After this nobody is asked any more, but by whom it is asked now.
const ALL_TIME: Duration = Duration::from_secs(300);

/// Processes that are named as having a file: one of them still has it, or it is where we have it.
const PLACES_MAX: usize = 4;

/// Hits that are remembered: as many stacks of the usual size have 64 GiB.
const HITS_MAX: usize = 8 << 20;

/// Different ways that are remembered.
const WAYS_MAX: usize = 1 << 17;

/// Addresses of all ways together.
const WORDS_MAX: usize = 16 << 20;

/// Hits in one fact.
const FACT_HITS: usize = 4096;

/// How this program is started as a helper.
#[cfg(not(test))]
const HELPER: &[&str] = &[VERB];
#[cfg(test)]
const HELPER: &[&str] = &["--exact", "tracer::unwinding::tests::helper", "--ignored"];

/// A hit with the copy of its stack.
#[derive(Debug)]
struct Hit {
    time: KernelTime,
    tid: Tid,
    sampled: Sampled,
}

/// What was found so far.
#[derive(Debug)]
struct Unwinding<'a> {
    seen: &'a mut SeenChains,
    arguments: &'static [&'static str],
    bounds: Bounds,
    until: KernelTime,
    /// Hits that wait, and the bytes of their stacks.
    waiting: BTreeMap<Pid, Vec<Hit>>,
    waiting_bytes: usize,
    ways: FxHashMap<(Pid, Unwound), u32>,
    words: usize,
    stacks: Vec<UserStack>,
    hits: Vec<UnwoundHit>,
    /// Hits without a way, by the reason.
    lost: BTreeMap<String, u64>,
}

/// Finds the ways of all stacks in the log, whose bytes `layouts` describe. The facts, and what is to be said of stacks without a way.
pub(super) fn unwind(
    log: &File,
    layouts: &[Layout],
    seen: &mut SeenChains,
) -> (Vec<Fact>, Vec<String>) {
    seen.code.sort();
    let mut unwinding = Unwinding::new(seen, HELPER, apart::BOUNDS);
    let read = unwinding.read(log, layouts);
    unwinding.ask_all();
    let (facts, mut doubts) = unwinding.finish();
    doubts.extend(read.err().map(|it| format!("stacks of programs could not be read again: {it}")));
    (facts, doubts)
}

impl<'a> Unwinding<'a> {
    fn new(seen: &'a mut SeenChains, arguments: &'static [&'static str], bounds: Bounds) -> Self {
        let all_ns = u64::try_from(ALL_TIME.as_nanos()).unwrap_or(u64::MAX);
        Self {
            seen,
            arguments,
            bounds,
            until: KernelTime(clock::now().0.saturating_add(all_ns)),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            ways: FxHashMap::default(),
            words: 0,
            stacks: Vec::new(),
            hits: Vec::new(),
            lost: BTreeMap::new(),
        }
    }

    fn read(&mut self, log: &File, layouts: &[Layout]) -> io::Result<()> {
        let mut log = BufReader::new(log);
        let layout = |it: &FrameHeader| match layouts.get(usize::from(it.layout)) {
            Some(Layout::Perf(layout)) if layout.has_program() => Some(*layout),
            _ => None,
        };
        let is_wanted = |it: &FrameHeader| it.kind == FrameKind::DATA && layout(it).is_some();
        later::for_each(&mut log, &is_wanted, &mut |header, bytes| {
            let Some(layout) = layout(&header) else { return };
            for (_, record) in records(&bytes).flatten() {
                self.take(&record, &layout);
            }
        })
    }

    fn take(&mut self, record: &crate::record::RecordKind<'_>, layout: &SampleLayout) {
        let Some(program) = record.program(layout).filter(|it| it.abi != 0) else { return };
        let (Some((pid, tid)), Some(time)) = (record.task(layout), record.time(layout)) else {
            return;
        };
        if program.abi != ABI_64 {
            return self.lose("of 32-bit programs", 1);
        }
        if self.seen.code.known_until.is_some_and(|it| time >= it) {
            return self.lose("too much came into memory to be remembered", 1);
        }
        let sampled = sampled(&program);
        self.waiting_bytes += sampled.stack.len() + size_of::<Hit>();
        self.waiting.entry(pid).or_default().push(Hit { time, tid, sampled });
        if self.waiting_bytes >= QUESTION_BYTES {
            self.ask_all();
        }
    }

    fn lose(&mut self, why: &str, hits: usize) {
        if hits > 0 {
            *self.lost.entry(why.to_owned()).or_default() += hits as u64;
        }
    }

    /// Asks about all that wait: one helper after the other, until each hit was told of, or was of a process of which a helper died.
    fn ask_all(&mut self) {
        self.waiting_bytes = 0;
        let mut waiting: Vec<(Pid, Vec<Hit>)> =
            std::mem::take(&mut self.waiting).into_iter().collect();
        for (_, hits) in &mut waiting {
            hits.sort_by_key(|it| it.time);
        }
        while !waiting.is_empty() {
            if clock::now() > self.until {
                let why = format!("no time was left after {} s", ALL_TIME.as_secs());
                return self.lose(&why, waiting.iter().map(|it| it.1.len()).sum());
            }
            let question = self.question(&waiting);
            let asked = waiting.iter().map(|it| it.1.len()).sum();
            let Said { answer, failure } =
                helper::ask(self.arguments, &question.encode(), &self.bounds);
            // The copies are not needed any more, and are large.
            drop(question);
            let mut ways = decode_ways(&answer, asked).into_iter();
            let mut left = waiting.into_iter().map(|(pid, hits)| {
                let mut hits = hits.into_iter();
                for (way, hit) in ways.by_ref().take(hits.len()).zip(hits.by_ref()) {
                    self.found(pid, &hit, way);
                }
                (pid, hits.collect::<Vec<_>>())
            });
            let left: Vec<(Pid, Vec<Hit>)> = left.by_ref().filter(|it| !it.1.is_empty()).collect();
            let mut left = left.into_iter();
            if let Some((_, lost)) = left.next() {
                let why = failure
                    .map_or_else(|| "the answer makes no sense".to_owned(), |it| it.to_string());
                self.lose(&why, lost.len());
            }
            waiting = left.collect();
        }
    }

    fn question(&self, waiting: &[(Pid, Vec<Hit>)]) -> Question {
        let mut question = Question::default();
        let mut files = FxHashMap::default();
        for (pid, hits) in waiting {
            let until = hits.last().map_or(KernelTime::MIN, |it| it.time);
            let history = self.seen.code.history(*pid, until);
            let mut history = history.into_iter().peekable();
            let mut events = Vec::new();
            for hit in hits {
                while let Some((_, code)) = history.next_if(|it| it.0 <= hit.time) {
                    let event = code.map(|it| {
                        let file = number(&mut files, &mut question.files, (*pid, it));
                        Event::Map(it.start, Mapped { end: it.end, offset: it.offset, file })
                    });
                    events.push(event.unwrap_or(Event::Clear));
                }
                events.push(Event::Stack(Box::new(hit.sampled.clone())));
            }
            question.processes.push(events);
        }
        question
    }

    fn found(&mut self, pid: Pid, hit: &Hit, way: Unwound) {
        let words = self.words + way.addresses.len();
        let next = u32::try_from(self.stacks.len()).unwrap_or(u32::MAX);
        let key = (pid, way);
        let stack = match self.ways.get(&key) {
            Some(known) => *known,
            None if self.stacks.len() >= WAYS_MAX || words > WORDS_MAX => {
                return self.lose("there were too many different ones", 1);
            }
            None => {
                let (_, way) = key.clone();
                self.words = words;
                self.seen.note_user(pid, way.addresses.iter().copied());
                self.stacks.push(UserStack { number: next, pid, way });
                self.ways.insert(key, next);
                next
            }
        };
        if self.hits.len() >= HITS_MAX {
            return self.lose("there were too many", 1);
        }
        self.hits.push(UnwoundHit { time: hit.time, tid: hit.tid, stack });
    }

    fn finish(mut self) -> (Vec<Fact>, Vec<String>) {
        self.hits.sort_unstable();
        let stacks = self.stacks.into_iter().map(|it| Fact::Stack(Box::new(it)));
        let hits = self.hits.chunks(FACT_HITS).map(|it| Fact::Unwound(it.to_vec()));
        let doubts = self
            .lost
            .into_iter()
            .map(|(why, count)| format!("{count} stacks of programs were not unwound: {why}"));
        (stacks.chain(hits).collect(), doubts.collect())
    }
}

/// The number of this file in the question.
fn number(
    numbers: &mut FxHashMap<Arc<CodeFile>, usize>,
    files: &mut Vec<AskedFile>,
    (pid, code): (Pid, &Code),
) -> usize {
    let place = *numbers.entry(Arc::clone(&code.file)).or_insert(files.len());
    if place == files.len() {
        files.push(AskedFile { file: CodeFile::clone(&code.file), places: Vec::new() });
    }
    if let Some(file) = files.get_mut(place)
        && file.places.len() < PLACES_MAX
        && file.places.last().is_none_or(|it| it.0 != pid)
    {
        file.places.push((pid, (code.start, code.end)));
    }
    place
}

/// Registers by their numbers in a sample, and as DWARF has them.
const REGISTERS: [(u32, usize); 17] = [
    (x86::AX, 0),
    (x86::DX, 1),
    (x86::CX, 2),
    (x86::BX, 3),
    (x86::SI, 4),
    (x86::DI, 5),
    (x86::BP, 6),
    (x86::SP, 7),
    (x86::R8, 8),
    (x86::R8 + 1, 9),
    (x86::R8 + 2, 10),
    (x86::R8 + 3, 11),
    (x86::R8 + 4, 12),
    (x86::R8 + 5, 13),
    (x86::R8 + 6, 14),
    (x86::R8 + 7, 15),
    (x86::IP, 16),
];

fn sampled(program: &Program<'_>) -> Sampled {
    let mut registers = Registers::default();
    for (bit, place) in REGISTERS {
        registers.get_mut(place).into_iter().for_each(|it| *it = program.register(bit));
    }
    Sampled { registers, stack: program.stack.to_vec(), is_full: program.is_full }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
