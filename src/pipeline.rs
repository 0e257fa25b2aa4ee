//! A capture log, from front to back, into a sink: read, merge, decode, name, pair.
//!
//! The same stages whatever becomes of the operations. Memory is bounded by two rounds of records, not by the length of
//! the capture.

mod arrivals;
mod chains;
mod decoding;
mod summary;

use std::collections::{HashSet, VecDeque};
use std::io::{self, Read};

use thiserror::Error;

use arrivals::{Arrivals, Waiting};
use chains::Chains;
use decoding::{Decoded, decode, decode_hit, learn, strings};
pub use summary::Summary;

use crate::anomaly::{Anomaly, AnomalyKind, Ignored};
use crate::capture::fact::{Fact, Text, facts};
use crate::capture::format::{FrameHeader, FrameKind};
use crate::capture::header::{End, Header};
use crate::capture::reader::{Item, OpenError, Reader, json};
use crate::event::decode::{Decoder, DecoderError};
use crate::event::fs::WRITEBACK_POINTS;
use crate::event::syscall_table::CallId;
use crate::event::{Event, EventKind, SeenFd};
use crate::merge::Merger;
use crate::operation::Sink;
use crate::operation::block::BlockOptions;
use crate::operation::context::Followed;
use crate::operation::names::{NameJoin, ReadName};
use crate::operation::opened::{OpenJoin, Told};
use crate::operation::opening::Opening;
use crate::operation::owner::Owners;
use crate::operation::process::Scope;
use crate::operation::tracker::Tracker;
use crate::record::Layout;
use crate::units::{CpuId, DevId, KernelTime, Pid, Tid};

/// Why a log cannot be worked through.
#[derive(Debug, Error)]
pub enum PipelineError<E> {
    /// It cannot be read at all.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It has no header, so its records mean nothing.
    #[error("the log has no readable header: nothing can be made of its records")]
    NoHeader,
    /// The header's JSON is not what this version expects.
    #[error("the log's header is not understood: {0}")]
    Header(serde_json::Error),
    /// The formats in the header cannot be used.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// A kind of record that this version does not read.
    #[error("the log has records of a kind that this version does not read (layout {0})")]
    Layout(usize),
    /// The sink failed.
    #[error("{0}")]
    Sink(E),
    /// Reading stopped in the middle of the log.
    #[error("cannot read the log: {0}")]
    Read(io::Error),
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Opens a log and reads its header.
///
/// # Errors
///
/// [`PipelineError`]: not a log, no header.
pub fn open<R: Read, E>(input: R) -> Result<(Reader<R>, Header), PipelineError<E>> {
    let mut reader = Reader::new(input)?;
    match reader.next_item().map_err(PipelineError::Read)? {
        Some(Item::Frame(header, payload)) => {
            match json::<Header>(&header, &payload, FrameKind::HEADER) {
                Some(Ok(header)) => Ok((reader, header)),
                Some(Err(error)) => Err(PipelineError::Header(error)),
                None => Err(PipelineError::NoHeader),
            }
        }
        _ => Err(PipelineError::NoHeader),
    }
}

/// Works through the rest of a log, whoever reads it. `go_on` is asked at each round.
///
/// # Errors
///
/// [`PipelineError`]; the sink has got no further step then.
pub fn run<S: Sink>(
    items: impl Iterator<Item = io::Result<Item>>,
    header: Header,
    sink: &mut S,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Summary, PipelineError<S::Error>> {
    let mut pipeline = Pipeline::new(header)?;
    for item in items {
        match item.map_err(PipelineError::Read)? {
            Item::Frame(frame, payload) => {
                pipeline.frame(&frame, payload, sink)?;
                if frame.kind == FrameKind::ROUND && !go_on() {
                    return Err(PipelineError::Interrupted);
                }
            }
            Item::Damaged { offset, bytes, at_end } => {
                pipeline.damaged(offset, bytes, at_end, sink).map_err(PipelineError::Sink)?;
            }
        }
    }
    pipeline.finish(sink)
}

/// Records of one ring that wait for their turn.
#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    cpu: CpuId,
    layout: Layout,
    /// Records in it that have not had their turn.
    left: usize,
}

/// The stages and what waits between them.
struct Pipeline {
    decoder: Decoder,
    layouts: Vec<Layout>,
    /// For records without a process.
    owners: Owners,
    /// Nothing is passed on before the snapshot is over: it says whose threads there are.
    snapshot_over: bool,
    merger: Merger<Waiting>,
    buffers: VecDeque<Buffer>,
    /// Number of the first buffer; behind the last number comes 0 again.
    first_buffer: u32,
    names: NameJoin,
    /// Entries may carry paths, and names are wanted.
    takes_strings: bool,
    tracker: Tracker,
    /// Those that were seen.
    chains: Chains,
    /// Until the snapshot is over.
    opening: Option<Opening>,
    /// It was told what is mounted.
    knows_mounts: bool,
    /// Frames of facts for the whole recording that were told, by their times and checksums.
    last_facts: HashSet<(u64, u32)>,
    /// Events of a round, between decoding and pairing.
    events: Vec<Event>,
    summary: Summary,
}

impl Pipeline {
    fn new<E>(header: Header) -> Result<Self, PipelineError<E>> {
        let mut decoder = Decoder::new(&header.host.machine);
        for it in &header.tracepoints {
            decoder.add(&it.system, &it.name, it.id, &it.format)?;
        }
        let layouts = header
            .layouts
            .iter()
            .enumerate()
            .map(|(number, it)| {
                let known = Layout::of(&it.source, it.sample_type, it.regs_user, &it.header_page);
                let known = known.map(|its| if it.pages_continue { its.continued() } else { its });
                known.ok_or(PipelineError::Layout(number))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let takes_strings = decoder.has_strings() && header.names != "off";
        let has_pages = layouts.iter().any(|it| matches!(it, Layout::Pages(_)));
        Ok(Self {
            decoder,
            layouts,
            owners: Owners::default(),
            snapshot_over: !has_pages,
            merger: Merger::default(),
            buffers: VecDeque::new(),
            first_buffer: 0,
            names: name_join(&header),
            takes_strings,
            tracker: tracker(&header),
            chains: Chains::default(),
            opening: Some(Opening::default()),
            knows_mounts: false,
            last_facts: HashSet::new(),
            events: Vec::new(),
            summary: Summary {
                last_time: KernelTime(header.clock.start_ns),
                header,
                ..Summary::default()
            },
        })
    }

    fn frame<S: Sink>(
        &mut self,
        frame: &FrameHeader,
        payload: Vec<u8>,
        sink: &mut S,
    ) -> Result<(), PipelineError<S::Error>> {
        match frame.kind {
            FrameKind::DATA => self.data(frame, payload, sink)?,
            // It may have been told before all others, and comes in its turn once more.
            FrameKind::LAST_FACTS
                if !self.last_facts.insert((frame.first_time, frame.payload_crc)) => {}
            FrameKind::FACTS | FrameKind::LAST_FACTS => {
                facts(&payload).for_each(|it| self.fact(it))
            }
            FrameKind::ROUND => {
                self.round(KernelTime(frame.first_time), sink).map_err(PipelineError::Sink)?
            }
            FrameKind::END => {
                if let Some(Ok(end)) = json::<End>(frame, &payload, FrameKind::END) {
                    self.tracker.has_disks(&self.summary.header.disks, &end.disks);
                    self.summary.last_time = self.summary.last_time.max(KernelTime(end.end_ns));
                    self.summary.end = Some(end);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Finds the records of a frame and puts them where they wait.
    fn data<S: Sink>(
        &mut self,
        frame: &FrameHeader,
        bytes: Vec<u8>,
        sink: &mut S,
    ) -> Result<(), PipelineError<S::Error>> {
        let layout = *self
            .layouts
            .get(usize::from(frame.layout))
            .ok_or(PipelineError::Layout(frame.layout.into()))?;
        let waiting = u32::try_from(self.buffers.len()).unwrap_or(u32::MAX);
        let number = self.first_buffer.wrapping_add(waiting);
        let cpu = CpuId(frame.cpu);
        let mut arrivals = Arrivals::new(&mut self.merger, number, cpu);
        arrivals.take(&bytes, layout, KernelTime(frame.first_time));
        let Arrivals { found, left, refused, .. } = arrivals;
        self.tracker.ledger_mut().records += found;
        self.summary.last_time = self.summary.last_time.max(KernelTime(frame.last_time));
        self.buffers.push_back(Buffer { bytes, cpu, layout, left });
        refused
            .iter()
            .try_for_each(|it| self.tracker.anomaly(it, sink))
            .map_err(PipelineError::Sink)
    }

    fn fact(&mut self, fact: Fact) {
        match fact {
            Fact::Name { tid, record_time, of, end, errno, address, stat, bytes, .. } => {
                self.summary.names_wait.add(tid, record_time, end);
                self.names.add(tid, record_time, ReadName { of, end, errno, address, stat, bytes });
            }
            Fact::Opened { tid, since, until, errno, .. } if tid.0 < 0 => {
                self.summary.unheard.push((since, until, errno));
            }
            // What a file system opens itself is no call's.
            Fact::Opened { errno: libc::EXDEV, .. } => {}
            Fact::Opened { tid, since, until, end, stat, bytes, .. } => {
                self.names.add_told(tid, Told { since, until, end, stat, bytes });
            }
            Fact::Task { pid, tid, ppid, comm, .. } => {
                self.owners.seen(tid, pid);
                self.tracker.seen_task(pid, tid, ppid, &comm);
            }
            Fact::User { pid, user, .. } => self.tracker.seen_user(pid, user),
            Fact::Fd { begin, end, pid, fd, flags, position, shared, stat, link } => {
                let position = Some(position);
                let seen = Box::new(SeenFd { begin, pid, fd, flags, position, shared, stat, link });
                // A long snapshot comes when the stream has passed its time. Its names are judged all the same; whether
                // its positions hold cannot be told any more.
                if let Err(Waiting::Seen(late)) = self.merger.push(end, Waiting::Seen(seen)) {
                    let late = SeenFd { position: None, ..*late };
                    if self.opening.is_none() {
                        self.tracker.seen_fd(&late, end);
                    }
                }
            }
            Fact::Symbol(symbol) => self.summary.symbols.add(*symbol),
            Fact::Stack(stack) => self.chains.ways.add(*stack),
            Fact::Unwound(hits) => self.chains.ways.add_hits(&hits),
            Fact::Text { which: Text::SNAPSHOT_OVER, time, .. } => {
                self.snapshot_over = true;
                if let Some(opening) = &mut self.opening {
                    opening.snapshot_over(time);
                }
            }
            Fact::Text { which: which @ (Text::CWD | Text::ROOT), pid, text, .. } => {
                self.tracker.seen_place(pid, which, &text);
            }
            Fact::Text { which: Text::MOUNTS, pid, text, .. } => {
                self.tracker.seen_mounts(pid, &text);
            }
            Fact::Text { which: Text::EXE, pid, .. } => self.tracker.seen_program(pid),
            Fact::Text { which: Text::MAPS, pid, time, text } => {
                self.tracker.seen_maps(time, pid, text);
            }
            Fact::Text { which: Text::BLOCKS, time, text, .. } => {
                let all = Waiting::FileSystems(file_systems(&text));
                // The first is about what was there before.
                if std::mem::replace(&mut self.knows_mounts, true) {
                    if let Err(Waiting::FileSystems(late)) = self.merger.push(time, all) {
                        self.tracker.seen_file_systems(&late);
                    }
                } else if let Waiting::FileSystems(all) = all {
                    self.tracker.seen_file_systems(&all);
                }
            }
            Fact::Text { which: Text::EXTENTS, text, .. } => self.tracker.seen_extents(&text),
            Fact::Text { which: Text::BITS, pid, .. } => self.tracker.seen_other_table(pid),
            Fact::Text { which: which @ Text::DISKSTATS_START, pid, time, text } => {
                self.tracker.seen_counters(time, &text);
                self.summary.texts.push((which, pid, text));
            }
            Fact::Text { which, pid, text, .. } => self.summary.texts.push((which, pid, text)),
        }
    }

    fn round<S: Sink>(&mut self, time: KernelTime, sink: &mut S) -> Result<(), S::Error> {
        self.summary.last_time = self.summary.last_time.max(time);
        if !self.snapshot_over {
            return Ok(());
        }
        let due = self.merger.round(time);
        if let Some((first, _)) = due.first() {
            self.names.forget_before(*first);
        }
        self.pass_on(due, sink)?;
        self.time_passes(sink)
    }

    /// Tells what waited for nothing but time, and how far all has been told.
    fn time_passes<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let until = self.merger.released();
        let events = &mut self.events;
        self.names.time_passes(until, &mut |it| events.push(it));
        self.drain_events(sink)?;
        if self.opening.is_some() {
            return Ok(());
        }
        sink.told_until(self.names.waits_since().map_or(until, |it| it.min(until)))
    }

    /// Decodes what is due, in order, and gives it to the tracker.
    fn pass_on<S: Sink>(
        &mut self,
        due: Vec<(KernelTime, Waiting)>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        for (time, waiting) in due {
            match waiting {
                Waiting::Record(buffer, start) => self.record(time, buffer, start, sink)?,
                Waiting::Lost(cpu, count) => {
                    let kind = EventKind::Lost(count);
                    self.event(Event { time, cpu, pid: Pid(-1), tid: Tid(-1), kind }, sink)?;
                }
                Waiting::Seen(seen) => {
                    let (cpu, tid) = (CpuId(0), Tid(-1));
                    let pid = seen.pid;
                    self.event(Event { time, cpu, pid, tid, kind: EventKind::SeenFd(seen) }, sink)?;
                }
                Waiting::FileSystems(all) => {
                    let (cpu, pid, tid) = (CpuId(0), Pid(-1), Tid(-1));
                    let kind = EventKind::FileSystems(all);
                    self.event(Event { time, cpu, pid, tid, kind }, sink)?;
                }
            }
        }
        while self.buffers.front().is_some_and(|it| it.left == 0) {
            self.buffers.pop_front();
            self.first_buffer = self.first_buffer.wrapping_add(1);
        }
        Ok(())
    }

    fn record<S: Sink>(
        &mut self,
        time: KernelTime,
        buffer: u32,
        start: u32,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let place = usize_of(buffer.wrapping_sub(self.first_buffer));
        let Some(buffer) = self.buffers.get_mut(place) else { return Ok(()) };
        buffer.left -= 1;
        let bytes = buffer.bytes.get(usize_of(start)..).unwrap_or_default();
        let decoded = match &buffer.layout {
            Layout::Perf(layout) => decode(&self.decoder, bytes, buffer.cpu, layout),
            Layout::Pages(_) => decode_hit(&self.decoder, bytes, buffer.cpu, time, &self.owners),
        };
        match decoded {
            Decoded::Event(mut event) => {
                if let EventKind::Task(task) = &event.kind {
                    learn(&mut self.owners, task);
                    self.chains.learn(task);
                }
                let seen =
                    self.chains.look_at(&mut event, bytes, &buffer.layout, &self.summary.symbols);
                if let EventKind::SysEnter(enter) = &event.kind
                    && self.takes_strings
                    && enter.call.call().has_path()
                {
                    self.names.carries(strings(&self.decoder, bytes, &buffer.layout));
                }
                if let Some(chain) = seen {
                    self.event(chain, sink)?;
                }
                self.event(event, sink)
            }
            Decoded::Bookkeeping => {
                self.tracker.ledger_mut().ignore(Ignored::Bookkeeping);
                Ok(())
            }
            Decoded::Anomaly(anomaly) => self.tracker.anomaly(&anomaly, sink),
        }
    }

    /// Gives an event its names, and passes on those that have theirs.
    fn event<S: Sink>(&mut self, event: Event, sink: &mut S) -> Result<(), S::Error> {
        if self.opening.is_none() && self.names.passes(&event) {
            return self.tracker.push(event, sink);
        }
        let events = &mut self.events;
        self.names.push(event, &mut |it| events.push(it));
        self.drain_events(sink)
    }

    fn drain_events<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match &mut self.opening {
                None => self.tracker.push(event, sink)?,
                Some(opening) => {
                    if opening.hold(event) {
                        self.end_opening(sink)?;
                    }
                }
            }
        }
        // Its room is used again.
        self.events = events;
        Ok(())
    }

    /// The snapshot is over: the first events with what it says of them.
    fn end_opening<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let Some(opening) = self.opening.take() else { return Ok(()) };
        let opened = opening.finish();
        self.tracker.same_from_start(opened.from_start);
        opened.moved.iter().for_each(|it| self.tracker.lose_place(*it));
        opened.events.into_iter().try_for_each(|it| self.tracker.push(it, sink))
    }

    fn damaged<S: Sink>(
        &mut self,
        offset: u64,
        bytes: u64,
        at_end: bool,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        self.summary.damaged_bytes += bytes;
        self.summary.torn |= at_end;
        let what = if at_end { "cut off at the end of the log" } else { "damaged" };
        let anomaly = Anomaly {
            kind: AnomalyKind::DamagedLog,
            time: self.summary.last_time,
            cpu: CpuId(0),
            pid: Pid(-1),
            tid: Tid(-1),
            count: bytes,
            detail: format!("{bytes} bytes from offset {offset} are {what}"),
        };
        // It stands for no record that was read, so it is not in the books of records.
        sink.step(anomaly.time, &crate::operation::Step::Anomaly(&anomaly))
    }

    fn finish<S: Sink>(mut self, sink: &mut S) -> Result<Summary, PipelineError<S::Error>> {
        let due = self.merger.finish();
        self.pass_on(due, sink).map_err(PipelineError::Sink)?;
        let events = &mut self.events;
        self.names.finish(&mut |it| events.push(it));
        self.drain_events(sink).map_err(PipelineError::Sink)?;
        self.end_opening(sink).map_err(PipelineError::Sink)?;
        self.tracker.finish(self.summary.last_time, sink).map_err(PipelineError::Sink)?;
        self.summary.ledger = self.tracker.ledger().clone();
        self.summary.chains_left_out = self.chains.left_out;
        self.summary.ways = self.chains.found;
        Ok(self.summary)
    }
}

/// Lines `MAJOR:MINOR BYTES`, or `MAJOR:MINOR -` where events do not count in blocks.
fn file_systems(text: &[u8]) -> Box<[(DevId, Option<u64>)]> {
    let line = |it: &str| {
        let (dev, bytes) = it.split_once(' ')?;
        Some((DevId::parse(dev)?, bytes.parse().ok()))
    };
    String::from_utf8_lossy(text).lines().filter_map(line).collect()
}

fn usize_of(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn name_join(header: &Header) -> NameJoin {
    let join = NameJoin::new(followed(header).descriptors);
    if header.names != "fanotify" {
        return join;
    }
    let is_recorded = |it: CallId| header.calls.iter().any(|name| *name == it.call().name);
    let is_needed = |it: &CallId| {
        it.call().number(&header.host.machine).is_some() && it.call().bears_on_opens()
    };
    let all_seen = CallId::all().filter(is_needed).all(is_recorded);
    let seen_since = if all_seen { KernelTime(header.clock.all_on_ns) } else { KernelTime::MAX };
    join.with_told(OpenJoin::new(seen_since, &header.host.machine))
}

/// What can be followed with the calls that were recorded.
fn followed(header: &Header) -> Followed {
    let calls: Vec<CallId> = header.calls.iter().filter_map(|it| CallId::by_name(it)).collect();
    Followed::with(&calls, &header.host.machine, header.exec_exits, header.host.page_bytes)
}

fn tracker(header: &Header) -> Tracker {
    let all_on = KernelTime(header.clock.all_on_ns);
    let mut tracker = Tracker::new(scope(header), block_options(header), followed(header), all_on);
    tracker.has_disks(&header.disks, &[]);
    let mut tracepoints = header.tracepoints.iter();
    if tracepoints.any(|it| WRITEBACK_POINTS.contains(&it.name.as_str())) {
        tracker.tells_writeback();
    }
    tracker
}

fn scope(header: &Header) -> Scope {
    Scope {
        system: header.scope.mode == "system",
        all_requests: header.scope.mode == "system" || header.scope.all_block,
        roots: header.scope.roots.iter().copied().map(Pid).collect(),
        launched: !header.scope.command.is_empty(),
        own: Pid(header.own_pid),
    }
}

/// Which block tracepoints the capture has.
fn block_options(header: &Header) -> BlockOptions {
    let has = |name: &str| header.tracepoints.iter().any(|it| it.name == name);
    BlockOptions {
        merges_recorded: has("block_bio_backmerge")
            && has("block_bio_frontmerge")
            && has("block_rq_merge"),
        requeues_recorded: has("block_rq_requeue"),
        ..BlockOptions::default()
    }
}
