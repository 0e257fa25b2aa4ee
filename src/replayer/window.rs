//! A part of a replay: what had ended before it in the capture is done as fast as it goes, and what ends behind it is not done.
//!
//! By the ends of operations, in the order in which they are in the plan: whoever stands behind somebody that ends later is not before that
//! end either. Nobody waits for somebody who stands behind him, so a part is complete in itself, whatever keeps operations apart.

use std::sync::atomic::{AtomicU32, Ordering};

use atomic_wait::{wait, wake_all};

/// From when to when, in the capture, ns since the first operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// What ended by then is done before, without times.
    pub from: Option<u64>,
    /// What ends later is not done.
    pub until: Option<u64>,
}

/// Where everybody waits until all have done what is to be done before.
#[derive(Debug)]
pub(super) struct Gate(AtomicU32);

impl Gate {
    pub(super) fn new(is_open: bool) -> Self {
        Self(AtomicU32::new(is_open.into()))
    }

    pub(super) fn is_open(&self) -> bool {
        // ORDERING: pairs with the release in `open`: who has passed sees what the others did before.
        self.0.load(Ordering::Acquire) != 0
    }

    pub(super) fn wait(&self) {
        while !self.is_open() {
            wait(&self.0, 0);
        }
    }

    pub(super) fn open(&self) {
        // ORDERING: the time from which everybody counts is there for whoever passes.
        self.0.store(1, Ordering::Release);
        wake_all(&self.0);
    }
}
