//! Questions of clients on their way to the follower.

use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::protocol::{Answer, Asked};
use super::watched_file::Target;
use crate::sys::clock;
use crate::units::KernelTime;

/// A question with its time and the client that waits for the answer.
pub(super) struct Request {
    pub(super) at: KernelTime,
    pub(super) asked: Asked,
    /// The watched file of the question, if it names one.
    pub(super) target: Option<Target>,
    pub(super) answer: SyncSender<Answer>,
}

/// Queue of questions in the order of their times: a question gets its time when it is queued.
#[derive(Default)]
pub(super) struct Questions(Mutex<Queue>);

#[derive(Default)]
pub(super) struct Queue {
    pub(super) requests: Vec<Request>,
    /// The reason why questions are refused, once the follower has ended.
    closed: Option<String>,
}

impl Questions {
    /// Queues a question and waits for its answer.
    pub(super) fn ask(&self, asked: Asked, target: Option<Target>) -> Answer {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        {
            let mut queue = self.lock();
            if let Some(why) = &queue.closed {
                return Err(why.clone());
            }
            queue.requests.push(Request { at: clock::now(), asked, target, answer });
        }
        let why = || self.lock().closed.clone().unwrap_or_else(|| OVER.to_owned());
        answered.recv().unwrap_or_else(|_| Err(why()))
    }

    /// Takes the queued questions; returns a time that no later question precedes.
    pub(super) fn take(&self) -> (Vec<Request>, KernelTime) {
        let mut queue = self.lock();
        (std::mem::take(&mut queue.requests), clock::now())
    }

    /// Refuses further questions and returns the queued ones. The first reason stays.
    pub(super) fn close(&self, why: &str) -> Vec<Request> {
        let mut queue = self.lock();
        queue.closed.get_or_insert_with(|| why.to_owned());
        std::mem::take(&mut queue.requests)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the queue when the follower ends, even by a panic, so that no client waits for ever.
pub(super) struct Closing<'a>(pub(super) &'a Questions);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close(OVER);
    }
}

/// Answer to a question after the end of the recording.
pub(super) const OVER: &str = "the recording is over";
