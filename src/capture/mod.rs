//! Capture log: the kernel's records as they were, and the facts that cannot be obtained later.
//!
//! [`format`] is the byte map, [`writer`] appends frames, [`reader`] reads them back from any
//! bytes, and [`ahead`] does so in more than one thread. Nothing here interprets a record.

pub mod ahead;
pub mod delta;
pub mod fact;
pub mod format;
pub mod header;
pub mod later;
mod payload;
pub mod reader;
pub mod symbol;
pub mod unwound;
pub mod writer;
