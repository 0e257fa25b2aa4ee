//! Operation data that is read between two calls.
//!
//! Entries are small, as are prepared calls: the kernel's work evicts cache lines, and each line
//! that has to be loaded again makes the replay slower than the program.

use super::timestamps::WorkerStamp;
use crate::units::{Nanos, ReplayTime};

/// Dependencies of an operation, and its effects.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpMeta {
    /// End of its dependencies in the list of all dependencies.
    waits_end: u32,
    /// Handle that the operation uses; `makes` is the one that it creates.
    pub(super) handle: Option<u32>,
    pub(super) makes: Option<u32>,
    pub(super) handle_effect: HandleEffect,
    /// Success of the operation in the capture; `None`: the operation is not one on names.
    pub(super) names: Option<bool>,
}

impl OpMeta {
    pub(super) fn new(
        handle: Option<u32>,
        makes: Option<u32>,
        handle_effect: HandleEffect,
        names: Option<bool>,
    ) -> Self {
        Self { waits_end: 0, handle, makes, handle_effect, names }
    }
}

/// Effect of an operation on the descriptors of the replay, with or without a call of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandleEffect {
    /// No effect.
    Nothing,
    /// Result is a descriptor, also where the captured call failed.
    Makes,
    /// The operation's descriptor is closed.
    Closes,
    /// Descriptor stays open because another process shares its handle; a copy of it is closed.
    ClosesCopy,
    /// Operation's time begins before it waits for others: in the capture it waited inside the
    /// call.
    Waits,
    /// Implicit operation that closes a handle: no captured call did so.
    Implicit,
    /// Implicit operation that unlocks, seeks, or sets a descriptor flag: no captured call did so.
    ImplicitChange,
}

impl HandleEffect {
    /// Returns true for implicit operations.
    pub(super) fn is_implicit(self) -> bool {
        matches!(self, Self::Implicit | Self::ImplicitChange)
    }
}

/// Captured time of an operation. Read only for pacing, windows and the total order.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpTiming {
    pub(super) start: ReplayTime,
    pub(super) end: ReplayTime,
    /// Latest end among this operation and all that precede it in the plan. These are the
    /// operations that it may wait for.
    pub(super) latest: ReplayTime,
    /// Number of operations, of all threads, that had ended before.
    pub(super) turn: u64,
}

/// Operation that is to be executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayStep<'a> {
    pub(super) due: &'a OpMeta,
    pub(super) moment: &'a OpTiming,
    /// Operations that this one waits for: worker and index among that worker's operations.
    pub(super) waits: &'a [(u32, u32)],
}

/// Operations of a frame, without their calls.
#[derive(Debug, Default)]
pub(super) struct Steps {
    due: Vec<OpMeta>,
    moments: Vec<OpTiming>,
    waits: Vec<(u32, u32)>,
}

impl Steps {
    /// Adds an operation; `None`: the frame has more dependencies than `u32` can count.
    pub(super) fn push(
        &mut self,
        due: OpMeta,
        moment: OpTiming,
        waits: &[(u32, u32)],
    ) -> Option<()> {
        self.waits.extend(waits);
        self.due.push(OpMeta { waits_end: u32::try_from(self.waits.len()).ok()?, ..due });
        self.moments.push(moment);
        Some(())
    }

    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    /// Returns the operation at an index; `None`: the frame has fewer.
    pub(super) fn get(&self, index: usize) -> Option<ReplayStep<'_>> {
        let (due, moment) = (self.due.get(index)?, self.moments.get(index)?);
        let from = index.checked_sub(1).map_or(0, |it| self.due[it].waits_end);
        Some(ReplayStep { due, moment, waits: &self.waits[from as usize..due.waits_end as usize] })
    }

    /// Returns all operations.
    pub(super) fn iter(&self) -> impl Iterator<Item = ReplayStep<'_>> {
        (0..).map_while(|it| self.get(it))
    }

    /// Returns the memory of the steps, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.due[..]) + size_of_val(&self.moments[..]) + size_of_val(&self.waits[..])
    }
}

/// Result of a replayed operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplayedResult {
    pub(super) ret: i64,
    pub(super) start: WorkerStamp,
    pub(super) end: WorkerStamp,
}

/// Results of the completed operations of a frame.
#[derive(Debug, Default)]
pub(super) struct Results {
    got: Vec<ReplayedResult>,
    late: Vec<Option<Nanos>>,
    done: usize,
}

impl Results {
    /// Allocates room for `count` results, before the first operation.
    pub(super) fn of(count: usize) -> Self {
        Self { got: vec![ReplayedResult::default(); count], late: vec![None; count], done: 0 }
    }

    /// Adds the result of the next operation, and its lateness if it had a due time.
    pub(super) fn push(&mut self, got: ReplayedResult, late: Option<Nanos>) {
        self.got[self.done] = got;
        if late.is_some() {
            self.late[self.done] = late;
        }
        self.done += 1;
    }

    /// Returns the results of the completed operations.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ReplayedResult, Option<Nanos>)> {
        self.got[..self.done].iter().zip(self.late.iter().copied())
    }

    /// Returns the memory of the results, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.got[..]) + size_of_val(&self.late[..])
    }
}
