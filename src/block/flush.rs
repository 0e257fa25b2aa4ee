//! Flushes of a device. They have neither a place nor a number, so a completion ends the oldest one
//! in flight.
//!
//! One flush is in flight per flush queue, and a device has one flush queue per hardware queue
//! (`block/blk-flush.c`).

use super::anomaly::AnomalyReason;
use super::model::{FlushLink, FlushRole};
use super::states::State;
use super::step::BlockStep;
use super::tracker::EventInput;

impl EventInput<'_> {
    pub(super) fn flush_inserted(&mut self) {
        let id = self.device.flush_queued().unwrap_or_else(|| self.begin());
        let time = self.at.time;
        if let Some(it) =
            self.device.change(id, |it| it.request.inserted = it.request.inserted.or(Some(time)))
        {
            (self.out)(BlockStep::Inserted(&it.request));
        }
    }

    pub(super) fn flush_issued(&mut self) {
        let id = self.device.flush_queued().unwrap_or_else(|| self.begin());
        self.device.issue_flush(id);
        let (time, serves) = (self.at.time, self.flush_link());
        let now = self.device.change(id, |tracked| {
            tracked.state = State::Issued;
            match tracked.request.issued {
                None => tracked.request.issued = Some(time),
                Some(_) => tracked.request.reissued = Some(time),
            }
            if tracked.request.flush == (FlushRole::Device { serves: None }) {
                tracked.request.flush = FlushRole::Device { serves };
            }
        });
        if let Some(it) = now {
            (self.out)(BlockStep::Issued(&it.request));
        }
    }

    /// Requeues a flush. A busy driver returns a flush even before its issue is traced; the flush
    /// then begins here.
    pub(super) fn flush_requeued(&mut self) {
        let id = self
            .device
            .requeue_flush()
            .or(self.device.flush_queued())
            .unwrap_or_else(|| self.begin());
        let now = self.device.change(id, |tracked| {
            tracked.state = State::Queued;
            tracked.request.requeues += 1;
        });
        if let Some(it) = now {
            (self.out)(BlockStep::Requeued(&it.request));
        }
    }

    pub(super) fn flush_completed(&mut self) {
        match self.device.flush_issued(self.losses) {
            Some(id) => self.progress(id),
            None => self.anomaly(AnomalyReason::UnmatchedFlush),
        }
    }

    /// Returns the requests that a flush would serve if it were issued now.
    pub(super) fn flush_link(&self) -> Option<FlushLink> {
        let mut waiting = self.device.waiting();
        let count = u32::try_from(waiting.len()).unwrap_or(u32::MAX);
        waiting.next().map(|request| FlushLink { request, waiting: count })
    }
}
