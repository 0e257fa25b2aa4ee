//! Capture log: the kernel's records as they were, and the facts that cannot be obtained later.
//!
//! [`mod@format`] is the byte map, [`writer`] appends frames, [`reader`] reads them back from any
//! bytes, and [`prefetch`] does so in more than one thread. Nothing here interprets a record.

pub mod clock_exchange;
pub mod delta;
pub mod excerpt;
pub mod fact;
pub mod format;
pub mod frame_ring;
pub mod frame_scanner;
pub mod header;
pub mod message_clock;
mod payload;
pub mod prefetch;
pub mod reader;
pub mod symbol;
pub mod trailing_facts;
pub mod user_stack;
pub mod wall_clock;
pub mod writer;
