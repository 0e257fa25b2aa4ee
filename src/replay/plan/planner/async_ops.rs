//! Asynchronous operations: submitted operations, each of which is planned when its result is known
//! ([`crate::replay::plan::async_lanes`]).

use super::Planner;
use super::emit::planned;
use super::in_memory::check_buffers;
use super::resolve::OpHandles;
use crate::analysis::completed_op::OpKind;
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::model::{SyscallOperation, ThreadKey};
use crate::replay::plan::async_lanes::SubmittedOp;
use crate::replay::plan::asynchronous::{as_call, may_be_done};
use crate::replay::plan::dependencies::{OpId, TimedOp, WaitSet, Worker};
use crate::replay::plan::in_flight::InFlightKey;
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::planned_op::{PlannedOp, WorkerInfo};
use crate::replay::plan::replay_paths::OpPaths;
use crate::replay::plan::replayability::SkipReason;

impl<O: PlanOutput> Planner<O> {
    /// Adds a submitted operation once its file is known: its descriptor may refer to another file
    /// when the operation ends.
    pub(super) fn submitted(&mut self, operation: &AsyncOperation) {
        let (Some(fd), Some(file)) = (operation.fd, &operation.file) else { return };
        if !may_be_done(operation.opcode) || self.lanes.has(operation.id) {
            return;
        }
        let known = self.handles.get(operation.process, fd, Some(file.id));
        let handle = match known {
            Some(handle) => handle,
            None => self.open_before(operation.process, fd, file, false, 0),
        };
        let handle = self.handles.usable(handle).map(|handle| (handle, file.id));
        if handle.is_ok() {
            self.in_flight.add_operation(
                InFlightKey::Operation(operation.id),
                operation.start,
                false,
            );
        }
        let dependencies = self.submission_dependencies(operation.thread);
        self.lanes
            .begun(operation.id, SubmittedOp { thread: operation.thread, dependencies, handle });
    }

    /// Returns the last operation of a thread, or the operations before the thread began.
    fn submission_dependencies(&self, thread: ThreadKey) -> WaitSet {
        let mut dependencies = WaitSet::default();
        if let Some(seen) = self.threads.get(&thread) {
            dependencies.add(seen.last.at);
        } else if let Some(new) = self.new.get(&thread) {
            new.born.iter().chain(new.before.all()).for_each(|op| dependencies.add(*op));
        }
        dependencies
    }

    /// Plans an asynchronous operation that has a result.
    pub(super) fn asynchronous_ended(
        &mut self,
        operation: &AsyncOperation,
    ) -> Result<(), O::Error> {
        let flight = self.lanes.over(operation.id);
        self.in_flight.remove_operation(InFlightKey::Operation(operation.id));
        let thread = flight.as_ref().map(|flight| flight.thread);
        let result = match self.on_lane(operation, flight) {
            Ok((planned, before)) => self.emit(operation.process, planned, before),
            Err(reason) => {
                self.leave_asynchronous(operation, reason);
                Ok(())
            }
        };
        thread.into_iter().for_each(|thread| self.lanes.settled(thread));
        result
    }

    /// Removes an asynchronous operation whose result was not seen.
    pub(super) fn asynchronous_lost(&mut self, operation: &AsyncOperation) {
        let flight = self.lanes.over(operation.id);
        self.in_flight.remove_operation(InFlightKey::Operation(operation.id));
        self.leave_asynchronous(operation, SkipReason::NoResult);
        flight.into_iter().for_each(|flight| self.lanes.settled(flight.thread));
    }

    fn leave_asynchronous(&mut self, operation: &AsyncOperation, reason: SkipReason) {
        self.out.left(reason);
        *self.skipped.entry((reason, OpKind::Async(operation.opcode))).or_default() += 1;
    }

    /// Plans an asynchronous operation. Returns the planned operation and the operations for which
    /// it waits, or the reason to skip it.
    fn on_lane(
        &mut self,
        operation: &AsyncOperation,
        flight: Option<SubmittedOp>,
    ) -> Result<(PlannedOp, WaitSet), SkipReason> {
        let call = as_call(operation)?;
        let (Some(ret), Some(_)) = (call.ret, call.end) else { return Err(SkipReason::NoResult) };
        let SubmittedOp { dependencies, handle, .. } = flight.ok_or(SkipReason::NoFile)?;
        let (handle, description) = handle?;
        if !self.handles.is_open(handle, description) {
            return Err(SkipReason::Closed);
        }
        self.nodes(&call, &OpPaths::default())?;
        check_buffers(&call)?;
        // From here on, the operation is replayed.
        let at = self.lane(&call, &dependencies);
        let mut before = dependencies;
        self.process_waits.over(operation.process, operation.start, &mut before);
        let handles = OpHandles { first: Some(handle), target: None };
        let files = self.infer_from_files(&call, handles);
        let file = files.first.map(|used| used.file);
        let planned = planned(&call, handles, file, at, ret);
        let planned = PlannedOp { asynchronous: Some(operation.opcode), ..planned };
        self.touched(&call, handles, files, at, &mut before);
        Ok((planned, before))
    }

    /// Returns the operation's place on a lane of its thread.
    fn lane(&mut self, call: &SyscallOperation, dependencies: &WaitSet) -> TimedOp {
        let (start, end) = self.times(call.start, call.end.unwrap_or(call.start));
        let count = |worker: Worker| self.counts[worker.0 as usize];
        let number = match self.lanes.free(call.thread, start) {
            Ok(last) => {
                let worker = last.at.worker;
                *last = TimedOp { at: OpId { worker, number: count(worker) }, start, end };
                return *last;
            }
            Err(number) => number,
        };
        let worker = self.new_worker();
        let comm = match self.threads.get(&call.thread) {
            Some(thread) => self.workers[thread.worker.0 as usize].comm.clone(),
            None => self.new.get(&call.thread).map(|new| new.comm.clone()).unwrap_or_default(),
        };
        let (pid, tid) = (call.pid.0, call.tid.0);
        let before = dependencies.all().first().copied().into_iter().collect();
        let lane = u32::try_from(number).ok();
        self.workers.push(WorkerInfo { worker, pid, tid, comm, before, lane });
        let timed = TimedOp { at: OpId { worker, number: 0 }, start, end };
        self.lanes.add(call.thread, timed);
        timed
    }
}
