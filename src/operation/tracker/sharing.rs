//! What a thread shares with others, and how it leaves it.

use super::Tracker;
use crate::event::syscall_table::{Class, Role};
use crate::event::task::{CLONE_FILES, CLONE_NEWNS};
use crate::event::{Event, SysExit};
use crate::operation::model::SyscallOperation;
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
        let copied = Copied { start: operation.start, end: event.time };
        // `setns` joins: where paths begin then, nothing tells.
        let joins = class == Class::Unshare && operation.call.call().arg(Role::Fd).is_some();
        self.tasks.unshare(who, flags, copied);
        if joins && flags & CLONE_NEWNS != 0 {
            let task = self.tasks.task(who);
            task.iter().for_each(|it| it.place().borrow_mut().lose());
        }
    }

    /// Paths lead elsewhere after this call.
    pub(super) fn mounted(&mut self, operation: &SyscallOperation) {
        if operation.ret != Some(0) {
            return;
        }
        // Everybody may have been at the old root, and is at the new one then.
        if operation.call.call().name == "pivot_root" {
            self.tasks.places().for_each(|it| it.borrow_mut().lose());
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
