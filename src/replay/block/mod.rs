//! Block requests of one device → what their replay is to do, in the order in which they were issued; and what came of it.
//!
//! ```text
//!   Step ─► BlockRequests ─► Requests of a device ─► BlockPlan ─► replayer ─► BlockComparison
//!           what was asked   what may be asked again              (writes)
//! ```
//!
//! A request is asked again from its issue to its completion, as the driver had it: merged, without what became a part of another one.
//! Flushes are those that the kernel's flush machinery sent; the requests that demanded them were never the driver's.

mod asked;
mod comparison;
mod plan;

pub use asked::{Asked, BlockRequests, Kind, NotAsked, Requests};
pub use comparison::{BlockComparison, BlockMismatch, BlockOutcome, BlockTimes, Got};
pub use plan::{Allowed, BlockPlan};
