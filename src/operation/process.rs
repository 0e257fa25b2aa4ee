//! State of one process or thread: its names, its resources, and whether it is followed.

use super::abi::Abi;
use super::fd_table::SharedTable;
use super::fs_context::SharedPlace;
use super::mappings::SharedMappings;
use super::model::{ProcessInfo, ProcessKey, ThreadInfo};
use super::pending_call::PendingCall;
use super::spans::OpenSpans;
use super::thread_overrides::ThreadOverrides;
use crate::anomaly::Ignored;
use crate::units::Pid;

/// Processes that the capture follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// True for all processes but the tracer; otherwise the roots and their descendants are
    /// followed.
    pub system: bool,
    /// True if block requests of other processes are reported, too.
    pub all_requests: bool,
    /// The launched process, or those attached to.
    pub roots: Vec<Pid>,
    /// True if the roots were launched: until their first exec they run the tracer's own code.
    pub launched: bool,
    /// Process of the tracer.
    pub own: Pid,
    /// True if children of followed processes are followed.
    pub children: bool,
    /// Processes that are not followed although all are, nor are their children.
    pub excluded: Vec<Pid>,
}

/// `kthreadd`: the parent of kernel threads, in the first pid namespace (`rest_init()` in
/// `init/main.c`).
pub const KTHREADD: Pid = Pid(2);

/// Process to which the kernel adds the accounting of another one when it waits for that one.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// Number of the process.
    pub pid: Pid,
    /// Key of the process, if it was seen.
    pub key: Option<ProcessKey>,
}

/// State of a process.
#[derive(Debug)]
pub struct Process {
    /// The process as the outputs show it.
    pub info: ProcessInfo,
    /// Expected waiter for the process; `None`: the process was there before.
    pub waiter: Option<Waiter>,
    /// True if its operations are wanted.
    pub followed: bool,
    /// True until its exec has started the program.
    pub before_exec: bool,
    /// Descriptors of the process.
    pub fds: SharedTable,
    /// Mapped files.
    pub memory: SharedMappings,
    /// Working directory and root.
    pub place: SharedPlace,
    /// Tables of its system calls.
    pub abi: Abi,
    /// True after the outputs have been notified.
    pub announced: bool,
    /// Number of its known threads.
    pub(super) threads: u32,
    /// True after its first thread has ended.
    pub(super) leader_ended: bool,
}

impl Process {
    /// Returns the reason why its records are not wanted, if they are not.
    pub fn ignore_reason(&self) -> Option<Ignored> {
        match (self.followed, self.before_exec) {
            (_, true) => Some(Ignored::BeforeExec),
            (false, _) => Some(Ignored::Foreign),
            (true, false) => None,
        }
    }

    /// Forgets its files, which are not valid any more.
    pub fn forget_files(&mut self) {
        self.fds = SharedTable::default();
        self.memory = SharedMappings::default();
        self.place = SharedPlace::default();
    }
}

/// State of a thread.
#[derive(Debug)]
pub struct Thread {
    /// The thread as the outputs show it.
    pub info: ThreadInfo,
    /// Process of the thread.
    pub pid: Pid,
    /// True if its birth or a call of it was seen when all tracepoints were on: it cannot be inside
    /// an older call.
    pub seen: bool,
    /// Call that it is inside.
    pub pending: Option<PendingCall>,
    /// Layers that are at work in it.
    pub spans: OpenSpans,
    /// Resources that it does not share with its process.
    pub own: ThreadOverrides,
    /// True after the outputs have been notified.
    pub announced: bool,
}

impl Thread {
    /// Returns true if it is inside a call that starts a program.
    pub(super) fn is_in_exec(&self) -> bool {
        self.pending.as_ref().is_some_and(|it| it.operation.call.call().is_exec())
    }
}
