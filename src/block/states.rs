//! State table of block requests: all (state, event) pairs.

use std::fmt;

/// State of a request in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The request is allocated and not at the driver: in a plug, in the scheduler, or returned.
    Queued,
    /// The data of a write waits for a flush before it.
    FlushWait,
    /// The request is a demand for a flush, without data.
    Demand,
    /// The request is at the driver.
    Issued,
    /// The data of a write is completed, but its flush sequence is not.
    DataDone,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queued => "queued",
            Self::FlushWait => "waiting for a flush before its data",
            Self::Demand => "a demand for a flush",
            Self::Issued => "at the driver",
            Self::DataDone => "waiting for the end of its flush sequence",
        })
    }
}

/// Effect of an event on a request. (`block_getrq` is missing: it always creates a request.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum BlockTransition {
    /// Event `block_rq_insert`.
    Insert,
    /// Event `block_rq_issue`.
    Issue,
    /// Event `block_rq_complete` with a length.
    Complete,
    /// Event `block_rq_complete` without a length.
    CompleteNothing,
    /// Event `block_rq_requeue`.
    Requeue,
    /// Event `block_rq_merge`: the request becomes part of another.
    Absorb,
    /// Events `block_bio_backmerge`, `block_bio_frontmerge`, `block_rq_merge`: a bio or another
    /// request becomes part of this one.
    Grow,
}

/// Degree to which an event suits a request; better ones are smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TransitionMatch {
    /// The kernel does this.
    Expected,
    /// The kernel does this when the request fails before it reaches the driver; otherwise the
    /// issue was lost.
    Unissued,
    /// The event suits only if a requeue came between, and requeues are not recorded. Otherwise it
    /// belongs to another request.
    ImpliesRequeue,
    /// The kernel does not do this.
    Never,
}

/// Returns the entry of the table.
pub(super) fn fit(state: State, deed: BlockTransition) -> TransitionMatch {
    match (state, deed) {
        (State::Queued, BlockTransition::Insert) => TransitionMatch::Expected, // the first time, and after a requeue
        (State::Queued, BlockTransition::Issue) => TransitionMatch::Expected,
        (State::Queued, BlockTransition::Complete) => TransitionMatch::Unissued,
        (State::Queued, BlockTransition::CompleteNothing) => TransitionMatch::Unissued, // if it has no length, as zone operations
        (State::Queued, BlockTransition::Requeue) => TransitionMatch::Expected, // returned by a busy driver before the traced issue
        (State::Queued, BlockTransition::Absorb) => TransitionMatch::Expected,
        (State::Queued, BlockTransition::Grow) => TransitionMatch::Expected,

        (State::FlushWait, BlockTransition::Insert) => TransitionMatch::Expected, // its flush is done
        (State::FlushWait, BlockTransition::Issue) => TransitionMatch::Expected, // its flush is done, and the insert is not traced
        (State::FlushWait, BlockTransition::Complete) => TransitionMatch::Unissued, // its flush failed
        (State::FlushWait, BlockTransition::CompleteNothing) => TransitionMatch::Never, // it has a length
        (State::FlushWait, BlockTransition::Requeue) => TransitionMatch::Expected, // as if queued, when the insert is not traced
        (State::FlushWait, BlockTransition::Absorb) => TransitionMatch::Never, // flush sequences are not merged
        (State::FlushWait, BlockTransition::Grow) => TransitionMatch::Never,

        (State::Demand, BlockTransition::Insert) => TransitionMatch::Never, // the flush sent for it has events, it has none
        (State::Demand, BlockTransition::Issue) => TransitionMatch::Never,
        (State::Demand, BlockTransition::Complete) => TransitionMatch::Never, // it has no length
        (State::Demand, BlockTransition::CompleteNothing) => TransitionMatch::Expected,
        (State::Demand, BlockTransition::Requeue) => TransitionMatch::Never,
        (State::Demand, BlockTransition::Absorb) => TransitionMatch::Never,
        (State::Demand, BlockTransition::Grow) => TransitionMatch::Never,

        (State::Issued, BlockTransition::Insert) => TransitionMatch::ImpliesRequeue,
        (State::Issued, BlockTransition::Issue) => TransitionMatch::ImpliesRequeue,
        (State::Issued, BlockTransition::Complete) => TransitionMatch::Expected,
        (State::Issued, BlockTransition::CompleteNothing) => TransitionMatch::Expected, // no length, or no byte done before a retry
        (State::Issued, BlockTransition::Requeue) => TransitionMatch::Expected,
        (State::Issued, BlockTransition::Absorb) => TransitionMatch::Never, // only queued requests are merged
        (State::Issued, BlockTransition::Grow) => TransitionMatch::Never,

        (State::DataDone, BlockTransition::Insert) => TransitionMatch::Never, // the flush after the data has events, it has none
        (State::DataDone, BlockTransition::Issue) => TransitionMatch::Never,
        (State::DataDone, BlockTransition::Complete) => TransitionMatch::Never, // no byte is left
        (State::DataDone, BlockTransition::CompleteNothing) => TransitionMatch::Expected,
        (State::DataDone, BlockTransition::Requeue) => TransitionMatch::Never,
        (State::DataDone, BlockTransition::Absorb) => TransitionMatch::Never,
        (State::DataDone, BlockTransition::Grow) => TransitionMatch::Never,
    }
}
