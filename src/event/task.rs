//! Creation, renames and ends of tasks: `PERF_RECORD_FORK`, `_COMM`, `_EXIT` and
//! `task:task_newtask`.

use crate::units::{Pid, Tid};

/// Event in the life of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// `PERF_RECORD_FORK`: a new process (`pid == tid` and another parent `pid`) or a new thread
    /// (same `pid`).
    Fork {
        /// Process of the new task.
        pid: Pid,
        /// Thread of the new task.
        tid: Tid,
        /// Process of the parent.
        ppid: Pid,
        /// Thread of the parent.
        ptid: Tid,
    },
    /// `task:task_newtask`: the clone flags of the new task; directly after its FORK.
    NewTask {
        /// Thread of the new task, in the namespace of the kernel (the payload is not translated).
        tid: Tid,
        /// Clone flags `CLONE_*` (`include/uapi/linux/sched.h`).
        clone_flags: u64,
        /// Name of the task: that of its parent, except for kernel threads, which get their name at
        /// creation and are never renamed.
        comm: Option<Vec<u8>>,
    },
    /// `PERF_RECORD_COMM`: the task has a new name.
    Comm {
        /// Process of the task.
        pid: Pid,
        /// Thread of the task.
        tid: Tid,
        /// New name, at most 15 bytes.
        comm: Vec<u8>,
        /// True if an exec set it: the other threads are gone, close-on-exec descriptors are
        /// closed.
        exec: bool,
    },
    /// `PERF_RECORD_EXIT`: the task has ended.
    Exit {
        /// Process of the task.
        pid: Pid,
        /// Thread of the task.
        tid: Tid,
    },
}

/// The child shares its parent's memory (`include/uapi/linux/sched.h`).
pub const CLONE_VM: u64 = 0x100;

/// The child shares its parent's working directory and root.
pub const CLONE_FS: u64 = 0x200;

/// The child shares its parent's descriptor table.
pub const CLONE_FILES: u64 = 0x400;

/// The child gets a mount namespace of its own.
pub const CLONE_NEWNS: u64 = 0x2_0000;

/// The child gets a user namespace of its own.
pub const CLONE_NEWUSER: u64 = 0x1000_0000;

/// The child has the same parent as the task that creates it.
pub const CLONE_PARENT: u64 = 0x8000;

/// System call that waits for ended children. Only the ends of these calls are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitCall {
    /// Name of the call: its tracepoint is `sys_exit_NAME`.
    pub name: &'static str,
    /// Number on x86-64.
    pub x86_64: u32,
    /// Number on machines with `include/uapi/asm-generic/unistd.h`.
    pub generic: u32,
    /// Results that are recorded, as terms of a filter.
    pub taken: &'static str,
}

/// System calls that wait. The first returns the child; the second stores it in memory and returns
/// 0.
pub const WAITS: [WaitCall; 2] = [
    WaitCall { name: "wait4", x86_64: 61, generic: 260, taken: "ret>0" },
    WaitCall { name: "waitid", x86_64: 247, generic: 95, taken: "ret==0" },
];

impl WaitCall {
    /// Returns the number on a machine of this kind (`uname -m`).
    pub fn number(&self, machine: &str) -> Option<u32> {
        match machine {
            "x86_64" => Some(self.x86_64),
            "aarch64" | "riscv64" | "loongarch64" => Some(self.generic),
            _ => None,
        }
    }
}
