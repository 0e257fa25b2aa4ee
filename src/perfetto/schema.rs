//! Numbers of the fields of Perfetto's schema (`protos/perfetto/trace/perfetto_trace.proto`), by
//! message. `tests/offline/perfetto.rs` decodes what is written with them by the whole schema.

pub(super) const TRACE_PACKET: u32 = 1;

/// Fields of `TracePacket`.
pub(super) mod packet {
    pub(in super::super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(in super::super) const TIMESTAMP: u32 = 8;
    pub(in super::super) const SEQUENCE_ID: u32 = 10;
    pub(in super::super) const TRACK_EVENT: u32 = 11;
    pub(in super::super) const INTERNED_DATA: u32 = 12;
    pub(in super::super) const SEQUENCE_FLAGS: u32 = 13;
    pub(in super::super) const SYSTEM_INFO: u32 = 45;
    pub(in super::super) const DEFAULTS: u32 = 59;
    pub(in super::super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(in super::super) const FIRST_ON_SEQUENCE: u32 = 87;
}

/// Values of `TracePacket.sequence_flags`.
pub(super) mod sequence_flags {
    pub(in super::super) const INCREMENTAL_STATE_CLEARED: u64 = 1;
    pub(in super::super) const NEEDS_INCREMENTAL_STATE: u64 = 2;
}

/// Fields of `TracePacketDefaults`.
pub(super) mod defaults {
    pub(in super::super) const TIMESTAMP_CLOCK_ID: u32 = 58;
}

/// Fields of `ClockSnapshot` and its `Clock`, and numbers of clocks.
pub(super) mod clock {
    pub(in super::super) const CLOCKS: u32 = 1;
    pub(in super::super) const PRIMARY: u32 = 2;
    pub(in super::super) const ID: u32 = 1;
    pub(in super::super) const TIMESTAMP: u32 = 2;
    pub(in super::super) const REALTIME: u64 = 1;
    pub(in super::super) const MONOTONIC: u64 = 3;
}

/// Fields of `TrackEvent`.
pub(super) mod event {
    pub(in super::super) const CATEGORY_IIDS: u32 = 3;
    pub(in super::super) const DEBUG_ANNOTATIONS: u32 = 4;
    pub(in super::super) const TYPE: u32 = 9;
    pub(in super::super) const NAME_IID: u32 = 10;
    pub(in super::super) const TRACK_UUID: u32 = 11;
    pub(in super::super) const COUNTER_VALUE: u32 = 30;
    pub(in super::super) const FLOW_IDS: u32 = 47;
    pub(in super::super) const TERMINATING_FLOW_IDS: u32 = 48;
}

/// Fields of `DebugAnnotation`.
pub(super) mod annotation {
    pub(in super::super) const NAME_IID: u32 = 1;
    pub(in super::super) const UINT_VALUE: u32 = 3;
    pub(in super::super) const INT_VALUE: u32 = 4;
    pub(in super::super) const STRING_VALUE: u32 = 6;
    pub(in super::super) const POINTER_VALUE: u32 = 7;
    pub(in super::super) const STRING_VALUE_IID: u32 = 17;
}

/// Fields of `InternedData`, and of each of its entries.
pub(super) mod interned {
    pub(in super::super) const EVENT_CATEGORIES: u32 = 1;
    pub(in super::super) const EVENT_NAMES: u32 = 2;
    pub(in super::super) const ANNOTATION_NAMES: u32 = 3;
    pub(in super::super) const ANNOTATION_STRINGS: u32 = 29;
    pub(in super::super) const IID: u32 = 1;
    pub(in super::super) const TEXT: u32 = 2;
}

/// Fields of `TrackDescriptor`, and the order of children by their rank.
pub(super) mod track {
    pub(in super::super) const UUID: u32 = 1;
    pub(in super::super) const NAME: u32 = 2;
    pub(in super::super) const PROCESS: u32 = 3;
    pub(in super::super) const THREAD: u32 = 4;
    pub(in super::super) const PARENT_UUID: u32 = 5;
    pub(in super::super) const COUNTER: u32 = 8;
    pub(in super::super) const CHILD_ORDERING: u32 = 11;
    pub(in super::super) const SIBLING_ORDER_RANK: u32 = 12;
    pub(in super::super) const EXPLICIT: u64 = 3;
}

/// Fields of `ProcessDescriptor`.
pub(super) mod process {
    pub(in super::super) const PID: u32 = 1;
    pub(in super::super) const COMMAND_LINE: u32 = 2;
    pub(in super::super) const NAME: u32 = 6;
}

/// Fields of `ThreadDescriptor`.
pub(super) mod thread {
    pub(in super::super) const PID: u32 = 1;
    pub(in super::super) const TID: u32 = 2;
    pub(in super::super) const NAME: u32 = 5;
}

/// Fields of `CounterDescriptor`, and units.
pub(super) mod counter {
    pub(in super::super) const UNIT: u32 = 3;
    pub(in super::super) const COUNT: u64 = 2;
    pub(in super::super) const SIZE_BYTES: u64 = 3;
}

/// Fields of `SystemInfo` and its `Utsname`.
pub(super) mod system {
    pub(in super::super) const UTSNAME: u32 = 1;
    pub(in super::super) const SYSNAME: u32 = 1;
    pub(in super::super) const VERSION: u32 = 2;
    pub(in super::super) const RELEASE: u32 = 3;
    pub(in super::super) const MACHINE: u32 = 4;
}
