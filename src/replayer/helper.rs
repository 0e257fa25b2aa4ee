//! Threads beside those of the replay: they read ahead in the plan and compare what came of it, so that nothing of that stands between two
//! operations.

use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};

use super::load::{Loaded, Next, Source};
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
pub(super) fn help(source: &Source, requests: &Mutex<Receiver<Request>>) -> Comparison {
    let mut comparison = Comparison::default();
    loop {
        // Nobody panics while it is held.
        let request = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match request {
            // Who does not wait for it any more has been stopped.
            Ok(Request::Load { worker, next, to }) => drop(to.send(source.load(worker, next))),
            Ok(Request::Compare(loaded)) => {
                source.pairs(&loaded).for_each(|it| comparison.add(&it))
            }
            Err(_) => return comparison,
        }
    }
}
