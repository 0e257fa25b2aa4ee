//! Helper threads: load frames ahead and compare results, so that workers do neither between two
//! operations.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};

use zstd::bulk::Decompressor;

use super::load::{LoadedOps, NextFrame};
use super::shared::Shared;
use crate::replay::comparison::Comparison;
use crate::replay::plan::plan_file::PlanError;

/// Reply to a load request: the worker's next operations, or `None` at its end.
pub(super) type DecodedFrames = Result<Option<LoadedOps>, PlanError>;

/// Request to a helper.
pub(super) enum DecodeRequest {
    /// Load the next operations of a worker.
    Load { worker: u32, next: NextFrame, to: SyncSender<DecodedFrames> },
    /// Compare completed operations.
    Compare(Box<LoadedOps>),
}

/// Serves requests until all senders are dropped. Returns the comparison.
///
/// # Panics
///
/// A request could not be served. The panic is raised after the last request, as a worker waits for
/// each of them.
pub(super) fn help(
    shared: &Shared,
    requests: &Mutex<Receiver<DecodeRequest>>,
    mut zstd: Decompressor<'_>,
) -> Comparison {
    let mut comparison = Comparison::since(shared.options.window.from);
    let mut panic = None;
    loop {
        // No thread panics while it holds this lock.
        let request = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(request) = request else { break };
        let serve = || serve(shared, request, &mut zstd, &mut comparison);
        if let Err(it) = catch_unwind(AssertUnwindSafe(serve)) {
            panic = Some(it);
        }
    }
    if let Some(it) = panic {
        resume_unwind(it);
    }
    comparison
}

fn serve(
    Shared { source, stamps, .. }: &Shared,
    request: DecodeRequest,
    zstd: &mut Decompressor<'_>,
    comparison: &mut Comparison,
) {
    match request {
        // A receiver that is gone belongs to a stopped worker.
        DecodeRequest::Load { worker, next, to } => drop(to.send(source.load(worker, next, zstd))),
        DecodeRequest::Compare(loaded) => {
            source.pairs(&loaded, stamps).for_each(|it| comparison.add(&it));
        }
    }
}
