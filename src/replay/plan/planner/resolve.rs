//! First phase of planning: the files, places and descriptors that an operation means, and whether
//! the replay has them.

use super::{Planner, in_memory};
use crate::operation::model::SyscallOperation;
use crate::replay::plan::handles::Handle;
use crate::replay::plan::infer_initial_state;
use crate::replay::plan::namespace::{NodeId, OpNodes};
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::replay_paths::OpPaths;
use crate::replay::plan::replayability::{SkipReason, environment_failure};
use crate::replay::plan::resources::{NameAccesses, name_accesses};
use crate::replay::plan::symlink_follow::follows;

/// Handles of the descriptors of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpHandles {
    /// Handle of the first descriptor.
    pub(super) first: Option<Handle>,
    /// Handle of the descriptor that receives the bytes of a transfer.
    pub(super) target: Option<Handle>,
}

/// Arguments of an operation that is replayed.
#[derive(Debug)]
pub(super) struct ResolvedOp {
    /// Paths from the root of the replay.
    pub(super) paths: OpPaths,
    /// Handles of the descriptors.
    pub(super) handles: OpHandles,
    /// Places to which the paths lead.
    pub(super) nodes: OpNodes,
    /// Accesses to the names on the way to these places, in the state in which the operation found
    /// the names.
    pub(super) names: NameAccesses,
}

impl<O: PlanOutput> Planner<O> {
    /// Resolves the arguments of an operation.
    ///
    /// # Errors
    ///
    /// Reason to skip the operation.
    pub(super) fn resolve(
        &mut self,
        operation: &SyscallOperation,
    ) -> Result<ResolvedOp, SkipReason> {
        let paths = self.paths(operation)?;
        let handles = self.descriptors(operation, paths.first.is_none())?;
        in_memory::check_open_how(operation)?;
        let (nodes, links) = self.nodes(operation, &paths)?;
        in_memory::check_memory_arguments(operation)?;
        self.has_own_flags(operation, handles.first)?;
        self.may_lock(operation, handles.first)?;
        let names = name_accesses(operation, &self.world, nodes, &links);
        Ok(ResolvedOp { paths, handles, nodes, names })
    }

    /// Returns the places to which the paths lead, and the links on the way; or the reason why the
    /// replay would find something else there.
    pub(super) fn nodes(
        &mut self,
        operation: &SyscallOperation,
        paths: &OpPaths,
    ) -> Result<(OpNodes, Vec<NodeId>), SkipReason> {
        let (mut nodes, mut links) = self.look_up(operation, paths);
        if operation.errno() != Some(libc::ENOENT) {
            self.world.record_traversed_links(&links);
        } else if let OpNodes { first: Some(to), second: None } = nodes
            && self.world.infer_missing_link(&links, to)
        {
            (nodes, links) = self.look_up(operation, paths);
        }
        let is_contended = self.in_flight.may_make_names();
        self.external_entries.ended(&self.world, operation, nodes, is_contended)?;
        let call = operation.call.call();
        match operation.errno().and_then(|errno| Some((errno, environment_failure(call, errno)?))) {
            Some((errno, reason)) => {
                infer_initial_state::failed(&mut self.world, operation, errno, nodes);
                Err(reason)
            }
            None => Ok((nodes, links)),
        }
    }

    /// Returns the places to which the paths lead, as far as known, and the links on the way.
    fn look_up(&mut self, operation: &SyscallOperation, paths: &OpPaths) -> (OpNodes, Vec<NodeId>) {
        let mut links = Vec::new();
        let mut find = |path: &Option<Vec<u8>>, is_followed| {
            path.as_ref().and_then(|path| self.world.reach(path, is_followed, &mut links))
        };
        // The text of a symbolic link is not a name yet.
        let call = operation.call.call();
        let is_name = !call.is_symlink();
        let is_followed = follows(call, &operation.args, operation.flags_in_memory);
        let first = find(&paths.first, is_followed);
        let second = if is_name { find(&paths.second, false) } else { None };
        (OpNodes { first, second }, links)
    }
}
