//! State that all threads of a replay share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::inherited_fds::InheritedFds;
use super::interruptible_threads::InterruptibleThreads;
use super::load::PlanSource;
use super::options::ReplayOptions;
use super::preload::Preload;
use super::progress::Progress;
use super::progress_counters::ProgressCounters;
use super::time_window::StartGate;
use super::timestamps::Timestamps;
use crate::sys::replay::reissue::{FdSlots, WriteContents};

/// State that all threads of a replay share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) source: PlanSource,
    /// Operations that are loaded before the replay begins.
    pub(super) ahead: Preload,
    pub(super) options: ReplayOptions,
    pub(super) turns: ProgressCounters,
    /// Barrier for workers that have finished the operations before the window.
    pub(super) gate: StartGate,
    pub(super) progress: Progress,
    pub(super) at_work: InterruptibleThreads,
    pub(super) slots: FdSlots,
    pub(super) contents: Arc<WriteContents>,
    /// For each worker the workers that its operations start, in order: index of the operation, and
    /// the new worker.
    pub(super) births: Vec<Vec<(u32, u32)>>,
    pub(super) stamps: Timestamps,
    /// Descriptors open before the first operation.
    pub(super) given: InheritedFds,
    /// True if polling the clock is better than sleeping: there are more CPUs than threads.
    pub(super) may_spin: AtomicBool,
}
