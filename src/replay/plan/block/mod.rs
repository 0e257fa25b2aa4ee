//! Block replay plans: block requests of one device in the order in which they were issued.
//!
//! ```text
//!   Step ─► BlockRequests ─► CapturedRequests ─► BlockPlan ─► execute ─► BlockComparison
//!           captured         replayable              (writes)
//! ```
//!
//! A replayed request covers the time from issue to completion as the driver saw it: after merges,
//! without requests that were merged into others. Flushes are those that the kernel's flush
//! machinery sent; requests that demanded a flush never reached the driver.

mod captured_requests;
mod plan;

pub use captured_requests::{
    BlockRequests, CapturedRequest, CapturedRequestKind, CapturedRequests, RequestSkipReason,
};
pub use plan::{Allowed, BlockPlan};
