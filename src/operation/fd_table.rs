//! Descriptors and open files: files shared by `dup` and `fork`, and their positions.
//!
//! A *description* is the kernel's open file description: one open, with one position, for any
//! number of descriptors in any number of processes (open(2)). A position is followed only as long
//! as every move of it is seen and in order; otherwise it is unknown until the next `lseek`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::bounds::units;
use super::copy_interval::CopyInterval;
use super::model::{FilePath, MountNamespace, OpenFile, PathSource};
use crate::event::OpenFlags;
use crate::units::{Fd, KernelTime, Tid};

/// One open file description.
#[derive(Debug)]
pub struct Description {
    file: RefCell<Arc<OpenFile>>,
    /// Position in bytes from the start; `None`: not known.
    position: Cell<Option<u64>>,
    /// Number of unfinished calls that move the position.
    in_flight: Cell<u32>,
    /// True if two of them have overlapped, so that the order of the moves is not known.
    overlapped: Cell<bool>,
    /// Time of the end of the last of them.
    moved: Cell<KernelTime>,
    /// True if a process that is not followed may move the position.
    shared_outside: Cell<bool>,
    /// Number of programs without recorded calls that may move the position.
    held: Cell<u32>,
    /// True if writes go to the end of the file, whatever the position is: `O_APPEND`, or flags
    /// that are not known.
    appends: Cell<bool>,
    /// Number of losses at the time when it was last certain.
    certain_at: Cell<u32>,
    /// True for a file in, or the root of, a tree of mounts that is not mounted: the kernel reports
    /// its paths as if the tree were the root.
    is_detached: Cell<bool>,
}

impl Description {
    /// Returns a description of a file that was just opened, positioned at its beginning.
    pub fn opened(file: OpenFile, losses: u32) -> Self {
        let appends = may_append(file.flags);
        let description = Self::unknown(file, losses);
        description.position.set(Some(0));
        description.appends.set(appends);
        description.shared_outside.set(false);
        description
    }

    /// Returns a description of a file that was open already, whose position is not known.
    pub fn unknown(file: OpenFile, losses: u32) -> Self {
        Self {
            file: RefCell::new(Arc::new(file)),
            position: Cell::new(None),
            in_flight: Cell::new(0),
            overlapped: Cell::new(false),
            moved: Cell::new(KernelTime::MIN),
            shared_outside: Cell::new(true),
            held: Cell::new(0),
            appends: Cell::new(true),
            certain_at: Cell::new(losses),
            is_detached: Cell::new(false),
        }
    }

    /// Returns true if the name is known and not doubtful.
    pub fn is_certain(&self) -> bool {
        self.file.borrow().path.as_ref().is_some_and(|it| !it.source.is_doubtful())
    }

    /// Returns the file.
    pub fn file(&self) -> Arc<OpenFile> {
        Arc::clone(&self.file.borrow())
    }

    /// Handles lost records: a descriptor may have been closed and opened again unseen, so the name
    /// is doubtful and the position unknown.
    fn doubt_since(&self, losses: u32) {
        if self.certain_at.replace(losses) != losses {
            self.doubt();
        }
    }

    /// Marks the name as doubtful and the position as unknown.
    pub fn doubt(&self) {
        self.position.set(None);
        self.doubt_name();
    }

    /// Returns true if the file is in a tree that is not mounted.
    pub fn is_detached(&self) -> bool {
        self.is_detached.get()
    }

    /// Notes that the file is in, or is the root of, a tree that is not mounted.
    pub fn detach(&self) {
        self.is_detached.set(true);
    }

    /// Notes that the tree is mounted now. Returns true if it was not before.
    pub fn attach(&self) -> bool {
        self.is_detached.replace(false)
    }

    /// Marks the name as doubtful; the position stays as it is.
    pub fn doubt_name(&self) {
        let old = self.file();
        if old.path.as_ref().is_some_and(|it| it.source != PathSource::Unverified) {
            self.file.replace(Arc::new(old.doubtful()));
        }
    }

    /// Sets a new name after a rename.
    pub fn rename(&self, bytes: Vec<u8>) {
        let renamed = self.file().renamed(bytes);
        self.file.replace(Arc::new(renamed));
    }

    /// Takes the state of a file that was open before, from a `/proc` snapshot: its name, and its
    /// position if no call moved it between `begin` and now. Returns true if the name is new.
    pub fn learn(
        &self,
        path: FilePath,
        stat: Option<crate::event::FileStat>,
        flags: u32,
        shared: bool,
        at: SeenPosition,
    ) -> bool {
        let old = self.file();
        let is_new = old.pre_created && old.path.is_none();
        if is_new {
            self.file.replace(Arc::new(OpenFile {
                path: Some(path),
                stat,
                flags: Some(flags),
                ..copy(&old)
            }));
            self.appends.set(may_append(Some(flags)));
            self.shared_outside.set(shared);
        }
        let still = self.in_flight.get() == 0 && self.moved.get() < at.begin;
        if still
            && old.pre_created
            && self.position.get().is_none()
            && self.certain_at.get() == at.losses
        {
            self.position.set(at.position);
        }
        is_new
    }

    /// Begins a call that moves the position.
    pub fn begin_move(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
        if self.in_flight.get() > 1 {
            self.overlapped.set(true);
        }
    }

    /// Ends a call that has moved `by` bytes. Returns the position before, if that is certain.
    pub fn end_move(&self, by: u64, is_write: bool, now: KernelTime) -> Option<u64> {
        let before = self.position.get().filter(|_| self.has_position());
        let certain =
            before.filter(|_| !self.overlapped.get() && (!is_write || !self.appends.get()));
        // The kernel moves the positions of a regular file one after the other (fdget_pos() in
        // fs/file.c), so the sum is right even where the order is not known. An append goes to the
        // current end of the file.
        let appended = is_write && self.appends.get() && by > 0;
        self.position.set(before.filter(|_| !appended).and_then(|it| it.checked_add(by)));
        self.ended(now);
        certain
    }

    /// Ends an `lseek`; `to` is the new position if it succeeded.
    pub fn end_seek(&self, to: Option<u64>, now: KernelTime) {
        if let Some(to) = to {
            self.position.set((!self.overlapped.get()).then_some(to));
        }
        self.ended(now);
    }

    /// Ends a call that may have moved the position to an unknown place.
    pub fn end_unknown(&self, now: KernelTime) {
        self.position.set(None);
        self.ended(now);
    }

    /// Returns true if a write goes to the end of the file, or may: on Linux also a `pwrite(2)`,
    /// whatever its offset is.
    pub fn appends(&self) -> bool {
        self.appends.get()
    }

    /// Notes a program that has the file, too, and whose calls may not be seen.
    pub fn hold(&self) {
        self.held.set(self.held.get() + 1);
    }

    /// Notes that an unknown process may move the position, by an unknown descriptor.
    pub fn share_outside(&self) {
        self.shared_outside.set(true);
    }

    /// Notes that the calls of a program that holds the file are seen.
    pub fn release(&self) {
        self.held.set(self.held.get().saturating_sub(1));
    }

    /// Forgets the position: another process may have moved it.
    pub fn forget_position(&self) {
        self.position.set(None);
    }

    /// Handles `F_SETFL`.
    pub fn set_flags(&self, flags: OpenFlags) {
        self.appends.set(flags.appends());
        let old = self.file();
        let flags = old.flags.map(|it| OpenFlags(it).with_status_of(flags).0);
        self.file.replace(Arc::new(OpenFile { flags, ..copy(&old) }));
    }

    fn ended(&self, now: KernelTime) {
        self.moved.set(now);
        let left = self.in_flight.get().saturating_sub(1);
        self.in_flight.set(left);
        if left == 0 {
            self.overlapped.set(false);
        }
    }

    /// Returns true if the position can be followed: only regular files and block devices have a
    /// useful one, and every mover must be seen.
    fn has_position(&self) -> bool {
        let is_seen = !self.shared_outside.get() && self.held.get() == 0;
        let file = self.file.borrow();
        let is_new = || file.flags.is_some_and(|flags| OpenFlags(flags).makes_regular_file());
        is_seen && file.stat.map_or_else(is_new, |stat| stat.has_position())
    }
}

/// Returns true unless the flags are known and without `O_APPEND`.
fn may_append(flags: Option<u32>) -> bool {
    flags.is_none_or(|it| OpenFlags(it).appends())
}

/// State of a position in a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct SeenPosition {
    /// Clock before it was read.
    pub begin: KernelTime,
    /// The position, in bytes, if it is reliable.
    pub position: Option<u64>,
    /// Number of losses so far.
    pub losses: u32,
}

impl OpenFile {
    /// Returns the file with another name.
    pub fn renamed(&self, bytes: Vec<u8>) -> Self {
        let mounts = self.path.as_ref().map_or(MountNamespace::OWN, |it| it.mounts);
        let path = Some(FilePath { bytes, source: PathSource::Renamed, mounts });
        Self { path, first_path: self.first_path().cloned(), ..copy(self) }
    }

    /// Returns the file with a doubtful name, which may be another file's.
    pub fn doubtful(&self) -> Self {
        let path = self.path.clone();
        let path = path.map(|it| FilePath { source: PathSource::Unverified, ..it });
        Self { path, ..copy(self) }
    }
}

/// Returns a copy of the file; its name is cloned only if it is not replaced.
fn copy(file: &OpenFile) -> OpenFile {
    OpenFile {
        id: file.id,
        path: file.path.clone(),
        first_path: file.first_path.clone(),
        given: file.given.clone(),
        stat: file.stat,
        flags: file.flags,
        pre_created: file.pre_created,
    }
}

/// State of a descriptor.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Open file description of the descriptor.
    pub description: Rc<Description>,
    /// Close-on-exec flag; `None`: not known.
    pub cloexec: Option<bool>,
}

/// Descriptors of a process, or of several processes that share them (`CLONE_FILES`).
#[derive(Clone, Debug, Default)]
pub struct FdTable {
    slots: FxHashMap<i32, Slot>,
    /// Times of the last changes of descriptors: an earlier snapshot is no evidence of their
    /// current files.
    changed: FxHashMap<i32, KernelTime>,
    /// Time of the creation of the table, if that was seen.
    since: KernelTime,
    /// True if the table represents several ones with different contents: nothing in it is certain.
    is_split: bool,
    /// Descriptors that calls are about to replace, at most one of each thread: their files are not
    /// known meanwhile.
    replacing: Vec<Replacing>,
}

/// A descriptor that a call is about to give another file.
#[derive(Clone, Copy, Debug)]
struct Replacing {
    fd: Fd,
    /// Thread that makes the call.
    by: Tid,
    /// True if another call has used the descriptor meanwhile.
    is_used: bool,
}

/// Table of descriptors that processes share.
pub type SharedTable = Rc<RefCell<FdTable>>;

impl FdTable {
    /// Returns the descriptor's open file.
    pub fn get(&self, fd: Fd, losses: u32) -> Option<Rc<Description>> {
        let slot = self.slots.get(&fd.0)?;
        slot.description.doubt_since(losses);
        if self.is_split {
            slot.description.doubt();
        }
        Some(Rc::clone(&slot.description))
    }

    /// Returns the descriptor's open file as last known, without marking it as doubtful.
    pub fn peek(&self, fd: Fd) -> Option<&Description> {
        self.slots.get(&fd.0).map(|it| it.description.as_ref())
    }

    /// Handles a close of an unknown descriptor.
    pub fn doubt_all(&self) {
        self.slots.values().for_each(|it| it.description.doubt());
    }

    /// Notes that other processes may move the position of any of them unseen.
    pub fn share_all(&self) {
        self.slots.values().for_each(|it| it.description.share_outside());
    }

    /// Returns the number of descriptors.
    pub(crate) fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Returns the sum of their units, see [`super::bounds`].
    pub fn units(&self) -> usize {
        let name =
            |it: &Slot| it.description.file.borrow().path.as_ref().map_or(0, |it| it.bytes.len());
        self.slots.values().map(|it| units(name(it))).sum()
    }

    /// Returns a copy of this table, for a process that begins now.
    pub fn copied(&self, now: KernelTime) -> Self {
        Self { since: now, replacing: Vec::new(), ..self.clone() }
    }

    /// Returns a copy of this table that was made at some time in the period. A descriptor that
    /// changed meanwhile may be in the real copy or not; it is left out.
    pub fn copied_between(&self, copied: CopyInterval) -> Self {
        let mut table = self.copied(copied.end);
        table.slots.retain(|&fd, _| self.same_since(Fd(fd), copied.start));
        table
    }

    /// Begins a call that may give the descriptor another file at any moment until its end.
    pub fn begin_replace(&mut self, fd: Fd, by: Tid) {
        self.replacing.push(Replacing { fd, by, is_used: false });
    }

    /// Begins another call of this thread: the end of an earlier one was lost.
    pub fn begin_call(&mut self, by: Tid) {
        if !self.replacing.is_empty() {
            self.replacing.retain(|it| it.by != by);
        }
    }

    /// Ends that call. Returns true if another call has used the descriptor meanwhile.
    pub fn end_replace(&mut self, by: Tid) -> bool {
        let place = self.replacing.iter().position(|it| it.by == by);
        place.is_some_and(|it| self.replacing.swap_remove(it).is_used)
    }

    /// Notes a use of the descriptor. Returns true if a call may be replacing its file.
    pub fn is_replaced(&mut self, fd: Fd) -> bool {
        let mut same = self.replacing.iter_mut().filter(|it| it.fd == fd).peekable();
        let is_replaced = same.peek().is_some();
        same.for_each(|it| it.is_used = true);
        is_replaced
    }

    /// Gives the descriptor a file; returns the previous one.
    pub fn put(&mut self, fd: Fd, slot: Slot, now: KernelTime) -> Option<Slot> {
        self.changed.insert(fd.0, now);
        self.slots.insert(fd.0, slot)
    }

    /// Notes a file that the descriptor has had for an unknown time.
    pub fn note(&mut self, fd: Fd, slot: Slot) {
        self.slots.insert(fd.0, slot);
    }

    /// Notes that the table represents several ones from now on.
    pub fn split(&mut self) {
        self.is_split = true;
    }

    /// Removes the descriptor.
    pub fn remove(&mut self, fd: Fd, now: KernelTime) -> Option<Slot> {
        self.changed.insert(fd.0, now);
        self.slots.remove(&fd.0)
    }

    /// Returns true if the descriptor has been the same since this time.
    pub fn same_since(&self, fd: Fd, time: KernelTime) -> bool {
        self.since < time && self.changed.get(&fd.0).is_none_or(|&it| it < time)
    }

    /// Returns true if the descriptor was closed or made since.
    pub fn has_changed(&self, fd: Fd, since: KernelTime) -> bool {
        self.changed.get(&fd.0).is_some_and(|it| *it > since)
    }

    /// Sets close-on-exec.
    pub fn set_cloexec(&mut self, fd: Fd, cloexec: bool) {
        if let Some(slot) = self.slots.get_mut(&fd.0) {
            slot.cloexec = Some(cloexec);
        }
    }

    /// Returns the descriptors from `first` to `last`, ascending.
    pub fn range(&self, first: i64, last: i64) -> Vec<Fd> {
        let mut fds: Vec<Fd> = self
            .slots
            .keys()
            .filter(|&&it| (first..=last).contains(&i64::from(it)))
            .map(|&it| Fd(it))
            .collect();
        fds.sort_unstable();
        fds
    }

    /// Handles an exec: removes the descriptors that it closes or may close, and returns them,
    /// ascending.
    pub fn exec(&mut self, now: KernelTime) -> Vec<Fd> {
        self.replacing.clear();
        if std::mem::take(&mut self.is_split) {
            // The new program has one of the tables; which one is not known, but later opens are
            // certain.
            self.slots.values().for_each(|it| it.description.doubt());
        }
        let mut closed: Vec<Fd> = self
            .slots
            .iter()
            .filter(|it| it.1.cloexec != Some(false))
            .map(|it| Fd(*it.0))
            .collect();
        closed.sort_unstable();
        for fd in &closed {
            self.remove(*fd, now);
        }
        closed
    }

    /// Returns all open files.
    pub fn descriptions(&self) -> Vec<Rc<Description>> {
        self.slots.values().map(|it| Rc::clone(&it.description)).collect()
    }

    /// Returns the descriptors, ascending.
    pub fn all(&self) -> Vec<Fd> {
        self.range(i64::MIN, i64::MAX)
    }

    /// Forgets all positions: an unseen call may have moved any of them.
    pub fn forget_positions(&self) {
        for slot in self.slots.values() {
            slot.description.forget_position();
        }
    }
}
