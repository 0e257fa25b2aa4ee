//! What a thread shares with others, and how it leaves it.

use super::Tracker;
use crate::event::syscall_table::{Class, Role};
use crate::event::task::{CLONE_FILES, CLONE_NEWNS};
use crate::event::{Event, SysExit};
use crate::operation::fd_table::Description;
use crate::operation::model::{Mounts, SyscallOperation};
use crate::operation::spaces::namespace_inode;
use crate::operation::syscall::fd_of;
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

    /// The call has taken an open file of some process by the number of its descriptor: it may be any of that number, and its
    /// position is moved by two programs from now on.
    pub(super) fn taken(&mut self, operation: &SyscallOperation) {
        let fd = fd_of(operation.call.call(), Role::TakenFd, &operation.args);
        let Some(fd) = fd.filter(|_| operation.ret.is_some_and(|it| it >= 0)) else { return };
        for table in self.tasks.tables() {
            table.borrow().peek(fd).into_iter().for_each(Description::share_outside);
        }
    }
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
