//! Ring that the keeper fills and the evaluation of triggers reads.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::capture::format::FrameKind;
use crate::capture::frame_ring::{FramePlace, FrameRing, RingSegment, header_of};
use crate::capture::header::{Excerpt, Header};
use crate::capture::writer::Writer;
use crate::cli::tailing_reader::LogCompletion;
use crate::sys::{clock, thread};
use crate::units::KernelTime;

/// Pause between two looks for a new frame.
const PAUSE: Duration = Duration::from_millis(20);

/// Header of the recording and its ring, once the header is written.
pub(super) type RingContent = Option<(Header, FrameRing)>;

/// Ring with a lock.
#[derive(Debug, Default)]
pub(super) struct SharedRing {
    content: Mutex<RingContent>,
    /// Time for which triggers were not evaluated, ns.
    unevaluated_ns: AtomicU64,
    /// Set when the keeper scans no more.
    is_over: AtomicBool,
}

impl SharedRing {
    pub(super) fn lock(&self) -> MutexGuard<'_, RingContent> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the time for which triggers were not evaluated.
    pub(super) fn add_unevaluated(&self, ns: u64) {
        // ORDERING: a counter alone; nothing is published with it.
        self.unevaluated_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(super) fn unevaluated_ns(&self) -> u64 {
        // ORDERING: as above.
        self.unevaluated_ns.load(Ordering::Relaxed)
    }

    /// Ends the readers once they have read all frames.
    pub(super) fn end(&self) {
        // ORDERING: Release: a reader that sees it sees all frames.
        self.is_over.store(true, Ordering::Release);
    }

    pub(super) fn is_over(&self) -> bool {
        // ORDERING: Acquire: as above.
        self.is_over.load(Ordering::Acquire)
    }

    /// Returns the header and the newest segment that is complete; the oldest one of all with
    /// `is_first`.
    pub(super) fn newest(&self, is_first: bool) -> Option<(Header, RingSegment)> {
        let content = self.lock();
        let (header, ring) = content.as_ref()?;
        let complete = ring.segments().iter().rev().find(|segment| segment.snapshot_over.is_some());
        let segment = complete.or_else(|| ring.segments().front().filter(|_| is_first))?;
        Some((header.clone(), segment.clone()))
    }
}

/// Log that begins with a segment and ends with the recording.
pub(super) struct RingReader {
    ring: Arc<SharedRing>,
    log: File,
    ended: LogCompletion,
    segment: u64,
    /// Number of the next frame.
    next: u64,
    bytes: Vec<u8>,
    used: usize,
    /// Set when frames were dropped before they were read.
    overtaken: Arc<AtomicBool>,
    renewal: Arc<Renewal>,
    begin: KernelTime,
}

/// Renewal of the evaluation: what a reader of a log knows grows with the log, so that it begins
/// anew with a segment now and then, preferably when no call is in progress.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    /// True if no call is in progress that a trigger compares.
    pub(super) is_quiet: AtomicBool,
    /// Set when the log ends for a renewal.
    pub(super) is_due: AtomicBool,
}

/// Time after which a reader begins anew, ns.
const RENEWED_NS: u64 = 120_000_000_000;

/// Time after which it does so although a call is in progress, ns.
const RENEWED_NS_MAX: u64 = 600_000_000_000;

impl RingReader {
    /// Creates the log of a segment.
    ///
    /// # Errors
    ///
    /// The header cannot be packed.
    pub(super) fn new(
        ring: &Arc<SharedRing>,
        log: &File,
        ended: &LogCompletion,
        header: &Header,
        segment: &RingSegment,
    ) -> io::Result<Self> {
        let mut writer = Writer::new(Vec::new())?;
        let header = header_of(header, segment, Excerpt::default());
        writer.json(FrameKind::HEADER, segment.start, &header)?;
        Ok(Self {
            ring: Arc::clone(ring),
            log: log.try_clone()?,
            ended: ended.clone(),
            segment: segment.number,
            next: segment.first,
            bytes: writer.into_inner(),
            used: 0,
            overtaken: Arc::default(),
            renewal: Arc::default(),
            begin: clock::now(),
        })
    }

    /// Returns the flag that frames were dropped before they were read.
    pub(super) fn overtaken(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.overtaken)
    }

    /// Returns the renewal of the evaluation.
    pub(super) fn renewal(&self) -> Arc<Renewal> {
        Arc::clone(&self.renewal)
    }

    /// Returns true if the evaluation is to begin anew with a later segment.
    fn is_old(&self, newest: Option<u64>) -> bool {
        let age = since(self.begin, clock::now());
        // ORDERING: Relaxed: the same thread sets it.
        let is_quiet = self.renewal.is_quiet.load(Ordering::Relaxed);
        let is_old = age > if is_quiet { RENEWED_NS } else { RENEWED_NS_MAX };
        is_old && newest.is_some_and(|newest| newest > self.segment)
    }

    /// Reads the next frame; returns false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        loop {
            // Before the look: all frames are there if it is set.
            let is_over = self.ring.is_over();
            if self.ended.is_given_up() {
                return Err(io::Error::other("cancelled by a signal"));
            }
            let (place, newest) = match &*self.ring.lock() {
                Some((_, ring)) => {
                    let complete = |segment: &&RingSegment| segment.snapshot_over.is_some();
                    let newest = ring.segments().iter().rev().find(complete);
                    (ring.frame(self.next, self.segment), newest.map(|newest| newest.number))
                }
                None => (FramePlace::Later, None),
            };
            // When there is nothing to read, the fold has seen nearly all.
            if place == FramePlace::Later && self.is_old(newest) {
                // ORDERING: Relaxed: the same thread reads it.
                self.renewal.is_due.store(true, Ordering::Relaxed);
                return Ok(false);
            }
            match place {
                FramePlace::Later if is_over => return Ok(false),
                FramePlace::Later => thread::pause(PAUSE),
                FramePlace::Skipped => self.next += 1,
                FramePlace::Dropped => return Err(self.too_late()),
                FramePlace::At(frame) => {
                    self.next += 1;
                    self.used = 0;
                    let length = usize::try_from(frame.bytes).map_err(io::Error::other)?;
                    self.bytes.resize(length, 0);
                    self.log.read_exact_at(&mut self.bytes, frame.offset)?;
                    // The frame may have been dropped while it was read.
                    let again = match &*self.ring.lock() {
                        Some((_, ring)) => ring.frame(self.next - 1, self.segment),
                        None => FramePlace::Later,
                    };
                    return if again == place { Ok(true) } else { Err(self.too_late()) };
                }
            }
        }
    }

    fn too_late(&self) -> io::Error {
        // ORDERING: Relaxed: the same thread reads it.
        self.overtaken.store(true, Ordering::Relaxed);
        io::Error::other("frames were dropped before they were read")
    }
}

impl Read for RingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used >= self.bytes.len() && !self.fill()? {
            return Ok(0);
        }
        let rest = self.bytes.get(self.used..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        self.used += count;
        Ok(count)
    }
}

/// Returns the later of two times as a duration after the earlier one, ns.
pub(super) fn since(earlier: KernelTime, later: KernelTime) -> u64 {
    later.0.saturating_sub(earlier.0)
}
