//! Stack unwinding: turns copies of stacks into call chains at the end of a recording, when all
//! mappings are known.
//!
//! The log is read again, and the copies in it are passed to helpers ([`helper_main`]), each for
//! one process, because the unwind information is in files that programs have made. If a helper
//! dies at a stack, that stack and later ones of the process have no functions, and the reason is
//! reported.

mod cfi;
pub mod helper_main;
mod protocol;
mod unwinder;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::callchain_addresses::SeenChains;
use super::executable_mappings::{CodeFile, CodeMapping};
use super::symbols::is_path;
use crate::capture::fact::{Fact, UnwoundHit, UnwoundStack, UserStack};
use crate::capture::format::{FrameHeader, FrameKind};
use crate::capture::trailing_facts;
use crate::capture::user_stack::{HITS_MAX, WAYS_MAX, WORDS_MAX};
use crate::record::program::{ABI_64, UserState, x86};
use crate::record::{Layout, RecordKind, SampleLayout, records};
use crate::sys::cancellation::Cancellation;
use crate::sys::clock;
use crate::sys::sandboxed_helper::{self, HelperFailure, HelperReply, ResourceLimits};
use crate::units::{KernelTime, Pid, Tid};
use cfi::FollowedRegisters;
use protocol::{FileRequest, MemoryEvent, StacksAnswer, StacksQuestion};
use unwinder::{CodeRange, SampledStack};

/// Hidden subcommand that starts this program as the helper.
pub const VERB: &str = "unwind-stacks";

/// Size of the stacks in one question, in bytes.
const QUESTION_BYTES: usize = 24 << 20;

/// Largest size of stacks that wait until their process has enough for a question.
const WAITING_BYTES_MAX: usize = 128 << 20;

/// Time after which no new question is asked; a running one may finish.
const ALL_TIME: Duration = Duration::from_secs(300);

/// Number of samples in one fact.
const FACT_HITS: usize = 4096;

/// Largest number of unreadable files that are reported by name.
const MISSED_MAX: usize = 16;

/// Arguments that start this program as a helper.
#[cfg(not(test))]
const HELPER: &[&str] = &[VERB];
#[cfg(test)]
const HELPER: &[&str] = &["--exact", "tracer::unwinding::tests::helper", "--ignored"];

/// A sample with the copy of its stack.
#[derive(Debug)]
struct StackSample {
    time: KernelTime,
    tid: Tid,
    sampled: SampledStack,
}

/// Waiting samples of a process, and the bytes of their stacks.
#[derive(Debug, Default)]
struct PendingSamples {
    hits: Vec<StackSample>,
    bytes: usize,
}

/// State of the unwinding.
#[derive(Debug)]
struct Unwinding<'a, 'p> {
    seen: &'a mut SeenChains,
    cancellation: &'a mut Cancellation<'p>,
    arguments: &'static [&'static str],
    bounds: ResourceLimits,
    until: KernelTime,
    waiting: BTreeMap<Pid, PendingSamples>,
    waiting_bytes: usize,
    ways: FxHashMap<(Pid, UnwoundStack), u32>,
    words: usize,
    stacks: Vec<UserStack>,
    hits: Vec<UnwoundHit>,
    /// Processes that killed a helper, by number and birth, with the reason.
    deadly: FxHashMap<(Pid, KernelTime), String>,
    /// Files whose unwind information was needed and not available.
    missed: BTreeSet<Vec<u8>>,
    /// Number of samples that were not unwound, by the reason.
    lost: BTreeMap<String, u64>,
}

/// Access to private items for a target of `fuzz/`; in no other build.
#[cfg(fuzzing)]
pub mod fuzzing {
    /// Answers a question as the helper does; every file of the question has these bytes.
    pub fn go_back(question: &[u8], file: &[u8]) {
        use super::protocol::{MemoryEvent, StacksAnswer, StacksQuestion};

        let Some(question) = StacksQuestion::decode(question) else { return };
        let is_stack = |event: &&MemoryEvent| matches!(event, MemoryEvent::Stack(_));
        let stacks = question.events.iter().filter(is_stack).count();
        let frames = vec![super::cfi::CallFrames::of(file)];
        let files = super::unwinder::FrameTables::new(frames);
        let mut out = Vec::new();
        super::helper_main::go_back(files, question.events, &mut out).expect("memory");
        assert_eq!(StacksAnswer::decode(&out, stacks).ways.len(), stacks);
    }
}

/// Unwinds all stacks in the log, whose records have these `layouts`. Returns the facts, and
/// warnings about stacks that were not unwound.
pub(super) fn unwind(
    mut log: &File,
    layouts: &[Layout],
    seen: &mut SeenChains,
    cancellation: &mut Cancellation<'_>,
) -> (Vec<Fact>, Vec<String>) {
    seen.code.sort();
    let mut unwinding = Unwinding::new(seen, HELPER, helper_main::BOUNDS, cancellation);
    let read = unwinding.read(&mut log, layouts);
    unwinding.query_all();
    let (facts, mut doubts) = unwinding.finish();
    doubts.extend(match read {
        Ok(true) => None,
        Ok(false) => Some("stacks of programs could not be read again to the end".to_owned()),
        Err(error) => Some(format!("stacks of programs could not be read again: {error}")),
    });
    (facts, doubts)
}

impl<'a, 'p> Unwinding<'a, 'p> {
    fn new(
        seen: &'a mut SeenChains,
        arguments: &'static [&'static str],
        bounds: ResourceLimits,
        cancellation: &'a mut Cancellation<'p>,
    ) -> Self {
        let all_ns = u64::try_from(ALL_TIME.as_nanos()).unwrap_or(u64::MAX);
        Self {
            seen,
            cancellation,
            arguments,
            bounds,
            until: KernelTime(clock::now().0.saturating_add(all_ns)),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            ways: FxHashMap::default(),
            words: 0,
            stacks: Vec::new(),
            hits: Vec::new(),
            deadly: FxHashMap::default(),
            missed: BTreeSet::new(),
            lost: BTreeMap::new(),
        }
    }

    /// Reads the log again; returns false if it could not be read to its end.
    fn read(&mut self, log: &mut &File, layouts: &[Layout]) -> io::Result<bool> {
        let layout = |header: &FrameHeader| match layouts.get(usize::from(header.layout)) {
            Some(Layout::Perf(layout)) if layout.has_program() => Some(*layout),
            _ => None,
        };
        let is_wanted = |it: &FrameHeader| it.kind == FrameKind::DATA && layout(it).is_some();
        trailing_facts::for_each(log, &is_wanted, &mut |header, bytes| {
            let Some(layout) = layout(&header) else { return ControlFlow::Continue(()) };
            for (_, record) in records(&bytes).flatten() {
                self.take(&record, &layout);
            }
            if let Some(why) = self.over() {
                self.lost.entry(format!("{why}; they were not all read again")).or_default();
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
    }

    /// Returns the reason why no more questions are asked, if the time is over or a signal arrived.
    fn over(&mut self) -> Option<String> {
        if clock::now() > self.until {
            return Some(format!("no time was left after {} s", ALL_TIME.as_secs()));
        }
        self.cancellation.is_cancelled().then(|| HelperFailure::NotWaitedFor.to_string())
    }

    fn take(&mut self, record: &RecordKind<'_>, layout: &SampleLayout) {
        let Some(program) = record.program(layout).filter(UserState::is_there) else { return };
        let (Some((pid, tid)), Some(time)) = (record.task(layout), record.time(layout)) else {
            return;
        };
        if program.abi != ABI_64 {
            return self.lose("they are of 32-bit programs", 1);
        }
        if self.seen.code.known_until.is_some_and(|it| time >= it) {
            return self.lose("there were too many mappings to store", 1);
        }
        let sampled = sampled(&program);
        let bytes = sampled.stack.len() + size_of::<StackSample>();
        let waiting = self.waiting.entry(pid).or_default();
        waiting.hits.push(StackSample { time, tid, sampled });
        waiting.bytes += bytes;
        self.waiting_bytes += bytes;
        if waiting.bytes >= QUESTION_BYTES {
            self.query_of(pid);
        }
        if self.waiting_bytes >= WAITING_BYTES_MAX {
            let largest = self.waiting.iter().max_by_key(|it| it.1.bytes).map(|it| *it.0);
            largest.into_iter().for_each(|it| self.query_of(it));
        }
    }

    fn lose(&mut self, why: &str, hits: usize) {
        if hits > 0 {
            *self.lost.entry(why.to_owned()).or_default() += hits as u64;
        }
    }

    /// Asks about all waiting samples.
    fn query_all(&mut self) {
        while let Some(pid) = self.waiting.keys().next().copied() {
            self.query_of(pid);
        }
    }

    /// Asks about the waiting samples of this process number: one helper for each process that had
    /// the number.
    fn query_of(&mut self, pid: Pid) {
        let PendingSamples { mut hits, bytes } = self.waiting.remove(&pid).unwrap_or_default();
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        hits.sort_by_key(|it| it.time);
        let births: Vec<KernelTime> = self.seen.code.births(pid).collect();
        let mut births = births.into_iter().peekable();
        let mut birth = KernelTime::MIN;
        while let Some(first) = hits.first().map(|it| it.time) {
            while let Some(earlier) = births.next_if(|it| *it <= first) {
                birth = earlier;
            }
            let next = births.peek().copied().unwrap_or(KernelTime::MAX);
            let later = hits.split_off(hits.partition_point(|it| it.time < next).max(1));
            self.query(pid, birth, &std::mem::replace(&mut hits, later));
        }
    }

    /// Asks about samples of one process, in the order of their times.
    fn query(&mut self, pid: Pid, birth: KernelTime, hits: &[StackSample]) {
        let process = (pid, birth);
        if let Some(why) = self.over() {
            return self.lose(&why, hits.len());
        }
        if let Some(why) = self.deadly.get(&process).cloned() {
            return self.lose(&why, hits.len());
        }
        let question = self.question(pid, hits);
        let HelperReply { answer, failure } = sandboxed_helper::run_helper(
            self.arguments,
            &question.encode(),
            &self.bounds,
            self.cancellation,
        );
        let StacksAnswer { ways, missed } = StacksAnswer::decode(&answer, hits.len());
        let path = |it: usize| question.files.get(it).map(|it| it.file.path.clone());
        self.missed.extend(missed.into_iter().filter_map(path));
        let lost = hits.len() - ways.len();
        for (hit, way) in hits.iter().zip(ways) {
            self.found(pid, hit, way);
        }
        if lost > 0 {
            let why =
                failure.map_or_else(|| "the answer makes no sense".to_owned(), |it| it.to_string());
            self.lose(&why, lost);
            self.deadly.insert(process, why);
        }
    }

    fn question(&self, pid: Pid, hits: &[StackSample]) -> StacksQuestion {
        let mut question = StacksQuestion { pid, ..StacksQuestion::default() };
        let mut numbers = FxHashMap::default();
        let time = |it: Option<&StackSample>| it.map_or(KernelTime::MIN, |it| it.time);
        let history = self.seen.code.history(pid, time(hits.first()), time(hits.last()));
        let mut history = history.into_iter().peekable();
        for hit in hits {
            while let Some((_, code)) = history.next_if(|it| it.0 <= hit.time) {
                let event = code.map(|code| {
                    let file = number(&mut numbers, &mut question.files, code);
                    MemoryEvent::Map(
                        code.start,
                        CodeRange { end: code.end, offset: code.offset, file },
                    )
                });
                question.events.push(event.unwrap_or(MemoryEvent::Clear));
            }
            question.events.push(MemoryEvent::Stack(Box::new(hit.sampled.clone())));
        }
        question
    }

    fn found(&mut self, pid: Pid, hit: &StackSample, way: UnwoundStack) {
        if self.hits.len() >= HITS_MAX {
            return self.lose("there were too many", 1);
        }
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
        self.hits.push(UnwoundHit { time: hit.time, tid: hit.tid, stack });
    }

    fn finish(mut self) -> (Vec<Fact>, Vec<String>) {
        self.hits.sort_unstable();
        let stacks = self.stacks.into_iter().map(|it| Fact::Stack(Box::new(it)));
        let hits = self.hits.chunks(FACT_HITS).map(|it| Fact::Unwound(it.to_vec()));
        let facts = stacks.chain(hits).collect();
        let lost = self.lost.into_iter().map(|(why, count)| match count {
            0 => format!("stacks of programs were not unwound: {why}"),
            count => format!("{count} stacks of programs were not unwound: {why}"),
        });
        let shown = self.missed.iter().take(MISSED_MAX).map(|it| it.escape_ascii().to_string());
        let mut shown: Vec<String> = shown.collect();
        let more = self.missed.len() - shown.len();
        shown.extend((more > 0).then(|| format!("{more} more")));
        let missed = (!shown.is_empty()).then(|| {
            format!(
                "unwind information of files could not be read, so frame pointers were used: {}",
                shown.join(", ")
            )
        });
        (facts, lost.chain(missed).collect())
    }
}

/// Returns the number of the mapping's file in the question; `None`: the mapping has no file.
fn number(
    numbers: &mut FxHashMap<Arc<CodeFile>, usize>,
    files: &mut Vec<FileRequest>,
    code: &CodeMapping,
) -> Option<usize> {
    if !is_path(&code.file.path) {
        return None;
    }
    let place = *numbers.entry(Arc::clone(&code.file)).or_insert(files.len());
    if place == files.len() {
        let file = CodeFile::clone(&code.file);
        files.push(FileRequest { file, mapped: (code.start, code.end) });
    }
    Some(place)
}

/// Numbers of registers in a sample, and in DWARF.
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

fn sampled(program: &UserState<'_>) -> SampledStack {
    let mut registers = FollowedRegisters::default();
    for (bit, place) in REGISTERS {
        registers.get_mut(place).into_iter().for_each(|it| *it = program.register(bit));
    }
    SampledStack { registers, stack: program.stack.to_vec(), is_full: program.is_full }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
