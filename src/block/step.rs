//! Steps in which block requests are reported.

use super::anomaly::BlockAnomaly;
use super::model::BlockRequest;

/// Step of a request, reported at the time of the event that caused it.
#[derive(Clone, Copy, Debug)]
pub enum BlockStep<'a> {
    /// The request begins: always its first step.
    Queued(&'a BlockRequest),
    /// A bio or another request was merged into the request.
    Merged(&'a BlockRequest),
    /// The request went into the I/O scheduler; again after a requeue.
    Inserted(&'a BlockRequest),
    /// The request went to the driver; again after each requeue.
    Issued(&'a BlockRequest),
    /// The driver returned the request.
    Requeued(&'a BlockRequest),
    /// A part of the request is completed, or its data is but not its flush sequence.
    Progressed(&'a BlockRequest),
    /// The request ended, see [`BlockRequest::ending`]: always its last step.
    Ended(&'a BlockRequest),
    /// An event could not be used in the usual way.
    Anomaly(&'a BlockAnomaly),
}
