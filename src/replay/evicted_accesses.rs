//! What is kept of things that are forgotten: names that are gone, files that nobody has, pieces of files beyond some number.
//!
//! ```text
//!   /a  thread 1: 3, 7      ─┐
//!   /b  thread 1: 9          ├─►  thread 1: 9   thread 2: 4      all later operations wait for these,
//!   /c  thread 2: 4         ─┘                                   whatever they touch
//!                                thread 3: 0 has waited for both: all that begin behind it wait for it alone
//! ```
//!
//! Who used or changed them last, of each thread: coarser than the things themselves, so some wait for others that were not in their way, but
//! only for those that had ended when they began, as in the capture; and nobody waits for fewer.

use super::dependencies::{Access, AccessHistory, TimedOp, WaitSet, Worker};
use super::low_watermark::Past;

/// All of it together.
#[derive(Debug, Default)]
pub(super) struct EvictedAccesses {
    of: Vec<Access>,
    /// When the last of the forgotten ones ended.
    end: u64,
    /// Workers that have waited for all of them.
    settled: Vec<bool>,
}

impl EvictedAccesses {
    /// These things are forgotten, while nobody is being planned.
    pub(super) fn add(&mut self, things: impl Iterator<Item = AccessHistory>, past: &Past) {
        let count = self.of.len();
        self.of.extend(things.flat_map(AccessHistory::into_accesses));
        self.of.iter_mut().for_each(|it| it.saw = false);
        if self.of.len() == count {
            return;
        }
        self.of.sort_by_key(|it| it.at);
        // Whoever begins behind the end of a worker's later one is behind its earlier ones.
        for at in 1..self.of.len() {
            let next = self.of[at];
            let it = &mut self.of[at - 1];
            if it.at.worker == next.at.worker {
                it.until = it.until.min(next.end);
            }
        }
        self.of.retain(|it| it.is_needed(u64::MAX, past));
        self.of.shrink_to_fit();
        self.end = self.of.iter().map(|it| it.end).max().unwrap_or(0);
        self.settled.clear();
    }

    /// Those that an operation is behind go into `before`.
    pub(super) fn wait(&mut self, by: TimedOp, past: &Past, before: &mut WaitSet) {
        let Worker(worker) = by.at.worker;
        let worker = worker as usize;
        if self.of.is_empty() || self.settled.get(worker).is_some_and(|it| *it) {
            return;
        }
        let times = |it: &Access| it.end..it.until;
        let behind = self.of.iter().filter(|it| times(it).contains(&by.start));
        behind.for_each(|it| before.add(it.at));
        if self.end <= by.start {
            // Else each new thread would wait for all that there ever were. (Those that it overlaps stand for others, too, and may come to
            // stand for what they did themselves.)
            self.of.retain_mut(|it| {
                if it.end <= by.start {
                    it.until = it.until.min(by.end);
                }
                it.until > past.floor()
            });
            self.of.push(Access::of(by));
            self.settled.resize(self.settled.len().max(worker + 1), false);
            self.settled[worker] = true;
        }
    }
}

#[cfg(test)]
impl EvictedAccesses {
    /// How many operations are kept.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::dependencies::{OpId, Touch};

    fn op(worker: u32, number: u32, start: u64, end: u64) -> TimedOp {
        TimedOp { at: OpId { worker: Worker(worker), number }, start, end }
    }

    /// A thing that these have changed.
    fn thing(operations: &[TimedOp]) -> AccessHistory {
        let mut thing = AccessHistory::default();
        let past = Past::of(0, &[]);
        for it in operations {
            thing.touch(*it, Touch::Changes, &past, &mut WaitSet::default());
        }
        thing
    }

    /// Whom an operation of worker 9 waits for that begins then.
    fn waits(forgotten: &mut EvictedAccesses, start: u64) -> Vec<(u32, u32)> {
        let mut before = WaitSet::default();
        forgotten.wait(op(9, 0, start, start + 1), &Past::of(0, &[]), &mut before);
        before.all().iter().map(|it| (it.worker.0, it.number)).collect()
    }

    #[test]
    fn the_last_of_each_worker_stands_for_all() {
        let mut forgotten = EvictedAccesses::default();
        let things = [thing(&[op(1, 3, 0, 10), op(2, 4, 11, 12)]), thing(&[op(1, 9, 20, 30)])];
        forgotten.add(things.into_iter(), &Past::of(0, &[]));
        assert_eq!(forgotten.len(), 2);
        assert_eq!(waits(&mut forgotten, 29), [(2, 4)], "who overlapped does not wait");
        assert_eq!(waits(&mut forgotten, 30), [(1, 9), (2, 4)]);
        assert_eq!(waits(&mut forgotten, 40), [], "once is enough");
        forgotten.add([thing(&[op(1, 10, 50, 60)])].into_iter(), &Past::of(0, &[]));
        assert_eq!(waits(&mut forgotten, 60), [(1, 10), (9, 0)], "who has waited stands for them");
    }

    /// Fails if each of many threads that come one behind the other waits for all before it.
    #[test]
    fn threads_that_are_gone_are_not_waited_for_one_by_one() {
        let mut forgotten = EvictedAccesses::default();
        for worker in 0..1000_u32 {
            let start = u64::from(worker) * 100;
            let past = Past::of(start, &[start]);
            let mut before = WaitSet::default();
            forgotten.wait(op(worker, 0, start, start + 5), &past, &mut before);
            let others: Vec<u32> = before.all().iter().map(|it| it.worker.0).collect();
            assert!(others.len() <= 2, "{others:?}");
            // The newest one, by whom all others are.
            assert_eq!(others.iter().max().copied(), worker.checked_sub(1));
            forgotten.add([thing(&[op(worker, 1, start + 50, start + 60)])].into_iter(), &past);
            assert!(forgotten.len() <= 3, "{}", forgotten.len());
        }
    }

    /// Fails if who began before the one that stands for others waits for that one, or for nobody.
    #[test]
    fn who_overlaps_with_who_stands_for_others_waits_for_them_itself() {
        let mut forgotten = EvictedAccesses::default();
        let past = Past::of(0, &[]);
        forgotten.add([thing(&[op(1, 3, 0, 10)]), thing(&[op(2, 4, 0, 12)])].into_iter(), &past);
        forgotten.wait(op(3, 0, 12, 30), &past, &mut WaitSet::default());
        assert_eq!(waits(&mut forgotten, 29), [(1, 3), (2, 4)]);
        assert_eq!(waits(&mut forgotten, 30), [], "once is enough");
        let mut before = WaitSet::default();
        forgotten.wait(op(4, 0, 30, 31), &past, &mut before);
        assert_eq!(before.all(), [op(3, 0, 12, 30).at, op(9, 0, 29, 30).at]);
    }

    /// Fails if who is under way for long gets fewer edges by what was forgotten meanwhile.
    #[test]
    fn who_began_long_ago_waits_for_what_was_there_then() {
        let mut forgotten = EvictedAccesses::default();
        let all: Vec<TimedOp> =
            (0..1000_u32).map(|it| op(1, it, u64::from(it) * 10, u64::from(it) * 10 + 5)).collect();
        forgotten.add(all.iter().map(|it| thing(&[*it])), &Past::of(0, &[77]));
        assert_eq!(forgotten.len(), 2);
        assert_eq!(waits(&mut forgotten, 77), [(1, 7)]);
    }
}
