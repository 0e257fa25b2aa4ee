//! Thread that keeps a ring: finds new frames, drops old ones, has segments begun, and writes
//! incidents.
//!
//! ```text
//!  log in memory ─► scanner ─► ring ──► evaluation thread ─► firings ─┐
//!                                └────► incident thread ◄── keeper ◄──┴── SIGUSR2, ctl dump
//! ```
//!
//! Bytes that an incident is being written from stay until it is written; everything else that the
//! ring drops is freed at once.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use super::incident::{self, Incident, IncidentResult, IncidentWriter};
use super::part_names::PartNames;
use super::shared_ring::{SharedRing, since};
use crate::analysis::trigger::{Firing, Trigger};
use crate::capture::format::FrameKind;
use crate::capture::frame_ring::{FrameRing, header_of};
use crate::capture::frame_scanner::FrameScanner;
use crate::capture::header::{Excerpt, FiredTrigger, Header};
use crate::capture::reader::json;
use crate::cli::dump_requests::DumpRequests;
use crate::cli::error::CliError;
use crate::cli::excerpt_lines::described;
use crate::cli::message::{print_error, print_line};
use crate::cli::tailing_reader::LogCompletion;
use crate::sys::output_dir::Users;
use crate::sys::{clock, files, thread};
use crate::text::quantity::{counted, size, time};
use crate::tracer::segments::SegmentRequests;
use crate::units::KernelTime;

/// Pause between two looks for new frames.
const PAUSE: Duration = Duration::from_millis(20);

/// Parts of a ring's time in which a segment begins.
const SEGMENTS_OF_TIME: u64 = 3;

/// Parts of a ring's size in which a segment begins.
const SEGMENTS_OF_SIZE: u64 = 4;

/// Shortest time between two segments, as a multiple of the time that a snapshot takes: snapshots
/// take at most a fiftieth of a CPU.
const SNAPSHOT_TIMES: u64 = 50;

/// Multiple of the ring's size beyond which the ring is dropped whole: no segment has begun in
/// time.
const SIZE_TIMES_MAX: u64 = 2;

/// Limits of a ring.
#[derive(Clone, Debug)]
pub(super) struct RingLimits {
    /// Shortest time that the ring holds before a trigger, ns.
    pub(super) ns: Option<u64>,
    /// Largest size, bytes.
    pub(super) bytes: u64,
    /// Limits in words.
    pub(super) text: String,
    /// Time after a trigger, ns.
    pub(super) after_ns: u64,
    /// Largest number of incidents by triggers.
    pub(super) incidents: u64,
}

/// State of the keeper.
pub(super) struct RingKeeper {
    pub(super) scanner: FrameScanner,
    /// Log with a handle for writing, so that its space can be freed.
    pub(super) log: File,
    pub(super) ring: Arc<SharedRing>,
    pub(super) limits: RingLimits,
    pub(super) triggers: Vec<Trigger>,
    pub(super) firings: Receiver<Firing>,
    pub(super) evaluation: Option<JoinHandle<Result<u64, CliError>>>,
    pub(super) requests: DumpRequests,
    pub(super) segments: SegmentRequests,
    pub(super) ended: LogCompletion,
    pub(super) users: Users,
    pub(super) names: PartNames,
    pub(super) state: KeeperState,
}

/// Work of the keeper so far.
#[derive(Debug, Default)]
pub(super) struct KeeperState {
    pending: Option<Incident>,
    writing: Option<WritingIncident>,
    /// Segment at whose place the next one was requested.
    requested: Option<u64>,
    /// CPU time of this process at the begin of each segment that is there.
    cpu: VecDeque<(u64, u64)>,
    /// Time before which triggers write no further incident.
    not_before: KernelTime,
    /// Parts of the log that are freed when the incident is written.
    deferred: Vec<Range<u64>>,
    /// Incidents by triggers that were begun.
    automatic: u64,
    pub(super) report: KeeperReport,
}

/// Incident that is being written.
#[derive(Debug)]
struct WritingIncident {
    thread: JoinHandle<IncidentResult>,
    first: Option<FiredTrigger>,
    triggers: u64,
    span_ns: u64,
    pinned: Range<u64>,
}

/// Sums of a recorder at its end.
#[derive(Debug, Default)]
pub(super) struct KeeperReport {
    /// Triggers that fired, those by hand included.
    pub(super) fired: u64,
    /// Incidents that were written.
    pub(super) written: u64,
    /// Incidents that could not be written.
    pub(super) failed: u64,
    /// Triggers without an incident.
    pub(super) not_written: u64,
    /// Firings that had no room on their way to the keeper.
    pub(super) without_room: u64,
    /// Largest size of the ring, bytes.
    pub(super) bytes_max: u64,
    /// Times that the ring was dropped whole.
    pub(super) dropped_whole: u64,
    /// Time for which triggers were not evaluated, ns.
    pub(super) unevaluated_ns: u64,
    /// Error after which nothing was kept.
    pub(super) error: Option<CliError>,
}

impl RingKeeper {
    /// Keeps the ring until the recording has ended.
    pub(super) fn run(mut self) -> KeeperReport {
        loop {
            // Before the scan: all frames are there if it is set.
            let has_ended = self.ended.is_set();
            if let Err(error) = self.scan() {
                self.state.report.error = Some(CliError::Output(error));
                break;
            }
            self.take_triggers();
            self.finish_incident(false);
            self.begin_incident(false);
            self.drop_old();
            self.request_segment();
            if has_ended || self.ended.is_given_up() {
                break;
            }
            thread::pause(PAUSE);
        }
        self.end()
    }

    /// Writes what is pending after the end.
    fn end(mut self) -> KeeperReport {
        self.ring.end();
        let evaluated = self.evaluation.take().map(JoinHandle::join);
        match evaluated {
            Some(Ok(Ok(without_room))) => self.state.report.without_room = without_room,
            Some(Ok(Err(error))) => self.state.report.error = Some(error),
            Some(Err(_)) => {
                let text = "the thread that evaluates triggers has failed".to_owned();
                self.state.report.error = Some(CliError::Usage(text));
            }
            None => {}
        }
        self.take_triggers();
        self.finish_incident(true);
        self.begin_incident(true);
        self.finish_incident(true);
        self.state.report.unevaluated_ns = self.ring.unevaluated_ns();
        self.state.report
    }

    /// Takes the frames that were written since the last look.
    fn scan(&mut self) -> std::io::Result<()> {
        loop {
            let mut content = self.ring.lock();
            let wants = |header: &crate::capture::format::FrameHeader| match &*content {
                Some((_, ring)) => ring.needs_payload(header),
                None => header.kind == FrameKind::HEADER,
            };
            let Some(frame) = self.scanner.next_frame(wants)? else { return Ok(()) };
            match &mut *content {
                Some((_, ring)) => {
                    let before = ring.segments().back().map(|last| last.number);
                    ring.push(&frame.header, frame.offset, frame.payload.as_deref());
                    let report = &mut self.state.report;
                    report.bytes_max = report.bytes_max.max(ring.bytes());
                    let last = ring.segments().back().map(|last| last.number);
                    if let Some(last) = last.filter(|_| last != before) {
                        self.state.cpu.push_back((last, clock::own_cpu_ns()));
                    }
                }
                None => {
                    let payload = frame.payload.unwrap_or_default();
                    let parsed = json::<Header>(&frame.header, &payload, FrameKind::HEADER);
                    let Some(Ok(header)) = parsed else {
                        return Err(std::io::Error::other("the recording has no header"));
                    };
                    let ring = FrameRing::new(&header);
                    *content = Some((header, ring));
                    self.state.cpu.push_back((0, clock::own_cpu_ns()));
                }
            }
        }
    }

    /// Adds triggers that have fired to the incident.
    fn take_triggers(&mut self) {
        let now = clock::now();
        for name in self.requests.take() {
            self.state.report.fired += 1;
            let incident = self.state.pending.get_or_insert_default();
            incident.add(incident::by_hand(name, now));
            if incident.due == KernelTime::MIN || incident.due > now {
                incident.due = now;
            }
        }
        let firings: Vec<Firing> = self.firings.try_iter().collect();
        for firing in firings {
            self.state.report.fired += 1;
            let fired = match &*self.ring.lock() {
                Some((header, _)) => incident::fired(&firing, &self.triggers, header),
                None => continue,
            };
            self.add_fired(firing.time, fired);
        }
    }

    fn add_fired(&mut self, at: KernelTime, fired: FiredTrigger) {
        if let Some(pending) = &mut self.state.pending {
            return pending.add(fired);
        }
        if self.state.automatic >= self.limits.incidents {
            if self.state.report.not_written == 0 {
                print_line(&format!(
                    "{}; not written, as {} by triggers were (--max-incidents); SIGUSR2 and ctl dump still write",
                    described(&fired),
                    counted(self.limits.incidents, "incident")
                ));
            }
            self.state.report.not_written += 1;
            return;
        }
        self.state.automatic += 1;
        let recorded_until = KernelTime(at.0.saturating_add(self.limits.after_ns));
        let due = recorded_until.max(self.state.not_before);
        let is_pinned = due == recorded_until;
        let mut pending = Incident { due, is_pinned, ..Incident::default() };
        pending.add(fired);
        self.state.pending = Some(pending);
    }

    /// Begins to write the incident, if it is time and no other one is being written.
    fn begin_incident(&mut self, is_last: bool) {
        if self.state.writing.is_some() {
            return;
        }
        let content = self.ring.lock();
        let Some((header, ring)) = &*content else { return };
        let is_over_size = ring.bytes() > self.limits.bytes.saturating_mul(SIZE_TIMES_MAX);
        let is_due = |incident: &Incident| ring.last_round() >= incident.due;
        let is_time = self.state.pending.as_ref().is_some_and(is_due) || is_last || is_over_size;
        let complete = |segment: &&_| is_complete(segment) || is_last;
        let Some(segment) = ring.segments().front().filter(complete) else { return };
        let Ok(log) = self.log.try_clone() else { return };
        let Some(incident) = self.state.pending.take_if(|_| is_time) else { return };
        let frames = ring.frames_from(segment);
        let end = ring.last_round().max(segment.all_from);
        let pinned = frames.first().map_or(0, |first| first.offset)
            ..frames.last().map_or(0, |last| last.offset + last.bytes);
        let (triggers, first) = (incident.count(), incident.triggers.first().cloned());
        let cpu_before = self.state.cpu.iter().find(|entry| entry.0 == segment.number);
        let excerpt = Excerpt {
            reason: "incident".to_owned(),
            ring: self.limits.text.clone(),
            triggers: incident.triggers,
            triggers_left_out: incident.left_out,
            unevaluated_ns: self.ring.unevaluated_ns(),
            ..Excerpt::default()
        };
        let span_ns = since(segment.all_from, end);
        let cpu_ns = clock::own_cpu_ns().saturating_sub(cpu_before.map_or(0, |entry| entry.1));
        let header = header_of(header, segment, excerpt);
        drop(content);
        let (users, names) = (self.users.clone(), self.names.clone());
        let writer = IncidentWriter { log, header, frames, end, cpu_ns, users, names };
        self.state.not_before = KernelTime(end.0.saturating_add(span_ns));
        match writer.start() {
            Ok(thread) => {
                self.state.writing =
                    Some(WritingIncident { thread, first, triggers, span_ns, pinned });
            }
            Err(error) => {
                self.state.report.failed += 1;
                self.state.report.not_written += triggers;
                print_error(&format!("error: cannot start a thread to write an incident: {error}"));
            }
        }
    }

    /// Reports on the incident that was written; waits for it if `waits`.
    fn finish_incident(&mut self, waits: bool) {
        let is_finished = |writing: &mut WritingIncident| waits || writing.thread.is_finished();
        let Some(writing) = self.state.writing.take_if(is_finished) else { return };
        let first = writing.first.as_ref().map(described).unwrap_or_default();
        let report = &mut self.state.report;
        let result = match writing.thread.join() {
            Ok((result, names)) => {
                self.names = names;
                result
            }
            Err(_) => Err(CliError::Usage("the thread that writes an incident has failed".into())),
        };
        match result {
            Ok(part) => {
                report.written += 1;
                print_line(&format!(
                    "wrote {} ({}, {} of it): {first}{}",
                    part.shown.display(),
                    size(part.bytes),
                    time(writing.span_ns),
                    more(writing.triggers)
                ));
            }
            Err(error) => {
                report.failed += 1;
                report.not_written += writing.triggers;
                print_error(&format!("error: {error}; the recording goes on without: {first}"));
            }
        }
        for range in std::mem::take(&mut self.state.deferred) {
            self.free(&range);
        }
    }

    /// Drops the segments that the ring need not hold any more.
    fn drop_old(&mut self) {
        loop {
            let mut content = self.ring.lock();
            let Some((_, ring)) = &mut *content else { return };
            let is_over_size = ring.bytes() > self.limits.bytes.saturating_mul(SIZE_TIMES_MAX);
            let is_pinned = self.state.pending.as_ref().is_some_and(Incident::is_pinned);
            if is_pinned && !is_over_size {
                return;
            }
            let last_round = ring.last_round();
            let is_long =
                |next: KernelTime| self.limits.ns.is_some_and(|ns| since(next, last_round) >= ns);
            let second = ring.segments().get(1).filter(|segment| is_complete(segment));
            let is_too_large = ring.bytes() > self.limits.bytes;
            let dropped = match second.map(|segment| segment.all_from) {
                Some(next) if is_too_large || is_long(next) => ring.drop_first(),
                None if is_over_size => {
                    self.state.report.dropped_whole += 1;
                    ring.drop_all()
                }
                _ => return,
            };
            let oldest = ring.segments().front().map_or(u64::MAX, |segment| segment.number);
            drop(content);
            self.state.cpu.retain(|entry| entry.0 >= oldest);
            let Some(range) = dropped else { return };
            let pinned = self.state.writing.as_ref().map(|writing| &writing.pinned);
            match pinned.is_some_and(|pinned| range.start < pinned.end) {
                true => self.state.deferred.push(range),
                false => self.free(&range),
            }
        }
    }

    fn free(&self, range: &Range<u64>) {
        // The file system was checked at the start.
        let _ = files::give_back(&self.log, range.start, range.end - range.start);
    }

    /// Has the next segment begun, if it is time.
    fn request_segment(&mut self) {
        let content = self.ring.lock();
        let Some((_, ring)) = &*content else { return };
        let last = ring.segments().back();
        let is_due = match last {
            Some(last) => {
                let Some(over) = last.snapshot_over else { return };
                let snapshot_ns = since(last.all_from, over).saturating_mul(SNAPSHOT_TIMES);
                let age = since(last.all_from, ring.last_round());
                let is_old = |ns: u64| age >= (ns / SEGMENTS_OF_TIME).max(snapshot_ns);
                let is_large = ring.bytes_since(last) >= self.limits.bytes / SEGMENTS_OF_SIZE;
                self.limits.ns.is_some_and(is_old) || is_large
            }
            None => true,
        };
        let at = last.map(|last| last.number);
        if is_due && (self.state.requested != at || at.is_none()) {
            self.state.requested = at;
            self.segments.request();
        }
    }
}

fn is_complete(segment: &crate::capture::frame_ring::RingSegment) -> bool {
    segment.snapshot_over.is_some()
}

fn more(triggers: u64) -> String {
    match triggers.saturating_sub(1) {
        0 => String::new(),
        more => format!("; {} more", counted(more, "trigger")),
    }
}
