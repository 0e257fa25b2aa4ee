//! Threads beside those of the replay: they read ahead in the plan and compare what came of it, so that nothing of that stands between two
//! operations.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};

use zstd::bulk::Decompressor;

use super::load::{Loaded, Next};
use super::worker::Shared;
use crate::replay::comparison::Comparison;
use crate::replay::file::PlanError;

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
/// # Errors
///
/// There is no memory for what decompresses the plan.
pub(super) fn help(
    Shared { source, stamps, options, .. }: &Shared,
    requests: &Mutex<Receiver<Request>>,
) -> io::Result<Comparison> {
    let mut zstd = Decompressor::new()?;
    let mut comparison = Comparison::behind(options.window.from);
    loop {
        // Nobody panics while it is held.
        let request = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match request {
            // Who does not wait for it any more has been stopped.
            Ok(Request::Load { worker, next, to }) => {
                drop(to.send(source.load(worker, next, &mut zstd)));
            }
            Ok(Request::Compare(loaded)) => {
                source.pairs(&loaded, stamps).for_each(|it| comparison.add(&it))
            }
            Err(_) => return Ok(comparison),
        }
    }
}
