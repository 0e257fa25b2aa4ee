//! How far a replay is.

use std::sync::atomic::{AtomicU32, Ordering};

/// Operations that one thread has done. In a line of the cache of its own: all of them are written all the time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Count(AtomicU32);

impl Count {
    /// So many are done.
    pub(super) fn set(&self, done: u32) {
        // ORDERING: only a number for people.
        self.0.store(done, Ordering::Relaxed);
    }
}

/// Those of all threads.
#[derive(Debug)]
pub(super) struct Progress(Box<[Count]>);

impl Progress {
    pub(super) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Count::default()).collect())
    }

    /// One thread's; `None`: there is none with this number.
    pub(super) fn of(&self, worker: u32) -> Option<&Count> {
        self.0.get(worker as usize)
    }

    /// Operations of all of them.
    pub(super) fn done(&self) -> u64 {
        // ORDERING: only a number for people.
        self.0.iter().map(|it| u64::from(it.0.load(Ordering::Relaxed))).sum()
    }
}
