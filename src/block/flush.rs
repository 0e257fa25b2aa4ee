//! The device's flushes: no place and no number, so the oldest in flight is the one that completes.
//!
//! One is in flight per flush queue, and a device has one flush queue per hardware queue (`block/blk-flush.c`).

use super::anomaly::AnomalyReason;
use super::model::{BlockStep, FlushLink, FlushRole};
use super::states::State;
use super::tracker::Push;

impl Push<'_> {
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
        let now = self.device.change(id, |it| {
            it.state = State::Issued;
            match it.request.issued {
                None => it.request.issued = Some(time),
                Some(_) => it.request.reissued = Some(time),
            }
            if it.request.flush == (FlushRole::Device { serves: None }) {
                it.request.flush = FlushRole::Device { serves };
            }
        });
        if let Some(it) = now {
            (self.out)(BlockStep::Issued(&it.request));
        }
    }

    /// A busy driver gives a flush back even before its issue is traced: then it begins here.
    pub(super) fn flush_requeued(&mut self) {
        let id = self
            .device
            .requeue_flush()
            .or(self.device.flush_queued())
            .unwrap_or_else(|| self.begin());
        let now = self.device.change(id, |it| {
            it.state = State::Queued;
            it.request.requeues += 1;
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

    /// Whom a flush would serve that is issued now.
    pub(super) fn flush_link(&self) -> Option<FlushLink> {
        let mut waiting = self.device.waiting();
        let count = u32::try_from(waiting.len()).unwrap_or(u32::MAX);
        waiting.next().map(|request| FlushLink { request, waiting: count })
    }
}
