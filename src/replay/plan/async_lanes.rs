//! Lanes: additional workers of a captured thread, as many as it had asynchronous operations in
//! flight at once.
//!
//! ```text
//!   thread   ──[ open ]──[submit a, b]·······[got a]──[submit c]·······[got b, c]──[ close ]──
//!   lane 0               └───────── a ─────────┘      └───── c ───────────┘
//!   lane 1               └──────────────────── b ─────────────────────────┘
//! ```
//!
//! An operation follows what its thread had done at the submission, and ends when the thread has
//! got its result. It is assigned to the lane that became free last by then, so there are no more
//! lanes than operations at once.

use rustc_hash::FxHashMap;

use super::dependencies::{TimedOp, WaitSet};
use super::handles::Handle;
use super::replayability::SkipReason;
use crate::operation::model::ThreadKey;
use crate::units::ReplayTime;

/// Operation that the kernel has accepted.
#[derive(Debug)]
pub(super) struct SubmittedOp {
    /// Thread that has submitted the operation.
    pub(super) thread: ThreadKey,
    /// Operations for which it waits: the last ones of that thread at the submission.
    pub(super) dependencies: WaitSet,
    /// Handle at the submission, with its open file description; or the reason why it is not in the
    /// replay.
    pub(super) handle: Result<(Handle, u64), SkipReason>,
}

/// Lanes of a thread: the last operation of each.
#[derive(Debug, Default)]
struct SubmitterLanes {
    lanes: Vec<TimedOp>,
    under_way: usize,
    is_over: bool,
}

/// Lanes of all live threads, and operations in flight.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    of: FxHashMap<ThreadKey, SubmitterLanes>,
    flights: FxHashMap<u64, SubmittedOp>,
}

impl Lanes {
    /// Returns true if this operation is in flight.
    pub(super) fn has(&self, operation: u64) -> bool {
        self.flights.contains_key(&operation)
    }

    /// Records the submission of an operation.
    pub(super) fn begun(&mut self, operation: u64, flight: SubmittedOp) {
        self.of.entry(flight.thread).or_default().under_way += 1;
        self.flights.insert(operation, flight);
    }

    /// Takes an operation that has ended, or whose end will not be seen. The lanes of its thread
    /// are kept until [`Self::settled`].
    pub(super) fn over(&mut self, operation: u64) -> Option<SubmittedOp> {
        self.flights.remove(&operation)
    }

    /// Records that an ended operation is planned.
    pub(super) fn settled(&mut self, thread: ThreadKey) {
        if let Some(it) = self.of.get_mut(&thread) {
            it.under_way = it.under_way.saturating_sub(1);
            self.forget(thread);
        }
    }

    /// Ends a thread. Returns the last operations of its lanes.
    pub(super) fn ended(&mut self, thread: ThreadKey) -> Vec<TimedOp> {
        let Some(it) = self.of.get_mut(&thread) else { return Vec::new() };
        it.is_over = true;
        let lanes = it.lanes.clone();
        self.forget(thread);
        lanes
    }

    fn forget(&mut self, thread: ThreadKey) {
        if self.of.get(&thread).is_some_and(|it| it.is_over && it.under_way == 0) {
            self.of.remove(&thread);
        }
    }

    /// Returns the last operation of the thread's lane that became free last, by `start`; the next
    /// operation takes its place. `Err`: no lane is free, and a new one would have this index.
    pub(super) fn free(
        &mut self,
        thread: ThreadKey,
        start: ReplayTime,
    ) -> Result<&mut TimedOp, usize> {
        let lanes = &mut self.of.entry(thread).or_default().lanes;
        let count = lanes.len();
        let free = lanes.iter_mut().filter(|it| it.end <= start);
        // Among lanes that became free at the same time, the first one.
        free.rev().max_by_key(|it| it.end).ok_or(count)
    }

    /// Adds a lane to a thread, with this operation on it.
    pub(super) fn add(&mut self, thread: ThreadKey, last: TimedOp) {
        self.of.entry(thread).or_default().lanes.push(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::plan::dependencies::{OpId, Worker};

    const THREAD: ThreadKey = ThreadKey(7);

    /// Returns the number of lanes that operations (begin and end in ns, in the order of their
    /// ends) need, and the highest number of operations at one time.
    fn lanes(operations: &[(u64, u64)]) -> (usize, usize) {
        let mut lanes = Lanes::default();
        for times in operations {
            let [start, end] = [times.0, times.1].map(ReplayTime);
            let timed =
                |worker| TimedOp { at: OpId { worker: Worker(worker), number: 0 }, start, end };
            match lanes.free(THREAD, start) {
                Ok(last) => {
                    assert!(last.end <= start, "{last:?}");
                    *last = timed(last.at.worker.0);
                }
                Err(number) => lanes.add(THREAD, timed(u32::try_from(number).expect("few"))),
            }
        }
        let at_once =
            |instant: u64| operations.iter().filter(|it| it.0 <= instant && instant < it.1).count();
        let most = operations.iter().map(|it| at_once(it.0)).max().unwrap_or(0);
        (lanes.of[&THREAD].lanes.len(), most)
    }

    #[test]
    fn operation_after_another_reuses_its_lane() {
        assert_eq!(lanes(&[(0, 10), (0, 20), (10, 30), (20, 30), (30, 40)]), (2, 2));
    }

    proptest::proptest! {
        /// Fails if there are more lanes than operations at once.
        #[test]
        fn lanes_equal_the_concurrent_operations(
            operations in proptest::collection::vec((0..1000_u64, 1..200_u64), 1..200),
        ) {
            let mut operations: Vec<_> = operations.iter().map(|it| (it.0, it.0 + it.1)).collect();
            operations.sort_by_key(|it| it.1);
            let (count, most) = lanes(&operations);
            proptest::prop_assert_eq!(count, most);
        }
    }

    #[test]
    fn exited_thread_is_evicted_after_its_last_operation() {
        let mut lanes = Lanes::default();
        let flight = || SubmittedOp {
            thread: THREAD,
            dependencies: WaitSet::default(),
            handle: Err(SkipReason::NoName),
        };
        lanes.begun(1, flight());
        lanes.begun(2, flight());
        lanes.add(THREAD, TimedOp::default());
        assert!(lanes.over(1).is_some() && !lanes.has(1) && lanes.has(2));
        lanes.settled(THREAD);
        assert_eq!(lanes.ended(THREAD).len(), 1);
        assert_eq!(lanes.of.len(), 1);
        assert!(lanes.over(2).is_some());
        lanes.settled(THREAD);
        assert_eq!(lanes.of.len(), 0);
    }
}
