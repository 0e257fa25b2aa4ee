//! Threads of the capture, before and after their first operation.

use crate::replay::plan::dependencies::{OpId, TimedOp, WaitSet, Worker};

/// Thread whose operations a worker executes.
#[derive(Debug)]
pub(super) struct PlannedThread {
    pub(super) worker: Worker,
    /// Last operation of the worker.
    pub(super) last: TimedOp,
}

/// Thread that has not executed an operation yet.
#[derive(Debug, Default)]
pub(super) struct NewThread {
    pub(super) comm: Vec<u8>,
    /// Last operation of its process when the thread began.
    pub(super) born: Option<OpId>,
    /// Last operations of children for which its parent may have waited.
    pub(super) before: WaitSet,
}
