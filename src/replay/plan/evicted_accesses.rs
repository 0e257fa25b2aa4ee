//! Evicted accesses: summary of resources that are no longer kept, such as removed names, files
//! that no process has open, and pieces of files above a limit.
//!
//! ```text
//!   /a  thread 1: 3, 7      ─┐
//!   /b  thread 1: 9          ├─►  thread 1: 9   thread 2: 4      all later operations wait for
//!   /c  thread 2: 4         ─┘                                   these, whatever they access
//!                                thread 3: 0 has waited for both: operations that begin after it
//!                                            wait only for it
//! ```
//!
//! The last access of each thread is kept. That is coarser than the resources themselves: some
//! operations wait for others that did not conflict with them, but only for those that had ended
//! when they began, as in the capture. No operation waits for fewer.

use super::dependencies::{AccessHistory, ResourceAccess, TimedOp, WaitSet, Worker};
use super::low_watermark::LowWatermark;
use crate::units::ReplayTime;

/// Accesses of all evicted resources together.
#[derive(Debug, Default)]
pub(super) struct EvictedAccesses {
    of: Vec<ResourceAccess>,
    /// End of the last evicted access.
    end: ReplayTime,
    /// Workers that have waited for all evicted accesses.
    settled: Vec<bool>,
}

impl EvictedAccesses {
    /// Evicts resources. Must not be called while an operation is being planned.
    pub(super) fn add(&mut self, things: impl Iterator<Item = AccessHistory>, past: &LowWatermark) {
        let count = self.of.len();
        self.of.extend(things.flat_map(AccessHistory::into_accesses));
        self.of.iter_mut().for_each(|access| access.saw = false);
        if self.of.len() == count {
            return;
        }
        self.of.sort_by_key(|access| access.at);
        // An operation that begins after the end of a worker's later access also comes after its
        // earlier ones.
        for at in 1..self.of.len() {
            let next = self.of[at];
            let earlier = &mut self.of[at - 1];
            if earlier.at.worker == next.at.worker {
                earlier.until = earlier.until.min(next.end);
            }
        }
        self.of.retain(|access| access.is_needed(ReplayTime::MAX, past));
        self.of.shrink_to_fit();
        self.end = self.of.iter().map(|access| access.end).max().unwrap_or_default();
        self.settled.clear();
    }

    /// Adds the evicted accesses for which an operation waits to `before`.
    pub(super) fn wait(&mut self, by: TimedOp, past: &LowWatermark, before: &mut WaitSet) {
        let Worker(worker) = by.at.worker;
        let worker = worker as usize;
        if self.of.is_empty() || self.settled.get(worker).is_some_and(|settled| *settled) {
            return;
        }
        let times = |access: &ResourceAccess| access.end..access.until;
        let overlapping = self.of.iter().filter(|access| times(access).contains(&by.start));
        overlapping.for_each(|access| before.add(access.at));
        if self.end <= by.start {
            // Otherwise each new thread would wait for every earlier one. (Accesses that overlap
            // the operation represent others too, and may come to represent what they covered
            // themselves.)
            self.of.retain_mut(|access| {
                if access.end <= by.start {
                    access.until = access.until.min(by.end);
                }
                access.until > past.floor()
            });
            self.of.push(ResourceAccess::of(by));
            self.settled.resize(self.settled.len().max(worker + 1), false);
            self.settled[worker] = true;
        }
    }
}

#[cfg(test)]
impl EvictedAccesses {
    /// Returns the number of operations that are kept.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::replay::plan::dependencies::{ConflictMode, OpId};

    /// Returns an operation with these times of the plan.
    fn op(worker: u32, number: u32, times: Range<u64>) -> TimedOp {
        let [start, end] = [times.start, times.end].map(ReplayTime);
        TimedOp { at: OpId { worker: Worker(worker), number }, start, end }
    }

    /// Returns a resource that these operations have changed.
    fn thing(operations: &[TimedOp]) -> AccessHistory {
        let mut thing = AccessHistory::default();
        let past = LowWatermark::of(ReplayTime::MIN, &[]);
        for op in operations {
            thing.touch(*op, ConflictMode::Exclusive, &past, &mut WaitSet::default());
        }
        thing
    }

    /// Returns the operations for which an operation of worker 9 waits that begins at this time.
    fn waits(forgotten: &mut EvictedAccesses, start: ReplayTime) -> Vec<(u32, u32)> {
        let mut before = WaitSet::default();
        forgotten.wait(
            op(9, 0, start.0..start.0 + 1),
            &LowWatermark::of(ReplayTime::MIN, &[]),
            &mut before,
        );
        before.all().iter().map(|op| (op.worker.0, op.number)).collect()
    }

    #[test]
    fn last_access_of_each_worker_represents_all() {
        let mut forgotten = EvictedAccesses::default();
        let things = [thing(&[op(1, 3, 0..10), op(2, 4, 11..12)]), thing(&[op(1, 9, 20..30)])];
        forgotten.add(things.into_iter(), &LowWatermark::of(ReplayTime::MIN, &[]));
        assert_eq!(forgotten.len(), 2);
        assert_eq!(
            waits(&mut forgotten, ReplayTime(29)),
            [(2, 4)],
            "overlapping operations do not wait"
        );
        assert_eq!(waits(&mut forgotten, ReplayTime(30)), [(1, 9), (2, 4)]);
        assert_eq!(waits(&mut forgotten, ReplayTime(40)), [], "once is enough");
        forgotten.add(
            [thing(&[op(1, 10, 50..60)])].into_iter(),
            &LowWatermark::of(ReplayTime::MIN, &[]),
        );
        assert_eq!(
            waits(&mut forgotten, ReplayTime(60)),
            [(1, 10), (9, 0)],
            "the waiter represents them"
        );
    }

    /// Fails if each of many consecutive threads waits for all earlier ones.
    #[test]
    fn exited_threads_are_represented_by_one_wait() {
        let mut forgotten = EvictedAccesses::default();
        for worker in 0..1000_u32 {
            let start = u64::from(worker) * 100;
            let past = LowWatermark::of(ReplayTime(start), &[ReplayTime(start)]);
            let mut before = WaitSet::default();
            forgotten.wait(op(worker, 0, start..start + 5), &past, &mut before);
            let others: Vec<u32> = before.all().iter().map(|op| op.worker.0).collect();
            assert!(others.len() <= 2, "{others:?}");
            // The newest thread, through which all others are waited for.
            assert_eq!(others.iter().max().copied(), worker.checked_sub(1));
            forgotten.add([thing(&[op(worker, 1, start + 50..start + 60)])].into_iter(), &past);
            assert!(forgotten.len() <= 3, "{}", forgotten.len());
        }
    }

    /// Fails if an operation that began before the one that represents others waits for the
    /// representative, or for none.
    #[test]
    fn overlap_with_a_representative_waits_for_each_access() {
        let mut forgotten = EvictedAccesses::default();
        let past = LowWatermark::of(ReplayTime::MIN, &[]);
        forgotten.add([thing(&[op(1, 3, 0..10)]), thing(&[op(2, 4, 0..12)])].into_iter(), &past);
        forgotten.wait(op(3, 0, 12..30), &past, &mut WaitSet::default());
        assert_eq!(waits(&mut forgotten, ReplayTime(29)), [(1, 3), (2, 4)]);
        assert_eq!(waits(&mut forgotten, ReplayTime(30)), [], "once is enough");
        let mut before = WaitSet::default();
        forgotten.wait(op(4, 0, 30..31), &past, &mut before);
        assert_eq!(before.all(), [op(3, 0, 12..30).at, op(9, 0, 29..30).at]);
    }

    /// Fails if an operation that is in flight for long gets fewer edges because of evictions
    /// meanwhile.
    #[test]
    fn early_start_waits_for_evicted_accesses() {
        let mut forgotten = EvictedAccesses::default();
        let by = |number: u32| {
            let start = u64::from(number) * 10;
            op(1, number, start..start + 5)
        };
        let all: Vec<TimedOp> = (0..1000).map(by).collect();
        forgotten.add(
            all.iter().map(|op| thing(&[*op])),
            &LowWatermark::of(ReplayTime::MIN, &[ReplayTime(77)]),
        );
        assert_eq!(forgotten.len(), 2);
        assert_eq!(waits(&mut forgotten, ReplayTime(77)), [(1, 7)]);
    }
}
