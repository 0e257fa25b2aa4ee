//! What a worker has to do, a frame of the plan after the other: helpers read the next one while it is at this one.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::task::Poll;

use super::ahead::Ready;
use super::helper::{Reply, Request};
use super::load::{Loaded, Next};
use super::worker::{Failure, Shared};

/// A worker's frames.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    worker: u32,
    /// Made ready before the first operation.
    ready: std::vec::IntoIter<Loaded>,
    /// Those of them that are done.
    done: Vec<Loaded>,
    helpers: &'a SyncSender<Request>,
    sender: SyncSender<Reply>,
    replies: Receiver<Reply>,
    /// The one that the worker has was made ready before.
    is_early: bool,
}

impl<'a> Frames<'a> {
    /// From the first one on.
    pub(super) fn new(shared: &Shared, worker: u32, helpers: &'a SyncSender<Request>) -> Self {
        let Ready { frames, next } = shared.ahead.take(worker);
        let (sender, replies) = sync_channel(1);
        let done = Vec::with_capacity(frames.len());
        let ready = frames.into_iter();
        let it = Self { worker, ready, done, helpers, sender, replies, is_early: true };
        it.ask(next);
        it
    }

    fn ask(&self, next: Next) {
        // Helpers live longer than workers.
        let (worker, to) = (self.worker, self.sender.clone());
        let _ = self.helpers.send(Request::Load { worker, next, to });
    }

    /// The next one, when it is there; `None`: there are no more.
    pub(super) fn next(&mut self) -> Result<Option<Loaded>, Failure> {
        match self.ready.next() {
            Some(it) => Ok(Some(it)),
            None => self.replies.recv().map_or(Ok(None), |it| self.take(it)),
        }
    }

    /// The next one, if it is there.
    pub(super) fn poll(&mut self) -> Result<Poll<Option<Loaded>>, Failure> {
        if let Some(it) = self.ready.next() {
            return Ok(Poll::Ready(Some(it)));
        }
        match self.replies.try_recv() {
            Ok(it) => self.take(it).map(Poll::Ready),
            Err(TryRecvError::Empty) => Ok(Poll::Pending),
            Err(TryRecvError::Disconnected) => Ok(Poll::Ready(None)),
        }
    }

    fn take(&mut self, reply: Reply) -> Result<Option<Loaded>, Failure> {
        self.is_early = false;
        let loaded = reply.map_err(Failure::Plan)?;
        if let Some(it) = &loaded {
            self.ask(it.next);
        }
        Ok(loaded)
    }

    /// As much of it is done as will be.
    pub(super) fn done(&mut self, loaded: Loaded) {
        if self.is_early {
            self.done.push(loaded);
        } else {
            self.compare(loaded);
        }
    }

    fn compare(&self, loaded: Loaded) {
        let _ = self.helpers.send(Request::Compare(Box::new(loaded)));
    }

    /// Nothing more is done: what was made ready before is compared behind it.
    pub(super) fn end(mut self) {
        for loaded in std::mem::take(&mut self.done) {
            self.compare(loaded);
        }
    }
}
