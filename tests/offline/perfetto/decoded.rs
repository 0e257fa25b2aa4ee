//! A decoded trace: events with their names and arguments resolved.

use std::collections::BTreeMap;

use perfetto_protos::debug_annotation::DebugAnnotation;
use perfetto_protos::debug_annotation::debug_annotation::Value as Argument;
use perfetto_protos::trace::Trace;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::track_event::TrackEvent;
use perfetto_protos::track_event::track_event::Type;
use protobuf::Message;
use serde_json::Value;

/// Flag of a packet that begins a state.
const CLEARED: u32 = 1;
/// Flag of a packet that refers to texts of the state.
const NEEDED: u32 = 2;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    SliceBegin,
    SliceEnd,
    Instant,
    Counter,
}

/// An event.
#[derive(Debug)]
pub(super) struct DecodedEvent {
    pub(super) time: u64,
    pub(super) kind: EventKind,
    pub(super) track: u64,
    /// Empty for the end of a slice, and for a counter.
    pub(super) category: String,
    pub(super) name: String,
    arguments: BTreeMap<String, Value>,
    pub(super) flows: Vec<u64>,
    pub(super) ended_flows: Vec<u64>,
}

impl DecodedEvent {
    /// Value of an argument; null: there is none.
    pub(super) fn value(&self, name: &str) -> Value {
        self.arguments.get(name).cloned().unwrap_or_default()
    }
}

/// Texts by number.
type Texts = BTreeMap<u64, String>;

/// Interned texts of a state.
#[derive(Default)]
struct States {
    is_begun: bool,
    categories: Texts,
    names: Texts,
    argument_names: Texts,
    argument_texts: Texts,
}

/// A trace.
#[derive(Default)]
pub(super) struct DecodedTrace {
    pub(super) events: Vec<DecodedEvent>,
    /// Names of tracks.
    pub(super) tracks: BTreeMap<u64, String>,
    /// Parents of tracks.
    pub(super) parents: BTreeMap<u64, u64>,
    /// Thread numbers of tracks.
    pub(super) threads: BTreeMap<u64, i64>,
    /// Clock of all times.
    pub(super) clock: u32,
    pub(super) primary_clock: i32,
    /// Values of clocks at the start.
    pub(super) clocks: BTreeMap<u32, u64>,
}

fn known(texts: &Texts, iid: u64) -> String {
    texts.get(&iid).unwrap_or_else(|| panic!("{iid} in {texts:?}")).clone()
}

impl States {
    fn take(&mut self, packet: &TracePacket) {
        if packet.sequence_flags() & CLEARED != 0 {
            *self = Self { is_begun: true, ..Self::default() };
        }
        let Some(data) = packet.interned_data.as_ref() else { return };
        let entries = data.event_categories.iter().map(|entry| (entry.iid(), entry.name().into()));
        self.categories.extend(entries);
        let entries = data.event_names.iter().map(|entry| (entry.iid(), entry.name().into()));
        self.names.extend(entries);
        let entries = data.debug_annotation_names.iter();
        self.argument_names.extend(entries.map(|entry| (entry.iid(), entry.name().into())));
        for entry in &data.debug_annotation_string_values {
            let text = String::from_utf8(entry.str().to_vec()).expect("UTF-8");
            self.argument_texts.insert(entry.iid(), text);
        }
    }

    fn argument(&self, argument: &DebugAnnotation) -> (String, Value) {
        let value = match argument.value.as_ref().expect("a value") {
            Argument::UintValue(value) | Argument::PointerValue(value) => Value::from(*value),
            Argument::IntValue(value) => Value::from(*value),
            Argument::StringValue(value) => Value::from(value.as_str()),
            Argument::StringValueIid(iid) => Value::from(known(&self.argument_texts, *iid)),
            other => panic!("{other:?}"),
        };
        (known(&self.argument_names, argument.name_iid()), value)
    }

    fn event(&self, time: u64, event: &TrackEvent) -> DecodedEvent {
        let kind = match event.type_() {
            Type::TYPE_SLICE_BEGIN => EventKind::SliceBegin,
            Type::TYPE_SLICE_END => EventKind::SliceEnd,
            Type::TYPE_INSTANT => EventKind::Instant,
            Type::TYPE_COUNTER => EventKind::Counter,
            other => panic!("{other:?}"),
        };
        let is_first = matches!(kind, EventKind::SliceBegin | EventKind::Instant);
        let categories: Vec<String> =
            event.category_iids.iter().map(|iid| known(&self.categories, *iid)).collect();
        assert_eq!(categories.len(), usize::from(is_first), "{event:?}");
        let name = is_first.then(|| known(&self.names, event.name_iid()));
        let arguments: Vec<(String, Value)> =
            event.debug_annotations.iter().map(|argument| self.argument(argument)).collect();
        let count = arguments.len();
        let arguments: BTreeMap<String, Value> = arguments.into_iter().collect();
        assert_eq!(arguments.len(), count, "each argument once: {event:?}");
        DecodedEvent {
            time,
            kind,
            track: event.track_uuid(),
            category: categories.into_iter().next().unwrap_or_default(),
            name: name.unwrap_or_default(),
            arguments,
            flows: event.flow_ids.clone(),
            ended_flows: event.terminating_flow_ids.clone(),
        }
    }
}

impl DecodedTrace {
    /// Decodes a trace, and checks that each packet is understood on its own.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let trace = Trace::parse_from_bytes(bytes).expect("a trace");
        let (mut decoded, mut states) = (Self::default(), States::default());
        for packet in &trace.packet {
            let unknown = packet.special_fields.unknown_fields().iter().count();
            assert_eq!(unknown, 0, "{packet:?}");
            states.take(packet);
            if let Some(defaults) = packet.trace_packet_defaults.as_ref() {
                decoded.clock = defaults.timestamp_clock_id();
            }
            if packet.has_clock_snapshot() {
                let snapshot = packet.clock_snapshot();
                decoded.primary_clock = snapshot.primary_trace_clock.map_or(0, |id| id.value());
                let clocks = snapshot.clocks.iter();
                decoded.clocks.extend(clocks.map(|clock| (clock.clock_id(), clock.timestamp())));
            }
            if packet.has_track_descriptor() {
                let track = packet.track_descriptor();
                // For Perfetto's trace processor the first name of a track counts.
                decoded.tracks.entry(track.uuid()).or_insert_with(|| track.name().to_owned());
                if track.has_parent_uuid() {
                    decoded.parents.insert(track.uuid(), track.parent_uuid());
                }
                if let Some(thread) = track.thread.as_ref() {
                    decoded.threads.insert(track.uuid(), thread.tid().into());
                }
            }
            if packet.has_track_event() {
                assert!(states.is_begun && packet.sequence_flags() & NEEDED != 0, "{packet:?}");
                let event = states.event(packet.timestamp(), packet.track_event());
                decoded.events.push(event);
            }
        }
        decoded
    }

    /// Events by time; those with the same time in the order of the file.
    pub(super) fn in_order(&self) -> Vec<&DecodedEvent> {
        let mut events: Vec<&DecodedEvent> = self.events.iter().collect();
        events.sort_by_key(|event| event.time);
        events
    }
}
