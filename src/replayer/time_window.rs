//! Replay window: operations that ended before it in the capture run as fast as possible, and
//! operations that end after it are skipped.
//!
//! Membership depends on the end of an operation, in plan order. An operation that follows one with
//! a later end is not before that end either. No operation waits for one that follows it in the
//! plan, so a window is complete in itself with every ordering.

use std::sync::atomic::{AtomicU32, Ordering};

use atomic_wait::{wait, wake_all};

use crate::units::ReplayTime;

/// Bounds of the window in the capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeWindow {
    /// Operations that ended by this time run first, without pacing.
    pub from: Option<ReplayTime>,
    /// Operations that end later are skipped.
    pub until: Option<ReplayTime>,
}

/// Barrier at which workers wait until all have finished the operations before the window.
#[derive(Debug)]
pub(super) struct StartGate(AtomicU32);

impl StartGate {
    pub(super) fn new(is_open: bool) -> Self {
        Self(AtomicU32::new(is_open.into()))
    }

    pub(super) fn is_open(&self) -> bool {
        // ORDERING: pairs with the release in `open`: a worker that passes sees the earlier work of
        // the others.
        self.0.load(Ordering::Acquire) != 0
    }

    pub(super) fn wait(&self) {
        while !self.is_open() {
            wait(&self.0, 0);
        }
    }

    pub(super) fn open(&self) {
        // ORDERING: the start time of the window is visible to every worker that passes.
        self.0.store(1, Ordering::Release);
        wake_all(&self.0);
    }
}
