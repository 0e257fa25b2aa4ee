//! Events that fit no request, with the reason.

use super::{At, RequestId, State};
use crate::event::block::BlockEvent;

/// An event that could not be used as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAnomaly {
    /// When and where it was recorded.
    pub at: At,
    /// The event itself.
    pub event: BlockEvent,
    /// What is wrong with it.
    pub reason: AnomalyReason,
}

/// What is wrong with an event.
///
/// The unmatched kinds are to be expected in the first moments of a capture, for requests that are older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AnomalyReason {
    /// A completion of a request whose queuing and issue were not seen.
    #[error("unmatched completion: no such request was seen before")]
    UnmatchedCompletion,
    /// A completion of nothing: the end of a flush sequence whose beginning was not seen.
    #[error("unmatched end of a flush sequence: its beginning was not seen")]
    UnmatchedSequenceEnd,
    /// A flush completed, and none was in flight.
    #[error("unmatched flush completion: no flush was in flight")]
    UnmatchedFlush,
    /// A requeue of a request that was not seen before.
    #[error("unmatched requeue: no such request was seen before")]
    UnmatchedRequeue,
    /// A bio was merged into a request that was not seen before.
    #[error("merge without a host: no queued request lies beside it")]
    MergeWithoutHost,
    /// A request was absorbed that was not seen before.
    #[error("unmatched merge: the absorbed request was not seen before")]
    UnmatchedMerge,
    /// There is such a request, but in a state in which the kernel does not do this.
    #[error("impossible for request {id}, which is {state}")]
    WrongState {
        /// The oldest such request.
        id: RequestId,
        /// Its state.
        state: State,
    },
    /// A request completed without error and without having been issued: its issue was lost. The event was used.
    #[error("request {0} completed without an issue")]
    NotIssued(RequestId),
    /// A bio was done whose queuing was not seen, on a device that has no requests.
    #[error("unmatched completion of a bio: no such bio was seen before")]
    UnmatchedBio,
    /// More bios wait on a device than are remembered: the oldest was given up. The event was used.
    #[error("too many bios: the oldest was given up")]
    TooManyBios,
    /// This event's request was one too many in flight on its device: the oldest was given up. The event was used.
    #[error("too many requests in flight: request {0} was given up")]
    TooMany(RequestId),
}
