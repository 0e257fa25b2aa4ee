//! Queue of the clients' commands on their way to the follower.

use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::protocol::{Answer, AnswerLines, ControlCommand};
use super::watched_file::WatchTarget;
use crate::cli::dump_requests::DumpRequests;
use crate::sys::clock;
use crate::units::KernelTime;

/// A command with its time and the client that waits for the response.
pub(super) struct ControlRequest {
    pub(super) at: KernelTime,
    pub(super) command: ControlCommand,
    /// Watched file of the command, if it names one.
    pub(super) target: Option<WatchTarget>,
    pub(super) answer: SyncSender<Answer>,
}

/// Queue of commands in the order of their times: a command gets its time when it is queued.
#[derive(Default)]
pub(super) struct Questions(Mutex<Queue>);

#[derive(Default)]
pub(super) struct Queue {
    pub(super) requests: Vec<ControlRequest>,
    /// Reason for which commands are refused, once the follower has ended.
    closed: Option<String>,
    /// Recorder with a ring.
    recorder: Option<DumpRequests>,
}

impl Questions {
    /// Creates the queue of a recorder with a ring, which watches no files.
    pub(super) fn of_ring(recorder: DumpRequests) -> Self {
        let (closed, recorder) = (Some(ONLY_DUMP.to_owned()), Some(recorder));
        Self(Mutex::new(Queue { closed, recorder, ..Queue::default() }))
    }

    /// Requests a log of what the ring holds.
    pub(super) fn dump(&self) -> Answer {
        let recorder = self.lock().recorder.clone().ok_or_else(|| NO_RING.to_owned())?;
        recorder.request();
        Ok(AnswerLines::default())
    }

    /// Queues a command and waits for its response.
    pub(super) fn send(&self, command: ControlCommand, target: Option<WatchTarget>) -> Answer {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        {
            let mut queue = self.lock();
            if let Some(why) = &queue.closed {
                return Err(why.clone());
            }
            queue.requests.push(ControlRequest { at: clock::now(), command, target, answer });
        }
        let why = || self.lock().closed.clone().unwrap_or_else(|| OVER.to_owned());
        answered.recv().unwrap_or_else(|_| Err(why()))
    }

    /// Takes the queued commands; returns a time that no later command precedes.
    pub(super) fn take(&self) -> (Vec<ControlRequest>, KernelTime) {
        let mut queue = self.lock();
        (std::mem::take(&mut queue.requests), clock::now())
    }

    /// Refuses further commands and returns the queued ones. The first reason stays.
    pub(super) fn close(&self, why: &str) -> Vec<ControlRequest> {
        let mut queue = self.lock();
        queue.closed.get_or_insert_with(|| why.to_owned());
        std::mem::take(&mut queue.requests)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the queue when the follower ends, even by a panic, so that no client waits forever.
pub(super) struct QueueCloser<'a>(pub(super) &'a Questions);

impl Drop for QueueCloser<'_> {
    fn drop(&mut self) {
        self.0.close(OVER);
    }
}

/// Response to a command about files of a recorder with a ring.
const ONLY_DUMP: &str =
    "this recording keeps a ring: no files are watched, and only `dump` is possible";

/// Response to `dump` without a ring.
const NO_RING: &str = "this recording keeps no ring: begin it with --ring 30s";

/// Response to a command after the end of the recording.
pub(super) const OVER: &str = "the recording is over";
