//! The paths that a call was given: where they are from, and where they lead.

use super::file_names::DELETED;
use super::model::{FilePath, Given, Named, OpenFile, PathSource, SyscallOperation};
use super::place::{Base, During};
use super::register::{fd_of, register};
use super::task::Task;
use crate::event::syscall_table::{Class, Role};
use crate::event::{Name, ReadNames, StringFrom};
use crate::units::Fd;

/// The name of the file that an open was given this path for.
pub(super) fn as_file_path(given: Given) -> FilePath {
    let Given { path: FilePath { bytes, source, mounts }, absolute } = given;
    // From a root that is not known it is whose name?
    let is_lost = absolute.is_none() && is_prompt(source) && bytes.starts_with(b"/");
    let source = if is_lost { PathSource::Unverified } else { source };
    FilePath { bytes: absolute.unwrap_or(bytes), source, mounts }
}

/// The paths that a call was given. `directory` is what its directory was at the entry, if it is gone by now.
pub(super) fn named(
    names: &ReadNames,
    operation: &SyscallOperation,
    directory: Option<&OpenFile>,
    (task, losses): (Task<'_>, u32),
) -> Named {
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
        let absolute = absolute(&path, role, operation, directory, (task, losses));
        Some(Given { path, absolute })
    };
    let [first, second] = names.from;
    Named {
        first: given(&names.argument, first, Role::DirFd),
        second: given(&names.second, second, Role::DirFd2),
    }
}

/// The whole path; what a symbolic link contains is none before somebody follows it.
fn absolute(
    path: &FilePath,
    role: Role,
    operation: &SyscallOperation,
    directory: Option<&OpenFile>,
    (task, losses): (Task<'_>, u32),
) -> Option<Vec<u8>> {
    let call = operation.call.call();
    if role == Role::DirFd2 && call.is_symlink() {
        return None;
    }
    // `openat2` may be told to begin at its directory all the same.
    if call.arg(Role::How).is_some() && path.bytes.starts_with(b"/") {
        return None;
    }
    let fd = fd_of(call, role, &operation.args).filter(|it| *it != Fd::AT_FDCWD);
    // It may have been another directory when the call looked at it.
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

/// Seen by a probe: certain, and not resolved.
fn is_prompt(source: PathSource) -> bool {
    matches!(source, PathSource::Kernel | PathSource::Uprobe)
}

fn during(operation: &SyscallOperation) -> During {
    During { by: operation.tid, since: operation.start }
}

/// It leads from the root to where it leads: not what is there no more.
fn is_whole(path: &FilePath) -> bool {
    !path.bytes.ends_with(DELETED) && path.is_resolved()
        || is_prompt(path.source) && path.bytes.starts_with(b"/")
}

/// `chdir`, `fchdir` and `chroot` that have ended.
pub(super) fn move_place(operation: &SyscallOperation, task: Task<'_>) {
    let class = operation.call.call().class;
    if !matches!(class, Class::Place | Class::Root) {
        return;
    }
    if operation.ret == Some(0) {
        enter(operation, task);
    }
    task.place().borrow_mut().end_change(operation.tid);
}

/// Where paths begin now.
fn enter(operation: &SyscallOperation, task: Task<'_>) {
    let class = operation.call.call().class;
    let given = operation.named.as_ref().and_then(|it| it.first.as_ref());
    let sure = given.filter(|it| it.path.source.is_spelled());
    let of_file = operation.file.as_ref().and_then(|it| it.path.as_ref());
    let of_file = of_file.filter(|it| is_whole(it));
    let to = sure.and_then(|it| it.absolute.clone()).or_else(|| of_file.map(|it| it.bytes.clone()));
    let mut place = task.place().borrow_mut();
    let at = operation.end.unwrap_or(operation.start);
    if class == Class::Root {
        place.enter_root(to, during(operation), at);
    } else {
        place.enter(to, during(operation), at);
    }
}

/// The `O_*` flags of an open; those of `openat2` stand in memory that was not read.
pub(super) fn open_flags(operation: &SyscallOperation) -> Option<u32> {
    let call = operation.call.call();
    if let Some(flags) = register(call, Role::MemoryFlags, &operation.args) {
        let cloexec = if flags & u64::from(libc::MFD_CLOEXEC) == 0 { 0 } else { libc::O_CLOEXEC };
        return Some((libc::O_RDWR | cloexec).cast_unsigned());
    }
    let creat = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    match register(call, Role::OpenFlags, &operation.args) {
        Some(flags) => u32::try_from(flags & 0xffff_ffff).ok(),
        None if call.arg(Role::DirFd).is_none() => Some(creat.cast_unsigned()),
        None => operation.flags_in_memory,
    }
}
