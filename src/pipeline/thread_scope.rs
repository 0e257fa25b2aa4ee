//! Sink of a capture of chosen threads: threads share descriptors and directories, so a capture has
//! the calls of all threads of a process, and the sink behind gets those of the chosen ones.

use rustc_hash::FxHashSet;

use crate::capture::header::Header;
use crate::operation::model::{ProcessInfo, ProcessKey, ThreadInfo, ThreadKey};
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
    processes: FxHashSet<ProcessKey>,
    /// Threads of these processes that were not chosen.
    hidden: FxHashSet<ThreadKey>,
}

impl<'a, S: Sink> ThreadScope<'a, S> {
    /// Returns the filter that the header of a capture asks for.
    pub(super) fn new(header: &Header, sink: &'a mut S) -> Self {
        Self {
            sink,
            chosen: header.scope.threads.iter().copied().collect(),
            roots: header.scope.roots.iter().copied().collect(),
            processes: FxHashSet::default(),
            hidden: FxHashSet::default(),
        }
    }

    fn note_process(&mut self, process: &ProcessInfo) {
        if self.roots.contains(&process.pid.0) {
            self.processes.insert(process.key);
        }
    }

    fn note_thread(&mut self, thread: &ThreadInfo) {
        let is_other = !self.chosen.contains(&thread.tid.0);
        if is_other && self.processes.contains(&thread.process) {
            self.hidden.insert(thread.key);
        }
    }

    /// True if the step is about a thread that is not hidden, or about none.
    fn shows(&mut self, step: &Step<'_>) -> bool {
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
            Step::ThreadEnded(thread) => return !self.hidden.remove(&thread.key),
            Step::SyscallBegun(call)
            | Step::SyscallEnded(call, _)
            | Step::SyscallUnfinished(call, _) => call.thread,
            Step::AsyncBegun(operation)
            | Step::AsyncFile(operation)
            | Step::AsyncEnded(operation, _)
            | Step::AsyncUnfinished(operation, _) => operation.thread,
            Step::Fault(fault) => fault.thread,
            Step::Block { thread: Some(thread), .. } => thread.key,
            Step::Block { thread: None, .. }
            | Step::UserChanged(_)
            | Step::Identified(_)
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
        if self.chosen.is_empty() || self.shows(step) { self.sink.step(time, step) } else { Ok(()) }
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), Self::Error> {
        self.sink.complete_until(time)
    }
}
