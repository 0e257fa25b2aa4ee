//! Block events → block requests: what a device was asked, by whom, and how long each stage took.
//!
//! In: the `block:*` tracepoint hits of all devices in time order. Out: [`BlockStep`]s in the same order; each
//! request begins once, under a dense number, and ends once: completed, absorbed by another, or unfinished.
//!
//! ```text
//!            getrq        (insert)       issue            complete
//!   plain    ──┬──────────────┬────────────┬─────────────────┬──►
//!              │queued        │inserted    │issued           │completed
//!
//!            getrq   issue FF  complete FF   issue   complete +n  issue FF  complete FF  complete +0
//!   flush    ──┬────────┬────────────┬─────────┬─────────┬───────────┬───────────┬───────────┬──►
//!   sequence   │queued  └─ a flush ──┘         │issued   │data       └─ a flush ─┘           │completed
//!                         of its own                     │completed
//! ```
//!
//! The kernel gives requests no number in its events, so they are recognised by device, operation and first
//! sector; `states.rs` says which event may befall a request in which state. The kernel's own counts in
//! `/proc/diskstats` follow from the requests that came out ([`BlockRequest::diskstats_class`]).
//!
//! Nothing here reads a clock, a file or a ring.

mod anomaly;
mod bio;
mod bios;
mod complete;
mod device;
mod dispatch;
mod flush;
mod merge;
mod model;
mod states;
mod tracker;

#[cfg(test)]
mod tests;

pub use anomaly::{AnomalyReason, BlockAnomaly};
pub use bio::{Here, Part};
pub use model::{
    At, BlockRequest, BlockStep, DiskstatsClass, Ending, FlushLink, FlushRole, Inferred, RequestId,
    Submitter, SubmitterSource, Unfinished,
};
pub use states::State;
pub use tracker::{BlockOptions, BlockTracker};
