//! Completions: of a whole request, of a part, or of a flush sequence.

use super::anomaly::AnomalyReason;
use super::device::TrackedRequest;
use super::model::{FlushRole, RequestEnd};
use super::request_id::RequestId;
use super::states::{BlockTransition, State, TransitionMatch};
use super::step::BlockStep;
use super::tracker::EventInput;
use crate::units::SECTOR_BYTES;

impl EventInput<'_> {
    pub(super) fn completed(&mut self) {
        let is_nothing = self.event.nr_sector == 0;
        let deed =
            if is_nothing { BlockTransition::CompleteNothing } else { BlockTransition::Complete };
        let found = self
            .find(deed)
            .or_else(|| self.find_sequence().map(|id| (id, TransitionMatch::Expected)));
        let Some((id, fit)) = found else {
            return self.unmatched(if is_nothing {
                AnomalyReason::UnmatchedSequenceEnd
            } else {
                AnomalyReason::UnmatchedCompletion
            });
        };
        if fit == TransitionMatch::Unissued && self.event.error == 0 {
            self.anomaly(AnomalyReason::NotIssued(id));
        }
        self.progress(id);
    }

    /// Finds the request of the end of a flush sequence whose data completed in parts. The place in
    /// this event depends on the kernel: the last part's (found by the table), the first sector, or
    /// the sector after the last.
    fn find_sequence(&self) -> Option<RequestId> {
        if self.event.nr_sector != 0 {
            return None;
        }
        let is_meant = |tracked: &TrackedRequest| {
            let end = tracked.request.sector.saturating_add(u64::from(tracked.request.nr_sector));
            tracked.state == State::DataDone
                && tracked.class == self.class
                && (self.event.sector == tracked.request.sector || self.event.sector == end)
        };
        self.device.waiting().find(|&id| self.device.get(id).is_some_and(is_meant))
    }

    /// Applies a completion to its request, and ends the request if nothing is left.
    pub(super) fn progress(&mut self, id: RequestId) {
        let (time, error, done) = (self.at.time, self.event.error, self.event.nr_sector);
        let mut is_over = false;
        let now = self.device.change(id, |tracked| {
            tracked.request.bytes_done =
                tracked.request.bytes_done.saturating_add(u64::from(done) * SECTOR_BYTES);
            tracked.request.error =
                tracked.request.error.or((error != 0).then_some(error.saturating_neg()));
            if done > tracked.left {
                tracked.request.nr_sector =
                    tracked.request.nr_sector.saturating_add(done - tracked.left);
                tracked.request.inferred.extent = true;
            }
            tracked.left = tracked.left.saturating_sub(done);
            if tracked.left > 0 {
                tracked.position = tracked.position.saturating_add(u64::from(done));
            } else if tracked.state == State::Issued && tracked.request.flush == FlushRole::Sequence
            {
                tracked.state = State::DataDone;
                tracked.request.data_completed = Some(time);
            } else {
                tracked.request.completed = Some(time);
                is_over = true;
            }
        });
        if is_over {
            self.end(id, RequestEnd::Completed);
        } else if let Some(it) = now {
            (self.out)(BlockStep::Progressed(&it.request));
        }
    }
}
