//! Second phase of planning: facts about the initial files that an operation shows, and its changes
//! to the model of the files.

use super::Planner;
use super::resolve::{OpHandles, ResolvedOp};
use crate::event::syscall_table::CallClass;
use crate::operation::model::SyscallOperation;
use crate::replay::plan::handles::{Handle, HandleTarget};
use crate::replay::plan::infer_initial_state;
use crate::replay::plan::namespace::{EntryKind, FileId};
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::resources::advance_position;

/// Facts about the files of an operation that the later phases need.
#[derive(Debug)]
pub(super) struct InferredFacts {
    /// Target of a descriptor that the operation has made.
    pub(super) made: Option<HandleTarget>,
    /// File whose length the operation has set by its path.
    pub(super) resized: Option<FileId>,
    /// Files of its descriptors.
    pub(super) files: OpFiles,
}

/// Files of the descriptors of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpFiles {
    /// File of the first descriptor.
    pub(super) first: Option<UsedFile>,
    /// File of the descriptor that receives the bytes of a transfer.
    pub(super) target: Option<UsedFile>,
}

/// Open file that an operation uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsedFile {
    pub(super) file: FileId,
    /// Length before the operation that does not depend on any write.
    pub(super) of_itself: u64,
}

impl<O: PlanOutput> Planner<O> {
    /// Infers the initial state of the files of an operation, and applies its changes to the model.
    pub(super) fn infer(
        &mut self,
        operation: &SyscallOperation,
        ret: i64,
        resolved: &ResolvedOp,
    ) -> InferredFacts {
        let ResolvedOp { paths, handles, nodes, .. } = resolved;
        let call = operation.call.call();
        if let (Some(path), None | Some(libc::ENOENT)) = (&paths.first, operation.errno()) {
            self.world.record_traversed_path(path, ret >= 0);
        }
        let path = paths.first.as_deref();
        infer_initial_state::spelled(&mut self.world, operation, path, nodes.first);
        let made = self.learn(operation, ret, *nodes, handles.first);
        if let (Some(link), Some(text)) = (nodes.first, &paths.second)
            && call.is_symlink()
            && ret == 0
        {
            self.world.contains(link, text);
        }
        let by_path = nodes.first.filter(|_| call.class == CallClass::Resize);
        let resized = match by_path.and_then(|node| self.world.entry_kind(node)) {
            Some(EntryKind::File(file)) => Some(file),
            _ => None,
        };
        InferredFacts { made, resized, files: self.infer_from_files(operation, *handles) }
    }

    /// Infers the initial state of the files of the descriptors that an operation was given, and
    /// moves their positions. Returns these files.
    pub(super) fn infer_from_files(
        &mut self,
        operation: &SyscallOperation,
        handles: OpHandles,
    ) -> OpFiles {
        OpFiles {
            first: handles.first.and_then(|handle| self.infer_from_file(operation, handle, false)),
            target: handles.target.and_then(|handle| self.infer_from_file(operation, handle, true)),
        }
    }

    /// Infers the initial state of the file of one descriptor, and moves its position. `is_target`:
    /// the descriptor receives the bytes of a transfer.
    fn infer_from_file(
        &mut self,
        operation: &SyscallOperation,
        handle: Handle,
        is_target: bool,
    ) -> Option<UsedFile> {
        let file = self.handles.file(handle)?;
        let of_itself = self.world.size(file).of_itself();
        if let Some(ret) = operation.ret.and_then(|ret| u64::try_from(ret).ok()) {
            let position = self.handles.position(handle);
            let offset = advance_position(operation, is_target, position, ret);
            let size = self.world.size_mut(file);
            infer_initial_state::learn_from_transfer(size, operation, is_target, offset, ret);
        }
        infer_initial_state::learn_from_query(&mut self.world, file, operation);
        Some(UsedFile { file, of_itself })
    }
}
