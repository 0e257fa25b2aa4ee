//! Planner: turns the steps of a capture into the operations of a replay, in the order of their
//! ends.
//!
//! ```text
//!   Step ─► Planner ─┬─ Handles    the descriptors and their owners
//!                    ├─ FsModel    the files before the first operation
//!                    ├─ Resources  the order that operations need
//!                    └─► PlannedOp ─► PlanOutput
//! ```
//!
//! An operation that is replayed passes four phases:
//!
//! ```text
//!   resolve   its paths, descriptors and places             ─► ResolvedOp, or a reason to skip it
//!   infer     facts about the initial files, model changes  ─► InferredFacts
//!   depend    its accesses, locks, children, descriptors    ─► DependingOp
//!   emit      the PlannedOp, for the totals and for PlanOutput
//! ```
//!
//! An operation found names as earlier ones had left them, so `resolve` lists its accesses to names
//! before `infer` changes the model.
//!
//! A planner grows with the threads, names, files and descriptors that live at one time, not with
//! the number of operations: state that is no longer needed is evicted ([`eviction`]).

mod arguments;
mod async_ops;
mod bases;
mod depend;
mod emit;
mod eviction;
mod implicit;
mod in_memory;
mod infer;
mod locking;
mod observations;
pub mod partial_plan;
mod refused;
mod resolve;
mod sink;
mod sinks;
mod thread;

use emit::planned_op;
use resolve::ResolvedOp;
use thread::{NewThread, PlannedThread};

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::async_lanes::Lanes;
use super::asynchronous::handles_async_operations;
use super::dependencies::{OpId, VectorClock, Worker};
use super::external_entries::{ExternalEntries, may_make_names};
use super::handles::{HandleTarget, Handles};
use super::in_flight::{InFlightKey, InFlightOps};
use super::links::SymlinkMap;
use super::locks::Locks;
use super::namespace::FsModel;
pub use super::plan_output::PlanOutput;
use super::planned_op::{InheritedFd, WorkerInfo};
use super::process_waits::ProcessWaits;
use super::replay_paths::of_file;
use super::replayability::{SkipReason, Treatment, treatment};
use super::resources::Resources;
use crate::analysis::completed_op::OpKind;
use crate::event::syscall_table::{CallClass, Role};
use crate::operation::model::{FdEffect, ProcessKey, SyscallOperation, ThreadKey};
use crate::units::{KernelTime, Nanos, ReplayTime};

/// Planner of one replay.
#[derive(Debug)]
pub struct Planner<O> {
    /// Consumer of the operations.
    pub out: O,
    /// Model of the files at the start and now.
    pub world: FsModel,
    pub(super) handles: Handles,
    resources: Resources,
    external_entries: ExternalEntries,
    locks: Locks,
    waited: VectorClock,
    threads: FxHashMap<ThreadKey, PlannedThread>,
    /// Number of operations of each worker, including workers whose threads are gone.
    counts: Vec<u32>,
    in_flight: InFlightOps,
    lanes: Lanes,
    new: FxHashMap<ThreadKey, NewThread>,
    process_waits: ProcessWaits,
    /// Number of kept items at which the next eviction runs.
    evict_at: usize,
    #[cfg(test)]
    evicts_at_once: bool,
    /// Newest operation of each process. The flag is false if the operation is asynchronous, or was
    /// inherited from the parent at birth.
    newest: FxHashMap<ProcessKey, (OpId, bool)>,
    /// Begin of the first operation.
    first: Option<KernelTime>,
    /// Workers that execute operations.
    pub workers: Vec<WorkerInfo>,
    /// Descriptors that are open before the first operation.
    pub inherited_fds: Vec<InheritedFd>,
    /// Number of operations that wait for another thread's operations.
    pub waiting: u64,
    /// Number of operations that are replayed.
    pub done: BTreeMap<OpKind, u64>,
    /// Number of model-only operations: their effects are part of the replayed ones.
    pub model_only: u64,
    /// Number of implicit operations, which correspond to no replayed call.
    pub implicit: u64,
    /// Number of operations that are skipped.
    pub skipped: BTreeMap<(SkipReason, OpKind), u64>,
    /// Bytes that the replayed operations read and write.
    pub bytes: [u64; 2],
    /// Time from the begin of the first operation to the end of the last one.
    pub span: Nanos,
    /// Time that each worker spends inside operations.
    pub busy: Vec<Nanos>,
    /// Number of operations that are replayed only because others need them.
    pub needed: u64,
    /// True while operations are planned only because others need them.
    is_needed: bool,
    /// Begin of the first wanted operation; `None`: the plan has no selection.
    pub wanted_from: Option<ReplayTime>,
}

impl<O: PlanOutput> Planner<O> {
    /// Creates a planner without operations.
    pub fn new(out: O) -> Self {
        Self {
            out,
            world: FsModel::default(),
            handles: Handles::default(),
            resources: Resources::default(),
            external_entries: ExternalEntries::default(),
            locks: Locks::default(),
            waited: VectorClock::default(),
            threads: FxHashMap::default(),
            counts: Vec::new(),
            in_flight: InFlightOps::default(),
            lanes: Lanes::default(),
            new: FxHashMap::default(),
            process_waits: ProcessWaits::default(),
            evict_at: eviction::KEPT,
            #[cfg(test)]
            evicts_at_once: false,
            newest: FxHashMap::default(),
            first: None,
            workers: Vec::new(),
            inherited_fds: Vec::new(),
            waiting: 0,
            done: BTreeMap::new(),
            model_only: 0,
            implicit: 0,
            skipped: BTreeMap::new(),
            bytes: [0; 2],
            span: Nanos::default(),
            busy: Vec::new(),
            needed: 0,
            is_needed: false,
            wanted_from: None,
        }
    }

    /// Returns this planner with links that were there before.
    pub fn knowing(self, links: &SymlinkMap) -> Self {
        Self { world: FsModel::with_links(links), ..self }
    }

    /// Returns the maximum number of handles that are open at once.
    pub fn handles(&self) -> usize {
        self.handles.most()
    }

    fn ended(
        &mut self,
        operation: &SyscallOperation,
        effects: &[FdEffect],
    ) -> Result<(), O::Error> {
        let call = operation.call.call();
        let (Some(ret), Some(end)) = (operation.ret, operation.end) else {
            self.leave(operation, SkipReason::NoResult);
            return Ok(());
        };
        match treatment(call, &operation.args) {
            Treatment::Skipped(_) if handles_async_operations(call) => {
                self.model_only += 1;
                Ok(())
            }
            Treatment::ModelOnly => {
                self.model_only += 1;
                self.foreign(operation, effects, SkipReason::NoFile)
            }
            Treatment::Skipped(reason) => self.refuse(operation, effects, reason),
            Treatment::Done => {
                self.release_conflicting_locks(operation)?;
                self.sync_position(operation)?;
                match self.resolve(operation) {
                    Ok(resolved) => self.plan(operation, ret, end, effects, resolved),
                    Err(reason) => self.refuse(operation, effects, reason),
                }
            }
        }
    }

    /// Plans an operation that is replayed.
    fn plan(
        &mut self,
        operation: &SyscallOperation,
        ret: i64,
        end: KernelTime,
        effects: &[FdEffect],
        resolved: ResolvedOp,
    ) -> Result<(), O::Error> {
        let inferred = self.infer(operation, ret, &resolved);
        let depending = self.depend(operation, end, effects, &resolved, &inferred);
        let planned = planned_op(operation, ret, resolved, &inferred, &depending);
        self.emit(operation.process, planned, depending.before)
    }

    fn leave(&mut self, operation: &SyscallOperation, reason: SkipReason) {
        self.out.left(reason);
        // The operation was not wanted.
        if self.is_needed {
            return;
        }
        *self.skipped.entry((reason, OpKind::Call(operation.call))).or_default() += 1;
    }

    /// Applies the descriptor effects of an operation that is not replayed: descriptors that it
    /// makes are missing in the replay, and implicit operations close those that it closes.
    fn foreign(
        &mut self,
        operation: &SyscallOperation,
        effects: &[FdEffect],
        reason: SkipReason,
    ) -> Result<(), O::Error> {
        let (process, start) = (operation.process, operation.start);
        let end = operation.end.unwrap_or(start);
        let own = self.threads.get(&operation.thread).map(|thread| (thread.worker, true));
        let by = own.or_else(|| self.newest.get(&process).map(|(op, _)| (op.worker, false)));
        for effect in effects {
            match effect {
                FdEffect::Created { fd, file } | FdEffect::Duplicated { to: fd, file, .. } => {
                    self.handles.made(process, *fd, start, file.id, HandleTarget::Skipped(reason));
                }
                FdEffect::Destroyed { fd, file } => {
                    let closed = self.handles.closed(process, *fd, end, Some(file.id));
                    if let Some((handle, true)) = closed {
                        self.last_gone(handle, by, process, end)?;
                    }
                }
                FdEffect::StatusChanged { fd, cloexec: Some(true), .. } => {
                    self.marked(operation, *fd)?;
                }
                FdEffect::Seeked { .. } | FdEffect::StatusChanged { .. } => {}
            }
        }
        Ok(())
    }

    /// Converts begin and end of an operation to times of the plan.
    fn times(&mut self, start: KernelTime, end: KernelTime) -> (ReplayTime, ReplayTime) {
        // An operation in flight that began earlier may be planned later.
        let earliest = || start.min(self.in_flight.oldest().unwrap_or(KernelTime::MAX));
        self.first.get_or_insert_with(earliest);
        let [start, end] = [start, end].map(|time| self.since_first(time));
        self.span = self.span.max(end.since(ReplayTime::MIN));
        (start, end)
    }

    /// Converts a time of the capture to a time of the plan.
    fn since_first(&self, time: KernelTime) -> ReplayTime {
        ReplayTime::of(time, self.first.unwrap_or(time))
    }

    /// Returns the next worker, whose description the caller adds to `who`.
    fn new_worker(&mut self) -> Worker {
        self.counts.push(0);
        self.busy.push(Nanos::default());
        Worker(u32::try_from(self.workers.len()).expect("fewer threads than bytes"))
    }

    /// Adds a call to the operations in flight, if it may be replayed. A call that waits for a pipe
    /// or a socket, perhaps for as long as the capture, will be skipped, so no earlier accesses
    /// have to be kept for the call. The same is true for a call that waits for a lock, which
    /// counts from the time when it has the lock.
    fn begun(&mut self, operation: &SyscallOperation) {
        let call = operation.call.call();
        // Operations that the call submits are reported after its end, and began with it.
        if call.arg(Role::Iocbs).is_some() {
            self.in_flight.add_operation(
                InFlightKey::Call(operation.thread),
                operation.start,
                false,
            );
            return;
        }
        self.in_flight.remove_operation(InFlightKey::Call(operation.thread));
        let file = operation.file.as_ref().map(|file| file.id);
        let handle = operation.fd.and_then(|fd| self.handles.get(operation.process, fd, file));
        let is_left = match (handle, &operation.file) {
            (Some(handle), _) => matches!(self.handles.target(handle), HandleTarget::Skipped(_)),
            (None, Some(file)) => of_file(file).is_err(),
            (None, None) => call.arg(Role::Fd).is_some(),
        };
        let is_left = is_left || call.class == CallClass::Lock;
        if treatment(call, &operation.args) == Treatment::Done && !is_left {
            let makes = may_make_names(operation);
            self.in_flight.add_operation(
                InFlightKey::Call(operation.thread),
                operation.start,
                makes,
            );
        }
    }
}

#[cfg(test)]
mod arguments_tests;
#[cfg(test)]
mod async_ops_tests;
#[cfg(test)]
mod dependency_selection_tests;
#[cfg(test)]
mod eviction_tests;
#[cfg(test)]
mod hard_link_tests;
#[cfg(test)]
mod part_tests;
#[cfg(test)]
pub(super) mod tests;
