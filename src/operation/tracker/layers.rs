//! Layers that are at work inside calls.

use super::Tracker;
use super::announce::announce;
use crate::block::BlockRequest;
use crate::event::Event;
use crate::event::layer::{Edge, IOMAP_DIO, Layer, LayerEvent};
use crate::operation::span::{JournalCommit, Span};
use crate::operation::spans;
use crate::operation::step::{Sink, Step};

impl Tracker {
    /// Begins or ends a span.
    pub(super) fn layer<S: Sink>(
        &mut self,
        event: &Event,
        hit: &LayerEvent,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let is_commit = self.commits.hit(hit, event.time);
        if is_commit {
            // For the calls that wait for it.
            self.ledger.events += 1;
            return self.committed(event, hit, sink);
        }
        if let Some(reason) = self.ignore_reason(event.pid) {
            self.ledger.ignore(reason);
            return Ok(());
        }
        self.ledger.events += 1;
        self.reap_reused_tid(event.time, event.pid, event.tid, sink)?;
        let (process, thread) = self.tasks.thread(event.pid, event.tid);
        announce(event.time, process, thread, sink)?;
        let call = thread.pending.as_ref().map(|it| it.operation.start);
        let Ok(ended) = thread.spans.hit(hit, event.time, call) else {
            self.ledger.spans.without_begin += 1;
            return Ok(());
        };
        let Some(span) = ended else { return Ok(()) };
        match &mut thread.pending {
            Some(pending) => {
                let has_room = spans::put(&mut pending.operation, span);
                self.ledger.spans.left_out += u64::from(!has_room);
                Ok(())
            }
            None => {
                let (thread, pid) = (&thread.info, event.pid);
                sink.step(event.time, &Step::Aside { thread, pid, span })
            }
        }
    }

    /// Passes a commit of a journal on, at its end.
    fn committed<S: Sink>(
        &mut self,
        event: &Event,
        hit: &LayerEvent,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let ended = hit.dev.filter(|_| hit.edge == Edge::CommitEnd);
        let found = ended.and_then(|dev| Some((dev, self.commits.ended(dev, event.time)?)));
        let Some((dev, times)) = found else { return Ok(()) };
        let thread = self.tasks.known_thread(event.tid);
        let commit = JournalCommit {
            dev,
            transaction: hit.transaction,
            tid: event.tid,
            comm: thread.map(|thread| thread.info.comm.clone()),
            begin: times.start,
            end: times.end,
        };
        sink.step(event.time, &Step::Committed(&commit))
    }

    /// Notes the begin of direct I/O of the thread, for which its call waits.
    pub(super) fn begin_direct(&mut self, event: &Event) {
        let begin = LayerEvent {
            layer: Layer::Fs,
            what: IOMAP_DIO,
            edge: Edge::Begin,
            dev: None,
            transaction: None,
        };
        if let Some(thread) = self.tasks.known_thread_mut(event.tid) {
            let _ = thread.spans.hit(&begin, event.time, None);
        }
    }

    /// Adds the times of a completed request to the calls that may wait for it.
    pub(super) fn time_request(&mut self, request: &BlockRequest) {
        for (tid, spans) in spans::of_request(request) {
            let pending = self.tasks.known_thread_mut(tid).and_then(|it| it.pending.as_mut());
            let Some(pending) = pending else { continue };
            let start = pending.operation.start;
            for span in spans.into_iter().filter(|it: &Span| it.begin >= start) {
                let has_room = spans::put(&mut pending.operation, span);
                self.ledger.spans.left_out += u64::from(!has_room);
            }
        }
    }
}
