//! Path arguments of a call: their sources and their targets.

use super::fs_context::{Base, CallInterval};
use super::model::{FilePath, OpenFile, PathArgument, PathArguments, PathSource, SyscallOperation};
use super::task::TaskView;
use crate::event::registers::fd_argument;
use crate::event::syscall_table::{CallClass, Role};
use crate::event::{Name, OpenFlags, ReadNames, StringFrom};
use crate::naming::paths::DELETED;
use crate::units::Fd;

/// Returns the name of a file that was opened by this path argument.
pub(super) fn as_file_path(given: PathArgument) -> FilePath {
    let PathArgument { path: FilePath { bytes, source, mounts }, absolute } = given;
    // An absolute path below an unknown root may be the name of any file.
    let is_lost = absolute.is_none() && is_prompt(source) && bytes.starts_with(b"/");
    let source = if is_lost { PathSource::Unverified } else { source };
    FilePath { bytes: absolute.unwrap_or(bytes), source, mounts }
}

/// Returns the path arguments of a call. `directory`: its directory at the entry, if it was closed
/// since.
pub(super) fn named(
    names: &ReadNames,
    operation: &SyscallOperation,
    directory: Option<&OpenFile>,
    task: TaskView<'_>,
    losses: u32,
) -> PathArguments {
    let mounts = task.place().borrow().mounts;
    let given = |name: &Option<Name>, from: StringFrom, role: Role| {
        let name = name.as_ref()?;
        let source = match from {
            StringFrom::Memory if !name.verified => PathSource::Unverified,
            StringFrom::Memory => PathSource::Argument,
            StringFrom::Uprobe => PathSource::Uprobe,
            StringFrom::Kernel => PathSource::Kernel,
            StringFrom::Exec => PathSource::Exec,
            StringFrom::Event => PathSource::Event,
            StringFrom::EventCut => PathSource::EventCut,
        };
        let path = FilePath { bytes: name.bytes.clone(), source, mounts };
        let absolute = absolute(&path, role, operation, directory, task, losses);
        Some(PathArgument { path, absolute })
    };
    let [first, second] = names.from;
    PathArguments {
        first: given(&names.argument, first, Role::DirFd),
        second: given(&names.second, second, Role::DirFd2),
    }
}

/// Returns the whole path. The contents of a symbolic link have none before they are followed.
fn absolute(
    path: &FilePath,
    role: Role,
    operation: &SyscallOperation,
    directory: Option<&OpenFile>,
    task: TaskView<'_>,
    losses: u32,
) -> Option<Vec<u8>> {
    let call = operation.call.call();
    if role == Role::DirFd2 && call.is_symlink() {
        return None;
    }
    // With RESOLVE_IN_ROOT, absolute paths of `openat2` begin at its directory.
    if call.arg(Role::How).is_some() && path.bytes.starts_with(b"/") {
        return None;
    }
    let fd = fd_argument(call, role, &operation.args).filter(|it| *it != Fd::AT_FDCWD);
    // The descriptor may have been another directory when the call used it.
    let same = fd.filter(|it| !task.fds().borrow().has_changed(*it, operation.start));
    let open = same.and_then(|it| task.fds().borrow().get(it, losses)).map(|it| it.file());
    let sure = directory.or(open.as_deref()).and_then(|it| it.path.as_ref());
    let sure = sure.filter(|it| is_whole(it));
    let base = match fd {
        None => Base::Working,
        Some(_) => Base::Directory(sure.map(|it| it.bytes.as_slice())),
    };
    task.place().borrow().absolute(base, &path.bytes, during(operation))
}

/// Returns true for a path seen by a probe: certain, and not resolved.
fn is_prompt(source: PathSource) -> bool {
    matches!(source, PathSource::Kernel | PathSource::Uprobe)
}

fn during(operation: &SyscallOperation) -> CallInterval {
    CallInterval { by: operation.tid, since: operation.start }
}

/// Returns true for a path from the root to an existing file.
fn is_whole(path: &FilePath) -> bool {
    !path.bytes.ends_with(DELETED) && path.is_resolved()
        || is_prompt(path.source) && path.bytes.starts_with(b"/")
}

/// Handles the end of `chdir`, `fchdir` and `chroot`.
pub(super) fn move_place(operation: &SyscallOperation, task: TaskView<'_>) {
    let class = operation.call.call().class;
    if !matches!(class, CallClass::Place | CallClass::Root) {
        return;
    }
    if operation.ret == Some(0) {
        enter(operation, task);
    }
    task.place().borrow_mut().end_change(operation.tid);
}

/// Sets the directory at which paths begin now.
fn enter(operation: &SyscallOperation, task: TaskView<'_>) {
    let class = operation.call.call().class;
    let given = operation.named.as_ref().and_then(|it| it.first.as_ref());
    let sure = given.filter(|it| it.path.source.is_spelled());
    let of_file = operation.file.as_ref().and_then(|it| it.path.as_ref());
    let of_file = of_file.filter(|it| is_whole(it));
    let to = sure.and_then(|it| it.absolute.clone()).or_else(|| of_file.map(|it| it.bytes.clone()));
    let mut place = task.place().borrow_mut();
    let at = operation.end.unwrap_or(operation.start);
    if class == CallClass::Root {
        place.enter_root(to, during(operation), at);
    } else {
        place.enter(to, during(operation), at);
    }
}

/// Returns the flags of an open; `None` for those of `openat2` if their memory was not read.
pub(super) fn open_flags(operation: &SyscallOperation) -> Option<OpenFlags> {
    let call = operation.call.call();
    OpenFlags::of_memory_file(call, &operation.args)
        .or_else(|| OpenFlags::of_call(call, &operation.args, operation.flags_in_memory))
}
