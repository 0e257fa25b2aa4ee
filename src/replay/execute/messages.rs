//! Messages of workers to the thread that has started them.

use std::sync::mpsc::Sender;

use crate::replay::plan::plan_file::PlanError;

/// Message of a worker to the thread that has started it.
#[derive(Debug)]
pub(super) enum WorkerMessage {
    /// The worker is born.
    Born(u32),
    /// A worker has finished the operations before the window and waits for the others.
    Prepared,
    /// An operation on names has succeeded and failed in the capture, or the other way round, and
    /// nothing more is executed ([`super::options::ReplayOptions::ends_at_names`]).
    NamesDiffer,
    /// The worker has ended.
    Ended(u32),
    /// The worker has failed.
    Failed(u32, WorkerFailure),
}

/// Reason why a worker has failed.
#[derive(Debug)]
pub(super) enum WorkerFailure {
    Plan(PlanError),
    Memory(std::io::Error),
    Ring(std::io::Error),
    /// The helper that reads its plan has failed.
    Helper,
    /// The thread has panicked.
    Panicked,
}

/// Reports a thread that panics: the thread that has started it would otherwise wait forever.
#[derive(Debug)]
pub(super) struct WorkerEndNotice<'a>(pub(super) u32, pub(super) &'a Sender<WorkerMessage>);

impl Drop for WorkerEndNotice<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.1.send(WorkerMessage::Failed(self.0, WorkerFailure::Panicked));
        }
    }
}
