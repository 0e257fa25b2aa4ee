//! The descriptors of a replay, by their handles.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use super::Sink;

/// Nothing is open there.
const EMPTY: i32 = -1;

/// The descriptors of a replay, by their handles: all threads use them. Who may use which when is settled by whom they wait for.
#[derive(Debug)]
pub struct Slots {
    all: Box<[AtomicI32]>,
    /// Numbers from here on are nobody's but a slot's each.
    reserved: i32,
    sink: Sink,
}

impl Slots {
    /// So many, all empty. No open gets a number from `reserved` on by itself, as the kernel takes the lowest that is free (open(2)).
    pub fn new(count: u32, reserved: i32) -> Self {
        let all = (0..count).map(|_| AtomicI32::new(EMPTY)).collect();
        Self { all, reserved, sink: Sink::default() }
    }

    /// With this to take what targets would get that the replay does not have.
    pub fn with(mut self, sink: Sink) -> Self {
        self.sink = sink;
        self
    }

    pub(super) fn sink(&self) -> i32 {
        self.sink.number()
    }

    /// Has the kernel make its table of descriptors as large as it has to become: where several threads have it in common, each growth waits
    /// until no CPU uses the old one (`expand_fdtable` in `fs/file.c`), some 10 ms. It does not shrink. There may be
    /// `may_have` descriptors.
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
        // ORDERING: who has waited for the thread that put it there (an acquire of its counter) sees it.
        self.all.get(slot as usize).map_or(EMPTY, |it| it.load(Ordering::Relaxed))
    }

    /// The number of its descriptor, or the one that is kept for it.
    pub(super) fn number_for(&self, slot: u32) -> i32 {
        match self.get(slot) {
            EMPTY => i32::try_from(slot).map_or(EMPTY, |it| self.reserved.saturating_add(it)),
            fd => fd,
        }
    }

    /// What was open in a slot before the first call.
    pub fn put(&self, slot: u32, fd: OwnedFd) {
        self.replace(slot, fd.into_raw_fd());
    }

    /// A call that makes descriptors has returned this, for that slot; `None`: nobody has it. What was open there before, which no plan
    /// of ours leaves there, is closed.
    pub fn made(&self, slot: Option<u32>, ret: i64) {
        let fd = i32::try_from(ret).ok().filter(|it| *it >= 0);
        match (slot, fd) {
            (Some(slot), fd) => self.replace(slot, fd.unwrap_or(EMPTY)),
            (None, Some(fd)) => close(fd),
            (None, None) => {}
        }
    }

    fn replace(&self, slot: u32, fd: i32) {
        // ORDERING: as in `get`; whoever waits for us sees it behind our counter.
        let before = match self.all.get(slot as usize) {
            Some(it) => it.swap(fd, Ordering::Relaxed),
            None => fd,
        };
        if before != EMPTY && (before != fd || self.all.get(slot as usize).is_none()) {
            close(before);
        }
    }

    /// A call has closed it.
    pub fn closed(&self, slot: u32) {
        if let Some(it) = self.all.get(slot as usize) {
            // ORDERING: as in `put`.
            it.store(EMPTY, Ordering::Relaxed);
        }
    }

    /// Closes all that are open.
    pub fn close_all(&self) {
        // ORDERING: all others are through.
        let all = self.all.iter().map(|it| it.swap(EMPTY, Ordering::Relaxed));
        all.filter(|it| *it != EMPTY).for_each(close);
    }

    /// A copy of a descriptor, to be closed in its place: others of the original have it still. -1, which closes nothing, if there cannot be one more.
    pub fn copy(&self, slot: u32) -> i32 {
        let fd = self.get(slot);
        // SAFETY: dup changes no memory.
        unsafe { libc::dup(fd) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.close_all();
    }
}

fn close(fd: i32) {
    // SAFETY: it was made by a call of a replay and is in no slot any more: nobody has its number.
    unsafe { libc::close(fd) };
}
