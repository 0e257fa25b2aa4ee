//! Requests in flight on one device, and the indexes to find them.

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;

use super::model::{BlockRequest, FlushRole};
use super::request_id::RequestId;
use super::states::State;
use crate::event::block::RequestOp;

/// Request in flight.
#[derive(Clone, Debug)]
pub(super) struct TrackedRequest {
    /// Request as it will be reported.
    pub request: BlockRequest,
    /// State of the request.
    pub state: State,
    /// Operation by which the events name the request: `Write` for a demand for a flush.
    pub class: RequestOp,
    /// First sector that is not completed.
    pub position: u64,
    /// Number of sectors that are not completed.
    pub left: u32,
    /// Number of losses of records before the request began.
    pub losses_before: u32,
}

/// Entry of an index. The fields are in the order by which the entries are sorted; the smallest
/// request number is the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct IndexEntry {
    class: RequestOp,
    sector: u64,
    id: RequestId,
}

/// Requests in flight on one device.
///
/// The indexes are ordered sets, not hash maps, for two reasons. Several requests may begin at one
/// sector, of which the oldest comes first. And requests over which another one grew without an
/// event are found by range.
#[derive(Debug, Default)]
pub(super) struct DeviceRequests {
    requests: FxHashMap<RequestId, TrackedRequest>,
    /// All requests, oldest first.
    ages: BTreeSet<RequestId>,
    /// All requests except the device's flushes, by the first sector that is not completed.
    starts: BTreeSet<IndexEntry>,
    /// Requests that may still grow, by the sector after the last.
    ends: BTreeSet<IndexEntry>,
    /// Requests that wait for a flush or for the end of their flush sequence.
    waiting: BTreeSet<RequestId>,
    /// Flushes of the device that are not at the driver, oldest first.
    flushes_queued: VecDeque<RequestId>,
    /// Flushes of the device that are at the driver, oldest first.
    flushes_issued: VecDeque<RequestId>,
}

/// Index entries of a request.
#[derive(PartialEq, Eq)]
struct IndexKeys {
    start: Option<IndexEntry>,
    end: Option<IndexEntry>,
    waiting: bool,
}

impl IndexKeys {
    fn of(tracked: &TrackedRequest) -> Self {
        let id = tracked.request.id;
        let is_flush = matches!(tracked.request.flush, FlushRole::Device { .. });
        let end = tracked.position.saturating_add(u64::from(tracked.left));
        let entry = |sector: u64| IndexEntry { class: tracked.class, sector, id };
        Self {
            start: (!is_flush).then(|| entry(tracked.position)),
            end: (!is_flush && tracked.state == State::Queued).then(|| entry(end)),
            waiting: matches!(tracked.state, State::FlushWait | State::Demand | State::DataDone),
        }
    }
}

/// Returns the first entry that a sector can have.
fn first_at(class: RequestOp, sector: u64) -> IndexEntry {
    IndexEntry { class, sector, id: RequestId(0) }
}

fn all_at(class: RequestOp, sector: u64) -> RangeInclusive<IndexEntry> {
    first_at(class, sector)..=IndexEntry { class, sector, id: RequestId(u64::MAX) }
}

impl DeviceRequests {
    /// Adds a request.
    pub(super) fn add(&mut self, tracked: TrackedRequest) {
        self.index(&IndexKeys::of(&tracked), tracked.request.id);
        if matches!(tracked.request.flush, FlushRole::Device { .. }) {
            self.flushes_queued.push_back(tracked.request.id);
        }
        self.ages.insert(tracked.request.id);
        self.requests.insert(tracked.request.id, tracked);
    }

    /// Changes a request and updates the indexes; returns the new state of the request.
    pub(super) fn change(
        &mut self,
        id: RequestId,
        change: impl FnOnce(&mut TrackedRequest),
    ) -> Option<TrackedRequest> {
        let tracked = self.requests.get_mut(&id)?;
        let before = IndexKeys::of(tracked);
        change(tracked);
        let now = tracked.clone();
        let after = IndexKeys::of(&now);
        if before != after {
            self.unindex(&before, id);
            self.index(&after, id);
        }
        Some(now)
    }

    /// Removes a request.
    pub(super) fn remove(&mut self, id: RequestId) -> Option<TrackedRequest> {
        let tracked = self.requests.remove(&id)?;
        self.ages.remove(&id);
        self.unindex(&IndexKeys::of(&tracked), id);
        if matches!(tracked.request.flush, FlushRole::Device { .. }) {
            self.flushes_queued.retain(|&other| other != id);
            self.flushes_issued.retain(|&other| other != id);
        }
        Some(tracked)
    }

    /// Returns one request.
    pub(super) fn get(&self, id: RequestId) -> Option<&TrackedRequest> {
        self.requests.get(&id)
    }

    /// Returns the number of requests in flight.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns the request that was first seen longest ago.
    pub(super) fn oldest(&self) -> Option<RequestId> {
        self.ages.first().copied()
    }

    /// Returns all requests, in no order.
    pub(super) fn drain(self) -> impl Iterator<Item = TrackedRequest> {
        self.requests.into_values()
    }

    /// Returns the requests whose first sector that is not completed is `sector`, oldest first.
    pub(super) fn starting_at(
        &self,
        class: RequestOp,
        sector: u64,
    ) -> impl DoubleEndedIterator<Item = &TrackedRequest> {
        self.starts.range(all_at(class, sector)).filter_map(|entry| self.requests.get(&entry.id))
    }

    /// Returns the requests that may grow and end before `sector`, oldest first.
    pub(super) fn ending_at(
        &self,
        class: RequestOp,
        sector: u64,
    ) -> impl DoubleEndedIterator<Item = &TrackedRequest> {
        self.ends.range(all_at(class, sector)).filter_map(|entry| self.requests.get(&entry.id))
    }

    /// Returns the first queued request within `[from, to)`, other than `except`: by sector, then
    /// by age.
    pub(super) fn queued_within(
        &self,
        class: RequestOp,
        from: u64,
        to: u64,
        except: RequestId,
    ) -> Option<&TrackedRequest> {
        if from >= to {
            return None;
        }
        self.starts
            .range(first_at(class, from)..first_at(class, to))
            .filter_map(|entry| self.requests.get(&entry.id))
            .find(|tracked| {
                let end = tracked.position.saturating_add(u64::from(tracked.left));
                tracked.state == State::Queued
                    && tracked.left > 0
                    && end <= to
                    && tracked.request.id != except
            })
    }

    /// Returns the requests that wait for a flush or for the end of their flush sequence, oldest
    /// first.
    pub(super) fn waiting(&self) -> impl ExactSizeIterator<Item = RequestId> {
        self.waiting.iter().copied()
    }

    /// Returns the oldest flush of the device that is not at the driver.
    pub(super) fn flush_queued(&self) -> Option<RequestId> {
        self.flushes_queued.front().copied()
    }

    /// Returns the oldest flush of the device at the driver. A flush from before a loss of records
    /// is returned only if there is no other.
    pub(super) fn flush_issued(&self, losses: u32) -> Option<RequestId> {
        let is_fresh =
            |id: &&RequestId| self.requests.get(id).is_some_and(|it| it.losses_before == losses);
        self.flushes_issued.iter().find(is_fresh).or(self.flushes_issued.front()).copied()
    }

    /// Moves a flush to the driver.
    pub(super) fn issue_flush(&mut self, id: RequestId) {
        self.flushes_queued.retain(|&other| other != id);
        self.flushes_issued.push_back(id);
    }

    /// Moves the flush that was issued last back to the queue, and returns it.
    pub(super) fn requeue_flush(&mut self) -> Option<RequestId> {
        let id = self.flushes_issued.pop_back()?;
        self.flushes_queued.push_front(id);
        Some(id)
    }

    fn index(&mut self, keys: &IndexKeys, id: RequestId) {
        self.starts.extend(keys.start);
        self.ends.extend(keys.end);
        if keys.waiting {
            self.waiting.insert(id);
        }
    }

    fn unindex(&mut self, keys: &IndexKeys, id: RequestId) {
        if let Some(entry) = keys.start {
            self.starts.remove(&entry);
        }
        if let Some(entry) = keys.end {
            self.ends.remove(&entry);
        }
        if keys.waiting {
            self.waiting.remove(&id);
        }
    }
}
