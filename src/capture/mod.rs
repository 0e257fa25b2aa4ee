//! The capture: the kernel's records as they were, and the facts that cannot be had later.
//!
//! [`format`] is the byte map, [`writer`] appends frames, [`reader`] reads them back from any bytes whatever, [`ahead`]
//! in more than one thread.
//! Nothing in here understands a record.

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
