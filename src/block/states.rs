//! The table of all (state, event) pairs.

use std::fmt;

/// Where a request is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Allocated and not at the driver: in a plug, in the scheduler, or given back.
    Queued,
    /// A write whose data waits for a flush before it.
    FlushWait,
    /// A demand for a flush, without data.
    Demand,
    /// At the driver.
    Issued,
    /// A write whose data is done and whose flush sequence is not.
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

/// What an event does to a request. (`block_getrq` is not here: it always makes a new one.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Deed {
    /// `block_rq_insert`.
    Insert,
    /// `block_rq_issue`.
    Issue,
    /// `block_rq_complete` with a length.
    Complete,
    /// `block_rq_complete` of nothing.
    CompleteNothing,
    /// `block_rq_requeue`.
    Requeue,
    /// `block_rq_merge`: it becomes part of another.
    Absorb,
    /// `block_bio_backmerge`, `block_bio_frontmerge`, `block_rq_merge`: something becomes part of it.
    Grow,
}

/// How well an event suits a request; the better ones are less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// The kernel does this.
    Expected,
    /// The kernel does this when the request fails before it reaches the driver; otherwise the issue was lost.
    Unissued,
    /// Only if a requeue came between, and requeues are not recorded: otherwise it is another request's event.
    ImpliesRequeue,
    /// The kernel does not do this.
    Never,
}

/// The table.
pub(super) fn fit(state: State, deed: Deed) -> Fit {
    match (state, deed) {
        (State::Queued, Deed::Insert) => Fit::Expected, // the first time, and after a requeue
        (State::Queued, Deed::Issue) => Fit::Expected,
        (State::Queued, Deed::Complete) => Fit::Unissued,
        (State::Queued, Deed::CompleteNothing) => Fit::Unissued, // if it has no length, as zone operations
        (State::Queued, Deed::Requeue) => Fit::Expected, // the driver was busy: given back before the issue is traced
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
        (State::Issued, Deed::Absorb) => Fit::Never, // only what is queued is merged
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
