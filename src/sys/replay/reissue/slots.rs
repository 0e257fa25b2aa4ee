//! Descriptors of a replay, by their handles.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use super::sink::DataSink;

/// Value of a slot without a descriptor.
const EMPTY: i32 = -1;

/// Descriptors of a replay, by their handles, shared by all threads. The order in which threads
/// wait for each other decides which of them uses a slot.
#[derive(Debug)]
pub struct FdSlots {
    all: Box<[AtomicI32]>,
    /// Lowest reserved number: from here on each number belongs to one slot.
    reserved: i32,
    sink: DataSink,
}

impl FdSlots {
    /// Creates this number of slots, all empty. No open gets a number from `reserved` on by itself,
    /// as the kernel takes the lowest that is free (open(2)).
    pub fn new(count: u32, reserved: i32) -> Self {
        let all = (0..count).map(|_| AtomicI32::new(EMPTY)).collect();
        Self { all, reserved, sink: DataSink::default() }
    }

    /// Sets the sink: the target of transfers whose real target the replay does not have.
    pub fn with(mut self, sink: DataSink) -> Self {
        self.sink = sink;
        self
    }

    pub(super) fn sink(&self) -> i32 {
        self.sink.number()
    }

    /// Makes the kernel grow its descriptor table to its final size. When several threads share the
    /// table, each growth waits until no CPU uses the old one (`expand_fdtable` in `fs/file.c`),
    /// some 10 ms. The table does not shrink. The process may have `may_have` descriptors.
    pub fn make_room(&self, may_have: u64) {
        let highest =
            self.reserved.saturating_add(i32::try_from(self.all.len()).unwrap_or(i32::MAX));
        let highest = highest.min(i32::try_from(may_have).unwrap_or(i32::MAX) - 1);
        let Ok(any) = std::fs::File::open("/") else { return };
        // SAFETY: F_DUPFD_CLOEXEC takes a number and changes no memory.
        let copy = unsafe { libc::fcntl(any.as_raw_fd(), libc::F_DUPFD_CLOEXEC, highest) };
        if copy >= 0 {
            close(copy);
        }
    }

    pub(super) fn get(&self, slot: u32) -> i32 {
        // ORDERING: a thread that has waited for the one that put the descriptor there (an acquire
        // of its counter) sees it.
        self.all.get(slot as usize).map_or(EMPTY, |it| it.load(Ordering::Relaxed))
    }

    /// Descriptor of a slot, or the number reserved for it.
    pub(super) fn number_for(&self, slot: u32) -> i32 {
        match self.get(slot) {
            EMPTY => i32::try_from(slot).map_or(EMPTY, |it| self.reserved.saturating_add(it)),
            fd => fd,
        }
    }

    /// Puts a descriptor that is open before the first call into a slot.
    pub fn put(&self, slot: u32, fd: OwnedFd) {
        self.replace(slot, fd.into_raw_fd());
    }

    /// Records the result of a call that makes a descriptor, for that slot. With `None` the new
    /// descriptor is closed, as no slot has it. A descriptor that was open there before is closed
    /// too; no plan of ours leaves one there.
    pub fn made(&self, slot: Option<u32>, ret: i64) {
        let fd = i32::try_from(ret).ok().filter(|it| *it >= 0);
        match (slot, fd) {
            (Some(slot), fd) => self.replace(slot, fd.unwrap_or(EMPTY)),
            (None, Some(fd)) => close(fd),
            (None, None) => {}
        }
    }

    fn replace(&self, slot: u32, fd: i32) {
        // ORDERING: as in `get`; a thread that waits for this one reads the slot after this
        // thread's counter.
        let before = match self.all.get(slot as usize) {
            Some(it) => it.swap(fd, Ordering::Relaxed),
            None => fd,
        };
        if before != EMPTY && (before != fd || self.all.get(slot as usize).is_none()) {
            close(before);
        }
    }

    /// Empties a slot whose descriptor a call has closed.
    pub fn closed(&self, slot: u32) {
        if let Some(it) = self.all.get(slot as usize) {
            // ORDERING: as in `put`.
            it.store(EMPTY, Ordering::Relaxed);
        }
    }

    /// Closes all descriptors.
    pub fn close_all(&self) {
        // ORDERING: all other threads have ended.
        let all = self.all.iter().map(|it| it.swap(EMPTY, Ordering::Relaxed));
        all.filter(|it| *it != EMPTY).for_each(close);
    }

    /// Duplicates a descriptor, so that the copy is closed in its place while the original stays
    /// open. Returns -1, which closes nothing, if there cannot be one more.
    pub fn copy(&self, slot: u32) -> i32 {
        let fd = self.get(slot);
        // SAFETY: dup changes no memory.
        unsafe { libc::dup(fd) }
    }
}

impl Drop for FdSlots {
    fn drop(&mut self) {
        self.close_all();
    }
}

fn close(fd: i32) {
    // SAFETY: a call of the replay made the descriptor, and no slot has it any more: no other code
    // has its number.
    unsafe { libc::close(fd) };
}
