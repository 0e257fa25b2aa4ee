//! Merges: a request grows by a bio or by another request.

use std::sync::Arc;

use super::anomaly::AnomalyReason;
use super::device::TrackedRequest;
use super::model::RequestEnd;
use super::request_id::RequestId;
use super::request_part::RequestPart;
use super::states::{BlockTransition, TransitionMatch, fit};
use super::step::BlockStep;
use super::tracker::EventInput;

impl EventInput<'_> {
    pub(super) fn back_merged(&mut self) {
        let host = self.host(self.device.ending_at(self.class, self.event.sector), None);
        self.bio_merged(host, false);
    }

    pub(super) fn front_merged(&mut self) {
        let after = self.event.sector.saturating_add(u64::from(self.event.nr_sector));
        let host = self.host(self.device.starting_at(self.class, after), None);
        self.bio_merged(host, true);
    }

    fn bio_merged(&mut self, host: Option<RequestId>, is_front: bool) {
        match host {
            Some(host) => {
                let part = self.bios.take(&self.at, &self.event);
                self.grow(host, is_front, 1, part);
            }
            None => self.anomaly(AnomalyReason::MergeWithoutHost),
        }
    }

    /// Handles the event of an absorbed request, which does not name the absorbing one.
    pub(super) fn absorbed(&mut self) {
        let absorbed = self.find(BlockTransition::Absorb).map(|(id, _)| id);
        let host = self.host(self.device.ending_at(self.class, self.event.sector), absorbed);
        let request = absorbed.and_then(|id| self.device.get(id)).map(|it| &it.request);
        let merges = request.map_or(0, |it| it.merges);
        let parts = request.map(|it| Arc::clone(&it.parts));
        if let Some(host) = host {
            let parts = parts.iter().flat_map(|it| it.iter().cloned());
            self.grow(host, false, merges.saturating_add(1), parts);
        }
        match absorbed {
            Some(id) => {
                self.end(id, RequestEnd::Absorbed { into: host, at: self.at.time, inferred: false })
            }
            None => self.unmatched(AnomalyReason::UnmatchedMerge),
        }
    }

    /// Selects one of several possible requests: one of the same task if there are any, as plugs
    /// belong to a task, and the youngest of them. Insert and issue correct a wrong guess, because
    /// they report the true extent.
    fn host<'d>(
        &self,
        candidates: impl DoubleEndedIterator<Item = &'d TrackedRequest>,
        except: Option<RequestId>,
    ) -> Option<RequestId> {
        let is_own =
            |it: &TrackedRequest| it.request.submitter.is_some_and(|by| by.tid == self.at.tid);
        candidates
            .filter(|tracked| {
                fit(tracked.state, BlockTransition::Grow) == TransitionMatch::Expected
                    && Some(tracked.request.id) != except
            })
            .max_by_key(|it| (is_own(it), it.request.id))
            .map(|it| it.request.id)
    }

    fn grow(
        &mut self,
        host: RequestId,
        is_front: bool,
        merges: u32,
        parts: impl IntoIterator<Item = RequestPart>,
    ) {
        let nr_sector = self.event.nr_sector;
        let now = self.device.change(host, |tracked| {
            Arc::make_mut(&mut tracked.request.parts).extend(parts);
            tracked.left = tracked.left.saturating_add(nr_sector);
            tracked.request.nr_sector = tracked.request.nr_sector.saturating_add(nr_sector);
            tracked.request.merges = tracked.request.merges.saturating_add(merges);
            if is_front {
                tracked.position = tracked.position.saturating_sub(u64::from(nr_sector));
                tracked.request.sector =
                    tracked.request.sector.saturating_sub(u64::from(nr_sector));
            }
        });
        if let Some(it) = now {
            (self.out)(BlockStep::Merged(&it.request));
        }
    }
}
