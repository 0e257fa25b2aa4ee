//! Thread that keeps a recording in several logs: copies frames as they are written, and begins the
//! next log at a segment.
//!
//! A log has its own name from the beginning, as that of any recording: a recorder that is killed
//! leaves one without an end.

use std::collections::VecDeque;
use std::fs::File;
use std::time::Duration;

use super::part_file::{PartFile, WrittenPart};
use super::part_names::PartNames;
use crate::capture::format::FrameKind;
use crate::capture::frame_ring::{FramePlace, FrameRing, header_of};
use crate::capture::frame_scanner::FrameScanner;
use crate::capture::header::{Excerpt, Header};
use crate::capture::reader::json;
use crate::cli::error::CliError;
use crate::cli::message::{print_error, print_line};
use crate::cli::tailing_reader::LogCompletion;
use crate::sys::output_dir::Users;
use crate::sys::{clock, files, thread};
use crate::text::quantity::size;
use crate::tracer::segments::SegmentRequests;

/// Pause between two looks for new frames.
const PAUSE: Duration = Duration::from_millis(20);

/// Bytes that are freed at a time.
const FREED_BYTES: u64 = 1 << 20;

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
        // A log that could not be written has no more to wait for.
        let size = self.state.current.as_ref().map_or(u64::MAX, PartFile::bytes);
        if size >= self.bytes && is_complete && !self.state.is_requested {
            self.state.is_requested = true;
            self.segments.request();
        }
    }

    /// Ends a log that cannot be written: what it has stays. The next one begins at the next
    /// segment.
    fn give_up(&mut self, error: &std::io::Error) {
        let Some(part) = self.state.current.take() else { return };
        self.state.report.failed += 1;
        let path = part.path();
        let end = self.state.recording.as_ref().map(|(_, ring)| ring.last_round());
        let _ = part.finish("log not writable", end.unwrap_or_default(), 0);
        print_error(&format!(
            "error: cannot write {}: {error}; the recording goes on with the next log",
            path.display()
        ));
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
                self.state.report.failed += 1;
                print_error(&format!("error: {error}; the recording goes on with the next log"));
            }
        }
    }

    /// Ends the current log, and removes the oldest ones.
    fn finish_part(&mut self) {
        let Some(part) = self.state.current.take() else { return };
        let end = self.state.recording.as_ref().map(|(_, ring)| ring.last_round());
        let cpu_ns = clock::own_cpu_ns().saturating_sub(self.state.cpu_ns);
        let written = match part.finish("rotation", end.unwrap_or_default(), cpu_ns) {
            Ok(written) => written,
            Err(error) => {
                self.state.report.failed += 1;
                return print_error(&format!("error: {error}; the recording goes on"));
            }
        };
        self.state.report.written += 1;
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
                Err(error) => print_error(&format!("error: cannot remove {shown}: {error}")),
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
