//! Block events that match no request, with the reason.

use super::event_context::EventContext;
use super::request_id::RequestId;
use super::states::State;
use crate::event::block::BlockEvent;

/// Event that could not be used in the usual way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAnomaly {
    /// Time and place of the record.
    pub at: EventContext,
    /// Event itself.
    pub event: BlockEvent,
    /// Fault of the event.
    pub reason: AnomalyReason,
}

/// Fault of an event.
///
/// The unmatched kinds are normal in the first moments of a capture, for requests that are older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AnomalyReason {
    /// A completion of a request whose queuing and issue were not seen.
    #[error("unmatched completion: no such request was seen before")]
    UnmatchedCompletion,
    /// An end without a request: the end of a flush sequence whose beginning was not seen.
    #[error("unmatched end of a flush sequence: its beginning was not seen")]
    UnmatchedSequenceEnd,
    /// A flush completed although none was in flight.
    #[error("unmatched flush completion: no flush was in flight")]
    UnmatchedFlush,
    /// A requeue of a request that was not seen before.
    #[error("unmatched requeue: no such request was seen before")]
    UnmatchedRequeue,
    /// A bio was merged into a request that was not seen before.
    #[error("merge without a host: no queued request is adjacent to it")]
    MergeWithoutHost,
    /// A request that was not seen before was absorbed.
    #[error("unmatched merge: the absorbed request was not seen before")]
    UnmatchedMerge,
    /// There is such a request, but in a state in which the kernel does not do this.
    #[error("impossible for request {id}, which is {state}")]
    WrongState {
        /// Oldest such request.
        id: RequestId,
        /// State of that request.
        state: State,
    },
    /// A request completed without error and without an issue: its issue was lost. The event was
    /// used.
    #[error("request {0} completed without an issue")]
    NotIssued(RequestId),
    /// A bio ended whose queuing was not seen, on a device that has no requests.
    #[error("unmatched completion of a bio: no such bio was seen before")]
    UnmatchedBio,
    /// More bios wait on a device than the tracker keeps: the oldest was dropped. The event was
    /// used.
    #[error("too many bios: the oldest was given up")]
    TooManyBios,
    /// The request of this event exceeded the limit of requests in flight on its device: the oldest
    /// was dropped. The event was used.
    #[error("too many requests in flight: request {0} was given up")]
    TooMany(RequestId),
}
