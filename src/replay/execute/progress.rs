//! Progress of a replay, for display.

use std::sync::atomic::{AtomicU32, Ordering};

/// Operations that one thread has completed. Has a cache line of its own, as all counters are
/// written all the time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Count(AtomicU32);

impl Count {
    /// Records the number of completed operations.
    pub(super) fn set(&self, done: u32) {
        // ORDERING: only a number for display.
        self.0.store(done, Ordering::Relaxed);
    }
}

/// Counters of all threads.
#[derive(Debug)]
pub(super) struct Progress(Box<[Count]>);

impl Progress {
    pub(super) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Count::default()).collect())
    }

    /// Returns the counter of a worker; `None`: the worker does not exist.
    pub(super) fn of(&self, worker: u32) -> Option<&Count> {
        self.0.get(worker as usize)
    }

    /// Returns the completed operations of all threads.
    pub(super) fn done(&self) -> u64 {
        // ORDERING: only a number for display.
        self.0.iter().map(|it| u64::from(it.0.load(Ordering::Relaxed))).sum()
    }
}
