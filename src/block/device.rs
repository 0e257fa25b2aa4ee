//! The requests in flight on one device, and the ways to find them.

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;

use super::model::{BlockRequest, FlushRole, RequestId};
use super::states::State;
use crate::event::block::RequestOp;

/// A request in flight.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    /// What will be told.
    pub request: BlockRequest,
    /// Where it is.
    pub state: State,
    /// The operation by which its events name it: `Write` for a demand for a flush.
    pub class: RequestOp,
    /// First sector that is not done.
    pub position: u64,
    /// Sectors that are not done.
    pub left: u32,
    /// How many losses of records came before it.
    pub losses_before: u32,
}

/// A place in an index: operation, sector, request. The smallest number is the oldest request.
type Place = (RequestOp, u64, RequestId);

/// The requests in flight on one device.
///
/// The places are ordered sets, not hash maps: several requests may lie at one sector, the oldest of them comes
/// first, and what a request grew over without notice is found by range.
#[derive(Debug, Default)]
pub(super) struct Device {
    requests: FxHashMap<RequestId, Tracked>,
    /// All of them, oldest first.
    ages: BTreeSet<RequestId>,
    /// All but the device's flushes, by the first sector not done.
    starts: BTreeSet<Place>,
    /// Those that may still grow, by the sector behind the last.
    ends: BTreeSet<Place>,
    /// Those that wait for a flush or for the end of their flush sequence.
    waiting: BTreeSet<RequestId>,
    /// The device's flushes that are not at the driver, oldest first.
    flushes_queued: VecDeque<RequestId>,
    /// The device's flushes that are at the driver, oldest first.
    flushes_issued: VecDeque<RequestId>,
}

/// Which indexes hold a request, and where.
#[derive(PartialEq, Eq)]
struct Keys {
    start: Option<Place>,
    end: Option<Place>,
    waiting: bool,
}

impl Keys {
    fn of(it: &Tracked) -> Self {
        let id = it.request.id;
        let is_flush = matches!(it.request.flush, FlushRole::Device { .. });
        let end = it.position.saturating_add(u64::from(it.left));
        Self {
            start: (!is_flush).then_some((it.class, it.position, id)),
            end: (!is_flush && it.state == State::Queued).then_some((it.class, end, id)),
            waiting: matches!(it.state, State::FlushWait | State::Demand | State::DataDone),
        }
    }
}

fn all_at(class: RequestOp, sector: u64) -> RangeInclusive<Place> {
    (class, sector, RequestId(0))..=(class, sector, RequestId(u64::MAX))
}

impl Device {
    /// Adds a request.
    pub(super) fn add(&mut self, it: Tracked) {
        self.index(&Keys::of(&it), it.request.id);
        if matches!(it.request.flush, FlushRole::Device { .. }) {
            self.flushes_queued.push_back(it.request.id);
        }
        self.ages.insert(it.request.id);
        self.requests.insert(it.request.id, it);
    }

    /// Changes a request and keeps the indexes true; gives what it is now.
    pub(super) fn change(
        &mut self,
        id: RequestId,
        change: impl FnOnce(&mut Tracked),
    ) -> Option<Tracked> {
        let it = self.requests.get_mut(&id)?;
        let before = Keys::of(it);
        change(it);
        let now = it.clone();
        let after = Keys::of(&now);
        if before != after {
            self.unindex(&before, id);
            self.index(&after, id);
        }
        Some(now)
    }

    /// Takes a request out.
    pub(super) fn remove(&mut self, id: RequestId) -> Option<Tracked> {
        let it = self.requests.remove(&id)?;
        self.ages.remove(&id);
        self.unindex(&Keys::of(&it), id);
        if matches!(it.request.flush, FlushRole::Device { .. }) {
            self.flushes_queued.retain(|&other| other != id);
            self.flushes_issued.retain(|&other| other != id);
        }
        Some(it)
    }

    /// One request.
    pub(super) fn get(&self, id: RequestId) -> Option<&Tracked> {
        self.requests.get(&id)
    }

    /// Requests in flight.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The one that was first seen longest ago.
    pub(super) fn oldest(&self) -> Option<RequestId> {
        self.ages.first().copied()
    }

    /// All requests, in no order.
    pub(super) fn drain(self) -> impl Iterator<Item = Tracked> {
        self.requests.into_values()
    }

    /// Those whose first sector not done is `sector`, oldest first.
    pub(super) fn starting_at(
        &self,
        class: RequestOp,
        sector: u64,
    ) -> impl DoubleEndedIterator<Item = &Tracked> {
        self.starts.range(all_at(class, sector)).filter_map(|(_, _, id)| self.requests.get(id))
    }

    /// Those that may grow and end before `sector`, oldest first.
    pub(super) fn ending_at(
        &self,
        class: RequestOp,
        sector: u64,
    ) -> impl DoubleEndedIterator<Item = &Tracked> {
        self.ends.range(all_at(class, sector)).filter_map(|(_, _, id)| self.requests.get(id))
    }

    /// The first queued request that lies within `[from, to)`, other than `except`: by sector, then by age.
    pub(super) fn queued_within(
        &self,
        class: RequestOp,
        from: u64,
        to: u64,
        except: RequestId,
    ) -> Option<&Tracked> {
        if from >= to {
            return None;
        }
        self.starts
            .range((class, from, RequestId(0))..(class, to, RequestId(0)))
            .filter_map(|(_, _, id)| self.requests.get(id))
            .find(|it| {
                let end = it.position.saturating_add(u64::from(it.left));
                it.state == State::Queued && it.left > 0 && end <= to && it.request.id != except
            })
    }

    /// Those that wait for a flush or for the end of their flush sequence, oldest first.
    pub(super) fn waiting(&self) -> impl ExactSizeIterator<Item = RequestId> {
        self.waiting.iter().copied()
    }

    /// The device's oldest flush that is not at the driver.
    pub(super) fn flush_queued(&self) -> Option<RequestId> {
        self.flushes_queued.front().copied()
    }

    /// The device's oldest flush at the driver; one from before a loss of records only if there is no other.
    pub(super) fn flush_issued(&self, losses: u32) -> Option<RequestId> {
        let is_fresh =
            |id: &&RequestId| self.requests.get(id).is_some_and(|it| it.losses_before == losses);
        self.flushes_issued.iter().find(is_fresh).or(self.flushes_issued.front()).copied()
    }

    /// A flush goes to the driver.
    pub(super) fn issue_flush(&mut self, id: RequestId) {
        self.flushes_queued.retain(|&other| other != id);
        self.flushes_issued.push_back(id);
    }

    /// The flush that was issued last comes back; gives which.
    pub(super) fn requeue_flush(&mut self) -> Option<RequestId> {
        let id = self.flushes_issued.pop_back()?;
        self.flushes_queued.push_front(id);
        Some(id)
    }

    fn index(&mut self, keys: &Keys, id: RequestId) {
        self.starts.extend(keys.start);
        self.ends.extend(keys.end);
        if keys.waiting {
            self.waiting.insert(id);
        }
    }

    fn unindex(&mut self, keys: &Keys, id: RequestId) {
        if let Some(place) = keys.start {
            self.starts.remove(&place);
        }
        if let Some(place) = keys.end {
            self.ends.remove(&place);
        }
        if keys.waiting {
            self.waiting.remove(&id);
        }
    }
}
