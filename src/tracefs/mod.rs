//! Parser of tracefs `format` files, and the field accessors compiled from them.
//!
//! ```text
//! events/block/block_rq_issue/format       EventFormat          payload of a record
//! ┌──────────────────────────────────┐    ┌───────────┐ bind   ┌───────────────────────┐
//! │ field:sector_t sector;  offset:16 │ →  │ fields[5] │   →    │ ..16 B.. sector ..... │
//! └──────────────────────────────────┘    └───────────┘        └───────────────────────┘
//!        once per event and run              names, kinds        IntField::read_u64(payload)
//! ```
//!
//! Kernels move, widen and rename fields (`rwbs[8]` became `rwbs[10]` and moved all fields after
//! it). The tracer therefore contains no offsets: this module reads them from the kernel's own
//! description.
//!
//! [`EventFormat::parse`] accepts the texts that the kernel's `f_show()`
//! (`kernel/trace/trace_events.c`) can print, and refuses others with a line and a reason. An
//! accepted text prints back as the same bytes, so a capture may keep the text itself or the parsed
//! form.
//!
//! A *payload* here is a record from its first common field (`common_type`) on: the raw data of a
//! perf sample, or the data of an entry of a tracefs ring. Both carry the same bytes. Accessors
//! check every bound and read integers as little-endian, because captures are made on little-endian
//! machines only.
//!
//! ```
//! use iotrace_perf::tracefs::EventFormat;
//!
//! let file = "tests/corpus/tracefs/6.18.44-fc-v669/events/raw_syscalls/sys_enter/format";
//! let format = EventFormat::parse(&std::fs::read_to_string(file)?)?;
//! assert_eq!((format.name.as_str(), format.fields.len()), ("sys_enter", 6));
//!
//! // The payload of a `write`: common fields, its number (1), and six arguments.
//! let mut payload = [0; 64];
//! payload[8] = 1;
//! assert_eq!(format.int("id")?.read_u64(&payload), Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The module is pure: it opens no file and uses no other module of the crate.
#![forbid(unsafe_code)]

mod access;
mod bind;
mod error;
mod field;
mod format;
mod parse;
mod string;

pub use access::{ArrayField, IntField};
pub use bind::BindError;
pub use error::{FormatError, FormatReason};
pub use field::{Field, FieldKind};
pub use format::EventFormat;
pub use string::StringField;
