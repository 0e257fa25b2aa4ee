//! Block events → block requests: the operations that a device was given, their submitters, and the
//! duration of each stage.
//!
//! Input: the `block:*` events of all devices in time order. Output: [`BlockStep`]s in the
//! same order. Each request begins once, under a dense number, and ends once: completed, absorbed
//! by another, or unfinished.
//!
//! ```text
//!            getrq        (insert)       issue            complete
//!   plain    ──┬──────────────┬────────────┬─────────────────┬──►
//!              │queued        │inserted    │issued           │completed
//!
//!            getrq   issue FF complete FF issue  complete +n issue FF complete FF complete +0
//!   flush    ──┬───────┬────────┬───────────┬──────┬───────────┬────────┬───────────┬───►
//!   sequence   │queued └ a flush ┘          │issued│data       └ a flush ┘          │completed
//!                        of its own                │completed
//! ```
//!
//! The kernel's events contain no request numbers, so requests are recognized by device, operation
//! and first sector. `states.rs` has the table of events that can occur to a request in each state.
//! The kernel's own counters in `/proc/diskstats` follow from the resulting requests
//! ([`BlockRequest::diskstats_class`]).
//!
//! The room reads no clock, no file and no ring.

mod anomaly;
mod bio;
mod bios;
mod complete;
mod device;
mod dispatch;
mod event_context;
mod flush;
mod merge;
mod model;
mod request_id;
mod request_part;
mod states;
mod step;
mod tracker;

#[cfg(test)]
mod tests;

pub use anomaly::{AnomalyReason, BlockAnomaly};
pub use event_context::EventContext;
pub use model::{
    BlockRequest, DiskstatsClass, FlushLink, FlushRole, Inferred, RequestEnd, Submitter,
    SubmitterSource, UnfinishedRequest,
};
pub use request_id::RequestId;
pub use request_part::{BioArrival, RequestPart};
pub use states::State;
pub use step::BlockStep;
pub use tracker::{BlockOptions, BlockTracker};
