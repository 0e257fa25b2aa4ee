//! Sink of a capture of chosen threads: threads share descriptors and directories, so a capture has
//! the calls of all threads of a process, and the sink behind gets those of the chosen ones.
//!
//! A thread that executes another program ends all other threads, and goes on with the number of
//! its process. It is shown if it was chosen. Without recorded calls of `execve` it is not known
//! which thread it was: then it is shown if any chosen thread of the process lived.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::capture::header::Header;
use crate::operation::model::{ProcessInfo, ProcessKey, SyscallOperation, ThreadInfo, ThreadKey};
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Filter in front of a sink.
#[derive(Debug)]
pub(super) struct ThreadScope<'a, S> {
    sink: &'a mut S,
    /// Numbers of the chosen threads; empty: all.
    chosen: FxHashSet<i32>,
    /// Numbers of the processes of the chosen threads.
    roots: FxHashSet<i32>,
    processes: FxHashMap<ProcessKey, ScopedProcess>,
    /// Threads of these processes that were not chosen.
    hidden: FxHashSet<ThreadKey>,
}

/// A process with a chosen thread.
#[derive(Debug)]
struct ScopedProcess {
    pid: i32,
    /// First thread of the process.
    leader: Option<ThreadKey>,
    /// Threads that have ended last: an exec ends them all at its time.
    ended: LastEnded,
}

/// Threads that have ended at a time.
#[derive(Debug, Default)]
struct LastEnded {
    time: KernelTime,
    /// True if a chosen one is among them.
    has_chosen: bool,
    /// Whether the thread that was calling `execve` was chosen; `None`: no such call was recorded.
    caller: Option<bool>,
}

impl LastEnded {
    /// Returns the threads that have ended at this time.
    fn at(&mut self, time: KernelTime) -> &mut Self {
        if self.time != time {
            *self = Self { time, ..Self::default() };
        }
        self
    }
}

impl<'a, S: Sink> ThreadScope<'a, S> {
    /// Returns the filter that the header of a capture asks for.
    pub(super) fn new(header: &Header, sink: &'a mut S) -> Self {
        Self {
            sink,
            chosen: header.scope.threads.iter().copied().collect(),
            roots: header.scope.roots.iter().copied().collect(),
            processes: FxHashMap::default(),
            hidden: FxHashSet::default(),
        }
    }

    fn note_process(&mut self, process: &ProcessInfo) {
        let pid = process.pid.0;
        if self.roots.contains(&pid) {
            let ended = LastEnded::default();
            self.processes.insert(process.key, ScopedProcess { pid, leader: None, ended });
        }
    }

    fn note_thread(&mut self, thread: &ThreadInfo) {
        let Some(process) = self.processes.get_mut(&thread.process) else { return };
        if thread.tid.0 == process.pid {
            process.leader = Some(thread.key);
        }
        if !self.chosen.contains(&thread.tid.0) {
            self.hidden.insert(thread.key);
        }
    }

    /// Notes a call that its thread has not ended.
    fn note_cut_off(&mut self, time: KernelTime, call: &SyscallOperation) {
        let is_chosen = !self.hidden.contains(&call.thread);
        if call.call.call().is_exec()
            && let Some(process) = self.processes.get_mut(&call.process)
        {
            process.ended.at(time).caller = Some(is_chosen);
        }
    }

    fn note_end(&mut self, time: KernelTime, thread: &ThreadInfo) {
        if let Some(process) = self.processes.get_mut(&thread.process) {
            process.ended.at(time).has_chosen |= !self.hidden.contains(&thread.key);
        }
    }

    /// Shows the first thread of a process that has executed another program, if that was done by
    /// a chosen thread.
    fn note_identity(&mut self, time: KernelTime, process: &ProcessInfo) {
        let Some(known) = self.processes.get_mut(&process.key) else { return };
        let ended = std::mem::take(known.ended.at(time));
        if ended.has_chosen && ended.caller != Some(false) {
            self.chosen.insert(known.pid);
            if let Some(leader) = known.leader {
                self.hidden.remove(&leader);
            }
        }
    }

    /// True if the step is about a thread that is not hidden, or about none.
    fn shows(&mut self, time: KernelTime, step: &Step<'_>) -> bool {
        let thread = match step {
            Step::ProcessSeen(process) => {
                self.note_process(process);
                return true;
            }
            Step::ThreadSeen(thread) => {
                self.note_thread(thread);
                thread.key
            }
            Step::ThreadRenamed(thread) => thread.key,
            Step::ThreadEnded(thread) => {
                self.note_end(time, thread);
                return !self.hidden.remove(&thread.key);
            }
            Step::Identified(process) => {
                self.note_identity(time, process);
                return true;
            }
            Step::SyscallUnfinished(call, _) => {
                self.note_cut_off(time, call);
                call.thread
            }
            Step::SyscallBegun(call) | Step::SyscallEnded(call, _) => call.thread,
            Step::AsyncBegun(operation)
            | Step::AsyncFile(operation)
            | Step::AsyncEnded(operation, _)
            | Step::AsyncUnfinished(operation, _) => operation.thread,
            Step::Fault(fault) => fault.thread,
            Step::Block { thread: Some(thread), .. } => thread.key,
            Step::Block { thread: None, .. }
            | Step::UserChanged(_)
            | Step::Forked { .. }
            | Step::DescriptorsClosed(..)
            | Step::ProcessEnded(_)
            | Step::Aside { .. }
            | Step::ChainSeen(_)
            | Step::MountsSeen(_)
            | Step::Committed(_)
            | Step::Anomaly(_) => return true,
        };
        !self.hidden.contains(&thread)
    }
}

impl<S: Sink> Sink for ThreadScope<'_, S> {
    type Error = S::Error;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Self::Error> {
        if self.chosen.is_empty() || self.shows(time, step) {
            self.sink.step(time, step)
        } else {
            Ok(())
        }
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), Self::Error> {
        self.sink.complete_until(time)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::units::{Pid, Tid};

    /// Sink that keeps the threads that were shown.
    #[derive(Default)]
    struct Shown(Vec<i32>);

    impl Sink for Shown {
        type Error = Infallible;

        fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
            if let Step::ThreadRenamed(thread) = step {
                self.0.push(thread.tid.0);
            }
            Ok(())
        }
    }

    /// Returns the thread that is shown when a process of three threads, 10 to 12, has executed
    /// another program; `before`: threads that had ended earlier.
    fn shown_after_exec(chosen: &[i32], before: &[i32]) -> Vec<i32> {
        let mut header = Header::default();
        header.scope.threads = chosen.to_vec();
        header.scope.roots = vec![10];
        let mut shown = Shown::default();
        let mut scope = ThreadScope::new(&header, &mut shown);
        let process = ProcessInfo::new(ProcessKey(1), Pid(10));
        let threads = [10, 11, 12].map(|tid: i32| ThreadInfo {
            key: ThreadKey(tid.unsigned_abs()),
            process: process.key,
            tid: Tid(tid),
            comm: Vec::new(),
        });
        let mut step = |time, step: &Step<'_>| {
            let Ok(()) = scope.step(KernelTime(time), step);
        };
        step(1, &Step::ProcessSeen(&process));
        threads.iter().for_each(|thread| step(1, &Step::ThreadSeen(thread)));
        for time in [2, 3] {
            let ends = |tid| before.contains(&tid) == (time == 2);
            let ended = threads[1..].iter().filter(|thread| ends(thread.tid.0));
            ended.for_each(|thread| step(time, &Step::ThreadEnded(thread)));
        }
        step(3, &Step::Identified(&process));
        step(3, &Step::ThreadRenamed(&threads[0]));
        shown.0
    }

    #[test]
    fn thread_that_executes_a_program_stays_shown() {
        assert_eq!(shown_after_exec(&[11], &[]), [10]);
        assert_eq!(shown_after_exec(&[11, 12], &[12]), [10]);
        assert_eq!(shown_after_exec(&[10], &[]), [10]);
        // The chosen thread had ended before.
        assert_eq!(shown_after_exec(&[11], &[11]), [0; 0]);
    }
}
