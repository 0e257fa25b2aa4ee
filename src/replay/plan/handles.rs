//! Handles: descriptors of the replay, independent of processes.
//!
//! ```text
//!   process 1   fd 3 ──┐
//!                      ├─► handle 7   (one descriptor of the replay, two references)
//!   process 2   fd 3 ──┘              inherited by fork
//!   process 2   fd 5 ────► handle 8   made by dup: a handle of its own
//! ```

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::dependencies::AccessHistory;
use super::namespace::FileId;
use crate::operation::model::ProcessKey;
use crate::units::{Fd, KernelTime};

use super::replayability::SkipReason;

/// Descriptor of the replay. Numbers are dense from 0, and reused after a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u32);

/// Target of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleTarget {
    /// File that is open in the replay.
    File(FileId),
    /// Directory that is open in the replay.
    Directory,
    /// Target that is not open in the replay.
    Skipped(SkipReason),
}

#[derive(Debug)]
struct HandleSlot {
    target: HandleTarget,
    description: u64,
    references: u32,
    /// Position in the replay, in bytes, shared by copies that `dup` has made.
    position: Rc<Cell<u64>>,
    /// Uses of the handle.
    uses: AccessHistory,
    /// True if the close-on-exec flag in the replay may differ: one of several processes with the
    /// handle has set its own flag.
    flag_is_unknown: bool,
}

/// All handles of a replay.
#[derive(Debug, Default)]
pub struct Handles {
    of: FxHashMap<ProcessKey, FxHashMap<Fd, Handle>>,
    slots: Vec<HandleSlot>,
    /// Free handles with the time since which they are free, in that order.
    free: VecDeque<(KernelTime, Handle)>,
    /// Newest handle of each open file description.
    newest: FxHashMap<u64, Handle>,
    /// Number of handles of each open file description.
    copies: FxHashMap<u64, u32>,
    /// Handles whose descriptor number was reused before their close was over.
    covered: FxHashMap<(ProcessKey, Fd, u64), Handle>,
}

impl Handles {
    /// Returns the highest number of handles at one time.
    pub fn most(&self) -> usize {
        self.slots.len()
    }

    /// Returns the handle of a process's descriptor. If the capture does not show how the process
    /// got the descriptor, the newest handle of `description` is used.
    pub fn get(&mut self, process: ProcessKey, fd: Fd, description: Option<u64>) -> Option<Handle> {
        let known = self.of.get(&process).and_then(|it| it.get(&fd)).copied();
        let is_it = |it: &Handle| description.is_none_or(|of| self.slot(*it).description == of);
        if let Some(handle) = known.filter(is_it) {
            return Some(handle);
        }
        let handle = *self.newest.get(&description?)?;
        self.slot_mut(handle).references += 1;
        self.put(process, fd, handle);
        Some(handle)
    }

    /// Creates a handle for a call that began at `start`. Reuses a handle that was free by then: a
    /// call that overlaps with a close does not wait for that close.
    pub fn made(
        &mut self,
        process: ProcessKey,
        fd: Fd,
        start: KernelTime,
        description: u64,
        target: HandleTarget,
    ) -> Handle {
        let has_one = self.free.front().is_some_and(|it| it.0 <= start);
        let oldest = if has_one { self.free.pop_front() } else { None };
        let handle = oldest.map_or_else(|| self.next(), |it| it.1);
        self.put_at(handle, process, fd, description, target)
    }

    /// Creates a handle in place of one that the same call has closed (`dup2`).
    pub fn replaced(
        &mut self,
        handle: Handle,
        process: ProcessKey,
        fd: Fd,
        description: u64,
        target: HandleTarget,
    ) -> Handle {
        // The handle was freed last, or nearly so.
        if let Some(place) = self.free.iter().rposition(|it| it.1 == handle) {
            self.free.remove(place);
        }
        self.put_at(handle, process, fd, description, target)
    }

    /// Creates a handle that was open before the first operation. No earlier handle is reused.
    pub fn given(
        &mut self,
        process: ProcessKey,
        fd: Fd,
        description: u64,
        target: HandleTarget,
    ) -> Handle {
        let handle = self.next();
        self.put_at(handle, process, fd, description, target)
    }

    fn next(&self) -> Handle {
        Handle(u32::try_from(self.slots.len()).expect("fewer descriptors than bytes"))
    }

    fn put_at(
        &mut self,
        handle: Handle,
        process: ProcessKey,
        fd: Fd,
        description: u64,
        target: HandleTarget,
    ) -> Handle {
        let (position, uses) = Default::default();
        let slot = HandleSlot {
            target,
            description,
            references: 1,
            position,
            uses,
            flag_is_unknown: false,
        };
        match self.slots.get_mut(handle.0 as usize) {
            // The uses stay: the open waits for the close of the handle.
            Some(it) => *it = HandleSlot { uses: std::mem::take(&mut it.uses), ..slot },
            None => self.slots.push(slot),
        }
        self.newest.insert(description, handle);
        *self.copies.entry(description).or_default() += 1;
        self.put(process, fd, handle);
        handle
    }

    /// Closes a process's descriptor at `now`. `description` identifies it if its number may have
    /// been reused. Returns its handle, and whether this was the last reference.
    pub fn closed(
        &mut self,
        process: ProcessKey,
        fd: Fd,
        now: KernelTime,
        description: Option<u64>,
    ) -> Option<(Handle, bool)> {
        let covered = description.and_then(|it| self.covered.remove(&(process, fd, it)));
        let handle = match covered {
            Some(handle) => handle,
            None => self.of.get_mut(&process)?.remove(&fd)?,
        };
        Some((handle, self.release(handle, now)))
    }

    /// Gives a child the handles of its parent.
    pub fn forked(&mut self, parent: ProcessKey, child: ProcessKey) {
        let Some(all) = self.of.get(&parent).cloned() else { return };
        for handle in all.values() {
            self.slot_mut(*handle).references += 1;
        }
        self.of.insert(child, all);
    }

    /// Removes a process with its descriptors.
    pub fn ended(&mut self, process: ProcessKey) {
        self.of.remove(&process);
    }

    /// Returns the target of a handle.
    pub fn target(&self, handle: Handle) -> HandleTarget {
        self.slot(handle).target
    }

    /// Returns the handle if it is open in the replay.
    ///
    /// # Errors
    ///
    /// The reason why it is not open.
    pub fn usable(&self, handle: Handle) -> Result<Handle, SkipReason> {
        match self.target(handle) {
            HandleTarget::Skipped(reason) => Err(reason),
            HandleTarget::File(_) | HandleTarget::Directory => Ok(handle),
        }
    }

    /// Returns the file of a handle.
    pub fn file(&self, handle: Handle) -> Option<FileId> {
        match self.target(handle) {
            HandleTarget::File(file) => Some(file),
            HandleTarget::Directory | HandleTarget::Skipped(_) => None,
        }
    }

    /// Returns true if the handle is open and still belongs to this open file description.
    pub fn is_open(&self, handle: Handle, description: u64) -> bool {
        let slot = self.slot(handle);
        slot.references > 0 && slot.description == description
    }

    /// Returns the open file description of a handle.
    pub fn description(&self, handle: Handle) -> u64 {
        self.slot(handle).description
    }

    /// Returns the newest open handle of an open file description.
    pub fn newest_of(&self, description: u64) -> Option<Handle> {
        self.newest.get(&description).copied()
    }

    /// Returns an open handle of an open file description.
    pub fn any_of(&self, description: u64) -> Option<Handle> {
        if !self.copies.contains_key(&description) {
            return None;
        }
        let is_it = |it: &HandleSlot| it.references > 0 && it.description == description;
        let place = self.slots.iter().position(is_it)?;
        u32::try_from(place).ok().map(Handle)
    }

    /// Returns the processes with descriptors of an open file description.
    pub fn owners(&self, description: u64) -> impl Iterator<Item = ProcessKey> {
        let has = move |of: &FxHashMap<Fd, Handle>| {
            of.values().any(|it| self.slot(*it).description == description)
        };
        self.of.iter().filter(move |it| has(it.1)).map(|it| *it.0)
    }

    /// Returns all files that handles have or had, and all open file descriptions.
    pub fn known(&self) -> (FxHashSet<FileId>, FxHashSet<u64>) {
        let places = (0..).map(Handle).take(self.slots.len());
        let open = self.slots.iter().filter(|it| it.references > 0).map(|it| it.description);
        (places.filter_map(|it| self.file(it)).collect(), open.collect())
    }

    /// Returns true if a handle of this file is open.
    pub fn has_open(&self, file: FileId) -> bool {
        self.slots.iter().any(|it| it.references > 0 && it.target == HandleTarget::File(file))
    }

    /// Returns the position of a handle in the replay, as moved by planned operations.
    pub fn position(&self, handle: Handle) -> &Cell<u64> {
        &self.slot(handle).position
    }

    /// Makes a handle share the position of another one, of which it is a copy.
    pub fn is_copy(&mut self, handle: Handle, of: Handle) {
        self.slot_mut(handle).position = Rc::clone(&self.slot(of).position);
    }

    /// Returns true if one process only has the handle, so that its close-on-exec flag in the
    /// replay is the captured one. `sets`: the next operation sets the flag.
    pub fn has_own_flag(&mut self, handle: Handle, sets: bool) -> bool {
        let slot = self.slot_mut(handle);
        let is_own = slot.references == 1;
        if sets {
            slot.flag_is_unknown = !is_own;
        }
        is_own && !slot.flag_is_unknown
    }

    /// Returns the uses of a handle.
    pub fn uses(&mut self, handle: Handle) -> &mut AccessHistory {
        &mut self.slot_mut(handle).uses
    }

    /// Releases a reference. Returns true if it was the last one.
    fn release(&mut self, handle: Handle, now: KernelTime) -> bool {
        let slot = self.slot_mut(handle);
        slot.references = slot.references.saturating_sub(1);
        let (is_last, description) = (slot.references == 0, slot.description);
        if is_last {
            self.free.push_back((now, handle));
            match self.copies.get_mut(&description) {
                Some(it) if *it > 1 => *it -= 1,
                _ => drop(self.copies.remove(&description)),
            }
            if self.newest.get(&description) == Some(&handle) {
                self.newest.remove(&description);
            }
        }
        is_last
    }

    fn put(&mut self, process: ProcessKey, fd: Fd, handle: Handle) {
        let before = self.of.entry(process).or_default().insert(fd, handle);
        if let Some(before) = before.filter(|it| *it != handle) {
            let description = self.slot(before).description;
            self.covered.insert((process, fd, description), before);
        }
    }

    fn slot(&self, handle: Handle) -> &HandleSlot {
        &self.slots[handle.0 as usize]
    }

    fn slot_mut(&mut self, handle: Handle) -> &mut HandleSlot {
        &mut self.slots[handle.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ProcessKey = ProcessKey(1);
    const TWO: ProcessKey = ProcessKey(2);
    const NOW: KernelTime = KernelTime(7);

    #[test]
    fn shared_handle_is_closed_by_last_process() {
        let mut handles = Handles::default();
        let made = handles.made(ONE, Fd(3), NOW, 70, HandleTarget::Directory);
        handles.forked(ONE, TWO);
        assert_eq!(handles.get(TWO, Fd(3), Some(70)), Some(made));
        assert_eq!(handles.closed(ONE, Fd(3), NOW, Some(70)), Some((made, false)));
        assert_eq!(handles.closed(TWO, Fd(3), NOW, None), Some((made, true)));
        assert_eq!(handles.closed(TWO, Fd(3), NOW, None), None);
        assert_eq!(handles.made(ONE, Fd(3), NOW, 71, HandleTarget::Directory), made);
        assert_eq!(handles.most(), 1);
    }

    #[test]
    fn initially_open_descriptor_has_its_own_slot() {
        let mut handles = Handles::default();
        let made = handles.made(ONE, Fd(3), NOW, 70, HandleTarget::Directory);
        assert_eq!(handles.closed(ONE, Fd(3), NOW, Some(70)), Some((made, true)));
        assert!(handles.given(ONE, Fd(0), 71, HandleTarget::Directory) != made);
    }

    /// Fails if a call that does not wait for a close reuses the closed handle.
    #[test]
    fn open_during_a_close_gets_another_slot() {
        let mut handles = Handles::default();
        let made = handles.made(ONE, Fd(3), NOW, 70, HandleTarget::Directory);
        assert_eq!(handles.closed(ONE, Fd(3), KernelTime(20), Some(70)), Some((made, true)));
        assert!(handles.made(ONE, Fd(4), KernelTime(19), 71, HandleTarget::Directory) != made);
        assert_eq!(handles.made(ONE, Fd(5), KernelTime(20), 72, HandleTarget::Directory), made);
    }

    #[test]
    fn descriptor_number_is_reusable_before_its_close_ends() {
        let mut handles = Handles::default();
        let first = handles.made(ONE, Fd(3), NOW, 70, HandleTarget::Directory);
        let second = handles.made(ONE, Fd(3), NOW, 71, HandleTarget::Directory);
        assert_eq!(handles.closed(ONE, Fd(3), NOW, Some(70)), Some((first, true)));
        assert_eq!(handles.get(ONE, Fd(3), None), Some(second));
    }

    #[test]
    fn unseen_duplicate_is_found_by_its_description() {
        let mut handles = Handles::default();
        let made = handles.made(ONE, Fd(3), NOW, 70, HandleTarget::Directory);
        assert_eq!(handles.get(TWO, Fd(9), Some(70)), Some(made));
        assert_eq!(handles.get(TWO, Fd(9), Some(80)), None);
        assert_eq!(handles.closed(ONE, Fd(3), NOW, Some(70)), Some((made, false)));
    }
}
