//! Log thread: filters by process tree, compresses, writes, and counts the records.

mod segment;

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use rustc_hash::FxHashSet;

use super::callchain_addresses::SeenChains;
use super::drain::ROUND_NS_MIN;
use super::extents::SeenFiles;
use super::held_rounds::{HeldRounds, Waiting};
use super::identities::IdentityReader;
use super::log_limits::{LogLimits, LogSignals};
use super::log_message::{Data, Message};
use super::own_pages::drop_others;
use super::pieces::{ProcessChange, compact, empty_frame, note_record, summary, whole_front};
use super::process_tree::Tree;
use super::programs::SeenPrograms;
use super::queued_bytes::QueuedBytes;
use super::sieve::{Mark, Sieve};
use super::thread_placement::ThreadPlacement;
use super::tracepoint_plan::RingKind;
use super::unwinding;
use crate::capture::fact::{Fact, FactsFrame};
use crate::capture::header::{Others, Unread, UnreadPrograms};
use crate::capture::writer::{DataFrame, Writer};
use crate::event::decode::common_type;
use crate::record::abi::HEADER_BYTES;
use crate::record::page::{self, PageEntry};
use crate::record::{Layout, PageLayout, SampleLayout, program, records};
use crate::sys::cancellation::Cancellation;
use crate::sys::{capabilities, clock, files, proc};
use crate::units::{KernelTime, Pid};

/// A data frame is written when it has this many bytes, or at the end of a round.
const FRAME_BYTES: usize = 4 << 20;

/// Longest data frame; the format allows twice as much.
const FRAME_BYTES_MAX: usize = 32 << 20;

/// Counters and collected state of the log thread.
#[derive(Debug, Default)]
pub struct LogCounts {
    /// Samples by ring and `common_type`.
    samples: [Vec<u64>; RingKind::ALL.len()],
    /// Records dropped because their thread is not in the tree.
    pub foreign_dropped: u64,
    /// Block requests of other processes that were left out.
    pub others: Others,
    /// Records that could not be written.
    pub unwritten: u64,
    /// Cause of unwritten records.
    pub error: Option<io::Error>,
    /// Files that facts have mentioned.
    pub files: SeenFiles,
    /// Programs that were started, if the audit needs them.
    pub programs: Option<SeenPrograms>,
    /// Addresses in call chains, if they are to be symbolized.
    pub chains: Option<SeenChains>,
    /// Warning about identities of processes that could not be read.
    pub warning: Option<String>,
}

impl LogCounts {
    /// Returns the number of samples in this ring.
    pub fn in_ring(&self, stream: u32) -> u64 {
        let ring = usize::try_from(stream).ok().and_then(|it| self.samples.get(it));
        ring.map_or(0, |it| it.iter().sum())
    }

    /// Returns the number of samples of this tracepoint in this ring.
    pub fn samples(&self, stream: u32, id: u16) -> u64 {
        let ring = usize::try_from(stream).ok().and_then(|it| self.samples.get(it));
        ring.and_then(|it| it.get(usize::from(id))).copied().unwrap_or(0)
    }

    /// Queries the extents of the files that were seen, and writes them. Returns the number of
    /// files that could not be queried.
    pub fn write_places(
        &mut self,
        writer: &mut Writer<File>,
        cancellation: &mut Cancellation<'_>,
    ) -> u64 {
        let (facts, unqueried) = std::mem::take(&mut self.files).query(cancellation);
        self.write_last(&facts, writer);
        unqueried
    }

    /// Finds the parts of files that the kernel read to start the programs that were seen, and
    /// writes them. Returns the programs with a file that could not be read.
    pub fn write_programs(
        &mut self,
        writer: &mut Writer<File>,
        cancellation: &mut Cancellation<'_>,
    ) -> UnreadPrograms {
        let programs = self.programs.take();
        let (facts, unread) = programs.map(|it| it.describe(cancellation)).unwrap_or_default();
        self.write_last(&facts, writer);
        unread
    }

    /// Symbolizes the addresses of call chains and writes the names. Returns a warning about
    /// addresses without a name, and the files that could not be read.
    pub fn write_symbols(
        &mut self,
        writer: &mut Writer<File>,
        cancellation: &mut Cancellation<'_>,
    ) -> (Option<String>, Unread) {
        let Some(chains) = self.chains.take() else { return (None, Unread::default()) };
        let (facts, warning, unread) = chains.name(cancellation);
        self.write_last(&facts, writer);
        (warning, unread)
    }

    /// Unwinds the copies of user stacks in the log, if there are some, and writes the functions
    /// found. Must run before [`Self::write_symbols`]. Returns warnings about stacks that could not
    /// be unwound.
    pub fn write_stacks(
        &mut self,
        writer: &mut Writer<File>,
        layouts: &[Layout],
        cancellation: &mut Cancellation<'_>,
    ) -> Vec<String> {
        let has_copies = |it: &Layout| matches!(it, Layout::Perf(it) if it.has_program());
        let has_copies = layouts.iter().any(has_copies) && self.error.is_none();
        let Some(chains) = self.chains.as_mut().filter(|_| has_copies) else {
            return Vec::new();
        };
        let (facts, doubts) = match files::reopen(writer.get_ref()) {
            Ok(log) => unwinding::unwind(&log, layouts, chains, cancellation),
            Err(error) => return vec![format!("the log cannot be read again: {error}")],
        };
        self.write_last(&facts, writer);
        doubts
    }

    /// Writes these facts, which come last.
    pub fn write_last(&mut self, facts: &[Fact], writer: &mut Writer<File>) {
        let mut frame = FactsFrame::default();
        for (number, fact) in facts.iter().enumerate() {
            frame.push(fact);
            if self.error.is_none() && (frame.is_full() || number + 1 == facts.len()) {
                let mut full = std::mem::take(&mut frame);
                let write = |it: &mut Writer<File>| it.last_facts(clock::now(), &mut full);
                self.error = writer.write_atomically(write).err();
            }
        }
    }

    fn sample(&mut self, stream: u32, id: u16) {
        let Some(ring) = usize::try_from(stream).ok().and_then(|it| self.samples.get_mut(it))
        else {
            return;
        };
        let place = usize::from(id);
        if ring.len() <= place {
            ring.resize(place + 1, 0);
        }
        if let Some(count) = ring.get_mut(place) {
            *count += 1;
        }
    }
}

/// State of the log thread.
#[derive(Debug)]
pub struct LogThread {
    writer: Writer<File>,
    /// Layouts of the rings, by their index in the header.
    layouts: Vec<Layout>,
    /// In process mode: records that wait until it is known which of them are kept.
    held: Option<HeldRounds>,
    /// Time of each group's last round.
    rounds: Vec<KernelTime>,
    /// Time of the last round of all groups.
    last_round: KernelTime,
    /// Data frames that are being filled, one for each ring.
    filling: Vec<(DataFrame, Vec<u8>)>,
    counted: LogCounts,
    identities: Option<IdentityReader>,
    /// Processes that have started a program since the last round.
    execs: Vec<Pid>,
    /// Numbers whose last process has ended.
    ended: FxHashSet<Pid>,
    limits: LogLimits,
    links: Option<LogChannels>,
}

/// Connections of the log thread to the other threads.
#[derive(Debug)]
pub struct LogChannels {
    /// Signals of this thread.
    pub signals: Arc<LogSignals>,
    /// Channel that returns used buffers.
    pub spare: SyncSender<Vec<u8>>,
    /// Bytes of data that were sent and not yet processed.
    pub queued: Arc<QueuedBytes>,
    /// Number of drain threads.
    pub groups: usize,
    /// CPUs and priority of the thread.
    pub place: ThreadPlacement,
}

impl LogThread {
    /// Returns a log that `writer` has begun. With a tree, only the records of the tree are kept;
    /// with a sieve, block requests of other processes are dropped.
    pub(super) fn new(
        writer: Writer<File>,
        layouts: Vec<Layout>,
        tree: Option<(Tree, Option<Sieve>)>,
    ) -> Self {
        Self {
            writer,
            layouts,
            held: tree.map(|(tree, sieve)| HeldRounds::new(tree, sieve)),
            rounds: Vec::new(),
            last_round: KernelTime::MIN,
            filling: Vec::new(),
            counted: LogCounts::default(),
            identities: None,
            execs: Vec::new(),
            ended: FxHashSet::default(),
            limits: LogLimits::default(),
            links: None,
        }
    }

    /// Returns the log with call chains: their addresses are symbolized at the end, those of
    /// programs if `of_programs` holds true.
    pub fn with_chains(self, of_programs: Option<bool>) -> Self {
        let counted = LogCounts { chains: of_programs.map(SeenChains::new), ..self.counted };
        Self { counted, ..self }
    }

    /// Returns the log with an audit: programs that are started are examined at the end.
    pub fn with_programs(self, programs: Option<SeenPrograms>) -> Self {
        Self { counted: LogCounts { programs, ..self.counted }, ..self }
    }

    /// Returns the log with the identities of processes: those of programs that are started are
    /// read, too.
    pub fn with_identities(self, identities: IdentityReader) -> Self {
        Self { identities: Some(identities), ..self }
    }

    /// Returns the log that ends the recording at these limits.
    pub(super) fn with_limits(self, limits: LogLimits) -> Self {
        Self { limits, ..self }
    }

    /// Runs until all senders are gone. Returns the writer for the last frame.
    pub fn run(
        mut self,
        links: LogChannels,
        messages: &Receiver<Message>,
    ) -> (Writer<File>, LogCounts) {
        links.place.take(links.place.realtime);
        // A precaution only.
        let _ = capabilities::keep_for_reading();
        self.rounds = vec![KernelTime::MIN; links.groups];
        self.links = Some(links);
        for message in messages {
            self.arrived(&message);
            let Some(message) = self.complete_round(message) else { continue };
            match &mut self.held {
                None => self.write(message, None),
                Some(held) => {
                    if held.add(message, &self.layouts) {
                        self.execs.extend(held.take_execs());
                        self.request_identities();
                        while let Some(round) = self.held.as_mut().and_then(HeldRounds::next_due) {
                            self.release(round);
                        }
                    }
                }
            }
        }
        let left = self.held.as_mut().map(HeldRounds::finish);
        self.release(left.unwrap_or_default());
        self.flush();
        self.finish_identities();
        let sieve = self.held.and_then(|it| it.sieve);
        self.counted.others = sieve.map(Sieve::into_others).unwrap_or_default();
        (self.writer, self.counted)
    }

    /// Data that is held here for two rounds no longer counts as queued.
    fn arrived(&self, message: &Message) {
        if let Some(links) = &self.links {
            links.queued.taken(message);
        }
        self.answer(message);
    }

    /// Completes a round when all groups have reported theirs and enough time has passed since the
    /// previous one. The earliest of the groups' times counts.
    fn complete_round(&mut self, message: Message) -> Option<Message> {
        let Message::Round(group, time) = message else { return Some(message) };
        if let Some(round) = self.rounds.get_mut(group) {
            *round = time;
        }
        let time = self.rounds.iter().copied().min()?;
        if time.0 < self.last_round.0.saturating_add(ROUND_NS_MIN) {
            return None;
        }
        self.last_round = time;
        Some(Message::Round(group, time))
    }

    /// Writes the messages whose waiting time is over.
    fn release(&mut self, round: Vec<Waiting>) {
        let sieve = self.held.as_mut().and_then(|it| it.sieve.as_mut());
        let facts: Vec<_> = sieve.map(Sieve::take_facts).unwrap_or_default();
        if !facts.is_empty() {
            self.write_facts(&facts.into_iter().map(|it| (None, it)).collect::<Vec<_>>());
        }
        for (message, chunk) in round {
            let sieve = self.held.as_mut().and_then(|it| it.sieve.as_mut());
            let marks = chunk.and(sieve).map(Sieve::take_first);
            self.write(message, marks);
        }
    }

    fn tree(&self) -> Option<&Tree> {
        self.held.as_ref().map(|it| &it.tree)
    }

    fn write(&mut self, message: Message, marks: Option<Vec<Mark>>) {
        match message {
            Message::Data(data) => self.write_data(data, marks.as_deref().unwrap_or_default()),
            Message::Facts(facts) => self.write_facts(&facts),
            Message::Segment(time, _) => self.begin_segment(time),
            Message::Round(_, time) => {
                self.flush();
                self.exchange_identities();
                self.try_write(0, |writer| writer.round(time));
                if let Some(links) = &self.links {
                    self.limits.signal(self.writer.written(), &links.signals);
                }
            }
        }
    }

    fn write_facts(&mut self, facts: &[(Option<Pid>, Fact)]) {
        let is_of = |tree: &Tree, pid: Option<Pid>, fact: &Fact| match (pid, fact) {
            (Some(pid), _) => tree.has(pid),
            // Fanotify reports opens of all processes.
            (None, Fact::Opened { tid, .. }) => tid.0 < 0 || tree.has_thread(*tid),
            (None, _) => true,
        };
        let is_kept =
            |it: &&(Option<Pid>, Fact)| self.tree().is_none_or(|tree| is_of(tree, it.0, &it.1));
        let kept: Vec<&Fact> = facts.iter().filter(is_kept).map(|it| &it.1).collect();
        let mut frame = FactsFrame::default();
        for (number, fact) in kept.iter().enumerate() {
            self.counted.files.note(fact);
            if let Some(chains) = &mut self.counted.chains {
                chains.note_fact(fact);
            }
            frame.push(fact);
            if frame.is_full() || number + 1 == kept.len() {
                let mut full = std::mem::take(&mut frame);
                self.try_write(0, |writer| writer.facts(clock::now(), &mut full));
            }
        }
    }

    /// Adds the records to the frame of their ring and writes the frame when it is large enough. A
    /// long frame compresses a fifth better than the pieces in which a busy ring is taken.
    fn write_data(&mut self, data: Data, marks: &[Mark]) {
        let Data { cpu, ring, layout, mut bytes } = data;
        let stream = ring.index();
        let Some(&its) = self.layouts.get(usize::from(layout)) else { return };
        let frame = empty_frame(cpu, stream, layout, its);
        let frame = match its {
            Layout::Perf(layout) => self.look_through(frame, layout, &mut bytes, marks),
            Layout::Pages(layout) => {
                let frame = self.look_through_pages(frame, layout, &bytes);
                let frame = self.drop_marked(frame, layout, &mut bytes, marks);
                let tree = self.held.as_ref().map(|held| &held.tree);
                drop_others(tree, frame, layout, &mut bytes, &mut self.counted.foreign_dropped)
            }
        };
        self.limits.note(&bytes, its);
        if frame.records == 0 {
            return self.give_back(bytes);
        }
        match self.filling.iter_mut().find(|it| it.0.cpu == cpu && it.0.stream == stream) {
            Some((filling, filled)) => {
                filling.extend(&frame);
                filled.extend_from_slice(&bytes);
                let is_full = filled.len() >= FRAME_BYTES;
                self.give_back(bytes);
                if is_full {
                    self.flush();
                }
            }
            None => self.filling.push((frame, bytes)),
        }
    }

    /// Writes the identities that were read, and has those of new programs read.
    fn exchange_identities(&mut self) {
        self.request_identities();
        let facts = self.identities.as_mut().map(IdentityReader::take);
        self.write_facts(&facts.unwrap_or_default());
    }

    /// Has the identities of new programs read.
    fn request_identities(&mut self) {
        let execs = std::mem::take(&mut self.execs);
        if let Some(identities) = self.identities.as_mut().filter(|_| !execs.is_empty()) {
            identities.read(execs);
        }
    }

    /// Reads the identities of the processes that are still there: they may have changed.
    fn finish_identities(&mut self) {
        let mut processes = self.tree().map_or_else(proc::processes, Tree::processes);
        processes.retain(|pid| !self.ended.contains(pid));
        let Some(identities) = &mut self.identities else { return };
        identities.read(processes);
        let (facts, warning) = identities.finish();
        self.counted.warning = warning;
        self.write_facts(&facts);
    }

    /// Writes all frames that are being filled.
    fn flush(&mut self) {
        for (frame, mut bytes) in std::mem::take(&mut self.filling) {
            let Some(&layout) = self.layouts.get(usize::from(frame.layout)) else { continue };
            let mut rest = bytes.as_mut_slice();
            // The content of a large ring that ran full exceeds one frame.
            while !rest.is_empty() {
                let length = whole_front(rest, FRAME_BYTES_MAX, layout);
                let (piece, behind) = rest.split_at_mut(length);
                let frame = if behind.is_empty() && piece.len() <= FRAME_BYTES {
                    frame
                } else {
                    summary(frame, piece, layout)
                };
                if let Layout::Pages(layout) = layout {
                    layout.continue_times(piece);
                }
                self.try_write(u64::from(frame.records), |writer| writer.data(&frame, piece));
                rest = behind;
            }
            self.give_back(bytes);
        }
    }

    fn give_back(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        if let Some(links) = &self.links {
            // The buffer is freed if there are enough, or if no thread takes buffers any more.
            let _ = links.spare.try_send(bytes);
        }
    }

    /// Counts the records, finds their time range and cuts out records of other trees. Records of
    /// other threads that are kept all the same (bios may be submitted by any thread) lose the
    /// copies of their programs' stacks.
    fn look_through(
        &mut self,
        mut frame: DataFrame,
        layout: SampleLayout,
        bytes: &mut Vec<u8>,
        marks: &[Mark],
    ) -> DataFrame {
        let (mut kept, mut private) = (Vec::new(), Vec::new());
        let mut marks = marks.iter();
        for (start, record) in records(bytes).flatten() {
            let mut is_dropped = false;
            if let Some(id) = record.payload(&layout).and_then(common_type) {
                self.counted.sample(frame.stream, id);
                is_dropped = self.is_marked(id) && marks.next() == Some(&Mark::Dropped);
            }
            if let Some(held) = &self.held
                && (is_dropped || !held.tree.keeps(&record, &layout))
            {
                self.counted.foreign_dropped += 1;
                continue;
            }
            let length = HEADER_BYTES + record.body.len();
            note_record(&mut frame, record.time(&layout));
            match ProcessChange::of(&record, &layout) {
                // In process mode these are noted when they arrive.
                Some(ProcessChange::Exec(pid)) if self.held.is_none() => self.execs.push(pid),
                Some(ProcessChange::Exec(_)) => {}
                Some(ProcessChange::Born(pid)) => drop(self.ended.remove(&pid)),
                Some(ProcessChange::Ended(pid)) => drop(self.ended.insert(pid)),
                None => {}
            }
            if let (Some(programs), Some(payload)) =
                (&mut self.counted.programs, record.payload(&layout))
            {
                programs.note(payload);
            }
            if let Some(HeldRounds { tree, .. }) = &self.held {
                let is_ours = record.task(&layout).is_some_and(|it| tree.has(it.0));
                if let Some(at) = record.program_at(&layout).filter(|_| !is_ours) {
                    private.push((kept.len(), start, length, at));
                }
                kept.push((start, length));
            }
            if let Some(chains) = &mut self.counted.chains {
                chains.note(&record, &layout);
            }
        }
        for (place, start, length, at) in private {
            let record = bytes.get_mut(start..start + length).unwrap_or_default();
            if let (Some(shorter), Some(kept)) =
                (program::take_out(record, at), kept.get_mut(place))
            {
                *kept = (start, shorter);
            }
        }
        if self.held.is_some() {
            compact(bytes, &kept);
        }
        frame
    }

    /// Counts the samples and finds their time range. The kernel has dropped samples of other
    /// trees.
    fn look_through_pages(
        &mut self,
        mut frame: DataFrame,
        layout: PageLayout,
        bytes: &[u8],
    ) -> DataFrame {
        for entry in page::entries(bytes, layout) {
            match entry {
                Ok(PageEntry::Hit(start, time)) => {
                    let payload = page::payload(bytes.get(start..).unwrap_or_default());
                    if let Some(id) = payload.and_then(common_type) {
                        self.counted.sample(frame.stream, id);
                    }
                    if let (Some(programs), Some(payload)) = (&mut self.counted.programs, payload) {
                        programs.note(payload);
                    }
                    note_record(&mut frame, Some(time));
                }
                Ok(PageEntry::Lost(time, _)) => note_record(&mut frame, Some(time)),
                // The reader of the log finds the error again, and counts it there.
                Err(_) => note_record(&mut frame, None),
            }
        }
        frame
    }

    /// True if records of this tracepoint have marks.
    fn is_marked(&self, id: u16) -> bool {
        let sieve = self.held.as_ref().and_then(|it| it.sieve.as_ref());
        sieve.is_some_and(|it| it.marks(id))
    }

    /// Removes the samples of other processes.
    fn drop_marked(
        &mut self,
        frame: DataFrame,
        layout: PageLayout,
        bytes: &mut Vec<u8>,
        marks: &[Mark],
    ) -> DataFrame {
        let dropped = marks.iter().filter(|it| **it == Mark::Dropped).count();
        if dropped == 0 {
            return frame;
        }
        self.counted.foreign_dropped += dropped as u64;
        let mut marks = marks.iter();
        layout.retain(bytes, |entry| {
            let id = page::payload(entry).and_then(common_type);
            !id.is_some_and(|it| self.is_marked(it)) || marks.next() != Some(&Mark::Dropped)
        });
        summary(frame, bytes, Layout::Pages(layout))
    }

    /// Writes unless the log has failed already; counts records that are not written.
    fn try_write(&mut self, records: u64, write: impl FnOnce(&mut Writer<File>) -> io::Result<()>) {
        if self.counted.error.is_some() {
            self.counted.unwritten += records;
            return;
        }
        if let Err(error) = self.writer.write_atomically(write) {
            self.counted.error = Some(error);
            self.counted.unwritten += records;
            if let Some(links) = &self.links {
                let _ = links.signals.failed.write(1);
            }
        }
    }
}
