//! What descriptors mean: open files, shared by `dup` and `fork`, and where each of them stands.
//!
//! A *description* is what the kernel calls an open file description: one open, with one position, behind any number
//! of descriptors in any number of processes (open(2)). A position is followed only as long as every move of it is
//! seen and in order; otherwise it is unknown until the next `lseek`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::bounds::units;
use super::model::{FilePath, Mounts, OpenFile, PathSource};
use super::task::Copied;
use crate::units::{Fd, KernelTime, Tid};

/// One open file description.
#[derive(Debug)]
pub struct Description {
    file: RefCell<Rc<OpenFile>>,
    /// Bytes from the start; `None`: not known.
    position: Cell<Option<u64>>,
    /// Calls that move the position and have not ended.
    in_flight: Cell<u32>,
    /// Two of them have overlapped, so who moved it first is not known.
    overlapped: Cell<bool>,
    /// When the last of them ended.
    moved: Cell<KernelTime>,
    /// Somebody who is not followed may move it.
    shared_outside: Cell<bool>,
    /// So many programs whose calls are not seen may move it.
    held: Cell<u32>,
    /// Writes go to the end of the file, wherever the position is: `O_APPEND`, or flags that are not known.
    appends: Cell<bool>,
    /// How many losses there had been when it was last certain.
    certain_at: Cell<u32>,
    /// It is, or lies in, a tree of mounts that is mounted nowhere: the kernel tells paths in it as if it were the root.
    is_detached: Cell<bool>,
}

impl Description {
    /// A file that was just opened: it stands at its beginning.
    pub fn opened(file: OpenFile, losses: u32) -> Self {
        let appends = may_append(file.flags);
        let description = Self::unknown(file, losses);
        description.position.set(Some(0));
        description.appends.set(appends);
        description.shared_outside.set(false);
        description
    }

    /// A file that was open already: it stands nobody knows where.
    pub fn unknown(file: OpenFile, losses: u32) -> Self {
        Self {
            file: RefCell::new(Rc::new(file)),
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

    /// True if the name is known and not doubtful.
    pub fn is_certain(&self) -> bool {
        self.file.borrow().path.as_ref().is_some_and(|it| !it.source.is_doubtful())
    }

    /// The file.
    pub fn file(&self) -> Rc<OpenFile> {
        Rc::clone(&self.file.borrow())
    }

    /// After records were lost, a descriptor may have been closed and opened again unseen: the name is doubtful and
    /// the position unknown.
    fn doubt_since(&self, losses: u32) {
        if self.certain_at.replace(losses) != losses {
            self.doubt();
        }
    }

    /// The name may be another file's, and the position is unknown.
    pub fn doubt(&self) {
        self.position.set(None);
        self.doubt_name();
    }

    /// True if its name is one in a tree that is mounted nowhere.
    pub fn is_detached(&self) -> bool {
        self.is_detached.get()
    }

    /// It is, or lies in, a tree that is mounted nowhere.
    pub fn detach(&self) {
        self.is_detached.set(true);
    }

    /// It is mounted now. True if it was not before.
    pub fn attach(&self) -> bool {
        self.is_detached.replace(false)
    }

    /// The name may be another file's; where it stands is known as before.
    pub fn doubt_name(&self) {
        let old = self.file();
        if old.path.as_ref().is_some_and(|it| it.source != PathSource::Unverified) {
            self.file.replace(Rc::new(old.doubtful()));
        }
    }

    /// It has another name from now on.
    pub fn rename(&self, bytes: Vec<u8>) {
        let renamed = self.file().renamed(bytes);
        self.file.replace(Rc::new(renamed));
    }

    /// What a `/proc` snapshot says about a file that was open before: its name, and its position if nobody moved it
    /// between `begin` and now. True if the name is new.
    pub fn learn(
        &self,
        path: FilePath,
        stat: Option<crate::event::FileStat>,
        flags: u32,
        shared: bool,
        at: Seen,
    ) -> bool {
        let old = self.file();
        let is_new = old.pre_created && old.path.is_none();
        if is_new {
            self.file.replace(Rc::new(OpenFile {
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

    /// A call that moves the position begins.
    pub fn begin_move(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
        if self.in_flight.get() > 1 {
            self.overlapped.set(true);
        }
    }

    /// That call has ended after it moved `by` bytes. Where it stood, if that is certain.
    pub fn end_move(&self, by: u64, is_write: bool, now: KernelTime) -> Option<u64> {
        let before = self.position.get().filter(|_| self.has_position());
        let certain =
            before.filter(|_| !self.overlapped.get() && (!is_write || !self.appends.get()));
        // The kernel moves the positions of a regular file one after the other (fdget_pos() in fs/file.c), so the sum
        // is right even where the order is not known. An append goes to wherever the end is.
        let appended = is_write && self.appends.get() && by > 0;
        self.position.set(before.filter(|_| !appended).and_then(|it| it.checked_add(by)));
        self.ended(now);
        certain
    }

    /// An `lseek` has ended; `to` is the new position if it succeeded.
    pub fn end_seek(&self, to: Option<u64>, now: KernelTime) {
        if let Some(to) = to {
            self.position.set((!self.overlapped.get()).then_some(to));
        }
        self.ended(now);
    }

    /// A call that may have moved it has ended, nobody knows how.
    pub fn end_unknown(&self, now: KernelTime) {
        self.position.set(None);
        self.ended(now);
    }

    /// True if a write goes to the end of the file, or may: `pwrite(2)` on Linux, too, whatever offset it names.
    pub fn appends(&self) -> bool {
        self.appends.get()
    }

    /// A program whose calls may not be seen has it, too.
    pub fn hold(&self) {
        self.held.set(self.held.get() + 1);
    }

    /// Somebody may move it, and it is not known which descriptor is theirs.
    pub fn share_outside(&self) {
        self.shared_outside.set(true);
    }

    /// That program's calls are seen.
    pub fn release(&self) {
        self.held.set(self.held.get().saturating_sub(1));
    }

    /// Somebody may have moved it.
    pub fn forget_position(&self) {
        self.position.set(None);
    }

    /// `F_SETFL`.
    pub fn set_flags(&self, flags: u32) {
        self.appends.set(may_append(Some(flags)));
        let old = self.file();
        // open(2)'s access mode and creation flags stay.
        let settable =
            (libc::O_APPEND | libc::O_ASYNC | libc::O_DIRECT | libc::O_NOATIME | libc::O_NONBLOCK)
                .cast_unsigned();
        let flags = old.flags.map(|it| it & !settable | flags & settable);
        self.file.replace(Rc::new(OpenFile { flags, ..copy(&old) }));
    }

    fn ended(&self, now: KernelTime) {
        self.moved.set(now);
        let left = self.in_flight.get().saturating_sub(1);
        self.in_flight.set(left);
        if left == 0 {
            self.overlapped.set(false);
        }
    }

    /// Only regular files and block devices have a position worth telling, and only if we see everybody who moves it.
    fn has_position(&self) -> bool {
        let is_seen = !self.shared_outside.get() && self.held.get() == 0;
        is_seen && self.file.borrow().stat.is_some_and(|it| it.has_position())
    }
}

/// True unless the flags are known and without `O_APPEND`.
fn may_append(flags: Option<u32>) -> bool {
    flags.is_none_or(|it| it & libc::O_APPEND.cast_unsigned() != 0)
}

/// When and how a snapshot saw a position.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Clock before it was read.
    pub begin: KernelTime,
    /// The position, in bytes, if it can be relied on.
    pub position: Option<u64>,
    /// How many losses there have been.
    pub losses: u32,
}

impl OpenFile {
    /// The same under another name.
    pub fn renamed(&self, bytes: Vec<u8>) -> Self {
        let mounts = self.path.as_ref().map_or(Mounts::OWN, |it| it.mounts);
        let path = Some(FilePath { bytes, source: PathSource::Renamed, mounts });
        Self { path, first_path: self.first_path().cloned(), ..copy(self) }
    }

    /// The same, if it is the same: its name may be another file's.
    pub fn doubtful(&self) -> Self {
        let path = self.path.clone();
        let path = path.map(|it| FilePath { source: PathSource::Unverified, ..it });
        Self { path, ..copy(self) }
    }
}

/// The same file; its name is cloned only if it is not replaced.
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

/// A descriptor.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its open file.
    pub description: Rc<Description>,
    /// Closed by exec; `None`: not known.
    pub cloexec: Option<bool>,
}

/// The descriptors of a process, or of several that share them (`CLONE_FILES`).
#[derive(Clone, Debug, Default)]
pub struct FdTable {
    slots: FxHashMap<i32, Slot>,
    /// When descriptors last changed: a snapshot that saw them before tells nothing of what they are now.
    changed: FxHashMap<i32, KernelTime>,
    /// When the table came to be, if that was seen.
    since: KernelTime,
    /// It stands for several tables that went different ways: nothing in it is certain.
    is_split: bool,
    /// Descriptors that calls are about to replace, at most one of each thread: what they are meanwhile is not known.
    replacing: Vec<Replacing>,
}

/// A descriptor that a call is about to give another file.
#[derive(Clone, Copy, Debug)]
struct Replacing {
    fd: Fd,
    /// Whose call.
    by: Tid,
    /// Somebody has used it meanwhile.
    is_used: bool,
}

/// A table that processes share.
pub type SharedTable = Rc<RefCell<FdTable>>;

impl FdTable {
    /// The descriptor's open file.
    pub fn get(&self, fd: Fd, losses: u32) -> Option<Rc<Description>> {
        let slot = self.slots.get(&fd.0)?;
        slot.description.doubt_since(losses);
        if self.is_split {
            slot.description.doubt();
        }
        Some(Rc::clone(&slot.description))
    }

    /// The descriptor's open file, whatever may have become of it meanwhile.
    pub fn peek(&self, fd: Fd) -> Option<&Description> {
        self.slots.get(&fd.0).map(|it| it.description.as_ref())
    }

    /// One of them was closed, and it is not known which.
    pub fn doubt_all(&self) {
        self.slots.values().for_each(|it| it.description.doubt());
    }

    /// Somebody may move the position of any of them unseen.
    pub fn share_all(&self) {
        self.slots.values().for_each(|it| it.description.share_outside());
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// What they count together, see [`super::bounds`].
    pub fn units(&self) -> usize {
        let name =
            |it: &Slot| it.description.file.borrow().path.as_ref().map_or(0, |it| it.bytes.len());
        self.slots.values().map(|it| units(name(it))).sum()
    }

    /// A table like this one, for a process that begins now.
    pub fn copied(&self, now: KernelTime) -> Self {
        Self { since: now, replacing: Vec::new(), ..self.clone() }
    }

    /// A table like this one, that was made of it at some time. What has changed meanwhile may be in it or not.
    pub fn copied_between(&self, copied: Copied) -> Self {
        let mut table = self.copied(copied.end);
        table.slots.retain(|&fd, _| self.same_since(Fd(fd), copied.start));
        table
    }

    /// A call begins that may give the descriptor another file at any moment until its end.
    pub fn begin_replace(&mut self, fd: Fd, by: Tid) {
        self.replacing.push(Replacing { fd, by, is_used: false });
    }

    /// This thread makes another call: the end of one before was lost.
    pub fn begin_call(&mut self, by: Tid) {
        if !self.replacing.is_empty() {
            self.replacing.retain(|it| it.by != by);
        }
    }

    /// That call has ended. True if somebody has used the descriptor meanwhile.
    pub fn end_replace(&mut self, by: Tid) -> bool {
        let place = self.replacing.iter().position(|it| it.by == by);
        place.is_some_and(|it| self.replacing.swap_remove(it).is_used)
    }

    /// Somebody uses it. True if it may be another file from one moment to the next.
    pub fn is_replaced(&mut self, fd: Fd) -> bool {
        let mut same = self.replacing.iter_mut().filter(|it| it.fd == fd).peekable();
        let is_replaced = same.peek().is_some();
        same.for_each(|it| it.is_used = true);
        is_replaced
    }

    /// Gives the descriptor a file; returns the one it had.
    pub fn put(&mut self, fd: Fd, slot: Slot, now: KernelTime) -> Option<Slot> {
        self.changed.insert(fd.0, now);
        self.slots.insert(fd.0, slot)
    }

    /// Notes a file that the descriptor has had for who knows how long.
    pub fn note(&mut self, fd: Fd, slot: Slot) {
        self.slots.insert(fd.0, slot);
    }

    /// From now on it stands for several tables.
    pub fn split(&mut self) {
        self.is_split = true;
    }

    /// Takes the descriptor away.
    pub fn remove(&mut self, fd: Fd, now: KernelTime) -> Option<Slot> {
        self.changed.insert(fd.0, now);
        self.slots.remove(&fd.0)
    }

    /// The descriptor has been the same since this time.
    pub fn same_since(&self, fd: Fd, time: KernelTime) -> bool {
        self.since < time && self.changed.get(&fd.0).is_none_or(|&it| it < time)
    }

    /// True if the descriptor was closed or made since.
    pub fn has_changed(&self, fd: Fd, since: KernelTime) -> bool {
        self.changed.get(&fd.0).is_some_and(|it| *it > since)
    }

    /// Sets close-on-exec.
    pub fn set_cloexec(&mut self, fd: Fd, cloexec: bool) {
        if let Some(slot) = self.slots.get_mut(&fd.0) {
            slot.cloexec = Some(cloexec);
        }
    }

    /// Descriptors from `first` to `last`, ascending.
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

    /// An exec: takes away what is closed by it, and what may be. Ascending.
    pub fn exec(&mut self, now: KernelTime) -> Vec<Fd> {
        self.replacing.clear();
        if std::mem::take(&mut self.is_split) {
            // The new program has one table; which of them is not known, but what it opens is certain.
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

    /// All open files.
    pub fn descriptions(&self) -> Vec<Rc<Description>> {
        self.slots.values().map(|it| Rc::clone(&it.description)).collect()
    }

    /// The descriptors, ascending.
    pub fn all(&self) -> Vec<Fd> {
        self.range(i64::MIN, i64::MAX)
    }

    /// Somebody may have moved any of the positions.
    pub fn forget_positions(&self) {
        for slot in self.slots.values() {
            slot.description.forget_position();
        }
    }
}
