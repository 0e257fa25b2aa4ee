//! Last phase of planning: builds the planned operation, counts it, and passes it to the output.

use super::depend::DependingOp;
use super::infer::InferredFacts;
use super::resolve::{OpHandles, ResolvedOp};
use super::{Planner, sinks};
use crate::operation::model::{ProcessKey, SyscallOperation};
use crate::replay::plan::dependencies::{TimedOp, WaitSet};
use crate::replay::plan::namespace::FileId;
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::planned_op::PlannedOp;
use crate::replay::plan::replay_paths::OpPaths;

/// Returns the planned operation for a call.
pub(super) fn planned_op(
    operation: &SyscallOperation,
    ret: i64,
    resolved: ResolvedOp,
    inferred: &InferredFacts,
    depending: &DependingOp,
) -> PlannedOp {
    let OpPaths { first: path, second: second_path } = resolved.paths;
    let file = inferred.files.first.map(|used| used.file);
    let planned = planned(operation, resolved.handles, file, depending.at, ret);
    let made_file = depending.makes.map(|made| made.file);
    PlannedOp {
        path,
        second_path,
        makes: depending.makes.map(|made| made.handle),
        file: made_file.unwrap_or(planned.file),
        keeps_handle: depending.keeps_handle,
        ..planned
    }
}

/// Creates a planned operation from the parts that all calls have in common.
pub(super) fn planned(
    operation: &SyscallOperation,
    handles: OpHandles,
    file: Option<FileId>,
    at: TimedOp,
    ret: i64,
) -> PlannedOp {
    let sunk = sinks::bytes(operation, handles.target);
    PlannedOp {
        at: at.at,
        call: operation.call,
        asynchronous: None,
        args: sinks::args(operation, sunk),
        handle: handles.first,
        target: handles.target,
        makes: None,
        file,
        path: None,
        second_path: None,
        flags: operation.flags_in_memory,
        offset: operation.offset,
        target_offset: operation.target_offset,
        bytes: sunk.or(operation.bytes_requested),
        ret,
        start: at.start,
        end: at.end,
        keeps_handle: false,
        implicit: false,
        before: Vec::new(),
    }
}

impl<O: PlanOutput> Planner<O> {
    /// Counts a planned operation, and passes it to the output with the operations for which it
    /// waits.
    pub(super) fn emit(
        &mut self,
        process: ProcessKey,
        mut planned: PlannedOp,
        mut before: WaitSet,
    ) -> Result<(), O::Error> {
        self.waited.reduce(planned.at.worker, &mut before);
        planned.before = before.all().to_vec();
        self.waiting += u64::from(!planned.before.is_empty());
        *self.done.entry(planned.kind()).or_default() += 1;
        self.needed += u64::from(self.is_needed);
        for (all, moved) in self.bytes.iter_mut().zip(planned.moved()) {
            *all += moved;
        }
        let worker = planned.at.worker.0 as usize;
        self.counts[worker] += 1;
        self.busy[worker] += planned.end.since(planned.start);
        if planned.asynchronous.is_none() {
            self.newest.insert(process, (planned.at, true));
        } else {
            // An asynchronous operation counts if the process has executed nothing else. But no
            // thread is inside the operation, which may have ended long ago.
            self.newest.entry(process).or_insert((planned.at, false));
        }
        self.out.planned(&planned)
    }
}
