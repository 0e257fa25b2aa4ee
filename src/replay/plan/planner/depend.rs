//! Third phase of planning: the identity and times of an operation, and the operations for which it
//! waits because of its accesses, locks, and children.

use super::Planner;
use super::infer::{InferredFacts, OpFiles, UsedFile};
use super::resolve::{OpHandles, ResolvedOp};
use super::thread::{NewThread, PlannedThread};
use crate::event::syscall_table::CallClass;
use crate::operation::model::{FdEffect, SyscallOperation};
use crate::replay::plan::dependencies::{OpId, TimedOp, WaitSet};
use crate::replay::plan::handles::{Handle, HandleTarget};
use crate::replay::plan::namespace::FileId;
use crate::replay::plan::open_flags::open_flags;
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::planned_op::WorkerInfo;
use crate::replay::plan::replayability::SkipReason;
use crate::replay::plan::resources::Accessor;
use crate::units::KernelTime;

/// Place of an operation in the plan.
#[derive(Debug)]
pub(super) struct DependingOp {
    /// Identity and times of the operation.
    pub(super) at: TimedOp,
    /// Operations for which it waits.
    pub(super) before: WaitSet,
    /// Handle that the operation creates.
    pub(super) makes: Option<MadeHandle>,
    /// True if other references keep a handle that the operation closes.
    pub(super) keeps_handle: bool,
}

/// Handle that an operation creates.
#[derive(Clone, Copy, Debug)]
pub(super) struct MadeHandle {
    pub(super) handle: Handle,
    /// File of the handle, if the replay has one.
    pub(super) file: Option<FileId>,
}

impl<O: PlanOutput> Planner<O> {
    /// Adds an operation to the plan's order: records its accesses, and applies its effects on
    /// locks and descriptors.
    pub(super) fn depend(
        &mut self,
        operation: &SyscallOperation,
        end: KernelTime,
        effects: &[FdEffect],
        resolved: &ResolvedOp,
        inferred: &InferredFacts,
    ) -> DependingOp {
        let ResolvedOp { handles, names, .. } = resolved;
        let mut before = WaitSet::default();
        let at = self.timed(operation, end, &mut before);
        self.process_waits.waited(operation.process, operation.start, &mut before);
        let accessor = &mut Accessor { by: at, past: self.in_flight.past(), before: &mut before };
        self.resources.named(names, accessor);
        if let Some(file) = inferred.resized {
            self.resources.resized(file, accessor);
        }
        self.touched(operation, *handles, inferred.files, at, &mut before);
        let mut depending = DependingOp { at, before, makes: None, keeps_handle: false };
        let makes = self.effects(operation, effects, handles.first, inferred.made, &mut depending);
        if let Some(handle) = makes {
            depending.makes = Some(MadeHandle { handle, file: self.handles.file(handle) });
            self.opened(operation, handle, at, &mut depending.before);
        }
        depending
    }

    /// Returns the identity and times of an operation.
    pub(super) fn timed(
        &mut self,
        operation: &SyscallOperation,
        end: KernelTime,
        before: &mut WaitSet,
    ) -> TimedOp {
        let (start, end) = self.times(operation.start, end);
        let timed = TimedOp { at: self.next(operation, before), start, end };
        if let Some(thread) = self.threads.get_mut(&operation.thread) {
            thread.last = timed;
        }
        timed
    }

    /// Returns the identity of a thread's next operation. A new thread's initial waits are added to
    /// `first`.
    fn next(&mut self, operation: &SyscallOperation, first: &mut WaitSet) -> OpId {
        let worker = if let Some(thread) = self.threads.get(&operation.thread) {
            thread.worker
        } else {
            let worker = self.new_worker();
            let thread = PlannedThread { worker, last: TimedOp::default() };
            self.threads.insert(operation.thread, thread);
            let NewThread { comm, born, before } =
                self.new.remove(&operation.thread).unwrap_or_default();
            before.all().iter().for_each(|op| first.add(*op));
            let (pid, tid) = (operation.pid.0, operation.tid.0);
            let before = born.into_iter().collect();
            self.workers.push(WorkerInfo { worker, pid, tid, comm, before, lane: None });
            worker
        };
        OpId { worker, number: self.counts[worker.0 as usize] }
    }

    /// Records the accesses of an operation to the descriptors that it was given, and to their
    /// files.
    pub(super) fn touched(
        &mut self,
        operation: &SyscallOperation,
        handles: OpHandles,
        files: OpFiles,
        at: TimedOp,
        before: &mut WaitSet,
    ) {
        let class = operation.call.call().class;
        let descriptors =
            [(handles.first, files.first, false), (handles.target, files.target, true)];
        for (handle, file, is_target) in descriptors {
            let Some(handle) = handle else { continue };
            // A call that waits for a lock may have begun long ago: it counts from its end, when it
            // has the lock.
            let at = if class == CallClass::Lock { TimedOp { start: at.end, ..at } } else { at };
            let closes = class == CallClass::Close;
            let past = self.in_flight.past();
            let accessor = &mut Accessor { by: at, past, before: &mut *before };
            self.resources.of_handle(&mut self.handles, handle, closes, accessor);
            self.locked(operation, handle, at, before);
            let Some(UsedFile { file, of_itself }) = file else { continue };
            let description = self.handles.description(handle);
            let past = self.in_flight.past();
            let accessor = &mut Accessor { by: at, past, before: &mut *before };
            self.resources.of_file(operation, file, description, is_target, of_itself, accessor);
        }
    }

    /// Records the accesses of an operation that has made a descriptor.
    fn opened(
        &mut self,
        operation: &SyscallOperation,
        made: Handle,
        at: TimedOp,
        before: &mut WaitSet,
    ) {
        let accessor = &mut Accessor { by: at, past: self.in_flight.past(), before };
        self.resources.of_handle(&mut self.handles, made, true, accessor);
        let truncates = open_flags(operation).truncates();
        if let Some(file) = self.handles.file(made)
            && operation.call.call().class == CallClass::Open
            && truncates
        {
            self.resources.resized(file, accessor);
        }
    }

    /// Applies the effects of an operation on descriptors. Returns the handle that it makes.
    fn effects(
        &mut self,
        operation: &SyscallOperation,
        effects: &[FdEffect],
        handle: Option<Handle>,
        made: Option<HandleTarget>,
        depending: &mut DependingOp,
    ) -> Option<Handle> {
        let (process, start) = (operation.process, operation.start);
        let end = operation.end.unwrap_or(start);
        let (mut replaced, mut makes) = (None, None);
        for effect in effects {
            match effect {
                FdEffect::Created { fd, file } => {
                    let target = made.unwrap_or(HandleTarget::Skipped(SkipReason::NoFile));
                    makes = Some(self.handles.made(process, *fd, start, file.id, target));
                }
                FdEffect::Duplicated { to, file, .. } => {
                    let target = handle.map(|handle| self.handles.target(handle));
                    let target = target.unwrap_or(HandleTarget::Skipped(SkipReason::NoFile));
                    let copy = match replaced {
                        Some(handle) => {
                            self.handles.replaced(handle, process, *to, file.id, target)
                        }
                        None => self.handles.made(process, *to, start, file.id, target),
                    };
                    if let Some(original) = handle {
                        self.handles.is_copy(copy, original);
                    }
                    makes = Some(copy);
                }
                FdEffect::Destroyed { fd, file } => {
                    let closed = self.handles.closed(process, *fd, end, Some(file.id));
                    let Some((closed, is_last)) = closed else { continue };
                    replaced = Some(closed).filter(|_| is_last);
                    self.release_locks(closed, depending.at.at, &mut depending.before);
                    depending.keeps_handle =
                        !is_last && operation.call.call().class == CallClass::Close;
                }
                FdEffect::Seeked { .. } | FdEffect::StatusChanged { .. } => {}
            }
        }
        makes
    }
}
