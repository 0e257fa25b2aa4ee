//! State of block requests in flight, and their steps without the requests.

use crate::block::{BlockRequest, BlockStep};
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

/// A [`BlockStep`] without its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    Queued,
    Merged,
    Inserted,
    Issued,
    Requeued,
    Progressed,
    Ended,
}

impl StepKind {
    pub(super) fn of(self, request: &BlockRequest) -> BlockStep<'_> {
        match self {
            Self::Queued => BlockStep::Queued(request),
            Self::Merged => BlockStep::Merged(request),
            Self::Inserted => BlockStep::Inserted(request),
            Self::Issued => BlockStep::Issued(request),
            Self::Requeued => BlockStep::Requeued(request),
            Self::Progressed => BlockStep::Progressed(request),
            Self::Ended => BlockStep::Ended(request),
        }
    }
}

/// Returns a step that outlives the reporting call; anomalies are not included.
pub(super) fn owned(step: &BlockStep<'_>) -> Option<(StepKind, BlockRequest)> {
    Some(match *step {
        BlockStep::Queued(it) => (StepKind::Queued, it.clone()),
        BlockStep::Merged(it) => (StepKind::Merged, it.clone()),
        BlockStep::Inserted(it) => (StepKind::Inserted, it.clone()),
        BlockStep::Issued(it) => (StepKind::Issued, it.clone()),
        BlockStep::Requeued(it) => (StepKind::Requeued, it.clone()),
        BlockStep::Progressed(it) => (StepKind::Progressed, it.clone()),
        BlockStep::Ended(it) => (StepKind::Ended, it.clone()),
        BlockStep::Anomaly(_) => return None,
    })
}
