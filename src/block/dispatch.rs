//! Events on the way to the driver: insert, issue, requeue.

use std::sync::Arc;

use super::anomaly::AnomalyReason;
use super::model::{FlushRole, RequestEnd};
use super::request_id::RequestId;
use super::states::{BlockTransition, State, TransitionMatch};
use super::step::BlockStep;
use super::tracker::EventInput;
use crate::event::block::RequestOp;

impl EventInput<'_> {
    pub(super) fn inserted(&mut self) {
        let (id, is_requeue) = self.find_or_begin(BlockTransition::Insert);
        self.settle_extent(id);
        let time = self.at.time;
        let now = self.device.change(id, |tracked| {
            tracked.state = State::Queued;
            tracked.request.inserted = tracked.request.inserted.or(Some(time));
            tracked.request.requeues += u32::from(is_requeue);
            tracked.request.inferred.requeue |= is_requeue;
        });
        if let Some(it) = now {
            (self.out)(BlockStep::Inserted(&it.request));
        }
    }

    pub(super) fn issued(&mut self) {
        let (id, is_requeue) = self.find_or_begin(BlockTransition::Issue);
        self.settle_extent(id);
        let (time, keeps_fua) = (self.at.time, self.event.rwbs.is_fua());
        let now = self.device.change(id, |tracked| {
            tracked.state = State::Issued;
            match tracked.request.issued {
                None => tracked.request.issued = Some(time),
                Some(_) => tracked.request.reissued = Some(time),
            }
            tracked.request.requeues += u32::from(is_requeue);
            tracked.request.inferred.requeue |= is_requeue;
            // A device without FUA gets a flush after the data instead: the flush machinery removed
            // the letter.
            if tracked.request.rwbs.is_fua() && !keeps_fua {
                tracked.request.flush = FlushRole::Sequence;
            }
        });
        if let Some(it) = now {
            (self.out)(BlockStep::Issued(&it.request));
        }
    }

    pub(super) fn requeued(&mut self) {
        let Some((id, _)) = self.find(BlockTransition::Requeue) else {
            return self.unmatched(AnomalyReason::UnmatchedRequeue);
        };
        let now = self.device.change(id, |tracked| {
            tracked.state = State::Queued;
            tracked.request.requeues += 1;
        });
        if let Some(it) = now {
            (self.out)(BlockStep::Requeued(&it.request));
        }
    }

    /// Returns the request of the event, and whether a requeue of it was not seen. An unknown
    /// request begins here: it is older than the capture, or was created without a bio (driver
    /// commands, requests cloned by a stacked device).
    fn find_or_begin(&mut self, deed: BlockTransition) -> (RequestId, bool) {
        let found = self.find(deed);
        if let Some((id, TransitionMatch::Expected | TransitionMatch::Unissued)) = found {
            return (id, false);
        }
        // Merges are common and requeues rare, so of two guesses this one comes first.
        if let Some(id) = self.grown_in_front() {
            return (id, false);
        }
        match found {
            Some((id, _)) => (id, true),
            None => (self.begin(), false),
        }
    }

    /// Returns, without merge events, the request that grew at its front. A merge keeps the lower
    /// request, so of all requests within the event's range it is the first, and the others were
    /// absorbed.
    fn grown_in_front(&self) -> Option<RequestId> {
        if self.options.merges_recorded {
            return None;
        }
        let from = self.event.sector.saturating_add(1);
        let to = self.event.sector.saturating_add(u64::from(self.event.nr_sector));
        let none = RequestId(u64::MAX);
        self.device.queued_within(self.class, from, to, none).map(|it| it.request.id)
    }

    /// Corrects the place and length of a request: insert and issue report the true ones, after all
    /// merges, seen or not.
    fn settle_extent(&mut self, id: RequestId) {
        let Some(it) = self.device.get(id) else { return };
        let (sector, nr_sector) = (self.sector(), self.event.nr_sector);
        if (it.position, it.left) == (sector, nr_sector) {
            return;
        }
        let old_end = it.position.saturating_add(u64::from(it.left));
        let (old_start, more) = (it.position, nr_sector.saturating_sub(it.left));
        self.discards_joined(id, more);
        self.device.change(id, |tracked| {
            tracked.request.inferred.extent = true;
            tracked.request.sector =
                tracked.request.sector.saturating_sub(tracked.position.saturating_sub(sector));
            tracked.request.nr_sector =
                tracked.request.nr_sector.saturating_sub(tracked.left).saturating_add(nr_sector);
            tracked.position = sector;
            tracked.left = nr_sector;
        });
        if !self.options.merges_recorded {
            let end = sector.saturating_add(u64::from(nr_sector));
            self.absorb_unseen(id, sector, old_start);
            self.absorb_unseen(id, old_end, end);
        }
    }

    /// Adds the discards that were joined to the request without an event. Discards of other places
    /// become ranges of the same request (`bio_attempt_discard_merge()` in block/blk-merge.c), and
    /// its length counts all of them.
    fn discards_joined(&mut self, host: RequestId, nr_sector: u32) {
        if self.class != RequestOp::Discard || nr_sector == 0 {
            return;
        }
        let submitter = self.device.get(host).and_then(|it| it.request.submitter);
        let Some(by) = submitter else { return };
        let parts = self.bios.take_discards(self.event.dev, by.tid, nr_sector);
        self.device.change(host, |tracked| {
            let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
            tracked.request.merges = tracked.request.merges.saturating_add(count);
            Arc::make_mut(&mut tracked.request.parts).extend(parts);
        });
    }

    /// Ends the requests that were queued in a range over which `host` grew: one after the other,
    /// without overlaps.
    fn absorb_unseen(&mut self, host: RequestId, from: u64, to: u64) {
        let mut from = from;
        while let Some(it) = self.device.queued_within(self.class, from, to, host) {
            let (id, merges, parts) =
                (it.request.id, it.request.merges, Arc::clone(&it.request.parts));
            from = it.position.saturating_add(u64::from(it.left));
            self.device.change(host, |tracked| {
                tracked.request.merges =
                    tracked.request.merges.saturating_add(merges.saturating_add(1));
                Arc::make_mut(&mut tracked.request.parts).extend(parts.iter().cloned());
            });
            self.end(
                id,
                RequestEnd::Absorbed { into: Some(host), at: self.at.time, inferred: true },
            );
        }
    }
}
