//! Mounts: their effects on the targets of paths, on the names of files, and on the places of
//! processes.
//!
//! A mount covers the files at its place. A mount that is moved, or detached while files of it are
//! open, takes these along: their new place is not followed, so their names, and the directories
//! below, are not certain any more.

use super::Tracker;
use crate::event::registers::fd_argument;
use crate::event::syscall_table::Role;
use crate::operation::fd_table::Description;
use crate::operation::file_names::NamedPlace;
use crate::operation::model::{MountNamespace, SyscallOperation};
use crate::operation::task::TaskId;

/// Effect of a call on earlier mounts.
#[derive(Debug, PartialEq, Eq)]
enum MountDisplacement {
    Nothing,
    /// Files at a place are displaced; `None`: the place is not known.
    At(Option<Vec<u8>>),
}

impl Tracker {
    /// Handles a call after which paths lead to other files.
    pub(super) fn mounted(&mut self, operation: &SyscallOperation) {
        if operation.ret != Some(0) {
            return;
        }
        let task = self.tasks.task(TaskId { pid: operation.pid, tid: operation.tid });
        let mounts = task.map_or(MountNamespace::UNKNOWN, |it| it.place().borrow().mounts);
        let only = Some(mounts).filter(|it| self.tasks.spaces.is_isolated(*it));
        // Each process may have been at the old root, and is at the new one then.
        if operation.call.call().name == "pivot_root" {
            let may_be = |namespace: MountNamespace| {
                namespace.is(mounts) || [namespace, mounts].contains(&MountNamespace::UNKNOWN)
            };
            let places = self.tasks.places().filter(|it| may_be(it.borrow().mounts));
            places.for_each(|it| it.borrow_mut().lose());
            return self.displace(None, only);
        }
        let flags = operation.call.call().arg(Role::MountFlags);
        let flags = flags.and_then(|it| operation.args.get(it)).copied();
        let paths = spelled(operation);
        if let Some(shares) = flags.and_then(propagation) {
            let is_all = paths.first().is_some_and(|it| it.as_deref() == Some(b"/"));
            if shares || is_all {
                self.tasks.spaces.isolate(mounts, !shares);
            }
            return;
        }
        // A tree that was not mounted takes nothing along.
        let is_new = self.attached(operation);
        if let MountDisplacement::At(path) = displaced(operation, flags, &paths)
            && !is_new
        {
            let spot = path.map(|it| self.context.names.spot(&it, mounts)).filter(|it| it.sure);
            self.displace(spot.as_ref(), only);
        }
        let call = operation.call.call();
        let roles = [Role::Path, Role::Path2];
        let is_place = |role| call.arg(role).is_some() && !(is_new && role == Role::Path);
        for (path, _) in paths.into_iter().zip(roles).filter(|it| is_place(it.1)) {
            let spot = path.map(|it| self.context.names.spot(&it, mounts)).filter(|it| it.sure);
            self.cover(spot.as_ref(), only);
        }
    }

    /// Notes that the tree of a descriptor has been mounted. Returns true if it was not mounted
    /// before.
    fn attached(&self, operation: &SyscallOperation) -> bool {
        let tree = fd_argument(operation.call.call(), Role::DirFd, &operation.args);
        let task = self.tasks.task(TaskId { pid: operation.pid, tid: operation.tid });
        let Some((task, tree)) = task.zip(tree) else { return false };
        task.fds().borrow().peek(tree).is_some_and(Description::attach)
    }

    /// Handles paths at a place (`None`: any) that lead to other files now.
    fn cover(&mut self, spot: Option<&NamedPlace>, only: Option<MountNamespace>) {
        self.context.names.cover(spot, only);
        self.files.covered(spot, only);
        let places = self.tasks.places();
        let places = places.filter(|it| only.is_none_or(|only| it.borrow().mounts == only));
        places.for_each(|it| it.borrow_mut().cover(spot));
    }

    /// Handles files at a place (`None`: anywhere) that are at another place now, or at none.
    fn displace(&mut self, spot: Option<&NamedPlace>, only: Option<MountNamespace>) {
        self.context.names.displace(spot, only);
        self.files.displaced(spot, only);
        let places = self.tasks.places();
        let places = places.filter(|it| only.is_none_or(|only| it.borrow().mounts == only));
        places.for_each(|it| it.borrow_mut().displace(spot));
    }
}

/// Returns the paths of a call, from the root, as far as they are known.
fn spelled(operation: &SyscallOperation) -> [Option<Vec<u8>>; 2] {
    let named = operation.named.as_deref();
    let given = named.map(|it| [it.first.as_ref(), it.second.as_ref()]).unwrap_or_default();
    let given = given.map(|it| it.filter(|it| it.path.source.is_spelled()));
    given.map(|it| it.and_then(|it| it.absolute.clone()))
}

/// Returns the place whose mounts a call moves or detaches while they may be in use.
fn displaced(
    operation: &SyscallOperation,
    mount_flags: Option<u64>,
    [first, _]: &[Option<Vec<u8>>; 2],
) -> MountDisplacement {
    let has = |flags: Option<u64>, bit: u64| flags.is_some_and(|it| it & bit != 0);
    match operation.call.call().name {
        // The path of the moved mount is not read.
        "mount" if has(mount_flags, libc::MS_MOVE) => MountDisplacement::At(None),
        "move_mount" => MountDisplacement::At(first.clone()),
        // Without this flag the call fails as long as a file of the mount is open.
        "umount" if has(operation.args.get(1).copied(), DETACH) => {
            MountDisplacement::At(first.clone())
        }
        _ => MountDisplacement::Nothing,
    }
}

/// `MNT_DETACH` of `umount2`.
const DETACH: u64 = libc::MNT_DETACH.unsigned_abs() as u64;

/// Returns the effect of a `mount` that mounts nothing (`path_mount()` in `fs/namespace.c`): true
/// if later mounts there propagate to other namespaces, or if this is not known; false if they do
/// not, everything below included. `None`: the call mounts something.
fn propagation(flags: u64) -> Option<bool> {
    use libc::{MS_BIND, MS_PRIVATE, MS_REC, MS_REMOUNT, MS_SHARED, MS_SLAVE, MS_UNBINDABLE};
    let has = |bits: libc::c_ulong| flags & bits != 0;
    let is_change = has(MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE);
    if has(MS_REMOUNT) || has(MS_BIND) || !is_change {
        return has(MS_REMOUNT).then_some(true);
    }
    Some(!has(MS_REC) || has(MS_SHARED))
}
