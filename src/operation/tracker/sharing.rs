//! What a thread shares with others, and how it leaves it.

use super::Tracker;
use crate::event::syscall_table::{Class, Role};
use crate::event::task::{CLONE_FILES, CLONE_NEWNS};
use crate::event::{Event, SysExit};
use crate::operation::file_names::Spot;
use crate::operation::model::{Mounts, SyscallOperation};
use crate::operation::spaces::namespace_inode;
use crate::operation::task::Copied;

impl Tracker {
    /// A call ends that may have left what its thread shares with others: it has its own before anything else is said of the
    /// call, for `close_range` closes in the copy.
    pub(super) fn leave_shared(&mut self, event: &Event, exit: &SysExit) {
        let class = exit.call.call().class;
        if exit.ret != 0 || !matches!(class, Class::Unshare | Class::CloseRange) {
            return;
        }
        let who = (event.pid, event.tid);
        let (_, thread) = self.tasks.thread(who.0, who.1);
        let pending = thread.pending.as_ref().filter(|it| it.operation.call == exit.call);
        let Some(operation) = pending.map(|it| &it.operation) else { return };
        let flags = left(operation);
        let of_file = operation.file.as_ref().and_then(|it| it.path.as_ref());
        let inode = of_file.filter(|it| it.is_resolved()).and_then(|it| namespace_inode(&it.bytes));
        let copied = Copied { start: operation.start, end: event.time };
        // `setns` joins: where paths begin then, nothing tells.
        let joins = class == Class::Unshare && operation.call.call().arg(Role::Fd).is_some();
        self.tasks.unshare(who, flags, copied);
        if joins && flags & CLONE_NEWNS != 0 {
            let mounts = inode.map_or(Mounts::UNKNOWN, |it| self.tasks.spaces.of(it));
            let Some(task) = self.tasks.task(who) else { return };
            let mut place = task.place().borrow_mut();
            place.lose();
            place.mounts = mounts;
        }
    }

    /// Paths lead elsewhere after this call.
    pub(super) fn mounted(&mut self, operation: &SyscallOperation) {
        if operation.ret != Some(0) {
            return;
        }
        let task = self.tasks.task((operation.pid, operation.tid));
        let mounts = task.map_or(Mounts::UNKNOWN, |it| it.place().borrow().mounts);
        let only = Some(mounts).filter(|it| self.tasks.spaces.is_isolated(*it));
        // Everybody may have been at the old root, and is at the new one then.
        if operation.call.call().name == "pivot_root" {
            let may_be = |it: Mounts| it.is(mounts) || [it, mounts].contains(&Mounts::UNKNOWN);
            let places = self.tasks.places().filter(|it| may_be(it.borrow().mounts));
            places.for_each(|it| it.borrow_mut().lose());
            return self.cover(None, only);
        }
        let call = operation.call.call();
        let named = operation.named.as_deref();
        let given = named.map(|it| [it.first.as_ref(), it.second.as_ref()]).unwrap_or_default();
        let given = given.map(|it| it.filter(|it| it.path.source.is_spelled()));
        let paths = given.map(|it| it.and_then(|it| it.absolute.clone()));
        let flags = call.arg(Role::MountFlags).and_then(|it| operation.args.get(it));
        if let Some(shares) = flags.and_then(|it| propagation(*it)) {
            let is_all = paths.first().is_some_and(|it| it.as_deref() == Some(b"/"));
            if shares || is_all {
                self.tasks.spaces.isolate(mounts, !shares);
            }
            return;
        }
        let roles = [Role::Path, Role::Path2];
        for (path, _) in paths.into_iter().zip(roles).filter(|it| call.arg(it.1).is_some()) {
            let spot = path.map(|it| self.context.names.spot(&it, mounts)).filter(|it| it.sure);
            self.cover(spot.as_ref(), only);
            let places = self.tasks.places();
            let places = places.filter(|it| only.is_none_or(|only| it.borrow().mounts == only));
            places.for_each(|it| it.borrow_mut().cover(spot.as_ref()));
        }
    }
}

impl Tracker {
    /// Paths of files at a place (`None`: any) lead to others now.
    fn cover(&mut self, spot: Option<&Spot>, only: Option<Mounts>) {
        self.context.names.cover(spot, only);
        self.files.covered(spot, only);
    }
}

/// What a `mount` does that mounts nothing (`path_mount()` in `fs/namespace.c`): true if others get what is mounted there from
/// now on, or if it is not known; false if they do not, all that is below included. `None`: it mounts something.
fn propagation(flags: u64) -> Option<bool> {
    use libc::{MS_BIND, MS_PRIVATE, MS_REC, MS_REMOUNT, MS_SHARED, MS_SLAVE, MS_UNBINDABLE};
    let has = |bits: libc::c_ulong| flags & bits != 0;
    let is_change = has(MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE);
    if has(MS_REMOUNT) || has(MS_BIND) || !is_change {
        return has(MS_REMOUNT).then_some(true);
    }
    Some(!has(MS_REC) || has(MS_SHARED))
}

/// What the call leaves, as flags of `unshare`.
fn left(operation: &SyscallOperation) -> u64 {
    let call = operation.call.call();
    let register = |role| call.arg(role).and_then(|it| operation.args.get(it)).copied();
    if let Some(flags) = register(Role::RangeFlags) {
        let is_meant = flags & u64::from(libc::CLOSE_RANGE_UNSHARE) != 0;
        return if is_meant { CLONE_FILES } else { 0 };
    }
    let flags = register(Role::CloneFlags).unwrap_or(0);
    if call.arg(Role::Fd).is_none() {
        return flags;
    }
    // Of `setns`, without flags the descriptor says it.
    let of_file = operation.file.as_ref().and_then(|it| it.path.as_ref());
    let may_be_mounts = match of_file.filter(|it| it.is_resolved()) {
        Some(path) if flags == 0 => path.bytes.starts_with(b"mnt:"),
        _ => flags == 0 || flags & CLONE_NEWNS != 0,
    };
    if may_be_mounts { CLONE_NEWNS } else { 0 }
}
