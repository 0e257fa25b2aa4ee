//! Threads beside those of the replay: they read ahead in the plan and compare what came of it, so that nothing of that stands between two
//! operations.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};

use zstd::bulk::Decompressor;

use super::load::{Loaded, Next};
use super::worker::Shared;
use crate::replay::comparison::Comparison;
use crate::replay::plan_file::PlanError;

/// What a worker gets for a request: its next operations, or `None` at its end.
pub(super) type Reply = Result<Option<Loaded>, PlanError>;

/// What is asked of a helper.
pub(super) enum Request {
    /// The next operations of a worker.
    Load { worker: u32, next: Next, to: SyncSender<Reply> },
    /// These have been done.
    Compare(Box<Loaded>),
}

/// Serves requests until nobody has any more; what it has compared.
///
/// # Panics
///
/// One of them could not be served: behind all others, as somebody waits for each of them.
pub(super) fn help(
    shared: &Shared,
    requests: &Mutex<Receiver<Request>>,
    mut zstd: Decompressor<'_>,
) -> Comparison {
    let mut comparison = Comparison::behind(shared.options.window.from);
    let mut panic = None;
    loop {
        // Nobody panics while it is held.
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
    request: Request,
    zstd: &mut Decompressor<'_>,
    comparison: &mut Comparison,
) {
    match request {
        // Who does not wait for it any more has been stopped.
        Request::Load { worker, next, to } => drop(to.send(source.load(worker, next, zstd))),
        Request::Compare(loaded) => {
            source.pairs(&loaded, stamps).for_each(|it| comparison.add(&it));
        }
    }
}
