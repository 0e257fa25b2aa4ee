//! Selection of dependencies: operations on which wanted ones depend. Files that wanted operations
//! use must be made, named, and as long as they were.
//!
//! ```text
//!   wanted   read 3                                     pass 1 finds: the open file of 3,
//!                                                       bytes of a file
//!   needed   open b = 3, close 3, write 4 (the bytes)   pass 2 finds: the name b,
//!                                                       the open file of 4
//!   needed   rename a b                                 the same pass, at its end (renames.rs):
//!                                                       the name a, its directory
//!   needed   open a = 4, close 4, mkdir for a           pass 3 finds nothing new: that is all
//! ```
//!
//! Each pass also makes the plan of all operations and discards it: that plan shows which names,
//! files and open files operations use. These have the same numbers in each pass. Findings are
//! stored by these numbers, with the time until which each is needed: effects of operations that
//! begin later are not needed. So memory grows with names and files, and by one bit for each open
//! file, but not with operations.

mod needed;
mod pass_findings;
mod renames;

use std::convert::Infallible;

pub use pass_findings::PassFindings;
use renames::Rename;

use super::plan_output::PlanOutput;
use super::planner::Planner;
use crate::analysis::filter::{Filter, Picker};
use crate::event::syscall_table::{CallClass, Role};
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::model::{FdEffect, OpenFile, SyscallOperation};
use crate::operation::{Sink, Step};
use crate::replay::plan::asynchronous::as_call;
use crate::replay::plan::handles::Handle;
use crate::replay::plan::links::SymlinkMap;
use crate::replay::plan::locks::LockTarget;
use crate::replay::plan::namespace::{EntryKind, FileId, FsModel, NodeId, PlaceKeys};
use crate::replay::plan::open_flags::open_flags;
use crate::replay::plan::planned_op::PlannedOp;
use crate::replay::plan::replay_paths::{OpPaths, of_file};
use crate::replay::plan::replayability::SkipReason;
use crate::replay::plan::resources::{appends, moves_position};
use crate::replay::plan::symlink_follow::follows;
use crate::units::KernelTime;

/// Decision on an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// The operation is wanted, and replayed.
    Wanted,
    /// The operation is not wanted, but replayed because other operations need it.
    Needed,
    /// The operation is wanted, but skipped.
    Skipped(SkipReason),
    /// The operation is wanted, but model only: other operations have its effects.
    ModelOnly,
    /// The operation is neither wanted nor needed.
    Out,
}

/// Result of an operation in the plan of all operations.
#[derive(Debug, Default)]
struct PlannedBrief {
    planned: Option<OpBrief>,
    left: Option<SkipReason>,
}

#[derive(Clone, Copy, Debug)]
struct OpBrief {
    file: Option<FileId>,
    handle: Option<Handle>,
    target: Option<Handle>,
    makes: Option<Handle>,
}

impl PlanOutput for PlannedBrief {
    type Error = Infallible;

    fn planned(&mut self, planned: &PlannedOp) -> Result<(), Infallible> {
        let PlannedOp { file, handle, target, makes, .. } = *planned;
        if !planned.implicit {
            self.planned = Some(OpBrief { file, handle, target, makes });
        }
        Ok(())
    }

    fn left(&mut self, reason: SkipReason) {
        self.left = Some(reason);
    }
}

/// Facts about an operation that must be determined before it is planned.
#[derive(Debug, Default)]
struct OpFootprint {
    /// Place to which its first path leads.
    node: Option<NodeId>,
    /// Places that its paths lead through and to, the links on the way, and an entry because of
    /// which it could not remove a directory.
    places: Vec<PlaceKeys>,
    /// Places whose entry the operation changes.
    changed: Vec<u64>,
    /// Directory that the operation removes.
    removed: Option<u64>,
    /// True if it writes bytes where there were none, as far as known.
    lengthens: bool,
}

/// Pass over the log that finds dependencies.
#[derive(Debug)]
pub struct DependencySelection {
    /// Filter that selects the wanted operations.
    pub picker: Picker,
    /// Findings so far.
    pub found: PassFindings,
    /// Planner of all operations.
    all: Planner<PlannedBrief>,
}

impl DependencySelection {
    /// Creates a pass with the findings of earlier ones.
    pub fn new(filter: Filter, found: PassFindings, links: &SymlinkMap) -> Self {
        let all = Planner::new(PlannedBrief::default()).knowing(links);
        Self { picker: Picker::new(filter), found, all }
    }

    /// Returns the model of the initial files, as all operations show it.
    pub(super) fn fs_model(&self) -> &FsModel {
        &self.all.world
    }

    /// Takes the next step of the log, of all steps. Returns the decision on the operation that the
    /// step ends; [`Selection::Out`] if it ends none.
    pub(super) fn judge(&mut self, time: KernelTime, step: &Step<'_>) -> Selection {
        let is_wanted = self.picker.wants(step);
        let as_if;
        let (operation, effects): (&SyscallOperation, &[FdEffect]) = match step {
            Step::SyscallEnded(operation, effects) => (operation, effects),
            Step::AsyncEnded(operation, effects) => match as_call(operation) {
                Ok(call) => {
                    as_if = call;
                    (&as_if, effects)
                }
                Err(reason) => {
                    self.brief_of(time, step);
                    return if is_wanted { Selection::Skipped(reason) } else { Selection::Out };
                }
            },
            _ => {
                self.brief_of(time, step);
                let is_lost =
                    matches!(step, Step::SyscallUnfinished(..) | Step::AsyncUnfinished(..));
                return if is_lost && is_wanted {
                    Selection::Skipped(SkipReason::NoResult)
                } else {
                    Selection::Out
                };
            }
        };
        let footprint = self.footprint(operation);
        let outcome = self.brief_of(time, step);
        let Some(brief) = outcome.planned else {
            return match (is_wanted, outcome.left) {
                (true, Some(reason)) => Selection::Skipped(reason),
                (true, None) => Selection::ModelOnly,
                (false, _) => Selection::Out,
            };
        };
        if is_wanted {
            let end = operation.end.unwrap_or(operation.start);
            self.found.has_grown |= self.found.last < end;
            self.found.last = self.found.last.max(end);
            self.needs(operation, &footprint, brief, end);
            return Selection::Wanted;
        }
        if self.is_needed(operation, effects, &footprint, brief) {
            self.needs(operation, &footprint, brief, operation.end.unwrap_or(operation.start));
            return Selection::Needed;
        }
        self.may_be_needed(operation, footprint);
        Selection::Out
    }

    /// Keeps a rename or link that no known operation needs: a later operation may need it.
    fn may_be_needed(&mut self, operation: &SyscallOperation, footprint: OpFootprint) {
        let has_two = operation.named.as_ref().is_some_and(|named| named.second.is_some());
        if !has_two || footprint.changed.is_empty() {
            return;
        }
        let OpFootprint { changed, places, removed, .. } = footprint;
        let (start, end) = (operation.start, operation.end.unwrap_or(operation.start));
        self.found.renames.keep(Rename { start, end, changed, places, removed });
    }

    /// Returns true if a time is after the end of the last wanted operation.
    pub(super) fn is_after_last_wanted(&self, time: KernelTime) -> bool {
        time > self.found.last
    }

    /// Returns the effects on open files that are needed, and on descriptor flags, which may be of
    /// such files.
    pub(super) fn of_needed<'a>(&self, effects: &'a [FdEffect]) -> Vec<FdEffect> {
        let is_flag = |effect: &FdEffect| matches!(effect, FdEffect::StatusChanged { .. });
        let is_needed = |effect: &&'a FdEffect| is_flag(effect) || self.has_needed(effect);
        effects.iter().filter(is_needed).cloned().collect()
    }

    /// Returns true if an asynchronous operation uses an open file that is needed.
    pub(super) fn is_on_needed(&self, operation: &AsyncOperation) -> bool {
        operation.file.as_ref().is_some_and(|file| self.found.descriptions.has(file.id))
    }

    fn has_needed(&self, effect: &FdEffect) -> bool {
        match effect {
            FdEffect::Created { file, .. }
            | FdEffect::Duplicated { file, .. }
            | FdEffect::Destroyed { file, .. } => self.found.descriptions.has(file.id),
            FdEffect::Seeked { .. } | FdEffect::StatusChanged { .. } => false,
        }
    }

    fn brief_of(&mut self, time: KernelTime, step: &Step<'_>) -> PlannedBrief {
        self.all.out = PlannedBrief::default();
        let Ok(()) = self.all.step(time, step);
        std::mem::take(&mut self.all.out)
    }

    /// Returns the places and the file lengths that an operation concerns.
    fn footprint(&mut self, operation: &SyscallOperation) -> OpFootprint {
        let call = operation.call.call();
        let Ok(OpPaths { first: path, second }) = self.all.paths(operation) else {
            return OpFootprint::default();
        };
        // The text of a symbolic link leads somewhere only from the directory of the link.
        let second = if call.is_symlink() { None } else { second };
        let mut links = Vec::new();
        let follows =
            [follows(operation.call.call(), &operation.args, operation.flags_in_memory), false];
        let mut follows = follows.into_iter();
        let nodes = [path, second].map(|path| {
            let is_followed = follows.next().unwrap_or(false);
            self.all.world.reach(&path?, is_followed, &mut links)
        });
        let lengthens = self.lengthens(operation);
        let [first, last] = [nodes[0], nodes[1].or(nodes[0])];
        let world = &self.all.world;
        let removes = matches!(call.class, CallClass::Remove | CallClass::Rename);
        let is_full = matches!(operation.errno(), Some(libc::ENOTEMPTY | libc::EEXIST));
        let is_there = |node: &NodeId| world.entry_kind(*node).is_some();
        let full = last.filter(|_| removes && is_full);
        let all = full.into_iter().flat_map(|node| world.within(node)).filter(is_there);
        let in_the_way = all.min_by_key(|node| world.keys(*node).place);
        let ends = nodes.into_iter().chain([in_the_way]).flatten().chain(links);
        let places =
            ends.flat_map(|node| world.ancestors(node)).map(|node| world.keys(node)).collect();
        let footprint = OpFootprint { node: first, places, lengthens, ..OpFootprint::default() };
        if operation.errno().is_some() {
            return footprint;
        }
        let creates = || open_flags(operation).creates();
        let changed: &[Option<NodeId>] = match call.class {
            CallClass::Name => &[last],
            CallClass::Rename => &nodes,
            CallClass::Remove => &[first],
            CallClass::Open if creates() && !first.is_some_and(|node| is_there(&node)) => &[first],
            _ => &[],
        };
        let changed = changed.iter().flatten().map(|node| world.keys(*node).place).collect();
        let removed = last.filter(|_| removes).map(|node| world.inside(node));
        OpFootprint { changed, removed, ..footprint }
    }

    /// Returns true if an operation writes past the end of its file, or may do so.
    fn lengthens(&self, operation: &SyscallOperation) -> bool {
        let is_transfer = operation.call.call().class == CallClass::Transfer;
        let target = operation.target.as_ref().map(|(_, file)| (file, operation.target_offset));
        let file = operation.file.as_ref().map(|file| (file, operation.offset));
        let Some((file, offset)) = (if is_transfer { target } else { file }) else { return true };
        let end = operation.ret.and_then(|ret| offset?.checked_add(u64::try_from(ret).ok()?));
        let handles = &self.all.handles;
        let known = handles.newest_of(file.id).and_then(|handle| handles.file(handle));
        let Some((end, known)) = end.zip(known) else { return true };
        !self.all.world.size(known).is_within(end)
    }

    /// Returns true if an operation that is selected already needs this one.
    fn is_needed(
        &self,
        operation: &SyscallOperation,
        effects: &[FdEffect],
        footprint: &OpFootprint,
        brief: OpBrief,
    ) -> bool {
        let (found, start) = (&self.found, operation.start);
        let end = operation.end.unwrap_or(start);
        let class = operation.call.call().class;
        let changes_descriptor = || {
            let is_control = class == CallClass::Control
                && effects.iter().any(|effect| matches!(effect, FdEffect::StatusChanged { .. }));
            let own = brief.handle.map(|handle| self.all.handles.description(handle));
            effects.iter().any(|effect| self.has_needed(effect))
                || is_control && own.is_some_and(|own| found.descriptions.has(own))
        };
        let resized = self.resized(operation, footprint, brief);
        let written = self.written(class, brief).filter(|_| footprint.lengthens);
        footprint.changed.iter().any(|name| found.names.until.has(*name, start))
            || resized.is_some_and(|file| found.files.has(file, start))
            || written.is_some_and(|file| found.bytes.has(file, start))
            || self.locked(operation, brief).is_some_and(|locked| found.locks.has(locked, start))
            || self.moves_unplaced(operation, brief)
            || end <= found.last && changes_descriptor()
    }

    /// Returns the open files whose position an operation moves, and whether the position at its
    /// begin is known. Appended bytes go to the end of the file.
    fn moved(operation: &SyscallOperation, brief: OpBrief) -> impl Iterator<Item = (Handle, bool)> {
        let is_seek = operation.call.call().class == CallClass::Seek;
        let target = operation.target.as_ref().map(|(_, file)| &**file);
        let all = [
            (false, brief.handle, operation.file.as_deref(), operation.offset),
            (true, brief.target, target, operation.target_offset),
        ];
        let all = all.map(|(is_target, handle, file, offset)| {
            let is_placed = offset.is_some() || is_seek || appends(operation, file, is_target);
            Some((handle?, is_placed)).filter(|_| moves_position(operation, is_target))
        });
        all.into_iter().flatten()
    }

    /// Returns true if an operation moves a position from which a selected operation began at an
    /// unknown offset.
    fn moves_unplaced(&self, operation: &SyscallOperation, brief: OpBrief) -> bool {
        let description = |handle| self.all.handles.description(handle);
        let unplaced = &self.found.unplaced;
        Self::moved(operation, brief)
            .any(|(handle, _)| unplaced.has(description(handle), operation.start))
    }

    /// Records everything that a selected operation needs, until this time.
    fn needs(
        &mut self,
        operation: &SyscallOperation,
        footprint: &OpFootprint,
        brief: OpBrief,
        until: KernelTime,
    ) {
        let class = operation.call.call().class;
        for (handle, is_placed) in Self::moved(operation, brief) {
            if !is_placed {
                let description = self.all.handles.description(handle);
                self.found.has_grown |= self.found.unplaced.add(description, until);
            }
        }
        for handle in [brief.handle, brief.target, brief.makes].into_iter().flatten() {
            let description = self.all.handles.description(handle);
            self.found.has_grown |= self.found.descriptions.add(description);
        }
        let target = operation.target.as_ref().map(|(_, file)| file);
        let before = [operation.file.as_ref(), target].map(|file| self.open_before(file?));
        let world = &self.all.world;
        let before = before.into_iter().flatten().flat_map(|node| world.ancestors(node));
        for keys in footprint.places.iter().copied().chain(before.map(|node| world.keys(node))) {
            self.found.has_grown |= self.found.names.add(keys, until);
        }
        if let Some(directory) = footprint.removed {
            self.found.has_grown |= self.found.names.leave(directory, until);
        }
        let files =
            [brief.file, self.written(class, brief), self.resized(operation, footprint, brief)];
        for file in files.into_iter().flatten() {
            self.found.has_grown |= self.found.files.add(file, until);
        }
        let whence = operation.call.call().arg(Role::Whence).map(|place| operation.args[place]);
        let from_end = u64::from(libc::SEEK_END.cast_unsigned());
        let counts_from_end = whence.is_some_and(|whence| whence >= from_end);
        let is_read = matches!(class, CallClass::Read | CallClass::Transfer) || counts_from_end;
        if let Some(file) = brief.file.filter(|_| is_read) {
            self.found.has_grown |= self.found.bytes.add(file, until);
        }
        if let Some(locked) = self.locked(operation, brief) {
            self.found.has_grown |= self.found.locks.add(locked, until);
        }
    }

    /// Returns the place of a file that was open before the first operation.
    fn open_before(&mut self, file: &OpenFile) -> Option<NodeId> {
        let path = of_file(file).ok().filter(|_| file.pre_created)?;
        self.all.world.find(path)
    }

    /// Returns the file that an operation writes.
    fn written(&self, class: CallClass, brief: OpBrief) -> Option<FileId> {
        match class {
            CallClass::Write => brief.file,
            CallClass::Transfer => brief.target.and_then(|handle| self.all.handles.file(handle)),
            _ => None,
        }
    }

    /// Returns the file whose length an operation sets.
    fn resized(
        &self,
        operation: &SyscallOperation,
        footprint: &OpFootprint,
        brief: OpBrief,
    ) -> Option<FileId> {
        let by_name = || match footprint.node.and_then(|node| self.all.world.entry_kind(node)) {
            Some(EntryKind::File(file)) => Some(file),
            _ => None,
        };
        match operation.call.call().class {
            CallClass::Resize => brief.file.or_else(by_name),
            CallClass::Open if open_flags(operation).truncates() => brief.file,
            _ => None,
        }
    }

    /// Returns the object that an operation locks or unlocks.
    fn locked(&self, operation: &SyscallOperation, brief: OpBrief) -> Option<LockTarget> {
        let is_lock = operation.call.call().class == CallClass::Lock;
        let handle = brief.handle.filter(|_| is_lock);
        handle.map(|handle| self.all.locked_by(operation, handle))
    }
}

impl Sink for DependencySelection {
    type Error = Infallible;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        self.judge(time, step);
        Ok(())
    }
}

#[cfg(test)]
impl DependencySelection {
    /// Returns a pass that evicts after each operation.
    pub(super) fn forgetting_at_once(self) -> Self {
        Self { all: self.all.forgetting_at_once(), ..self }
    }
}
