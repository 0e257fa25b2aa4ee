//! State of block requests in flight.

use crate::operation::model::ThreadInfo;

/// A request that is not over.
#[derive(Debug, Default)]
pub(super) struct InFlightRequest {
    /// Thread that submitted it, if that one is recorded.
    pub(super) thread: Option<ThreadInfo>,
    /// True after the outputs have been notified.
    pub(super) has_steps: bool,
    /// Number of its parts that were examined: others may still be merged into it.
    pub(super) looked_at: usize,
    /// True if a writer of some of it is known.
    pub(super) has_writers: bool,
}
