//! Perf ABI bytes → fields. Pure: bytes in, values out, no panic on any bytes.
//!
//! A ring, and so a data frame of the capture log, is a row of records: an eight byte header (`struct
//! perf_event_header` in `include/uapi/linux/perf_event.h`: type, misc, size) and a body whose layout the event's
//! `sample_type` decides. Two steps on purpose: finding a record and its time is cheap and enough to order it; its
//! fields are read once, and only if somebody wants them.

pub mod abi;
pub mod layout;
pub mod page;
pub mod parse;

pub use layout::SampleLayout;
pub use parse::{Record, RecordError, RecordKind, records};
