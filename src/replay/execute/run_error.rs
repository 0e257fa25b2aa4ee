//! Reasons why a replay fails.

use std::io;

use thiserror::Error;

use super::messages::WorkerFailure;
use crate::replay::plan::plan_file::PlanError;
use crate::sys::replay::reissue::UringUnavailable;

/// Threads at one time at most. Each has four memory areas (its stack, its signal stack, the guard
/// pages after them, its read buffer), and a process has 65,530 by default (`sysctl
/// vm.max_map_count`). Without one of them the library ends the process.
pub(super) const THREADS_MAX: usize = 10_000;

/// Reason why a replay failed.
#[derive(Debug, Error)]
pub enum RunError {
    /// Plan is damaged or unreadable.
    #[error("the plan cannot be read: {0}")]
    Plan(#[from] PlanError),
    /// Plan contains a call of a later version.
    #[error("the plan has a call that this iotrace-perf does not know: {0}")]
    UnknownCall(String),
    /// Buffers do not fit in memory.
    #[error("there is not enough memory for the buffers of the replay: {0}")]
    Memory(io::Error),
    /// Helper thread, which reads ahead and compares, has failed.
    #[error(
        "a thread that reads the plan and compares results has failed; what was done is not known"
    )]
    Helper,
    /// Worker has ended prematurely.
    #[error("a thread of the replay has failed; what was done is not known")]
    Worker,
    /// All remaining workers wait for each other, or for operations that the plan does not contain.
    #[error(
        "invalid plan: {0} of its threads wait for each other, or for operations that it does not have; make it again: \
         iotrace-perf replay plan LOG -o PLAN"
    )]
    Vain(usize),
    /// Interruption of blocked threads could not be set up.
    #[error("cannot set the signal that interrupts calls: {0}")]
    Signal(io::Error),
    /// Plan needs more threads than a replay may have.
    #[error(
        "the plan needs {0} threads at once, and a replay has at most {THREADS_MAX}; leave out some of them: iotrace-perf replay plan LOG --comm NAME -o PLAN"
    )]
    TooMany(usize),
    /// Thread could not be started.
    #[error("cannot start a thread of the replay: {0}; try: ulimit -u unlimited")]
    Thread(io::Error),
    /// io_uring is not available.
    #[error(transparent)]
    NoRing(#[from] UringUnavailable),
    /// Ring has failed.
    #[error(
        "the kernel takes no more operations of the replay's io_uring: {0}; try: --engine calls"
    )]
    Ring(io::Error),
}

impl From<WorkerFailure> for RunError {
    fn from(failure: WorkerFailure) -> Self {
        match failure {
            WorkerFailure::Plan(it) => Self::Plan(it),
            WorkerFailure::Memory(it) => Self::Memory(it),
            WorkerFailure::Helper => Self::Helper,
            WorkerFailure::Panicked => Self::Worker,
            WorkerFailure::Ring(it) => Self::Ring(it),
        }
    }
}
