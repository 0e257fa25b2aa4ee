//! Completions: all, a part, or the end of a flush sequence.

use super::anomaly::AnomalyReason;
use super::device::Tracked;
use super::model::{BlockStep, Ending, FlushRole, RequestId};
use super::states::{Deed, Fit, State};
use super::tracker::Push;
use crate::units::SECTOR_BYTES;

impl Push<'_> {
    pub(super) fn completed(&mut self) {
        let is_nothing = self.event.nr_sector == 0;
        let deed = if is_nothing { Deed::CompleteNothing } else { Deed::Complete };
        let found = self.find(deed).or_else(|| self.find_sequence().map(|id| (id, Fit::Expected)));
        let Some((id, fit)) = found else {
            return self.unmatched(if is_nothing {
                AnomalyReason::UnmatchedSequenceEnd
            } else {
                AnomalyReason::UnmatchedCompletion
            });
        };
        if fit == Fit::Unissued && self.event.error == 0 {
            self.anomaly(AnomalyReason::NotIssued(id));
        }
        self.progress(id);
    }

    /// Which place the end of a flush sequence names when its data was done in parts depends on the kernel: the last
    /// part's (found by the table), the first sector, or the sector behind the last.
    fn find_sequence(&self) -> Option<RequestId> {
        if self.event.nr_sector != 0 {
            return None;
        }
        let is_meant = |it: &Tracked| {
            let end = it.request.sector.saturating_add(u64::from(it.request.nr_sector));
            it.state == State::DataDone
                && it.class == self.class
                && (self.event.sector == it.request.sector || self.event.sector == end)
        };
        self.device.waiting().find(|&id| self.device.get(id).is_some_and(is_meant))
    }

    /// Books what a completion says; ends the request if that was all.
    pub(super) fn progress(&mut self, id: RequestId) {
        let (time, error, done) = (self.at.time, self.event.error, self.event.nr_sector);
        let mut is_over = false;
        let now = self.device.change(id, |it| {
            it.request.bytes_done =
                it.request.bytes_done.saturating_add(u64::from(done) * SECTOR_BYTES);
            it.request.error = it.request.error.or((error != 0).then_some(error.saturating_neg()));
            if done > it.left {
                it.request.nr_sector = it.request.nr_sector.saturating_add(done - it.left);
                it.request.inferred.extent = true;
            }
            it.left = it.left.saturating_sub(done);
            if it.left > 0 {
                it.position = it.position.saturating_add(u64::from(done));
            } else if it.state == State::Issued && it.request.flush == FlushRole::Sequence {
                it.state = State::DataDone;
                it.request.data_completed = Some(time);
            } else {
                it.request.completed = Some(time);
                is_over = true;
            }
        });
        if is_over {
            self.end(id, Ending::Completed);
        } else if let Some(it) = now {
            (self.out)(BlockStep::Progressed(&it.request));
        }
    }
}
