//! Queue depth: the number of operations of a stream in flight at the same time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::units::KernelTime;

/// Limit of the remembered ends, above the number that the kernel lets a program have in flight
/// (`fs.aio-max-nr` is 65,536).
const ENDS_MAX: usize = 1 << 17;

/// Operations in flight: the maximum, and the average while there are any.
#[derive(Clone, Debug, Default)]
pub struct Depth {
    /// Ends of the operations that had not ended when the last one began, the first end first.
    ends: BinaryHeap<Reverse<KernelTime>>,
    /// Maximum number in flight.
    pub max: u64,
    /// Sum of their durations, ns.
    sum_ns: u128,
    /// Time with at least one operation in flight, ns.
    busy_ns: u64,
    until: KernelTime,
}

impl Depth {
    /// Adds an operation, in the order of the beginnings. For a late one the time is counted, and
    /// the maximum may be too low.
    pub fn add(&mut self, start: KernelTime, end: KernelTime) {
        while self.ends.peek().is_some_and(|it| it.0 <= start) || self.ends.len() >= ENDS_MAX {
            self.ends.pop();
        }
        self.ends.push(Reverse(end));
        self.max = self.max.max(self.ends.len() as u64);
        self.sum_ns += u128::from(end.0.saturating_sub(start.0));
        self.busy_ns = self.busy_ns.saturating_add(end.0.saturating_sub(start.max(self.until).0));
        self.until = self.until.max(end);
    }

    /// Returns the average while there are any; `None` if none took any time.
    pub fn mean(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
        let mean = self.sum_ns as f64 / self.busy_ns as f64;
        (self.busy_ns > 0).then_some(mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(all: &[(u64, u64)], max: u64, mean: Option<f64>) {
        let mut depth = Depth::default();
        all.iter().for_each(|it| depth.add(KernelTime(it.0), KernelTime(it.1)));
        assert_eq!((depth.max, depth.mean()), (max, mean));
    }

    #[test]
    fn time_weighs() {
        check(&[], 0, None);
        check(&[(5, 5)], 1, None);
        // Operations in sequence, with a pause.
        check(&[(0, 10), (10, 20), (50, 60)], 1, Some(1.0));
        // Two operations during half of the time.
        check(&[(0, 10), (5, 15)], 2, Some(20.0 / 15.0));
        check(&[(0, 100), (10, 20), (12, 20), (20, 30)], 3, Some(1.28));
        // An operation inside another one does not extend the time.
        check(&[(0, 100), (1, 2), (99, 101)], 2, Some(103.0 / 101.0));
    }
}
