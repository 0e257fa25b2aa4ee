//! Shared resources of threads, and calls by which a thread leaves them.

use super::Tracker;
use crate::event::registers::fd_argument;
use crate::event::syscall_table::{CallClass, Role};
use crate::event::task::{CLONE_FILES, CLONE_NEWNS};
use crate::event::{Event, SysExit};
use crate::operation::copy_interval::CopyInterval;
use crate::operation::fd_table::Description;
use crate::operation::model::{MountNamespace, SyscallOperation};
use crate::operation::mount_namespaces::namespace_inode;
use crate::operation::task::TaskId;

impl Tracker {
    /// Handles the end of a call by which its thread may have left shared resources. The thread
    /// gets its own copies before any other effect of the call, because `close_range` closes in the
    /// copy.
    pub(super) fn leave_shared(&mut self, event: &Event, exit: &SysExit) {
        let class = exit.call.call().class;
        if exit.ret != 0 || !matches!(class, CallClass::Unshare | CallClass::CloseRange) {
            return;
        }
        let id = TaskId { pid: event.pid, tid: event.tid };
        let (_, thread) = self.tasks.thread(id.pid, id.tid);
        let pending = thread.pending.as_ref().filter(|it| it.operation.call == exit.call);
        let Some(operation) = pending.map(|it| &it.operation) else { return };
        let flags = left(operation);
        let of_file = operation.file.as_ref().and_then(|it| it.path.as_ref());
        let inode = of_file.filter(|it| it.is_resolved()).and_then(|it| namespace_inode(&it.bytes));
        let copied = CopyInterval { start: operation.start, end: event.time };
        // `setns` joins: no event reports the new place.
        let joins = class == CallClass::Unshare && operation.call.call().arg(Role::Fd).is_some();
        self.tasks.unshare(id, flags, copied);
        if joins && flags & CLONE_NEWNS != 0 {
            let mounts = inode.map_or(MountNamespace::UNKNOWN, |it| self.tasks.spaces.of(it));
            let Some(task) = self.tasks.task(id) else { return };
            let mut place = task.place().borrow_mut();
            place.lose();
            place.mounts = mounts;
        }
    }

    /// Handles a call that has taken an open file of a process by the number of its descriptor: it
    /// may be any file of that number, and two programs move its position from now on.
    pub(super) fn taken(&mut self, operation: &SyscallOperation) {
        let fd = fd_argument(operation.call.call(), Role::TakenFd, &operation.args);
        let Some(fd) = fd.filter(|_| operation.ret.is_some_and(|it| it >= 0)) else { return };
        for table in self.tasks.tables() {
            table.borrow().peek(fd).into_iter().for_each(Description::share_outside);
        }
    }
}

/// Returns the resources that the call leaves, as flags of `unshare`.
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
    // Without flags, the descriptor of `setns` determines the namespace.
    let of_file = operation.file.as_ref().and_then(|it| it.path.as_ref());
    let may_be_mounts = match of_file.filter(|it| it.is_resolved()) {
        Some(path) if flags == 0 => path.bytes.starts_with(b"mnt:"),
        _ => flags == 0 || flags & CLONE_NEWNS != 0,
    };
    if may_be_mounts { CLONE_NEWNS } else { 0 }
}
