//! Kinds of the steps of block requests, without the requests.

use crate::block::{BlockAnomaly, BlockRequest, BlockStep};

/// Kind of a [`BlockStep`] about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    /// Request was queued.
    Queued,
    /// Another request or bio was merged into it.
    Merged,
    /// Request reached the scheduler.
    Inserted,
    /// Driver received it.
    Issued,
    /// Driver returned it.
    Requeued,
    /// Part of it completed.
    Progressed,
    /// Request has ended.
    Ended,
}

impl StepKind {
    /// Returns the step of this kind about a request.
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

/// Returns the kind of a step and its request, or the anomaly that it reports.
pub(super) fn parts<'a>(
    step: &BlockStep<'a>,
) -> Result<(StepKind, &'a BlockRequest), &'a BlockAnomaly> {
    Ok(match *step {
        BlockStep::Queued(request) => (StepKind::Queued, request),
        BlockStep::Merged(request) => (StepKind::Merged, request),
        BlockStep::Inserted(request) => (StepKind::Inserted, request),
        BlockStep::Issued(request) => (StepKind::Issued, request),
        BlockStep::Requeued(request) => (StepKind::Requeued, request),
        BlockStep::Progressed(request) => (StepKind::Progressed, request),
        BlockStep::Ended(request) => (StepKind::Ended, request),
        BlockStep::Anomaly(anomaly) => return Err(anomaly),
    })
}

/// Returns a step that outlives the reporting call; anomalies are not included.
pub(super) fn owned(step: &BlockStep<'_>) -> Option<(StepKind, BlockRequest)> {
    parts(step).ok().map(|(kind, request)| (kind, request.clone()))
}
