//! Ends of processes and threads.

use std::rc::Rc;

use super::Tracker;
use crate::operation::abi::DoubtedEnd;
use crate::operation::step::{Sink, Step};
use crate::operation::task::TaskId;
use crate::units::{KernelTime, Pid, Tid};

impl Tracker {
    /// Handles the report of an end.
    pub(super) fn ended<S: Sink>(
        &mut self,
        at: KernelTime,
        id: TaskId,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let is_orphan = self.tasks.known_process(id.pid).is_some_and(|process| {
            let is_early = process.abi.doubted_end().is_none();
            is_early && process.followed && self.tasks.is_orphan(process)
        });
        let end = DoubtedEnd { at, is_orphan, is_waited: false };
        let (off_from, losses) = (self.off_from, self.context.losses);
        // An exec gives its thread the number of the process.
        let process = self.tasks.known_process_mut(id.pid).filter(|_| id.pid.0 == id.tid.0);
        if process.is_some_and(|process| process.abi.doubts_end(end, off_from, losses)) {
            return Ok(());
        }
        self.end(at, id, None, sink)
    }

    /// Ends a thread, and its process if that was its last one; `doubted`: an earlier report.
    fn end<S: Sink>(
        &mut self,
        now: KernelTime,
        id: TaskId,
        doubted: Option<DoubtedEnd>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let gone = self.tasks.exit(id.pid, id.tid);
        if let Some(thread) = gone.thread {
            self.thread_gone(now, thread, sink)?;
        }
        let Some(process) = gone.process else { return Ok(()) };
        let at = doubted.map_or(now, |end| end.at);
        if doubted.is_none_or(|end| !end.is_waited) {
            let is_orphan = || process.followed && self.tasks.is_orphan(&process);
            let is_orphan = doubted.map_or_else(is_orphan, |end| end.is_orphan);
            self.ledger.unwaited += self.zombie(id.pid, &process, is_orphan);
        }
        if process.followed && process.abi.end(at, self.off_from, self.context.losses) {
            self.ledger.other.add(id.pid, &process.info.comm);
        }
        let span = &mut self.ledger.program;
        let is_program = span.exec.is_some_and(|(program, _)| program == id.pid);
        span.end = span.end.or(is_program.then_some(at));
        self.async_process_ended(now, process.info.key, sink)?;
        if process.announced {
            // Other processes may share the table and live on.
            let last = Rc::strong_count(&process.fds) == 1;
            let open = process.fds.borrow().all();
            if last && !open.is_empty() {
                sink.step(now, &Step::DescriptorsClosed(process.info.key, &open))?;
            }
            sink.step(now, &Step::ProcessEnded(&process.info))?;
        }
        Ok(())
    }

    /// Ends the process that had this number, if its end was doubted: another task has the number.
    pub(super) fn number_reused<S: Sink>(
        &mut self,
        now: KernelTime,
        number: Tid,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let pid = Pid(number.0);
        let process = self.tasks.known_process(pid);
        match process.and_then(|process| process.abi.doubted_end()) {
            Some(end) => self.end(now, TaskId { pid, tid: number }, Some(end), sink),
            None => Ok(()),
        }
    }

    /// Ends the processes of which nothing was recorded after a doubted end.
    pub(super) fn settle_ends<S: Sink>(
        &mut self,
        now: KernelTime,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let (until, losses) = (now.min(self.off_from), self.context.losses);
        let settled = self.tasks.processes().filter_map(|process| {
            let end = process.abi.settled_end(until, losses)?;
            Some((end, process.info.pid))
        });
        let mut settled: Vec<(DoubtedEnd, Pid)> = settled.collect();
        settled.sort_by_key(|(end, pid)| (end.at, *pid));
        settled.into_iter().try_for_each(|(end, pid)| {
            self.end(now, TaskId { pid, tid: Tid(pid.0) }, Some(end), sink)
        })
    }

    /// Ends a thread of another process that had this number.
    pub(super) fn reap_reused_tid<S: Sink>(
        &mut self,
        at: KernelTime,
        pid: Pid,
        tid: Tid,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if !self.tasks.is_other(pid, tid) {
            return Ok(());
        }
        self.number_reused(at, tid, sink)?;
        match self.tasks.take_stale(pid, tid) {
            Some(thread) => self.thread_gone(at, thread, sink),
            None => Ok(()),
        }
    }
}
