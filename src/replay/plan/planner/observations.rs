//! Observations: facts about the initial files that the result of an operation shows.

use super::Planner;
use crate::event::syscall_table::CallClass;
use crate::operation::model::SyscallOperation;
use crate::replay::plan::handles::{Handle, HandleTarget};
use crate::replay::plan::infer_initial_state;
use crate::replay::plan::namespace::{EntryKind, OpNodes};
use crate::replay::plan::open_flags::open_flags;
use crate::replay::plan::plan_output::PlanOutput;

impl<O: PlanOutput> Planner<O> {
    /// Records what the result of an operation shows of the initial files. Returns the target of a
    /// descriptor that the operation has made.
    pub(super) fn learn(
        &mut self,
        operation: &SyscallOperation,
        ret: i64,
        nodes: OpNodes,
        handle: Option<Handle>,
    ) -> Option<HandleTarget> {
        let (call, args) = (operation.call.call(), &operation.args);
        if let Some(errno) = operation.errno() {
            infer_initial_state::failed(&mut self.world, operation, errno, nodes);
            return None;
        }
        match (call.class, nodes.first) {
            // An open file gets a name (`linkat` with `AT_EMPTY_PATH`).
            (CallClass::Name, None) => {
                let file = handle.and_then(|handle| self.handles.file(handle));
                let (new, file) = nodes.second.zip(file)?;
                self.world.create_entry(new, EntryKind::File(file));
                None
            }
            (CallClass::Open, Some(node)) => {
                let stat = operation.file.as_ref().and_then(|file| file.stat);
                let flags = open_flags(operation);
                let is_open = |file| self.handles.has_open(file);
                let file = infer_initial_state::opened(&mut self.world, node, flags, stat, is_open);
                Some(file.map_or(HandleTarget::Directory, HandleTarget::File))
            }
            _ => {
                infer_initial_state::named(&mut self.world, call, args, ret, nodes);
                None
            }
        }
    }
}
