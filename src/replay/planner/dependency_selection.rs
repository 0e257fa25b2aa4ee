//! Which operations others need: what wanted ones work on has to be made, named and as long as it was.
//!
//! ```text
//!   wanted      read 3                                     pass 1 finds: the open file of 3, bytes of a file
//!   needed      open b = 3, close 3, write 4 (the bytes)   pass 2 finds: the name b, the open file of 4
//!   needed      rename a b                                 the same pass, at its end (renames.rs): the name a, its directory
//!   needed      open a = 4, close 4, mkdir for a           pass 3 finds nothing new: that is all
//! ```
//!
//! In each pass the plan of everything is made along, and goes nowhere: it says which names, files and open files operations are about.
//! Those have the same numbers in each pass. What is found is kept by these, with the time until which it is needed: nobody needs what others do
//! behind him. So it grows with names and files, and by one bit for each open file; not with operations.

mod needed;
mod renames;

use std::convert::Infallible;

pub use needed::Found;
use renames::Rename;

use super::{Out, Planner};
use crate::analysis::filter::{Filter, Picker};
use crate::event::syscall_table::{Class, Role};
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::model::{FdEffect, OpenFile, SyscallOperation};
use crate::operation::{Sink, Step};
use crate::replay::asynchronous::as_call;
use crate::replay::handles::Handle;
use crate::replay::infer_initial_state;
use crate::replay::links::Links;
use crate::replay::locks::Locked;
use crate::replay::namespace::{EntryKind, FileId, FsModel, Keys, NodeId};
use crate::replay::planned_op::PlannedOp;
use crate::replay::replay_paths::of_file;
use crate::replay::replayability::SkipReason;
use crate::replay::resources::{appends, moves_position};
use crate::replay::symlink_follow::follows;
use crate::units::KernelTime;

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is wanted, and done again.
    Wanted,
    /// Others need it.
    Needed,
    /// It is wanted, and not done again.
    Left(SkipReason),
    /// It is wanted, and what it does is in others.
    Followed,
    /// Neither.
    Out,
}

/// What the plan of everything has said of an operation.
#[derive(Debug, Default)]
struct Told {
    planned: Option<Brief>,
    left: Option<SkipReason>,
}

#[derive(Clone, Copy, Debug)]
struct Brief {
    file: Option<FileId>,
    handle: Option<Handle>,
    target: Option<Handle>,
    makes: Option<Handle>,
}

impl Out for Told {
    type Error = Infallible;

    fn planned(&mut self, it: &PlannedOp) -> Result<(), Infallible> {
        let PlannedOp { file, handle, target, makes, .. } = *it;
        if !it.implicit {
            self.planned = Some(Brief { file, handle, target, makes });
        }
        Ok(())
    }

    fn left(&mut self, reason: SkipReason) {
        self.left = Some(reason);
    }
}

/// What can only be said before it is done.
#[derive(Debug, Default)]
struct About {
    /// Where its first path leads to.
    node: Option<NodeId>,
    /// The places that its paths lead through and to, the links on the way, and something in a directory that it could not remove for that.
    places: Vec<Keys>,
    /// The places where something else is behind it.
    changed: Vec<u64>,
    /// The directory that it removes.
    removed: Option<u64>,
    /// It puts bytes where none were, for all that is known.
    lengthens: bool,
}

/// Finds it.
#[derive(Debug)]
pub struct Needs {
    /// What says which operations are wanted.
    pub picker: Picker,
    /// What was found so far.
    pub found: Found,
    /// The plan of everything.
    all: Planner<Told>,
}

impl Needs {
    /// With what earlier passes have found.
    pub fn new(filter: Filter, found: Found, links: &Links) -> Self {
        let all = Planner::new(Told::default()).knowing(links);
        Self { picker: Picker::new(filter), found, all }
    }

    /// What was there, as all operations show it.
    pub(super) fn world(&self) -> &FsModel {
        &self.all.world
    }

    /// One step, of all that there are. What becomes of the operation that it ends; [`Verdict::Out`] if it ends none.
    pub(super) fn judge(&mut self, time: KernelTime, step: &Step<'_>) -> Verdict {
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
                    self.tell(time, step);
                    return if is_wanted { Verdict::Left(reason) } else { Verdict::Out };
                }
            },
            _ => {
                self.tell(time, step);
                let is_lost =
                    matches!(step, Step::SyscallUnfinished(..) | Step::AsyncUnfinished(..));
                return if is_lost && is_wanted {
                    Verdict::Left(SkipReason::NoResult)
                } else {
                    Verdict::Out
                };
            }
        };
        let about = self.about(operation);
        let told = self.tell(time, step);
        let Some(brief) = told.planned else {
            return match (is_wanted, told.left) {
                (true, Some(reason)) => Verdict::Left(reason),
                (true, None) => Verdict::Followed,
                (false, _) => Verdict::Out,
            };
        };
        if is_wanted {
            let end = operation.end.unwrap_or(operation.start);
            self.found.has_grown |= self.found.last < end;
            self.found.last = self.found.last.max(end);
            self.needs(operation, &about, brief, end);
            return Verdict::Wanted;
        }
        if self.is_needed(operation, effects, &about, brief) {
            self.needs(operation, &about, brief, operation.end.unwrap_or(operation.start));
            return Verdict::Needed;
        }
        self.may_be_needed(operation, about);
        Verdict::Out
    }

    /// Nobody is known who needs it. Whoever comes behind it may.
    fn may_be_needed(&mut self, operation: &SyscallOperation, about: About) {
        let has_two = operation.named.as_ref().is_some_and(|it| it.second.is_some());
        if !has_two || about.changed.is_empty() {
            return;
        }
        let About { changed, places, removed, .. } = about;
        let (start, end) = (operation.start, operation.end.unwrap_or(operation.start));
        self.found.renames.keep(Rename { start, end, changed, places, removed });
    }

    /// True if that is behind all that is wanted.
    pub(super) fn is_behind(&self, time: KernelTime) -> bool {
        time > self.found.last
    }

    /// What it does to open files that are needed, or to flags of descriptors, which may be theirs.
    pub(super) fn of_needed<'a>(&self, effects: &'a [FdEffect]) -> Vec<FdEffect> {
        let is_flag = |it: &FdEffect| matches!(it, FdEffect::StatusChanged { .. });
        let is_needed = |it: &&'a FdEffect| is_flag(it) || self.has_needed(it);
        effects.iter().filter(is_needed).cloned().collect()
    }

    /// True if this asynchronous operation is on an open file that is needed.
    pub(super) fn is_on_needed(&self, operation: &AsyncOperation) -> bool {
        operation.file.as_ref().is_some_and(|it| self.found.descriptions.has(it.id))
    }

    fn has_needed(&self, effect: &FdEffect) -> bool {
        match effect {
            FdEffect::Created { file, .. }
            | FdEffect::Duplicated { file, .. }
            | FdEffect::Destroyed { file, .. } => self.found.descriptions.has(file.id),
            FdEffect::Seeked { .. } | FdEffect::StatusChanged { .. } => false,
        }
    }

    fn tell(&mut self, time: KernelTime, step: &Step<'_>) -> Told {
        self.all.out = Told::default();
        let Ok(()) = self.all.step(time, step);
        std::mem::take(&mut self.all.out)
    }

    fn about(&mut self, operation: &SyscallOperation) -> About {
        let call = operation.call.call();
        let Ok([path, second]) = self.all.paths(operation) else { return About::default() };
        // What a symbolic link contains is looked up from where it stands.
        let second = if call.is_symlink() { None } else { second };
        let mut links = Vec::new();
        let follows =
            [follows(operation.call.call(), &operation.args, operation.flags_in_memory), false];
        let mut at = 0;
        let nodes = [path, second].map(|it| {
            at += 1;
            self.all.world.reach(&it?, follows[at - 1], &mut links)
        });
        let lengthens = self.lengthens(operation);
        let [first, last] = [nodes[0], nodes[1].or(nodes[0])];
        let world = &self.all.world;
        let removes = matches!(call.class, Class::Remove | Class::Rename);
        let is_full = matches!(operation.errno(), Some(libc::ENOTEMPTY | libc::EEXIST));
        let is_there = |it: &NodeId| world.thing(*it).is_some();
        let full = last.filter(|_| removes && is_full);
        let all = full.into_iter().flat_map(|it| world.within(it)).filter(is_there);
        let in_the_way = all.min_by_key(|it| world.keys(*it).place);
        let ends = nodes.into_iter().chain([in_the_way]).flatten().chain(links);
        let places = ends.flat_map(|it| world.way(it)).map(|it| world.keys(it)).collect();
        let about = About { node: first, places, lengthens, ..About::default() };
        if operation.errno().is_some() {
            return about;
        }
        let has =
            |flag: i32| infer_initial_state::open_flags(operation) & flag.cast_unsigned() != 0;
        let changed: &[Option<NodeId>] = match call.class {
            Class::Name => &[last],
            Class::Rename => &nodes,
            Class::Remove => &[first],
            Class::Open if has(libc::O_CREAT) && !first.is_some_and(|it| is_there(&it)) => &[first],
            _ => &[],
        };
        let changed = changed.iter().flatten().map(|it| world.keys(*it).place).collect();
        let removed = last.filter(|_| removes).map(|it| world.inside(it));
        About { changed, removed, ..about }
    }

    /// True if it writes behind the end of its file, or that is not known.
    fn lengthens(&self, operation: &SyscallOperation) -> bool {
        let is_transfer = operation.call.call().class == Class::Transfer;
        let target = operation.target.as_ref().map(|it| (&it.1, operation.target_offset));
        let file = operation.file.as_ref().map(|it| (it, operation.offset));
        let Some((file, offset)) = (if is_transfer { target } else { file }) else { return true };
        let end = operation.ret.and_then(|it| offset?.checked_add(u64::try_from(it).ok()?));
        let known = self.all.handles.newest_of(file.id).and_then(|it| self.all.handles.file(it));
        let Some((end, known)) = end.zip(known) else { return true };
        !self.all.world.size(known).is_within(end)
    }

    /// True if somebody needs it who is found already.
    fn is_needed(
        &self,
        operation: &SyscallOperation,
        effects: &[FdEffect],
        about: &About,
        brief: Brief,
    ) -> bool {
        let (found, start) = (&self.found, operation.start);
        let end = operation.end.unwrap_or(start);
        let class = operation.call.call().class;
        let changes_descriptor = || {
            let is_control = class == Class::Control
                && effects.iter().any(|it| matches!(it, FdEffect::StatusChanged { .. }));
            let own = brief.handle.map(|it| self.all.handles.description(it));
            effects.iter().any(|it| self.has_needed(it))
                || is_control && own.is_some_and(|it| found.descriptions.has(it))
        };
        let resized = self.resized(operation, about, brief);
        let written = self.written(class, brief).filter(|_| about.lengthens);
        about.changed.iter().any(|it| found.names.until.has(*it, start))
            || resized.is_some_and(|it| found.files.has(it, start))
            || written.is_some_and(|it| found.bytes.has(it, start))
            || self.locked(operation, brief).is_some_and(|it| found.locks.has(it, start))
            || self.moves_unplaced(operation, brief)
            || end <= found.last && changes_descriptor()
    }

    /// The open files of which it moves the position, and whether it is known where it found that. What is appended goes to the end.
    fn moved(operation: &SyscallOperation, brief: Brief) -> impl Iterator<Item = (Handle, bool)> {
        let is_seek = operation.call.call().class == Class::Seek;
        let target = operation.target.as_ref().map(|it| &*it.1);
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

    /// True if it moves a position that somebody needs of whom it is not known where that was.
    fn moves_unplaced(&self, operation: &SyscallOperation, brief: Brief) -> bool {
        let description = |it| self.all.handles.description(it);
        Self::moved(operation, brief)
            .any(|it| self.found.unplaced.has(description(it.0), operation.start))
    }

    /// It is in the plan: so is, until then, what it needs.
    fn needs(
        &mut self,
        operation: &SyscallOperation,
        about: &About,
        brief: Brief,
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
        let target = operation.target.as_ref().map(|it| &it.1);
        let before = [operation.file.as_ref(), target].map(|it| self.open_before(it?));
        let world = &self.all.world;
        let before = before.into_iter().flatten().flat_map(|it| world.way(it));
        for it in about.places.iter().copied().chain(before.map(|it| world.keys(it))) {
            self.found.has_grown |= self.found.names.add(it, until);
        }
        if let Some(directory) = about.removed {
            self.found.has_grown |= self.found.names.leave(directory, until);
        }
        let files = [brief.file, self.written(class, brief), self.resized(operation, about, brief)];
        for file in files.into_iter().flatten() {
            self.found.has_grown |= self.found.files.add(file, until);
        }
        let whence = operation.call.call().arg(Role::Whence).map(|it| operation.args[it]);
        let counts_from_end = whence.is_some_and(|it| it >= libc::SEEK_END.cast_unsigned().into());
        let is_read = matches!(class, Class::Read | Class::Transfer) || counts_from_end;
        if let Some(file) = brief.file.filter(|_| is_read) {
            self.found.has_grown |= self.found.bytes.add(file, until);
        }
        if let Some(locked) = self.locked(operation, brief) {
            self.found.has_grown |= self.found.locks.add(locked, until);
        }
    }

    /// Where a file is that was open before everything.
    fn open_before(&mut self, file: &OpenFile) -> Option<NodeId> {
        let path = of_file(file).ok().filter(|_| file.pre_created)?;
        self.all.world.find(path)
    }

    /// The file that it writes.
    fn written(&self, class: Class, brief: Brief) -> Option<FileId> {
        match class {
            Class::Write => brief.file,
            Class::Transfer => brief.target.and_then(|it| self.all.handles.file(it)),
            _ => None,
        }
    }

    /// The file of which it sets the length.
    fn resized(&self, operation: &SyscallOperation, about: &About, brief: Brief) -> Option<FileId> {
        let truncates = libc::O_TRUNC.cast_unsigned();
        let by_name = || match about.node.and_then(|it| self.all.world.thing(it)) {
            Some(EntryKind::File(file)) => Some(file),
            _ => None,
        };
        match operation.call.call().class {
            Class::Resize => brief.file.or_else(by_name),
            Class::Open if infer_initial_state::open_flags(operation) & truncates != 0 => {
                brief.file
            }
            _ => None,
        }
    }

    /// What it locks or unlocks.
    fn locked(&self, operation: &SyscallOperation, brief: Brief) -> Option<Locked> {
        let is_lock = operation.call.call().class == Class::Lock;
        brief.handle.filter(|_| is_lock).map(|it| self.all.locked_by(operation, it))
    }
}

impl Sink for Needs {
    type Error = Infallible;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        self.judge(time, step);
        Ok(())
    }
}

#[cfg(test)]
impl Needs {
    /// Behind each operation all is forgotten that can be.
    pub(super) fn forgetting_at_once(self) -> Self {
        Self { all: self.all.forgetting_at_once(), ..self }
    }
}
