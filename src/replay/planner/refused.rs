//! What is not done again, and what that leaves behind in the capture and not in the replay.

use super::{Out, Planner};
use crate::event::syscall_table::Class;
use crate::operation::model::{FdEffect, SyscallOperation};
use crate::replay::replayability::SkipReason;

impl<O: Out> Planner<O> {
    /// It has ended, and is not done again.
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

    /// What it has made at its path is not there in the replay. Of an open of which it is not known how it opens, this is so where nothing was.
    fn left_name(&mut self, operation: &SyscallOperation, reason: SkipReason) {
        let class = operation.call.call().class;
        let may_make = match class {
            Class::Name => reason == SkipReason::Device,
            Class::Open => reason == SkipReason::Unread,
            _ => false,
        };
        if !may_make || operation.errno().is_some() {
            return;
        }
        let Ok([Some(path), _]) = self.paths(operation) else { return };
        let Some(node) = self.world.find(&path) else { return };
        if class == Class::Name || self.world.is_known_absent(node) {
            self.strangers.made(node);
        }
    }
}
