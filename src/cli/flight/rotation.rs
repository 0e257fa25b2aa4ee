//! Thread that keeps a recording in several logs: copies frames as they are written, and begins the
//! next log at a segment.
//!
//! A log has its own name from the beginning, as that of any recording: a recorder that is killed
//! leaves one without an end. While no log can be written, as the disk is full, the next one is
//! tried once a second, for each begins with a snapshot.

use std::collections::VecDeque;
use std::fs::File;
use std::time::Duration;

use super::part_file::{PartFile, WrittenPart};
use super::part_names::PartNames;
use super::repeated_errors::{RepeatedErrors, cause_of};
use super::shared_ring::since;
use crate::capture::format::FrameKind;
use crate::capture::frame_ring::{FramePlace, FrameRing, header_of};
use crate::capture::frame_scanner::FrameScanner;
use crate::capture::header::{Excerpt, Header};
use crate::capture::reader::json;
use crate::cli::error::CliError;
use crate::cli::message::print_line;
use crate::cli::tailing_reader::LogCompletion;
use crate::sys::error_text::plain;
use crate::sys::output_dir::Users;
use crate::sys::{clock, files, thread};
use crate::text::quantity::size;
use crate::tracer::segments::SegmentRequests;
use crate::units::KernelTime;

/// Pause between two looks for new frames.
const PAUSE: Duration = Duration::from_millis(20);

/// Bytes that are freed at a time.
const FREED_BYTES: u64 = 1 << 20;

/// Time between two logs that cannot be written, ns.
const RETRY_NS: u64 = 1_000_000_000;

/// State of the rotation.
pub(super) struct Rotation {
    pub(super) scanner: FrameScanner,
    /// Log with a handle for writing, so that its space can be freed.
    pub(super) log: File,
    pub(super) segments: SegmentRequests,
    pub(super) ended: LogCompletion,
    pub(super) users: Users,
    pub(super) names: PartNames,
    /// Size at which the next log begins, bytes.
    pub(super) bytes: u64,
    /// Number of logs that are kept; `None`: all.
    pub(super) keep: Option<u64>,
    pub(super) state: RotationState,
}

/// Work of the rotation so far.
#[derive(Default)]
pub(super) struct RotationState {
    recording: Option<(Header, FrameRing)>,
    current: Option<PartFile>,
    /// Segment with which the current log begins.
    segment: u64,
    /// Number of the next frame.
    next: u64,
    /// True if the next segment was requested.
    is_requested: bool,
    cpu_ns: u64,
    /// End of the freed part of the log.
    freed: u64,
    kept: VecDeque<WrittenPart>,
    errors: RepeatedErrors,
    /// Time of the last failure.
    failed_at: KernelTime,
    pub(super) report: RotationReport,
}

/// Sums of a rotation at its end.
#[derive(Debug, Default)]
pub(super) struct RotationReport {
    /// Logs that were written.
    pub(super) written: u64,
    /// Logs that were removed again.
    pub(super) removed: u64,
    /// Logs that could not be written, wholly or in part.
    pub(super) failed: u64,
    /// Error after which nothing was kept.
    pub(super) error: Option<CliError>,
}

impl Rotation {
    /// Copies until the recording has ended.
    pub(super) fn run(mut self) -> RotationReport {
        loop {
            // Before the scan: all frames are there if it is set.
            let has_ended = self.ended.is_set();
            if let Err(error) = self.scan() {
                self.state.report.error = Some(error);
                break;
            }
            if has_ended || self.ended.is_given_up() {
                break;
            }
            thread::pause(PAUSE);
        }
        self.finish_part();
        self.state.errors.print_counts();
        self.state.report
    }

    /// Takes the frames that were written since the last look.
    fn scan(&mut self) -> Result<(), CliError> {
        loop {
            let wants = |header: &crate::capture::format::FrameHeader| match &self.state.recording {
                Some((_, ring)) => ring.needs_payload(header),
                None => header.kind == FrameKind::HEADER,
            };
            let found = self.scanner.next_frame(wants).map_err(CliError::Output)?;
            let Some(frame) = found else { return Ok(()) };
            let payload = frame.payload;
            match &mut self.state.recording {
                Some((_, ring)) => ring.push(&frame.header, frame.offset, payload.as_deref()),
                None => {
                    let payload = payload.unwrap_or_default();
                    let parsed = json::<Header>(&frame.header, &payload, FrameKind::HEADER);
                    let Some(Ok(header)) = parsed else {
                        return Err(CliError::Usage("the recording has no header".to_owned()));
                    };
                    let ring = FrameRing::new(&header);
                    self.state.recording = Some((header, ring));
                    self.begin_part();
                    continue;
                }
            }
            self.take_frame();
        }
    }

    /// Copies the newest frame, to the next log if a segment begins with it.
    fn take_frame(&mut self) {
        let Some((_, ring)) = &self.state.recording else { return };
        let last = ring.segments().back().map_or(0, |last| last.number);
        if last != self.state.segment {
            self.finish_part();
            self.begin_part();
        }
        let Some((_, ring)) = &mut self.state.recording else { return };
        let place = ring.frame(self.state.next, self.state.segment);
        let is_complete = ring.segments().back().is_some_and(|last| last.snapshot_over.is_some());
        self.state.next += 1;
        if let (FramePlace::At(frame), Some(part)) = (place, &mut self.state.current)
            && let Err(error) = part.copy(&self.log, &[frame])
        {
            self.give_up(&error);
        }
        self.free_copied();
        let is_time = match &self.state.current {
            Some(part) => part.bytes() >= self.bytes,
            None => since(self.state.failed_at, self.last_round()) >= RETRY_NS,
        };
        if is_time && is_complete && !self.state.is_requested {
            self.state.is_requested = true;
            self.segments.request();
        }
    }

    /// Ends a log that cannot be written: what it has stays. The next one begins at the next
    /// segment.
    fn give_up(&mut self, error: &std::io::Error) {
        let Some(part) = self.state.current.take() else { return };
        let path = part.path();
        let _ = part.finish("log not writable", self.last_round(), 0);
        let cause = plain(error);
        let line = format!(
            "error: cannot write {}: {cause}; the recording goes on with the next log",
            path.display()
        );
        self.failed(&cause, &line);
    }

    /// Counts a log that could not be written.
    fn failed(&mut self, cause: &str, line: &str) {
        self.state.report.failed += 1;
        self.state.failed_at = self.last_round();
        self.state.errors.print(cause, line);
    }

    fn last_round(&self) -> KernelTime {
        let ring = self.state.recording.as_ref().map(|(_, ring)| ring);
        ring.map_or(KernelTime::MIN, FrameRing::last_round)
    }

    fn begin_part(&mut self) {
        let Some((header, ring)) = &self.state.recording else { return };
        let Some(segment) = ring.segments().back() else { return };
        (self.state.segment, self.state.is_requested) = (segment.number, false);
        self.state.cpu_ns = clock::own_cpu_ns();
        let excerpt = Excerpt { reason: "rotation".to_owned(), ..Excerpt::default() };
        let header = header_of(header, segment, excerpt);
        match PartFile::begin_in_place(&mut self.names, &self.users, header) {
            Ok(part) => self.state.current = Some(part),
            Err(error) => {
                let line = format!("error: {error}; the recording goes on with the next log");
                self.failed(&cause_of(&error), &line);
            }
        }
    }

    /// Ends the current log, and removes the oldest ones.
    fn finish_part(&mut self) {
        let Some(part) = self.state.current.take() else { return };
        let cpu_ns = clock::own_cpu_ns().saturating_sub(self.state.cpu_ns);
        let written = match part.finish("rotation", self.last_round(), cpu_ns) {
            Ok(written) => written,
            Err(error) => {
                let line = format!("error: {error}; the recording goes on");
                return self.failed(&cause_of(&error), &line);
            }
        };
        self.state.report.written += 1;
        self.state.errors.print_counts();
        print_line(&format!("wrote {} ({})", written.shown.display(), size(written.bytes)));
        self.state.kept.push_back(written);
        // The next log is one of those that are kept.
        let is_over = self.ended.is_set();
        let Some(keep) = self.keep else { return };
        while self.state.kept.len() as u64 > keep.saturating_sub(u64::from(!is_over))
            && let Some(oldest) = self.state.kept.pop_front()
        {
            let shown = oldest.shown.display().to_string();
            match oldest.remove() {
                Ok(()) => self.state.report.removed += 1,
                Err(error) => {
                    let cause = format!("cannot remove a log: {}", plain(&error));
                    let line = format!("error: cannot remove {shown}: {error}");
                    self.state.errors.print(&cause, &line);
                }
            }
        }
    }

    /// Frees what was copied.
    fn free_copied(&mut self) {
        let next = self.state.next;
        let Some((_, ring)) = &mut self.state.recording else { return };
        let Some(end) = ring.forget_before(next) else { return };
        if end - self.state.freed >= FREED_BYTES {
            // The file system was checked at the start.
            let _ = files::give_back(&self.log, self.state.freed, end - self.state.freed);
            self.state.freed = end;
        }
    }
}
