//! Decode stage: from frames to events, in order and with their names: everything before the
//! tracker.
//!
//! Data flows in one direction, to [`StageOutput`], so the next stage may run in another thread.

use std::collections::{HashSet, VecDeque};
use std::io;

use super::chains::CallChainTable;
use super::decoding::{Decoded, IDENTITIES, decode, decode_hit, identity, learn, strings};
use super::error::PipelineError;
use super::file_system_texts::{file_systems, places};
use super::frame_records::{Arrivals, PendingItem};
use super::pid_reuse::PidReuse;
use super::recorded_names::{is_read_late, name_join};
use super::stage_message::{ALSO_KEPT, FOR_TRACKER, StageFailure, StageMessage, StageOutput};
use super::summary::Summary;
use crate::anomaly::{Anomaly, AnomalyKind};
use crate::capture::fact::{Fact, Text, facts};
use crate::capture::format::{FrameHeader, FrameKind};
use crate::capture::header::{End, Header};
use crate::capture::reader::{Item, json};
use crate::event::decode::Decoder;
use crate::event::{Event, EventKind, SeenFd};
use crate::merge::Merger;
use crate::naming::name_join::NameJoin;
use crate::naming::open_assignment::FanotifyOpen;
use crate::naming::read_name::ReadName;
use crate::naming::startup_buffer::StartupBuffer;
use crate::naming::thread_owner::ThreadOwners;
use crate::record::Layout;
use crate::units::{CpuId, KernelTime, Pid, Tid};

/// Limit on the bytes that wait for their round, in addition to three times the rings: a malicious
/// log has no rounds, and its compressed size is a thousandth.
const WAITING_BYTES_MAX: usize = 288 << 20;
/// Limit on the bytes that wait with large rings.
const WAITING_BYTES_LIMIT: usize = 4 << 30;
/// Limit on the texts that are kept until the end, in bytes.
const TEXT_BYTES_MAX: usize = 256 << 20;

/// Limit on the bytes that wait: between two rounds there may be the contents of all rings, and 96
/// MiB more, and each record needs more memory than space in its ring.
fn waiting_bytes_max(header: &Header) -> usize {
    let rings: u64 = header.rings.iter().fold(0, |sum, it| sum.saturating_add(it.bytes));
    let all = rings.saturating_mul(header.host.cpus.len() as u64);
    let wanted = usize::try_from(all.saturating_mul(3)).unwrap_or(usize::MAX);
    wanted.saturating_add(WAITING_BYTES_MAX).min(WAITING_BYTES_LIMIT)
}

/// Records of one ring that wait for their time.
#[derive(Debug)]
struct PendingRecords {
    bytes: Vec<u8>,
    cpu: CpuId,
    layout: Layout,
    /// Records in it whose time has not come.
    left: usize,
}

/// Stages before the tracker, and the data that waits between them.
pub(super) struct DecodeStage {
    decoder: Decoder,
    layouts: Vec<Layout>,
    /// Owners of threads, for records without a process.
    owners: ThreadOwners,
    /// Reused numbers, if the kernel followed tasks by their numbers.
    reused: Option<PidReuse>,
    /// True after the snapshot, which has the owners of threads: no event is passed on before.
    snapshot_over: bool,
    merger: Merger<PendingItem>,
    buffers: VecDeque<PendingRecords>,
    /// Bytes of all buffers, and of the descriptors that wait.
    buffered: usize,
    /// Bytes of the texts that the summary keeps.
    text_bytes: usize,
    /// Limit from [`waiting_bytes_max`].
    waiting_bytes_max: usize,
    /// Number of the first buffer; numbers wrap around to 0.
    first_buffer: u32,
    names: NameJoin,
    /// True if entries may have paths, and names are wanted.
    takes_strings: bool,
    /// Call chains so far.
    chains: CallChainTable,
    /// Startup buffer, until the snapshot is over.
    opening: Option<StartupBuffer>,
    /// True if mounts are known.
    knows_mounts: bool,
    /// Frames of facts for the whole recording that were passed on, by their times and checksums.
    last_facts: HashSet<(u64, u32)>,
    /// Buffer for the events of a round, between decoding and pairing.
    events: Vec<Event>,
    /// Time up to which the log is read.
    until: KernelTime,
    summary: Summary,
}

impl DecodeStage {
    /// Creates the stage for a log with this header.
    pub(super) fn new<E>(header: Header) -> Result<Self, PipelineError<E>> {
        let mut decoder = Decoder::new(&header.host.machine);
        for it in &header.tracepoints {
            decoder.add(&it.system, &it.name, it.id, &it.format)?;
        }
        let layouts = header
            .layouts
            .iter()
            .enumerate()
            .map(|(number, stored)| {
                let known = Layout::of(
                    &stored.source,
                    stored.sample_type,
                    stored.regs_user,
                    &stored.header_page,
                );
                let known = known
                    .map(|layout| if stored.pages_continue { layout.continued() } else { layout });
                known.ok_or(PipelineError::Layout(number))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let takes_strings = decoder.has_strings() && header.names != "off";
        let has_pages = layouts.iter().any(|layout| matches!(layout, Layout::Pages(_)));
        Ok(Self {
            decoder,
            layouts,
            owners: ThreadOwners::of_roots(&header.scope.roots),
            reused: (has_pages && follows_numbers(&header)).then(PidReuse::default),
            snapshot_over: !has_pages,
            merger: Merger::default(),
            buffers: VecDeque::new(),
            buffered: 0,
            text_bytes: 0,
            waiting_bytes_max: waiting_bytes_max(&header),
            first_buffer: 0,
            names: name_join(&header),
            takes_strings,
            chains: CallChainTable::default(),
            opening: Some(StartupBuffer::default()),
            knows_mounts: false,
            last_facts: HashSet::new(),
            events: Vec::new(),
            until: KernelTime::MAX,
            summary: Summary {
                last_time: KernelTime(header.clock.start_ns),
                header,
                ..Summary::default()
            },
        })
    }

    /// Reads the log only until all events up to this time were passed on, and what was read with
    /// them. Facts for the whole recording come first, whatever their place in the log is.
    pub(super) fn until(self, until: KernelTime) -> Self {
        Self { until, ..self }
    }

    /// Processes all frames; the last of their events come with [`Self::finish`].
    pub(super) fn read<N: StageOutput>(
        &mut self,
        items: impl Iterator<Item = io::Result<Item>>,
        next: &mut N,
    ) -> Result<(), N::Error> {
        for item in items {
            match item.map_err(StageFailure::Read)? {
                Item::Frame(frame, payload) => self.frame(&frame, payload, next)?,
                Item::Damaged { offset, bytes, at_end } => {
                    self.damaged(offset, bytes, at_end, next)?;
                }
            }
            // Without facts for the whole recording (a pipe, a damaged log) the rest is read.
            if self.summary.read_until.is_some() && self.summary.end.is_some() {
                break;
            }
        }
        self.finish(next)
    }

    /// Returns the summary, when the complete log has been read.
    pub(super) fn into_summary(self) -> Summary {
        self.summary
    }

    fn frame<N: StageOutput>(
        &mut self,
        frame: &FrameHeader,
        payload: Vec<u8>,
        next: &mut N,
    ) -> Result<(), N::Error> {
        match frame.kind {
            FrameKind::DATA => self.data(frame, payload, next)?,
            // The fact may have been passed on at the beginning, and comes again in its turn.
            FrameKind::LAST_FACTS
                if !self.last_facts.insert((frame.first_time, frame.payload_crc)) => {}
            FrameKind::FACTS | FrameKind::LAST_FACTS => {
                facts(&payload).try_for_each(|fact| self.fact(fact, next))?;
            }
            FrameKind::ROUND => {
                self.round(KernelTime(frame.first_time), next)?;
                next.take(StageMessage::Round)?;
            }
            FrameKind::END => {
                if let Some(Ok(end)) = json::<End>(frame, &payload, FrameKind::END) {
                    next.take(StageMessage::Disks(end.disks.clone()))?;
                    self.summary.last_time = self.summary.last_time.max(KernelTime(end.end_ns));
                    self.summary.end = Some(end);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Finds the records of a frame and buffers them.
    fn data<N: StageOutput>(
        &mut self,
        frame: &FrameHeader,
        bytes: Vec<u8>,
        next: &mut N,
    ) -> Result<(), N::Error> {
        let layout = *self
            .layouts
            .get(usize::from(frame.layout))
            .ok_or(StageFailure::Layout(frame.layout.into()))?;
        let waiting = u32::try_from(self.buffers.len()).unwrap_or(u32::MAX);
        let number = self.first_buffer.wrapping_add(waiting);
        let cpu = CpuId(frame.cpu);
        let mut arrivals = Arrivals::new(&mut self.merger, number, cpu);
        arrivals.take(&bytes, layout, KernelTime(frame.first_time));
        let Arrivals { found, left, refused, .. } = arrivals;
        next.take(StageMessage::Records(found))?;
        self.summary.last_time = self.summary.last_time.max(KernelTime(frame.last_time));
        self.buffered += bytes.len();
        self.buffers.push_back(PendingRecords { bytes, cpu, layout, left });
        refused
            .into_iter()
            .try_for_each(|refused| next.take(StageMessage::Anomaly(Box::new(refused))))?;
        self.limit_waiting(next)
    }

    /// Passes everything on if too much waits for a round that does not come.
    fn limit_waiting<N: StageOutput>(&mut self, next: &mut N) -> Result<(), N::Error> {
        let places = self.merger.waiting() * size_of::<(KernelTime, PendingItem)>();
        if self.buffered + places > self.waiting_bytes_max {
            let due = self.merger.give_up();
            self.pass_on(due, next)?;
            self.time_passes(next)?;
        }
        Ok(())
    }

    /// Keeps a text until the end.
    fn keep_text(&mut self, which: Text, pid: Pid, text: Vec<u8>) {
        if which == Text::MOUNTINFO {
            self.names.mounts(&text);
        }
        let bytes = text.len() + size_of::<(Text, Pid, Vec<u8>)>();
        if self.text_bytes + bytes > TEXT_BYTES_MAX {
            self.summary.beyond_bounds += 1;
            return;
        }
        self.text_bytes += bytes;
        self.summary.texts.push((which, pid, text));
    }

    /// Keeps a name until the exit of its call.
    fn name(&mut self, fact: Fact) {
        let Fact::Name { tid, cpu, record_time, of, end, errno, address, stat, bytes, .. } = fact
        else {
            return;
        };
        if !is_read_late(of, &self.summary.header) {
            self.summary.names_wait.add(cpu, tid, record_time, end);
        }
        let name = ReadName { of, end, errno, address, stat, bytes };
        self.summary.beyond_bounds += u64::from(!self.names.add(tid, record_time, name));
    }

    fn fact<N: StageOutput>(&mut self, fact: Fact, next: &mut N) -> Result<(), N::Error> {
        match fact {
            Fact::Name { .. } => self.name(fact),
            Fact::Opened { tid, since, until, errno, .. } if tid.0 < 0 => {
                self.summary.unheard.push((since, until, errno));
            }
            // Opens by a file system itself belong to no call.
            Fact::Opened { errno: libc::EXDEV, .. } => {}
            Fact::Opened { errno: libc::EMULTIHOP, tid, .. } => self.names.opens_otherwise(tid),
            Fact::Opened { tid, since, until, end, errno, stat, bytes } => {
                let has_other_names = errno == libc::EMLINK;
                let report = FanotifyOpen { since, until, end, stat, bytes, has_other_names };
                self.summary.beyond_bounds += u64::from(!self.names.add_report(tid, report));
            }
            Fact::Task { pid, tid, .. } => {
                self.owners.seen(tid, pid);
                return next.take(StageMessage::Fact(Box::new(fact)));
            }
            Fact::User { .. } => return next.take(StageMessage::Fact(Box::new(fact))),
            Fact::Fd { begin, end, pid, fd, flags, position, shared, stat, link } => {
                let position = Some(position);
                let seen = SeenFd { begin, pid, fd, flags, position, shared, stat, link };
                return self.descriptor(Box::new(seen), end, next);
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
            Fact::Text { which, time, .. } if FOR_TRACKER.contains(&which) => {
                if which == Text::SWITCHING_OFF {
                    self.names.switched_off(time);
                }
                return next.take(StageMessage::Fact(Box::new(fact)));
            }
            Fact::Text { which, time, pid, text } if IDENTITIES.contains(&which) => {
                return self.identity(time, which, pid, text, next);
            }
            Fact::Text { which: Text::BLOCKS, time, text, .. } => {
                let all = PendingItem::FileSystems(file_systems(&text));
                // The first mounts are those of the start.
                if std::mem::replace(&mut self.knows_mounts, true) {
                    if let Err(PendingItem::FileSystems(late)) = self.merger.push(time, all) {
                        return next.take(StageMessage::FileSystems(late));
                    }
                } else if let PendingItem::FileSystems(all) = all {
                    return next.take(StageMessage::FileSystems(all));
                }
            }
            Fact::Text { which: Text::PLACES, time, text, .. } => {
                // Late extents may not be valid any more.
                let late = self.merger.push(time, PendingItem::Places(places(&text))).is_err();
                self.summary.beyond_bounds += u64::from(late);
            }
            Fact::Text { which, pid, ref text, .. } if ALSO_KEPT.contains(&which) => {
                self.keep_text(which, pid, text.clone());
                return next.take(StageMessage::Fact(Box::new(fact)));
            }
            Fact::Text { which, pid, text, .. } => self.keep_text(which, pid, text),
        }
        Ok(())
    }

    /// Queues a descriptor of the snapshot, read until `end`.
    fn descriptor<N: StageOutput>(
        &mut self,
        seen: Box<SeenFd>,
        end: KernelTime,
        next: &mut N,
    ) -> Result<(), N::Error> {
        let bytes = held_bytes(&seen);
        // A long snapshot may come after its time. Its names are still used; whether its positions
        // are valid is unknown.
        if let Err(PendingItem::Seen(late)) = self.merger.push(end, PendingItem::Seen(seen)) {
            let late = SeenFd { position: None, ..*late };
            if self.opening.is_none() {
                return next.take(StageMessage::SeenFd(Box::new(late), end));
            }
            return Ok(());
        }
        self.buffered += bytes;
        self.limit_waiting(next)
    }

    /// Queues a part of an identity; a late one is of the process that has the number now.
    fn identity<N: StageOutput>(
        &mut self,
        time: KernelTime,
        which: Text,
        pid: Pid,
        text: Vec<u8>,
        next: &mut N,
    ) -> Result<(), N::Error> {
        let time = time.max(self.merger.released());
        self.buffered += text.len();
        let seen = PendingItem::Identity(Box::new(identity(which, pid, text)));
        let queued = self.merger.push(time, seen);
        self.summary.beyond_bounds += u64::from(queued.is_err());
        self.limit_waiting(next)
    }

    fn round<N: StageOutput>(&mut self, time: KernelTime, next: &mut N) -> Result<(), N::Error> {
        self.summary.last_time = self.summary.last_time.max(time);
        if !self.snapshot_over {
            return Ok(());
        }
        let due = self.merger.round(time);
        if let Some((first, _)) = due.first() {
            self.names.forget_before(*first);
        }
        self.pass_on(due, next)?;
        self.time_passes(next)
    }

    /// Passes on the events that waited only for time, and the time up to which all were passed on.
    fn time_passes<N: StageOutput>(&mut self, next: &mut N) -> Result<(), N::Error> {
        let until = self.merger.released();
        let events = &mut self.events;
        self.names.time_passes(until, &mut |name| events.push(name));
        self.drain_events(next)?;
        let watermark =
            self.names.waits_since().map_or(until, |waits_since| waits_since.min(until));
        if let Some(opening) = &self.opening {
            if !opening.is_over(watermark) {
                return Ok(());
            }
            // Idle programs make no event that ends the opening.
            self.end_opening(next)?;
        }
        self.summary.read_until =
            (watermark > self.until && self.summary.end.is_some()).then_some(self.until);
        next.take(StageMessage::CompleteUntil(watermark))
    }

    /// Decodes the due records, in order, and passes their events on.
    fn pass_on<N: StageOutput>(
        &mut self,
        due: Vec<(KernelTime, PendingItem)>,
        next: &mut N,
    ) -> Result<(), N::Error> {
        for (time, waiting) in due {
            match waiting {
                PendingItem::Record(buffer, start) => self.record(time, buffer, start, next)?,
                PendingItem::Lost(cpu, count) => {
                    let kind = EventKind::Lost(count);
                    self.event(Event { time, cpu, pid: Pid(-1), tid: Tid(-1), kind }, next)?;
                }
                PendingItem::Seen(seen) => {
                    self.buffered = self.buffered.saturating_sub(held_bytes(&seen));
                    let (cpu, tid) = (CpuId(0), Tid(-1));
                    let pid = seen.pid;
                    self.event(Event { time, cpu, pid, tid, kind: EventKind::SeenFd(seen) }, next)?;
                }
                PendingItem::Identity(seen) => {
                    self.buffered = self.buffered.saturating_sub(seen.part.bytes());
                    self.event(of_no_task(time, EventKind::Identity(seen)), next)?;
                }
                PendingItem::FileSystems(all) => {
                    self.event(of_no_task(time, EventKind::FileSystems(all)), next)?;
                }
                PendingItem::Places(all) => {
                    self.event(of_no_task(time, EventKind::Places(all)), next)?;
                }
            }
        }
        while let Some(done) = self.buffers.front().filter(|front| front.left == 0) {
            self.buffered -= done.bytes.len();
            self.buffers.pop_front();
            self.first_buffer = self.first_buffer.wrapping_add(1);
        }
        Ok(())
    }

    fn record<N: StageOutput>(
        &mut self,
        time: KernelTime,
        buffer: u32,
        start: u32,
        next: &mut N,
    ) -> Result<(), N::Error> {
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
                    if let Some(reused) = &mut self.reused {
                        reused.learn(event.time, task);
                    }
                }
                let seen =
                    self.chains.observe(&mut event, bytes, &buffer.layout, &self.summary.symbols);
                if let EventKind::SysEnter(enter) = &event.kind
                    && self.takes_strings
                    && enter.call.call().has_path()
                {
                    self.names.carries(strings(&self.decoder, bytes, &buffer.layout));
                }
                if let Some(chain) = seen {
                    self.event(chain, next)?;
                }
                self.event(event, next)
            }
            Decoded::Bookkeeping => next.take(StageMessage::Bookkeeping),
            Decoded::Anomaly(anomaly) => next.take(StageMessage::Anomaly(Box::new(anomaly))),
        }
    }

    /// Gives an event its names, and passes on those whose names are complete.
    fn event<N: StageOutput>(&mut self, event: Event, next: &mut N) -> Result<(), N::Error> {
        if self.opening.is_none() && self.names.can_bypass(&event) {
            return next.take(StageMessage::Event(event));
        }
        let events = &mut self.events;
        self.names.push(event, &mut |name| events.push(name));
        self.drain_events(next)
    }

    fn drain_events<N: StageOutput>(&mut self, next: &mut N) -> Result<(), N::Error> {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match &mut self.opening {
                None => next.take(StageMessage::Event(event))?,
                Some(opening) => {
                    if opening.hold(event) {
                        self.end_opening(next)?;
                    }
                }
            }
        }
        // The buffer is reused.
        self.events = events;
        Ok(())
    }

    /// Ends the startup buffer after the snapshot: passes its events on, with the facts of the
    /// snapshot.
    fn end_opening<N: StageOutput>(&mut self, next: &mut N) -> Result<(), N::Error> {
        let Some(opening) = self.opening.take() else { return Ok(()) };
        let mut opened = opening.finish();
        let events = std::mem::take(&mut opened.events);
        next.take(StageMessage::Opened(Box::new(opened)))?;
        events.into_iter().try_for_each(|event| next.take(StageMessage::Event(event)))
    }

    fn damaged<N: StageOutput>(
        &mut self,
        offset: u64,
        bytes: u64,
        at_end: bool,
        next: &mut N,
    ) -> Result<(), N::Error> {
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
        next.take(StageMessage::Damage(Box::new(anomaly)))
    }

    fn finish<N: StageOutput>(&mut self, next: &mut N) -> Result<(), N::Error> {
        let due = self.merger.finish();
        match self.summary.read_until {
            Some(_) => next.take(StageMessage::Later(records_of(&due)))?,
            None => self.pass_on(due, next)?,
        }
        let events = &mut self.events;
        self.names.finish(&mut |name| events.push(name));
        self.drain_events(next)?;
        self.end_opening(next)?;
        self.summary.chains_left_out = self.chains.left_out;
        self.summary.ways = std::mem::take(&mut self.chains.found);
        self.summary.reused_numbers = self.reused.as_ref().map_or(0, |reused| reused.count);
        Ok(())
    }
}

/// Number of records that wait.
fn records_of(due: &[(KernelTime, PendingItem)]) -> u64 {
    due.iter().filter(|(_, item)| matches!(item, PendingItem::Record(..))).count() as u64
}

/// Event of a fact that has its place in time but no task.
fn of_no_task(time: KernelTime, kind: EventKind) -> Event {
    Event { time, cpu: CpuId(0), pid: Pid(-1), tid: Tid(-1), kind }
}

/// Memory of a descriptor from a snapshot while it waits.
fn held_bytes(seen: &SeenFd) -> usize {
    size_of::<SeenFd>() + seen.link.len()
}

fn usize_of(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// True if the kernel had a list of recorded tasks.
fn follows_numbers(header: &Header) -> bool {
    header.scope.mode != "system" && !header.scope.foreign_kept
}

#[cfg(test)]
#[path = "decode_stage_tests.rs"]
mod tests;
