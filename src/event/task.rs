//! The life of tasks: `PERF_RECORD_FORK`, `_COMM`, `_EXIT` and `task:task_newtask`.

use crate::units::{Pid, Tid};

/// A task was born, renamed, or died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// `PERF_RECORD_FORK`: a new process (`pid == tid` and another parent `pid`) or a new thread (same `pid`).
    Fork {
        /// The new task's process.
        pid: Pid,
        /// The new task.
        tid: Tid,
        /// The parent's process.
        ppid: Pid,
        /// The parent's thread.
        ptid: Tid,
    },
    /// `task:task_newtask`: the flags that the new task was cloned with; comes just after its FORK.
    NewTask {
        /// The new task. In the namespace of the kernel (the payload is not translated).
        tid: Tid,
        /// `CLONE_*` (`include/uapi/linux/sched.h`).
        clone_flags: u64,
        /// Its name: its parent's, but that of one of the kernel's threads, which is given one at birth and never renamed.
        comm: Option<Vec<u8>>,
    },
    /// `PERF_RECORD_COMM`: the task has a new name.
    Comm {
        /// The task's process.
        pid: Pid,
        /// The task.
        tid: Tid,
        /// The name, at most 15 bytes.
        comm: Vec<u8>,
        /// True if an exec gave it: the other threads are gone, close-on-exec descriptors closed.
        exec: bool,
    },
    /// `PERF_RECORD_EXIT`: the task is gone.
    Exit {
        /// The task's process.
        pid: Pid,
        /// The task.
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

/// The child has the same parent as the one that makes it.
pub const CLONE_PARENT: u64 = 0x8000;

/// A system call that takes children that have ended. Of these only the ends are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitCall {
    /// Its tracepoint is `sys_exit_NAME`.
    pub name: &'static str,
    /// Number on x86-64.
    pub x86_64: u32,
    /// Number where `include/uapi/asm-generic/unistd.h` holds.
    pub generic: u32,
    /// Which results are recorded: terms of a filter.
    pub taken: &'static str,
}

/// All of them. The first returns the child; the second, which has it in memory, 0.
pub const WAITS: [WaitCall; 2] = [
    WaitCall { name: "wait4", x86_64: 61, generic: 260, taken: "ret>0" },
    WaitCall { name: "waitid", x86_64: 247, generic: 95, taken: "ret==0" },
];

impl WaitCall {
    /// The number on a machine of this kind (`uname -m`).
    pub fn number(&self, machine: &str) -> Option<u32> {
        match machine {
            "x86_64" => Some(self.x86_64),
            "aarch64" | "riscv64" | "loongarch64" => Some(self.generic),
            _ => None,
        }
    }
}
