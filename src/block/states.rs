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
pub(super) enum Deed {
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
pub(super) enum Fit {
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
pub(super) fn fit(state: State, deed: Deed) -> Fit {
    match (state, deed) {
        (State::Queued, Deed::Insert) => Fit::Expected, // the first time, and after a requeue
        (State::Queued, Deed::Issue) => Fit::Expected,
        (State::Queued, Deed::Complete) => Fit::Unissued,
        (State::Queued, Deed::CompleteNothing) => Fit::Unissued, // if it has no length, as zone operations
        (State::Queued, Deed::Requeue) => Fit::Expected, // returned by a busy driver before the traced issue
        (State::Queued, Deed::Absorb) => Fit::Expected,
        (State::Queued, Deed::Grow) => Fit::Expected,

        (State::FlushWait, Deed::Insert) => Fit::Expected, // its flush is done
        (State::FlushWait, Deed::Issue) => Fit::Expected, // its flush is done, and the insert is not traced
        (State::FlushWait, Deed::Complete) => Fit::Unissued, // its flush failed
        (State::FlushWait, Deed::CompleteNothing) => Fit::Never, // it has a length
        (State::FlushWait, Deed::Requeue) => Fit::Expected, // as if queued, when the insert is not traced
        (State::FlushWait, Deed::Absorb) => Fit::Never,     // flush sequences are not merged
        (State::FlushWait, Deed::Grow) => Fit::Never,

        (State::Demand, Deed::Insert) => Fit::Never, // the flush sent for it has events, it has none
        (State::Demand, Deed::Issue) => Fit::Never,
        (State::Demand, Deed::Complete) => Fit::Never, // it has no length
        (State::Demand, Deed::CompleteNothing) => Fit::Expected,
        (State::Demand, Deed::Requeue) => Fit::Never,
        (State::Demand, Deed::Absorb) => Fit::Never,
        (State::Demand, Deed::Grow) => Fit::Never,

        (State::Issued, Deed::Insert) => Fit::ImpliesRequeue,
        (State::Issued, Deed::Issue) => Fit::ImpliesRequeue,
        (State::Issued, Deed::Complete) => Fit::Expected,
        (State::Issued, Deed::CompleteNothing) => Fit::Expected, // no length, or no byte done before a retry
        (State::Issued, Deed::Requeue) => Fit::Expected,
        (State::Issued, Deed::Absorb) => Fit::Never, // only queued requests are merged
        (State::Issued, Deed::Grow) => Fit::Never,

        (State::DataDone, Deed::Insert) => Fit::Never, // the flush after the data has events, it has none
        (State::DataDone, Deed::Issue) => Fit::Never,
        (State::DataDone, Deed::Complete) => Fit::Never, // no byte is left
        (State::DataDone, Deed::CompleteNothing) => Fit::Expected,
        (State::DataDone, Deed::Requeue) => Fit::Never,
        (State::DataDone, Deed::Absorb) => Fit::Never,
        (State::DataDone, Deed::Grow) => Fit::Never,
    }
}
