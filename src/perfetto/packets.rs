//! Writer of packets: events with arguments, descriptors of tracks, the clock.
//!
//! All packets are of one sequence. Its state (interned texts) is set anew when the texts need too
//! much memory, so neither the writer nor a reader keeps more than one state.

use std::io;

use super::interning::{InternedTexts, push_entry};
use super::schema::{
    TRACE_PACKET, annotation, defaults, event, interned, packet, sequence_flags, track,
};
use super::wire::ProtoBuffer;
use super::words::{ARGUMENT_NAMES, ArgumentName, CATEGORIES, EventCategory};
use crate::operation::model::FilePath;
use crate::text::escape::shown;
use crate::units::KernelTime;

/// Number of a track, unique in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TrackId(pub(super) u64);

/// Number of a flow between events, unique in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowId(pub(super) u64);

/// Side of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowSide {
    /// The flow begins at the event.
    Begin,
    /// The flow ends at the event.
    End,
}

/// Type of an event, by its number in the schema.
#[derive(Clone, Copy)]
enum EventType {
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

/// Only sequence of the trace.
const SEQUENCE: u64 = 1;

/// Writes packets to a file.
#[derive(Debug)]
pub(super) struct PacketWriter<W> {
    out: W,
    texts: InternedTexts,
    /// Fields of the current event.
    event: ProtoBuffer,
    /// Fields of the current packet.
    packet: ProtoBuffer,
    /// The packet with its length.
    framed: ProtoBuffer,
    /// Buffer of an escaped text.
    escaped: Vec<u8>,
    next_track: u64,
    /// Number of packets.
    pub(super) packets: u64,
    /// Number of states of the sequence.
    pub(super) states: u64,
}

impl<W: io::Write> PacketWriter<W> {
    /// Creates the writer; nothing is written yet.
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            texts: InternedTexts::default(),
            event: ProtoBuffer::default(),
            packet: ProtoBuffer::default(),
            framed: ProtoBuffer::default(),
            escaped: Vec::new(),
            next_track: 0,
            packets: 0,
            states: 0,
        }
    }

    /// Flushes the file and returns it.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Returns the number of a new track that is neither a thread's nor a process's.
    pub(super) fn new_track(&mut self) -> TrackId {
        self.next_track += 1;
        TrackId(self.next_track << 2 | 3)
    }

    /// Writes one packet whose fields are in `packet`.
    fn write(&mut self) -> io::Result<()> {
        self.framed.clear();
        self.framed.bytes(TRACE_PACKET, self.packet.as_slice());
        self.packets += 1;
        self.out.write_all(self.framed.as_slice())
    }

    /// Begins a new state of the sequence: later packets do not refer to older texts.
    #[cold]
    pub(super) fn begin_state(&mut self, clock: u64) -> io::Result<()> {
        self.texts.clear();
        self.packet.clear();
        self.packet.unsigned(packet::SEQUENCE_ID, SEQUENCE);
        self.packet.unsigned(packet::SEQUENCE_FLAGS, sequence_flags::INCREMENTAL_STATE_CLEARED);
        if self.states == 0 {
            self.packet.unsigned(packet::FIRST_ON_SEQUENCE, 1);
        }
        let of_all = self.packet.begin(packet::DEFAULTS);
        self.packet.unsigned(defaults::TIMESTAMP_CLOCK_ID, clock);
        self.packet.end(of_all);
        let data = self.packet.begin(packet::INTERNED_DATA);
        for (category, word) in CATEGORIES {
            let field = interned::EVENT_CATEGORIES;
            push_entry(&mut self.packet, field, category.iid(), word.as_bytes());
        }
        for (name, word) in ARGUMENT_NAMES {
            let field = interned::ANNOTATION_NAMES;
            push_entry(&mut self.packet, field, name.iid(), word.as_bytes());
        }
        self.packet.end(data);
        self.states += 1;
        self.write()
    }

    /// Returns true if the texts of the state need too much memory.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.texts.is_full()
    }

    /// Writes a packet with one message that is no event.
    pub(super) fn message(
        &mut self,
        field: u32,
        fill: impl FnOnce(&mut ProtoBuffer),
    ) -> io::Result<()> {
        self.packet.clear();
        self.packet.unsigned(packet::SEQUENCE_ID, SEQUENCE);
        let message = self.packet.begin(field);
        fill(&mut self.packet);
        self.packet.end(message);
        self.write()
    }

    /// Writes the descriptor of a track; `fill` adds what it stands for.
    pub(super) fn describe(
        &mut self,
        id: TrackId,
        parent: Option<TrackId>,
        name: &[u8],
        fill: impl FnOnce(&mut ProtoBuffer),
    ) -> io::Result<()> {
        let mut escaped = std::mem::take(&mut self.escaped);
        escaped.clear();
        shown(&mut escaped, name, b"");
        let done = self.message(packet::TRACK_DESCRIPTOR, |fields| {
            fields.unsigned(track::UUID, id.0);
            if let Some(parent) = parent {
                fields.unsigned(track::PARENT_UUID, parent.0);
            }
            if !escaped.is_empty() {
                fields.bytes(track::NAME, &escaped);
            }
            fill(fields);
        });
        self.escaped = escaped;
        done
    }

    #[inline]
    fn begin_event(&mut self, kind: EventType, id: TrackId) {
        self.event.clear();
        self.event.unsigned(event::TYPE, kind as u64);
        self.event.unsigned(event::TRACK_UUID, id.0);
    }

    #[inline]
    fn name_event(&mut self, category: EventCategory, name: &'static str) {
        self.event.unsigned(event::CATEGORY_IIDS, category.iid());
        let name = self.texts.name(name);
        self.event.unsigned(event::NAME_IID, name);
    }

    /// Begins the first event of a slice; [`Self::end_event`] writes it with the arguments that
    /// were added.
    #[inline]
    pub(super) fn begin_slice(&mut self, id: TrackId, category: EventCategory, name: &'static str) {
        self.begin_event(EventType::SliceBegin, id);
        self.name_event(category, name);
    }

    /// Begins an event without duration.
    #[inline]
    pub(super) fn begin_instant(
        &mut self,
        id: TrackId,
        category: EventCategory,
        name: &'static str,
    ) {
        self.begin_event(EventType::Instant, id);
        self.name_event(category, name);
    }

    /// Writes the event.
    #[inline]
    pub(super) fn end_event(&mut self, time: KernelTime) -> io::Result<()> {
        self.packet.clear();
        self.packet.unsigned(packet::TIMESTAMP, time.0);
        self.packet.unsigned(packet::SEQUENCE_ID, SEQUENCE);
        self.packet.unsigned(packet::SEQUENCE_FLAGS, sequence_flags::NEEDS_INCREMENTAL_STATE);
        if !self.texts.pending().is_empty() {
            self.packet.bytes(packet::INTERNED_DATA, self.texts.pending().as_slice());
            self.texts.written();
        }
        self.packet.bytes(packet::TRACK_EVENT, self.event.as_slice());
        self.write()
    }

    /// Writes the end of the innermost open slice of a track.
    #[inline]
    pub(super) fn end_slice(&mut self, id: TrackId, time: KernelTime) -> io::Result<()> {
        self.begin_event(EventType::SliceEnd, id);
        self.end_event(time)
    }

    /// Writes a value of a counter.
    #[inline]
    pub(super) fn count(&mut self, id: TrackId, time: KernelTime, value: u64) -> io::Result<()> {
        self.begin_event(EventType::Counter, id);
        self.event.unsigned(event::COUNTER_VALUE, value);
        self.end_event(time)
    }

    /// Adds a side of a flow to the event.
    #[inline]
    pub(super) fn flow(&mut self, side: FlowSide, id: FlowId) {
        let field = match side {
            FlowSide::Begin => event::FLOW_IDS,
            FlowSide::End => event::TERMINATING_FLOW_IDS,
        };
        self.event.fixed64(field, id.0);
    }

    #[inline]
    fn argument(&mut self, name: ArgumentName, fill: impl FnOnce(&mut ProtoBuffer)) {
        let message = self.event.begin(event::DEBUG_ANNOTATIONS);
        self.event.unsigned(annotation::NAME_IID, name.iid());
        fill(&mut self.event);
        self.event.end(message);
    }

    /// Adds a number, if there is one.
    #[inline]
    pub(super) fn unsigned(&mut self, name: ArgumentName, value: Option<u64>) {
        if let Some(value) = value {
            self.argument(name, |fields| fields.unsigned(annotation::UINT_VALUE, value));
        }
    }

    /// Adds a signed number, if there is one.
    #[inline]
    pub(super) fn signed(&mut self, name: ArgumentName, value: Option<i64>) {
        if let Some(value) = value {
            self.argument(name, |fields| fields.signed(annotation::INT_VALUE, value));
        }
    }

    /// Adds an address, if there is one.
    pub(super) fn address(&mut self, name: ArgumentName, value: Option<u64>) {
        if let Some(value) = value {
            self.argument(name, |fields| fields.unsigned(annotation::POINTER_VALUE, value));
        }
    }

    /// Adds a text that other events are likely to have too, if there is one.
    #[inline]
    pub(super) fn text(&mut self, name: ArgumentName, value: Option<&[u8]>) {
        if let Some(value) = value {
            let iid = self.texts.text(value);
            self.argument(name, |fields| fields.unsigned(annotation::STRING_VALUE_IID, iid));
        }
    }

    /// Adds a word, if there is one.
    #[inline]
    pub(super) fn word(&mut self, name: ArgumentName, value: Option<&str>) {
        self.text(name, value.map(str::as_bytes));
    }

    /// Adds a text that no other event is likely to have.
    pub(super) fn sentence(&mut self, name: ArgumentName, value: &str) {
        self.argument(name, |fields| fields.bytes(annotation::STRING_VALUE, value.as_bytes()));
    }

    /// Adds a path and its source, if there is one.
    #[inline]
    pub(super) fn path(&mut self, path: Option<&FilePath>) {
        if let Some(path) = path {
            self.text(ArgumentName::Path, Some(&path.bytes));
            self.word(ArgumentName::PathSource, Some(path.source.as_str()));
        }
    }
}
