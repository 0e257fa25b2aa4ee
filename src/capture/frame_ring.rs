//! Ring of frames: the last part of a log that is still being written, and the places from which it
//! can be read on its own.
//!
//! ```text
//!  HEADER │ snapshot … frames … │ SEGMENT snapshot … frames … │ SEGMENT snapshot … frames …
//!         └────── segment 0 ────┴────────── segment 1 ────────┴────────── segment 2 ───────► grows
//!           dropped first
//! ```
//!
//! The ring has the places of frames, not their bytes, and asks only for payloads in which a
//! segment or a snapshot may begin or end. A log that begins with segment n has the snapshot of n
//! and none of the later ones: its reader knows the processes from its own records by then.

use std::collections::VecDeque;
use std::ops::Range;

use super::excerpt::Excerpt;
use super::fact::{self, Fact, Text};
use super::format::{FrameHeader, FrameKind};
use super::header::Header;
use crate::units::KernelTime;

/// Largest payload, decoded, in which the marker of a segment or the end of a snapshot is looked
/// for: a marker has the numbers of the followed processes.
const MARKER_BYTES_MAX: u32 = 1 << 20;

/// Largest number of facts in such a frame; counters of a program come with those of the disks.
const MARKER_ITEMS_MAX: u32 = 2;

/// Bytes of the place of a frame: on a quiet machine most frames are not longer.
const PLACE_BYTES: u64 = size_of::<RingFrame>() as u64;

/// Place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFrame {
    /// Offset of its header in the log.
    pub offset: u64,
    /// Bytes of header and payload.
    pub bytes: u64,
    /// Segment whose snapshot it belongs to.
    snapshot_of: Option<u64>,
    /// True if it is part of the records and facts of the recording: not its end.
    is_content: bool,
}

/// A place from which the log can be read on its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingSegment {
    /// Number of the segment, from 0 on.
    pub number: u64,
    /// Number of its first frame, from 0 on.
    pub first: u64,
    /// Time before which its frames have no record.
    pub start: KernelTime,
    /// Time from which on its frames, and the later ones, have all records.
    pub all_from: KernelTime,
    /// Time at which its snapshot was complete.
    pub snapshot_over: Option<KernelTime>,
    /// Followed processes at its beginning; empty for the whole machine.
    pub roots: Vec<i32>,
}

/// Frames of the ring.
#[derive(Debug, Default)]
pub struct FrameRing {
    frames: VecDeque<RingFrame>,
    /// Number of the first frame that is there.
    base: u64,
    segments: VecDeque<RingSegment>,
    /// Number of the next segment.
    next_segment: u64,
    /// True between the marker of a segment and the end of its snapshot.
    is_in_snapshot: bool,
    /// Latest time of a record so far.
    newest: KernelTime,
    /// Time of the last round.
    last_round: KernelTime,
    bytes: u64,
}

impl FrameRing {
    /// Creates the ring of a recording that begins: its first segment.
    pub fn new(header: &Header) -> Self {
        let (start, all_from) = (header.clock.start_ns, header.clock.all_on_ns);
        let segment = RingSegment {
            start: KernelTime(start),
            all_from: KernelTime(all_from),
            roots: header.scope.roots.clone(),
            ..RingSegment::default()
        };
        let last_round = KernelTime(start);
        let segments = VecDeque::from([segment]);
        Self { segments, next_segment: 1, is_in_snapshot: true, last_round, ..Self::default() }
    }

    /// Returns true if the payload of this frame must be known to place it.
    pub fn needs_payload(&self, header: &FrameHeader) -> bool {
        let is_marker =
            header.items <= MARKER_ITEMS_MAX && header.payload_bytes <= MARKER_BYTES_MAX;
        header.kind == FrameKind::FACTS && (self.is_in_snapshot || is_marker)
    }

    /// Adds the next frame of the log. `payload` is decoded; it may be missing if it is not needed.
    pub fn push(&mut self, header: &FrameHeader, offset: u64, payload: Option<&[u8]>) {
        let is_facts = header.kind == FrameKind::FACTS;
        let first = payload.filter(|_| is_facts).and_then(|bytes| fact::facts(bytes).next());
        if let Some(Fact::Text { which: Text::SEGMENT, text, .. }) = &first {
            self.begin_segment(text);
        }
        let is_snapshot = self.is_in_snapshot && first.as_ref().is_some_and(is_of_snapshot);
        let snapshot_of = self.segments.back().filter(|_| is_snapshot).map(|last| last.number);
        // Counters of the whole program say nothing of a part.
        let is_sum = matches!(first, Some(Fact::Text { which: Text::PROCESS_IO, .. }));
        let snapshot_of = if is_sum { Some(0) } else { snapshot_of };
        if let Some(Fact::Text { which: Text::SNAPSHOT_OVER, time, .. }) = &first {
            self.is_in_snapshot = false;
            if let Some(last) = self.segments.back_mut() {
                last.snapshot_over.get_or_insert(*time);
            }
        }
        match header.kind {
            FrameKind::ROUND => self.last_round = KernelTime(header.first_time),
            FrameKind::DATA => self.newest = self.newest.max(KernelTime(header.last_time)),
            _ => {}
        }
        let bytes = super::format::FRAME_HEADER_BYTES as u64 + u64::from(header.stored_bytes);
        let is_content = matches!(header.kind, FrameKind::DATA | FrameKind::ROUND) || is_facts;
        self.frames.push_back(RingFrame { offset, bytes, snapshot_of, is_content });
        self.bytes += bytes + PLACE_BYTES;
    }

    fn begin_segment(&mut self, roots: &[u8]) {
        let words = std::str::from_utf8(roots).unwrap_or_default().split_whitespace();
        self.segments.push_back(RingSegment {
            number: self.next_segment,
            first: self.base + self.frames.len() as u64,
            start: self.last_round,
            all_from: KernelTime(self.newest.0.saturating_add(1)).max(self.last_round),
            snapshot_over: None,
            roots: words.filter_map(|word| word.parse().ok()).collect(),
        });
        self.next_segment += 1;
        self.is_in_snapshot = true;
    }

    /// Returns the segments, the oldest first.
    pub fn segments(&self) -> &VecDeque<RingSegment> {
        &self.segments
    }

    /// Returns the bytes of all frames and of their places.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes of the frames from this segment on.
    pub fn bytes_since(&self, segment: &RingSegment) -> u64 {
        let skipped = usize::try_from(segment.first.saturating_sub(self.base)).unwrap_or(0);
        let first = self.frames.get(skipped);
        let end = self.frames.back().map_or(0, |last| last.offset + last.bytes);
        first.map_or(0, |first| end.saturating_sub(first.offset))
    }

    /// Returns the time of the last round.
    pub fn last_round(&self) -> KernelTime {
        self.last_round
    }

    /// Drops the oldest segment, unless it is the only one. Returns the dropped part of the log.
    pub fn drop_first(&mut self) -> Option<Range<u64>> {
        let next = self.segments.get(1)?.first;
        self.segments.pop_front();
        let start = self.frames.front()?.offset;
        let mut end = start;
        while self.base < next
            && let Some(frame) = self.frames.pop_front()
        {
            end = frame.offset + frame.bytes;
            self.bytes -= frame.bytes + PLACE_BYTES;
            self.base += 1;
        }
        Some(start..end)
    }

    /// Drops the frames before this number, which were copied. Returns the end of the dropped part
    /// of the log, if there is one.
    pub fn forget_before(&mut self, number: u64) -> Option<u64> {
        let mut end = None;
        while self.base < number
            && let Some(frame) = self.frames.pop_front()
        {
            end = Some(frame.offset + frame.bytes);
            self.bytes -= frame.bytes + PLACE_BYTES;
            self.base += 1;
        }
        while self.segments.get(1).is_some_and(|second| second.first < number) {
            self.segments.pop_front();
        }
        end
    }

    /// Drops everything: what follows can be read from the next segment on. Returns the dropped
    /// part of the log.
    pub fn drop_all(&mut self) -> Option<Range<u64>> {
        let start = self.frames.front()?.offset;
        let end = self.frames.back().map_or(start, |last| last.offset + last.bytes);
        self.segments.clear();
        self.base += self.frames.len() as u64;
        self.frames.clear();
        (self.bytes, self.is_in_snapshot) = (0, false);
        Some(start..end)
    }

    /// Returns the place of a frame by its number, in a log that begins with this segment.
    pub fn frame(&self, number: u64, segment: u64) -> FramePlace {
        let Some(place) = number.checked_sub(self.base) else { return FramePlace::Dropped };
        match usize::try_from(place).ok().and_then(|place| self.frames.get(place)) {
            None => FramePlace::Later,
            Some(frame) if frame.belongs_to(segment) => FramePlace::At(*frame),
            Some(_) => FramePlace::Skipped,
        }
    }

    /// Returns the frames of a log that begins with this segment.
    pub fn frames_from(&self, segment: &RingSegment) -> Vec<RingFrame> {
        let skipped = usize::try_from(segment.first.saturating_sub(self.base)).unwrap_or(0);
        let of_log = |frame: &&RingFrame| frame.belongs_to(segment.number);
        self.frames.iter().skip(skipped).filter(of_log).copied().collect()
    }
}

/// Place of a frame by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePlace {
    /// Frame that is there.
    At(RingFrame),
    /// Frame that does not belong to the log.
    Skipped,
    /// Frame that was dropped.
    Dropped,
    /// Frame that is not written yet.
    Later,
}

impl RingFrame {
    /// Returns true if the frame belongs to a log that begins with this segment.
    fn belongs_to(&self, segment: u64) -> bool {
        self.is_content && self.snapshot_of.is_none_or(|number| number == segment)
    }
}

/// Returns true for the facts of a snapshot; names and identities come at any time.
fn is_of_snapshot(fact: &Fact) -> bool {
    match fact {
        Fact::Task { .. } | Fact::Fd { .. } | Fact::User { .. } => true,
        Fact::Text { which, .. } => !matches!(
            *which,
            Text::COMMAND | Text::CGROUP | Text::EXECUTABLE | Text::PLACES | Text::SWITCHING_OFF
        ),
        _ => false,
    }
}

/// Returns the header of a log that begins with this segment.
pub fn header_of(recording: &Header, segment: &RingSegment, excerpt: Excerpt) -> Header {
    let mut header = recording.clone();
    let excerpt = Excerpt {
        recording_start_ns: recording.clock.start_ns,
        mode: recording.scope.mode.clone(),
        command: recording.scope.command.clone(),
        ..excerpt
    };
    header.excerpt = Some(excerpt);
    if segment.number == 0 {
        return header;
    }
    let since_start = segment.start.0.saturating_sub(recording.clock.start_ns);
    header.clock.start_realtime_ns = recording.clock.start_realtime_ns.saturating_add(since_start);
    header.clock.start_ns = segment.start.0;
    header.clock.all_on_ns = segment.all_from.0;
    if header.scope.mode != "system" {
        header.scope.mode = "attach".into();
        header.scope.roots.clone_from(&segment.roots);
    }
    if header.scope.mode == "attach" {
        header.scope.command.clear();
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fact::FactsFrame;
    use crate::units::{Pid, Tid};

    fn text(which: Text, text: &str) -> Fact {
        Fact::Text { time: KernelTime(7), which, pid: Pid(0), text: text.into() }
    }

    fn task() -> Fact {
        let (time, comm) = (KernelTime(7), Vec::new());
        Fact::Task { time, pid: Pid(1), tid: Tid(1), ppid: Pid(0), comm }
    }

    /// Adds frames of 100 bytes: a kind and its last time, or a fact.
    struct Filler(FrameRing, u64);

    impl Filler {
        fn frame(&mut self, kind: FrameKind, time: u64, facts: &[Fact]) {
            let mut payload = FactsFrame::default();
            facts.iter().for_each(|fact| payload.push(fact));
            let header = FrameHeader {
                first_time: time,
                last_time: time,
                items: payload.count,
                stored_bytes: 48,
                ..FrameHeader::bare(kind)
            };
            let is_needed = self.0.needs_payload(&header);
            self.0.push(&header, self.1, is_needed.then_some(payload.bytes.as_slice()));
            self.1 += 100;
        }

        fn facts(&mut self, fact: Fact) {
            self.frame(FrameKind::FACTS, 0, &[fact]);
        }
    }

    /// Frames at 16: a task, the snapshot's end, data, a round; then a segment.
    fn filled() -> FrameRing {
        let mut header = Header::default();
        header.clock.start_ns = 3;
        header.clock.all_on_ns = 5;
        let mut filler = Filler(FrameRing::new(&header), 16);
        filler.facts(task());
        filler.facts(text(Text::SNAPSHOT_OVER, ""));
        filler.frame(FrameKind::DATA, 20, &[]);
        filler.frame(FrameKind::ROUND, 19, &[]);
        filler.frame(FrameKind::DATA, 31, &[]);
        filler.facts(text(Text::SEGMENT, "4 12"));
        filler.facts(text(Text::COMMAND, "tar"));
        filler.frame(FrameKind::FACTS, 0, &[task(), task()]);
        filler.facts(text(Text::SNAPSHOT_OVER, ""));
        filler.frame(FrameKind::DATA, 40, &[]);
        filler.facts(text(Text::PROCESS_IO, "rchar: 3"));
        filler.frame(FrameKind::END, 50, &[]);
        filler.0
    }

    fn offsets(ring: &FrameRing, segment: usize) -> Vec<u64> {
        let frames = ring.frames_from(&ring.segments()[segment]);
        frames.iter().map(|frame| frame.offset).collect()
    }

    #[test]
    fn later_snapshots_and_the_end_are_left_out() {
        let ring = filled();
        assert_eq!(offsets(&ring, 0), [16, 116, 216, 316, 416, 616, 916, 1016]);
        assert_eq!(offsets(&ring, 1), [516, 616, 716, 816, 916]);
        let second = &ring.segments()[1];
        assert_eq!(second.roots, [4, 12]);
        assert_eq!((second.start, second.all_from), (KernelTime(19), KernelTime(32)));
        assert_eq!(second.snapshot_over, Some(KernelTime(7)));
        assert_eq!((ring.bytes(), ring.bytes_since(second)), (1200 + 12 * PLACE_BYTES, 700));
    }

    #[test]
    fn oldest_segment_is_dropped_and_the_last_stays() {
        let mut ring = filled();
        assert_eq!(ring.drop_first(), Some(16..516));
        assert_eq!((ring.bytes(), offsets(&ring, 0).len()), (700 + 7 * PLACE_BYTES, 5));
        assert_eq!(ring.frame(4, 1), FramePlace::Dropped);
        assert_eq!(ring.frame(7, 0), FramePlace::Skipped);
        assert!(matches!(ring.frame(9, 1), FramePlace::At(frame) if frame.offset == 916));
        assert_eq!(ring.frame(12, 1), FramePlace::Later);
        assert_eq!(ring.drop_first(), None);
    }

    #[test]
    fn copied_frames_are_forgotten_and_the_rest_of_their_segment_stays() {
        let mut ring = filled();
        assert_eq!(ring.forget_before(3), Some(316));
        assert_eq!((ring.segments().len(), ring.frame(2, 0)), (2, FramePlace::Dropped));
        assert_eq!(ring.forget_before(7), Some(716));
        assert_eq!((ring.segments().len(), ring.segments()[0].number), (1, 1));
        assert!(matches!(ring.frame(7, 1), FramePlace::At(frame) if frame.offset == 716));
        assert_eq!(ring.forget_before(7), None);
    }

    #[test]
    fn ring_that_was_dropped_whole_begins_with_the_next_segment() {
        let mut ring = filled();
        assert_eq!(ring.drop_all(), Some(16..1216));
        assert_eq!((ring.bytes(), ring.segments().len()), (0, 0));
        let mut filler = Filler(ring, 1216);
        filler.frame(FrameKind::DATA, 60, &[]);
        filler.facts(text(Text::SEGMENT, ""));
        filler.facts(text(Text::SNAPSHOT_OVER, ""));
        assert_eq!(offsets(&filler.0, 0), [1316, 1416]);
        assert_eq!(filler.0.segments()[0].number, 2);
    }

    #[test]
    fn header_of_a_later_segment_begins_there() {
        let ring = filled();
        let mut recording = Header::default();
        recording.clock.start_realtime_ns = 1000;
        recording.clock.start_ns = 3;
        recording.scope.mode = "launch".into();
        recording.scope.command = vec!["tar".into()];
        let header = header_of(&recording, &ring.segments()[1], Excerpt::default());
        assert_eq!((header.clock.start_ns, header.clock.all_on_ns), (19, 32));
        assert_eq!(header.clock.start_realtime_ns, 1016);
        assert_eq!((header.scope.mode.as_str(), header.scope.roots), ("attach", vec![4, 12]));
        let excerpt = header.excerpt.expect("a part");
        assert_eq!((excerpt.mode.as_str(), excerpt.recording_start_ns), ("launch", 3));
        assert!(header.scope.command.is_empty() && excerpt.command == ["tar"]);
        let first = header_of(&recording, &ring.segments()[0], Excerpt::default());
        assert_eq!((first.clock.start_ns, first.scope.mode.as_str()), (3, "launch"));
    }
}
