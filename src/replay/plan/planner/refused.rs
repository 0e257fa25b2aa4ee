//! Skipped operations, and the entries that they left in the capture but not in the replay.

use super::Planner;
use crate::event::syscall_table::CallClass;
use crate::operation::model::{FdEffect, SyscallOperation};
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::replay_paths::OpPaths;
use crate::replay::plan::replayability::SkipReason;

impl<O: PlanOutput> Planner<O> {
    /// Skips an operation that has ended.
    pub(super) fn refuse(
        &mut self,
        operation: &SyscallOperation,
        effects: &[FdEffect],
        reason: SkipReason,
    ) -> Result<(), O::Error> {
        self.leave(operation, reason);
        self.left_name(operation, reason);
        self.foreign(operation, effects, reason)
    }

    /// Records the entry that a skipped operation has made at its path, which the replay lacks. An
    /// open with unknown flags counts as having made an entry where there was none.
    fn left_name(&mut self, operation: &SyscallOperation, reason: SkipReason) {
        let class = operation.call.call().class;
        let may_make = match class {
            CallClass::Name => reason == SkipReason::Device,
            CallClass::Open => reason == SkipReason::Unread,
            _ => false,
        };
        if !may_make || operation.errno().is_some() {
            return;
        }
        let Ok(OpPaths { first: Some(path), .. }) = self.paths(operation) else { return };
        let Some(node) = self.world.find(&path) else { return };
        if class == CallClass::Name || self.world.is_known_absent(node) {
            self.external_entries.made(node);
        }
    }
}
