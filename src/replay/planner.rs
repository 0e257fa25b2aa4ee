//! Planner: turns the steps of a capture into the operations of a replay, in the order of their
//! ends.
//!
//! ```text
//!   Step ─► Planner ─┬─ Handles    the descriptors and their owners
//!                    ├─ FsModel    the files before the first operation
//!                    ├─ Resources  the order that operations need
//!                    └─► PlannedOp ─► Out
//! ```
//!
//! A planner grows with the threads, names, files and descriptors that live at one time, not with
//! the number of operations: state that is no longer needed is evicted ([`eviction`]).

mod arguments;
mod async_ops;
mod bases;
mod dependency_selection;
mod eviction;
mod implicit;
mod in_memory;
mod link_discovery;
mod locking;
mod observations;
mod partial_plan;
mod refused;
mod sink;
mod sinks;

pub use dependency_selection::{DependencySelection, PassFindings};
pub use partial_plan::Selected;

use std::collections::BTreeMap;

pub use link_discovery::{LinkDiscovery, Outdated};

use rustc_hash::FxHashMap;

use super::async_lanes::Lanes;
use super::asynchronous::is_about_them;
use super::dependencies::{OpId, TimedOp, VectorClock, WaitSet, Worker};
use super::external_entries::{ExternalEntries, may_make_names};
use super::handles::{Handle, HandleTarget, Handles};
use super::in_flight::{InFlightKey, UnderWay};
use super::infer_initial_state;
use super::links::SymlinkMap;
use super::locks::Locks;
use super::namespace::{EntryKind, FsModel, NodeId};
use super::planned_op::{InheritedFd, PlannedOp, WorkerInfo};
use super::process_waits::ProcessWaits;
use super::replay_paths::of_file;
use super::replayability::{SkipReason, Treatment, excuse, treatment};
use super::resources::{Accessor, Resources, stood};
use super::symlink_follow::follows;
use crate::analysis::completed_op::OpKind;
use crate::event::syscall_table::{CallClass, Role};
use crate::operation::model::{FdEffect, ProcessKey, SyscallOperation, ThreadKey};
use crate::units::{KernelTime, Nanos, ReplayTime};

/// Consumer of planned operations, which arrive one at a time.
pub trait PlanOutput {
    /// Error of the consumer.
    type Error;

    /// Takes the next operation.
    ///
    /// # Errors
    ///
    /// Errors of the consumer.
    fn planned(&mut self, planned: &PlannedOp) -> Result<(), Self::Error>;

    /// Reports an operation that is skipped.
    fn left(&mut self, _: SkipReason) {}
}

#[derive(Debug)]
struct PlannedThread {
    worker: Worker,
    /// Last operation of the worker.
    last: TimedOp,
}

/// Thread that has not executed an operation yet.
#[derive(Debug, Default)]
struct NewThread {
    comm: Vec<u8>,
    /// Last operation of its process when the thread began.
    born: Option<OpId>,
    /// Last operations of children for which its parent may have waited.
    before: WaitSet,
}

/// Planner of one replay.
#[derive(Debug)]
pub struct Planner<O> {
    /// Consumer of the operations.
    pub out: O,
    /// Model of the files at the start and now.
    pub world: FsModel,
    handles: Handles,
    things: Resources,
    strangers: ExternalEntries,
    locks: Locks,
    waited: VectorClock,
    threads: FxHashMap<ThreadKey, PlannedThread>,
    /// Number of operations of each worker, including workers whose threads are gone.
    counts: Vec<u32>,
    under_way: UnderWay,
    lanes: Lanes,
    new: FxHashMap<ThreadKey, NewThread>,
    families: ProcessWaits,
    /// Number of kept items at which the next eviction runs.
    forget_at: usize,
    #[cfg(test)]
    forgets_at_once: bool,
    /// Newest operation of each process. The flag is false if the operation is asynchronous, or was
    /// inherited from the parent at birth.
    newest: FxHashMap<ProcessKey, (OpId, bool)>,
    /// Begin of the first operation.
    first: Option<KernelTime>,
    /// Workers that execute operations.
    pub who: Vec<WorkerInfo>,
    /// Descriptors that are open before the first operation.
    pub given: Vec<InheritedFd>,
    /// Number of operations that wait for another thread's operations.
    pub waiting: u64,
    /// Number of operations that are replayed.
    pub done: BTreeMap<OpKind, u64>,
    /// Number of model-only operations: their effects are part of the replayed ones.
    pub followed: u64,
    /// Number of implicit operations, which correspond to no replayed call.
    pub implicit: u64,
    /// Number of operations that are skipped.
    pub left: BTreeMap<(SkipReason, OpKind), u64>,
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
            things: Resources::default(),
            strangers: ExternalEntries::default(),
            locks: Locks::default(),
            waited: VectorClock::default(),
            threads: FxHashMap::default(),
            counts: Vec::new(),
            under_way: UnderWay::default(),
            lanes: Lanes::default(),
            new: FxHashMap::default(),
            families: ProcessWaits::default(),
            forget_at: eviction::KEPT,
            #[cfg(test)]
            forgets_at_once: false,
            newest: FxHashMap::default(),
            first: None,
            who: Vec::new(),
            given: Vec::new(),
            waiting: 0,
            done: BTreeMap::new(),
            followed: 0,
            implicit: 0,
            left: BTreeMap::new(),
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
            Treatment::Left(_) if is_about_them(call) => {
                self.followed += 1;
                Ok(())
            }
            Treatment::Followed => {
                self.followed += 1;
                self.foreign(operation, effects, SkipReason::NoFile)
            }
            Treatment::Left(reason) => self.refuse(operation, effects, reason),
            Treatment::Done => {
                self.make_way(operation)?;
                self.stand(operation)?;
                match self.plan(operation, ret, end, effects) {
                    Ok((planned, before)) => self.emit(operation.process, planned, before),
                    Err(reason) => self.refuse(operation, effects, reason),
                }
            }
        }
    }

    fn leave(&mut self, operation: &SyscallOperation, reason: SkipReason) {
        self.out.left(reason);
        // The operation was not wanted.
        if self.is_needed {
            return;
        }
        *self.left.entry((reason, OpKind::Call(operation.call))).or_default() += 1;
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
                    self.handles.made(process, *fd, start, file.id, HandleTarget::Left(reason));
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

    /// Returns the identity and times of an operation.
    fn timed(
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

    /// Converts begin and end of an operation to times of the plan.
    fn times(&mut self, start: KernelTime, end: KernelTime) -> (ReplayTime, ReplayTime) {
        // An operation in flight that began earlier may be planned later.
        let earliest = || start.min(self.under_way.oldest().unwrap_or(KernelTime::MAX));
        self.first.get_or_insert_with(earliest);
        let [start, end] = [start, end].map(|time| self.since_first(time));
        self.span = self.span.max(end.since(ReplayTime::MIN));
        (start, end)
    }

    /// Converts a time of the capture to a time of the plan.
    fn since_first(&self, time: KernelTime) -> ReplayTime {
        ReplayTime::of(time, self.first.unwrap_or(time))
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
            self.who.push(WorkerInfo { worker, pid, tid, comm, before, lane: None });
            worker
        };
        OpId { worker, number: self.counts[worker.0 as usize] }
    }

    /// Returns the next worker, whose description the caller adds to `who`.
    fn new_worker(&mut self) -> Worker {
        self.counts.push(0);
        self.busy.push(Nanos::default());
        Worker(u32::try_from(self.who.len()).expect("fewer threads than bytes"))
    }

    /// Plans an operation. Returns the planned operation and the operations for which it waits, or
    /// the reason to skip it.
    fn plan(
        &mut self,
        operation: &SyscallOperation,
        ret: i64,
        end: KernelTime,
        effects: &[FdEffect],
    ) -> Result<(PlannedOp, WaitSet), SkipReason> {
        let call = operation.call.call();
        let [path, second_path] = self.paths(operation)?;
        let handles = self.descriptors(operation, path.is_none())?;
        in_memory::how_is_repeated(operation)?;
        let (nodes, links) = self.nodes(operation, [&path, &second_path])?;
        in_memory::is_repeated(operation)?;
        self.has_own_flags(operation, handles[0])?;
        self.may_lock(operation, handles[0])?;
        // From here on, the operation is replayed.
        let mut before = WaitSet::default();
        let at = self.timed(operation, end, &mut before);
        self.families.waited(operation.process, operation.start, &mut before);
        let accessor = &mut Accessor { by: at, past: self.under_way.past(), before: &mut before };
        self.things.named(operation, &self.world, nodes, accessor);
        self.things.passed(&self.world, &links, accessor);
        if let (Some(path), None | Some(libc::ENOENT)) = (&path, operation.errno()) {
            self.world.passed(path, ret >= 0);
        }
        infer_initial_state::spelled(&mut self.world, operation, path.as_deref(), nodes[0]);
        let made = self.learn(operation, ret, nodes, handles[0]);
        if let (true, 0, Some(link), Some(text)) = (call.is_symlink(), ret, nodes[0], &second_path)
        {
            self.world.contains(link, text);
        }
        if call.class == CallClass::Resize
            && let Some(EntryKind::File(file)) = nodes[0].and_then(|node| self.world.thing(node))
        {
            let accessor =
                &mut Accessor { by: at, past: self.under_way.past(), before: &mut before };
            self.things.resized(file, accessor);
        }
        let planned = self.planned(operation, handles, at, ret);
        let mut planned = PlannedOp { path, second_path, ..planned };
        self.touched(operation, handles, at, &mut before);
        self.effects(operation, effects, made, &mut planned, &mut before);
        if let Some(made) = planned.makes {
            planned.file = self.handles.file(made);
            self.opened(operation, made, at, &mut before);
        }
        Ok((planned, before))
    }

    /// Records the accesses of an operation to the descriptors that it was given, and to their
    /// files.
    fn touched(
        &mut self,
        operation: &SyscallOperation,
        handles: [Option<Handle>; 2],
        at: TimedOp,
        before: &mut WaitSet,
    ) {
        let class = operation.call.call().class;
        for (place, handle) in handles.into_iter().enumerate() {
            let Some(handle) = handle else { continue };
            // A call that waits for a lock may have begun long ago: it counts from its end, when it
            // has the lock.
            let at = if class == CallClass::Lock { TimedOp { start: at.end, ..at } } else { at };
            let closes = class == CallClass::Close;
            let past = self.under_way.past();
            let accessor = &mut Accessor { by: at, past, before: &mut *before };
            self.things.of_handle(&mut self.handles, handle, closes, accessor);
            self.locked(operation, handle, at, before);
            let Some(file) = self.handles.file(handle) else { continue };
            let description = self.handles.description(handle);
            let is_target = place == 1;
            let of_itself = self.world.size(file).of_itself();
            let past = self.under_way.past();
            let accessor = &mut Accessor { by: at, past, before: &mut *before };
            self.things.of_file(operation, file, description, is_target, of_itself, accessor);
            if let Some(ret) = operation.ret.and_then(|ret| u64::try_from(ret).ok()) {
                let position = self.handles.position(handle);
                let offset = stood(operation, is_target, position, ret);
                let size = self.world.size_mut(file);
                infer_initial_state::moved(size, operation, is_target, offset, ret);
            }
            infer_initial_state::asked(&mut self.world, file, operation);
        }
    }

    /// Returns the places to which the paths lead, and the links on the way; or the reason why the
    /// replay would find something else there.
    fn nodes(
        &mut self,
        operation: &SyscallOperation,
        [path, second_path]: [&Option<Vec<u8>>; 2],
    ) -> Result<([Option<NodeId>; 2], Vec<NodeId>), SkipReason> {
        let (mut nodes, mut links) = self.led_to(operation, [path, second_path]);
        if operation.errno() != Some(libc::ENOENT) {
            self.world.led_through(&links);
        } else if let [Some(to), None] = nodes
            && self.world.led_nowhere(&links, to)
        {
            (nodes, links) = self.led_to(operation, [path, second_path]);
        }
        let is_contended = self.under_way.may_make_names();
        self.strangers.ended(&self.world, operation, nodes, is_contended)?;
        let call = operation.call.call();
        match operation.errno().and_then(|errno| Some((errno, excuse(call, errno)?))) {
            Some((errno, reason)) => {
                infer_initial_state::failed(&mut self.world, operation, errno, nodes);
                Err(reason)
            }
            None => Ok((nodes, links)),
        }
    }

    /// Returns the places to which the paths lead, as far as known, and the links on the way.
    fn led_to(
        &mut self,
        operation: &SyscallOperation,
        [path, second_path]: [&Option<Vec<u8>>; 2],
    ) -> ([Option<NodeId>; 2], Vec<NodeId>) {
        let mut links = Vec::new();
        let mut find = |path: &Option<Vec<u8>>, is_followed| {
            path.as_ref().and_then(|path| self.world.reach(path, is_followed, &mut links))
        };
        // The text of a symbolic link is not a name yet.
        let call = operation.call.call();
        let is_name = !call.is_symlink();
        let first = find(path, follows(call, &operation.args, operation.flags_in_memory));
        ([first, if is_name { find(second_path, false) } else { None }], links)
    }

    /// Records the accesses of an operation that has made a descriptor.
    fn opened(
        &mut self,
        operation: &SyscallOperation,
        made: Handle,
        at: TimedOp,
        before: &mut WaitSet,
    ) {
        let accessor = &mut Accessor { by: at, past: self.under_way.past(), before };
        self.things.of_handle(&mut self.handles, made, true, accessor);
        let truncates = infer_initial_state::open_flags(operation).truncates();
        if let Some(file) = self.handles.file(made)
            && operation.call.call().class == CallClass::Open
            && truncates
        {
            self.things.resized(file, accessor);
        }
    }

    /// Applies the effects of an operation on descriptors.
    fn effects(
        &mut self,
        operation: &SyscallOperation,
        effects: &[FdEffect],
        made: Option<HandleTarget>,
        planned: &mut PlannedOp,
        before: &mut WaitSet,
    ) {
        let (process, start) = (operation.process, operation.start);
        let end = operation.end.unwrap_or(start);
        let mut replaced = None;
        for effect in effects {
            match effect {
                FdEffect::Created { fd, file } => {
                    let behind = made.unwrap_or(HandleTarget::Left(SkipReason::NoFile));
                    let handle = self.handles.made(process, *fd, start, file.id, behind);
                    planned.makes = Some(handle);
                }
                FdEffect::Duplicated { to, file, .. } => {
                    let behind = planned.handle.map(|handle| self.handles.behind(handle));
                    let behind = behind.unwrap_or(HandleTarget::Left(SkipReason::NoFile));
                    let handle = match replaced {
                        Some(handle) => {
                            self.handles.replaced(handle, process, *to, file.id, behind)
                        }
                        None => self.handles.made(process, *to, start, file.id, behind),
                    };
                    if let Some(original) = planned.handle {
                        self.handles.is_copy(handle, original);
                    }
                    planned.makes = Some(handle);
                }
                FdEffect::Destroyed { fd, file } => {
                    let closed = self.handles.closed(process, *fd, end, Some(file.id));
                    let Some((handle, is_last)) = closed else { continue };
                    replaced = Some(handle).filter(|_| is_last);
                    self.lets_go(handle, planned.at, before);
                    planned.keeps_handle =
                        !is_last && operation.call.call().class == CallClass::Close;
                }
                FdEffect::Seeked { .. } | FdEffect::StatusChanged { .. } => {}
            }
        }
    }

    fn emit(
        &mut self,
        process: ProcessKey,
        mut planned: PlannedOp,
        mut before: WaitSet,
    ) -> Result<(), O::Error> {
        self.waited.reduce(planned.at.worker, &mut before);
        planned.before = before.all().to_vec();
        self.waiting += u64::from(!planned.before.is_empty());
        *self.done.entry(planned.what()).or_default() += 1;
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

    /// Adds a call to the operations in flight, if it may be replayed. A call that waits for a pipe
    /// or a socket, perhaps for as long as the capture, will be skipped, so no earlier accesses
    /// have to be kept for the call. The same is true for a call that waits for a lock, which
    /// counts from the time when it has the lock.
    fn begun(&mut self, operation: &SyscallOperation) {
        let call = operation.call.call();
        // Operations that the call submits are reported after its end, and began with it.
        if call.arg(Role::Iocbs).is_some() {
            self.under_way.begun(InFlightKey::Call(operation.thread), operation.start, false);
            return;
        }
        self.under_way.over(InFlightKey::Call(operation.thread));
        let file = operation.file.as_ref().map(|file| file.id);
        let handle = operation.fd.and_then(|fd| self.handles.get(operation.process, fd, file));
        let is_left = match (handle, &operation.file) {
            (Some(handle), _) => matches!(self.handles.behind(handle), HandleTarget::Left(_)),
            (None, Some(file)) => of_file(file).is_err(),
            (None, None) => call.arg(Role::Fd).is_some(),
        };
        let is_left = is_left || call.class == CallClass::Lock;
        if treatment(call, &operation.args) == Treatment::Done && !is_left {
            let makes = may_make_names(operation);
            self.under_way.begun(InFlightKey::Call(operation.thread), operation.start, makes);
        }
    }
}

#[cfg(test)]
mod forget_tests;
#[cfg(test)]
mod given_tests;
#[cfg(test)]
mod hard_link_tests;
#[cfg(test)]
mod needs_tests;
#[cfg(test)]
mod part_tests;
#[cfg(test)]
mod submitted_tests;
#[cfg(test)]
mod tests;
