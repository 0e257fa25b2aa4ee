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
