//! Second phase of planning: facts about the initial files that an operation shows, and its changes
//! to the model of the files.

use super::Planner;
use super::resolve::ResolvedOp;
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
    pub(super) files: [Option<UsedFile>; 2],
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
        let ResolvedOp { paths: [path, second_path], handles, nodes, .. } = resolved;
        let call = operation.call.call();
        if let (Some(path), None | Some(libc::ENOENT)) = (path, operation.errno()) {
            self.world.passed(path, ret >= 0);
        }
        infer_initial_state::spelled(&mut self.world, operation, path.as_deref(), nodes[0]);
        let made = self.learn(operation, ret, *nodes, handles[0]);
        if let (true, 0, Some(link), Some(text)) = (call.is_symlink(), ret, nodes[0], second_path) {
            self.world.contains(link, text);
        }
        let by_path = nodes[0].filter(|_| call.class == CallClass::Resize);
        let resized = match by_path.and_then(|node| self.world.thing(node)) {
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
        handles: [Option<Handle>; 2],
    ) -> [Option<UsedFile>; 2] {
        let mut files = [None; 2];
        for (place, handle) in handles.into_iter().enumerate() {
            let Some(handle) = handle else { continue };
            let Some(file) = self.handles.file(handle) else { continue };
            let of_itself = self.world.size(file).of_itself();
            files[place] = Some(UsedFile { file, of_itself });
            let is_target = place == 1;
            if let Some(ret) = operation.ret.and_then(|ret| u64::try_from(ret).ok()) {
                let position = self.handles.position(handle);
                let offset = advance_position(operation, is_target, position, ret);
                let size = self.world.size_mut(file);
                infer_initial_state::learn_from_transfer(size, operation, is_target, offset, ret);
            }
            infer_initial_state::learn_from_query(&mut self.world, file, operation);
        }
        files
    }
}
