//! Registry of threads and processes, with the state of each in the log.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::import::imported_event::{ImportedEvent, ImportedTask};
use crate::units::{Pid, Tid};

/// A thread.
#[derive(Debug)]
pub(super) struct StraceThread {
    pub(super) task: ImportedTask,
    /// Call that the thread is inside: its begin, and its printed text.
    pub(super) pending: Option<(u64, Vec<u8>)>,
    /// End of its last call, if that opened this descriptor.
    pub(super) opened: Option<(i32, ImportedEvent)>,
    /// True after `exit` or `exit_group`: a further call belongs to a new task of the same number.
    pub(super) is_ending: bool,
    /// Thread whose unended call has started this one.
    pub(super) maker: Option<i32>,
}

/// A process.
#[derive(Debug, Default)]
pub(super) struct StraceProcess {
    threads: usize,
    /// Descriptors with a recorded open, or an event of their own.
    pub(super) fds: FxHashSet<i32>,
    /// True if the working directory is known, or will be followed.
    pub(super) knows_directory: bool,
}

/// All threads and processes.
#[derive(Debug, Default)]
pub(super) struct StraceTasks {
    threads: FxHashMap<i32, StraceThread>,
    processes: FxHashMap<i32, StraceProcess>,
}

impl StraceTasks {
    pub(super) fn thread(&mut self, tid: i32) -> Option<&mut StraceThread> {
        self.threads.get_mut(&tid)
    }

    pub(super) fn process(&mut self, pid: Pid) -> &mut StraceProcess {
        self.processes.entry(pid.0).or_default()
    }

    /// The only thread, if there is one.
    pub(super) fn only(&self) -> Option<i32> {
        match self.threads.len() {
            1 => self.threads.keys().next().copied(),
            _ => None,
        }
    }

    /// Threads that are inside a call with a matching text.
    pub(super) fn inside(&self, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<i32> {
        let is_inside = |thread: &&StraceThread| {
            thread.pending.as_ref().is_some_and(|pending| is_wanted(&pending.1))
        };
        self.threads.values().filter(is_inside).map(|value| value.task.tid.0).collect()
    }

    /// Adds a thread whose start is not in the log: a process of its own.
    pub(super) fn begin(&mut self, tid: i32) -> ImportedTask {
        self.add(ImportedTask::leader(tid))
    }

    /// Adds a child of a thread.
    pub(super) fn born(&mut self, parent: ImportedTask, tid: i32, flags: u64) -> ImportedTask {
        if flags & libc::CLONE_THREAD as u64 != 0 {
            return self.add(ImportedTask { pid: parent.pid, tid: Tid(tid) });
        }
        let fds = self.process(parent.pid).fds.clone();
        let process = StraceProcess { threads: 0, fds, knows_directory: true };
        self.processes.insert(tid, process);
        self.add(ImportedTask::leader(tid))
    }

    fn add(&mut self, task: ImportedTask) -> ImportedTask {
        self.process(task.pid).threads += 1;
        let thread =
            StraceThread { task, pending: None, opened: None, is_ending: false, maker: None };
        self.threads.insert(task.tid.0, thread);
        task
    }

    pub(super) fn end(&mut self, tid: i32) -> Option<StraceThread> {
        let thread = self.threads.remove(&tid)?;
        let pid = thread.task.pid.0;
        let process = self.processes.get_mut(&pid)?;
        process.threads = process.threads.saturating_sub(1);
        if process.threads == 0 {
            self.processes.remove(&pid);
        }
        Some(thread)
    }

    /// Threads of the process of this number, or only that thread if it is not a leader.
    pub(super) fn incarnation(&self, tid: i32) -> Vec<i32> {
        let is_meant =
            |thread: &&StraceThread| thread.task.tid.0 == tid || thread.task.pid.0 == tid;
        let mut tids: Vec<i32> =
            self.threads.values().filter(is_meant).map(|value| value.task.tid.0).collect();
        tids.sort_unstable();
        tids
    }

    /// Remaining threads.
    pub(super) fn tids(&self) -> Vec<i32> {
        let mut tids: Vec<i32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        tids
    }
}
