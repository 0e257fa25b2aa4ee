//! Frames of a worker, one after the other: helpers load the next one while the worker executes the
//! current one.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::task::Poll;

use super::decoder_threads::{DecodeRequest, DecodedFrames};
use super::load::{LoadedOps, NextFrame};
use super::messages::WorkerFailure;
use super::preload::PreloadedWorker;

/// Frames of a worker.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    worker: u32,
    /// Frames loaded before the first operation.
    ready: std::vec::IntoIter<LoadedOps>,
    /// Completed frames among them.
    done: Vec<LoadedOps>,
    helpers: &'a SyncSender<DecodeRequest>,
    /// Reply to the last request. Its sender is the only one, so a lost request is noticed.
    replies: Receiver<DecodedFrames>,
    /// True while the worker executes a frame of `ready`.
    is_early: bool,
}

impl<'a> Frames<'a> {
    /// Starts at the first frame.
    pub(super) fn new(
        ready: PreloadedWorker,
        worker: u32,
        helpers: &'a SyncSender<DecodeRequest>,
    ) -> Self {
        let PreloadedWorker { frames, next } = ready;
        let replies = request_frame(helpers, worker, next);
        let done = Vec::with_capacity(frames.len());
        Self { worker, ready: frames.into_iter(), done, helpers, replies, is_early: true }
    }

    /// Returns the next frame, waiting for it; `None`: there are no more.
    pub(super) fn next(&mut self) -> Result<Option<LoadedOps>, WorkerFailure> {
        match self.ready.next() {
            Some(it) => Ok(Some(it)),
            None => self.replies.recv().map_or(Err(WorkerFailure::Helper), |it| self.take(it)),
        }
    }

    /// Returns the next frame if it is loaded.
    pub(super) fn poll(&mut self) -> Result<Poll<Option<LoadedOps>>, WorkerFailure> {
        if let Some(it) = self.ready.next() {
            return Ok(Poll::Ready(Some(it)));
        }
        match self.replies.try_recv() {
            Ok(it) => self.take(it).map(Poll::Ready),
            Err(TryRecvError::Empty) => Ok(Poll::Pending),
            Err(TryRecvError::Disconnected) => Err(WorkerFailure::Helper),
        }
    }

    fn take(&mut self, reply: DecodedFrames) -> Result<Option<LoadedOps>, WorkerFailure> {
        self.is_early = false;
        let loaded = reply.map_err(WorkerFailure::Plan)?;
        if let Some(it) = &loaded {
            self.replies = request_frame(self.helpers, self.worker, it.next);
        }
        Ok(loaded)
    }

    /// Takes back a frame of which no more operations will be executed.
    pub(super) fn done(&mut self, loaded: LoadedOps) {
        if self.is_early {
            self.done.push(loaded);
        } else {
            self.compare(loaded);
        }
    }

    fn compare(&self, loaded: LoadedOps) {
        let _ = self.helpers.send(DecodeRequest::Compare(Box::new(loaded)));
    }

    /// Ends the worker: frames of `ready` are compared only now, after the last operation.
    pub(super) fn end(mut self) {
        for loaded in std::mem::take(&mut self.done) {
            self.compare(loaded);
        }
    }
}

fn request_frame(
    helpers: &SyncSender<DecodeRequest>,
    worker: u32,
    next: NextFrame,
) -> Receiver<DecodedFrames> {
    let (to, replies) = sync_channel(1);
    // Helpers outlive workers.
    let _ = helpers.send(DecodeRequest::Load { worker, next, to });
    replies
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a worker waits forever, or ends as usual, when no helper loads its next frame.
    #[test]
    fn missing_answer_of_decoder_is_a_failure() {
        let (helpers, requests) = sync_channel(2);
        let mut frames = Frames::new(PreloadedWorker::default(), 7, &helpers);
        drop(requests.recv());
        assert!(matches!(frames.next(), Err(WorkerFailure::Helper)));
        assert!(matches!(frames.poll(), Err(WorkerFailure::Helper)));
        let mut frames = Frames::new(PreloadedWorker::default(), 7, &helpers);
        let Ok(DecodeRequest::Load { to, .. }) = requests.recv() else { panic!("no request") };
        assert!(matches!(frames.poll(), Ok(Poll::Pending)));
        to.send(Ok(None)).expect("it waits");
        assert!(matches!(frames.next(), Ok(None)));
    }
}
