//! Operations in flight: calls and asynchronous operations that have begun and not ended.
//!
//! No later operation began before the oldest of them.

use rustc_hash::FxHashMap;

use super::low_watermark::LowWatermark;
use crate::operation::model::ThreadKey;
use crate::units::KernelTime;

/// Identity of an operation in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum InFlightKey {
    /// Call of a thread.
    Call(ThreadKey),
    /// Asynchronous operation, by its number.
    Operation(u64),
}

#[derive(Clone, Copy, Debug)]
struct BegunOp {
    /// Begin of the operation.
    start: KernelTime,
    may_make_names: bool,
}

/// Calls and asynchronous operations that may be replayed and have not ended.
#[derive(Debug, Default)]
pub(super) struct InFlightOps {
    of: FxHashMap<InFlightKey, BegunOp>,
    past: LowWatermark,
    /// Number of them that may make names.
    makers: usize,
}

impl InFlightOps {
    /// Adds an operation that began at `start`.
    pub(super) fn add_operation(
        &mut self,
        inside: InFlightKey,
        start: KernelTime,
        may_make_names: bool,
    ) {
        self.remove_operation(inside);
        self.past.add_operation(start);
        self.makers += usize::from(may_make_names);
        self.of.insert(inside, BegunOp { start, may_make_names });
    }

    /// Removes an operation that has ended, or whose end will not be seen.
    pub(super) fn remove_operation(&mut self, inside: InFlightKey) {
        if let Some(begun) = self.of.remove(&inside) {
            self.past.remove_operation(begun.start);
            self.makers -= usize::from(begun.may_make_names);
        }
    }

    /// Raises the floor after an operation has been planned. `first` is the begin of the first
    /// operation.
    pub(super) fn raise_floor(&mut self, now: KernelTime, first: Option<KernelTime>) {
        self.past.raise_floor(now, first);
    }

    /// Returns the begin of the oldest operation in flight.
    pub(super) fn oldest(&self) -> Option<KernelTime> {
        self.past.oldest()
    }

    /// Returns true if an operation in flight may have made a name already.
    pub(super) fn may_make_names(&self) -> bool {
        self.makers > 0
    }

    /// Returns the begin of the oldest operation in flight that may make names.
    pub(super) fn makes_names_since(&self) -> Option<KernelTime> {
        self.of.values().filter(|begun| begun.may_make_names).map(|begun| begun.start).min()
    }

    /// Returns the bound for the begins of later operations.
    pub(super) fn past(&self) -> &LowWatermark {
        &self.past
    }
}
