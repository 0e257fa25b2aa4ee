//! Arguments of an operation: paths and descriptors.

use super::Planner;
use super::resolve::OpHandles;
use crate::event::OpenFlags;
use crate::event::registers;
use crate::event::syscall_table::{CallClass, Role};
use crate::operation::model::{OpenFile, ProcessKey, SyscallOperation};
use crate::replay::plan::handles::{Handle, HandleTarget};
use crate::replay::plan::infer_initial_state;
use crate::replay::plan::namespace::EntryKind;
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::planned_op::InheritedFd;
use crate::replay::plan::replay_paths::{OpPaths, at_start, of_file, short};
use crate::replay::plan::replayability::SkipReason;
use crate::replay::plan::resources::moves_position;
use crate::units::Fd;

impl<O: PlanOutput> Planner<O> {
    /// Returns the paths that an operation was given, from the root.
    pub(in crate::replay::plan) fn paths(
        &mut self,
        operation: &SyscallOperation,
    ) -> Result<OpPaths, SkipReason> {
        let call = operation.call.call();
        if call.class == CallClass::Open && operation.errno().is_none() {
            let file = operation.file.as_ref().ok_or(SkipReason::NoName)?;
            let path = of_file(file)?.to_vec();
            let first = Some(short(self.without_gone(file, path))?);
            return Ok(OpPaths { first, second: None });
        }
        // `utimensat` without a path works on its descriptor.
        let is_given = call.paths(&operation.args)[0].is_some_and(|path| path != 0);
        if !is_given {
            return Ok(OpPaths::default());
        }
        let named = operation.named.as_ref().ok_or(SkipReason::NoName)?;
        let first = named.first.as_ref().ok_or(SkipReason::NoName)?;
        // An empty path means the directory itself.
        let first = match first.path.bytes.is_empty() {
            true => None,
            false => Some(short(self.given_path(first)?)?),
        };
        if call.arg(Role::Path2).is_none() {
            return Ok(OpPaths { first, second: None });
        }
        let second = named.second.as_ref().ok_or(SkipReason::NoName)?;
        let second = match call.is_symlink() {
            true if second.path.source.is_doubtful() => return Err(SkipReason::NoName),
            true => second.path.bytes.clone(),
            false => self.given_path(second)?,
        };
        Ok(OpPaths { first, second: Some(short(second)?) })
    }

    /// Returns the handles of the descriptors that an operation was given.
    pub(super) fn descriptors(
        &mut self,
        operation: &SyscallOperation,
        no_path: bool,
    ) -> Result<OpHandles, SkipReason> {
        let call = operation.call.call();
        if call.class == CallClass::Open {
            return Ok(OpHandles::default());
        }
        let is_directory_meant = call.has_path() && no_path;
        let role = if is_directory_meant { Role::DirFd } else { Role::Fd };
        let file = operation.file.as_deref();
        let first = self.descriptor(operation, role, file)?;
        // The second descriptor of a `dup` is its result.
        let is_second = call.class == CallClass::Transfer;
        let file = operation.target.as_ref().filter(|_| is_second).map(|(_, file)| &**file);
        let target = match is_second {
            true => self.target(operation, file)?,
            false => None,
        };
        Ok(OpHandles { first, target })
    }

    /// Checks that a close-on-exec flag belongs to one descriptor. The flag is that of a process's
    /// descriptor, but the replay has one descriptor for all processes that share it by a fork.
    /// Operations that get or set the flag while several processes share the descriptor are
    /// skipped, and so are operations that get a flag that was set then.
    pub(super) fn has_own_flags(
        &mut self,
        operation: &SyscallOperation,
        handle: Option<Handle>,
    ) -> Result<(), SkipReason> {
        let command = registers::command(operation.call.call(), &operation.args);
        let (Some(libc::F_GETFD | libc::F_SETFD), Some(handle)) = (command, handle) else {
            return Ok(());
        };
        let sets = command == Some(libc::F_SETFD);
        if self.handles.has_own_flag(handle, sets) { Ok(()) } else { Err(SkipReason::SharedFlags) }
    }

    pub(super) fn descriptor(
        &mut self,
        operation: &SyscallOperation,
        role: Role,
        file: Option<&OpenFile>,
    ) -> Result<Option<Handle>, SkipReason> {
        let call = operation.call.call();
        let Some(register) = call.arg(role) else { return Ok(None) };
        let fd = registers::fd(operation.args[register]);
        let known = self.handles.get(operation.process, fd, file.map(|file| file.id));
        let handle = match (known, file) {
            (Some(handle), _) => handle,
            (None, _) if operation.errno() == Some(libc::EBADF) => return Ok(None),
            (None, None) => return Err(SkipReason::NoFile),
            (None, Some(file)) => {
                let lists = call.class == CallClass::List;
                // Calls with an explicit offset show nothing of the position.
                let stands = moves_position(operation, false);
                let offset = operation.offset.filter(|_| stands).unwrap_or(0);
                self.open_before(operation.process, fd, file, lists, offset)
            }
        };
        self.handles.usable(handle).map(Some)
    }

    /// Adds a descriptor that was open before the first operation. `lists`: the descriptor is of a
    /// directory; `offset`: its position.
    pub(super) fn open_before(
        &mut self,
        process: ProcessKey,
        fd: Fd,
        file: &OpenFile,
        lists: bool,
        offset: u64,
    ) -> Handle {
        let found = self.found_open(file, lists);
        let target = found
            .as_ref()
            .map_or_else(|reason| HandleTarget::Skipped(*reason), |(_, target)| *target);
        let handle = self.handles.given(process, fd, file.id, target);
        if let Ok((path, _)) = found {
            self.handles.position(handle).set(offset);
            self.inherited_fds.push(InheritedFd {
                handle,
                path,
                file: self.handles.file(handle),
                flags: file.flags,
                offset,
            });
        }
        handle
    }
}

impl<O: PlanOutput> Planner<O> {
    /// Returns the path of an open file at the start, and its handle target.
    fn found_open(
        &mut self,
        file: &OpenFile,
        lists: bool,
    ) -> Result<(Vec<u8>, HandleTarget), SkipReason> {
        let name = at_start(file)?;
        let is_directory = lists || file.stat.is_some_and(|stat| stat.is_directory());
        // A file without a known name has been removed.
        let Ok(path) = of_file(file) else { return self.was_at(name, is_directory) };
        let node = self.world.find(path).ok_or(SkipReason::NoDirectory)?;
        // The file may have been reported first when it had another name, or its name may just have
        // been given to another file.
        let Some(first) = self.world.path_at_start(node) else {
            return self.was_at(name, is_directory);
        };
        let first = short(first)?;
        if is_directory {
            self.world.was_there(node, EntryKind::Directory);
            return Ok((first, HandleTarget::Directory));
        }
        let flags = OpenFlags(file.flags.unwrap_or(0)).without_creation();
        let is_open = |file| self.handles.has_open(file);
        let file = infer_initial_state::opened(&mut self.world, node, flags, file.stat, is_open);
        Ok((first, file.map_or(HandleTarget::Directory, HandleTarget::File)))
    }

    /// Returns the file or directory that was at a path at the start, whatever is there now.
    fn was_at(
        &mut self,
        name: &[u8],
        is_directory: bool,
    ) -> Result<(Vec<u8>, HandleTarget), SkipReason> {
        let path = short(name.to_vec())?;
        let kind = if is_directory { EntryKind::Directory } else { EntryKind::Any };
        match self.world.initial_entry(&path, kind).ok_or(SkipReason::NoName)? {
            EntryKind::File(file) => Ok((path, HandleTarget::File(file))),
            _ => Ok((path, HandleTarget::Directory)),
        }
    }
}
