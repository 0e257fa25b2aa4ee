//! Low watermark: the earliest begin that a later operation can still have.
//!
//! Operations in flight began when they did; all others begin from now on.
//!
//! ```text
//!   thread 1   ──[ open of a pipe ·································
//!   thread 2   ────[ write ]──[ write ]──[ write ]──[ write ]──────
//!                ▲                                             ▲
//!                floor: no begin before                        all others
//! ```
//!
//! No operation in flight or to come began between the two. State that matters only for operations
//! that began there is no longer needed.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::units::{KernelTime, ReplayTime};

/// Begins of the operations in flight.
#[derive(Debug, Default)]
pub struct LowWatermark {
    /// Number of operations in flight by their begin.
    starts: BTreeMap<KernelTime, u32>,
    /// Begin of the first operation; `None`: nothing is known yet.
    first: Option<KernelTime>,
    floor: ReplayTime,
}

impl LowWatermark {
    /// Adds an operation that began at `start`.
    pub(super) fn add_operation(&mut self, start: KernelTime) {
        *self.starts.entry(start).or_default() += 1;
    }

    /// Removes an operation that began at `start`.
    pub(super) fn remove_operation(&mut self, start: KernelTime) {
        if let Some(count) = self.starts.get_mut(&start) {
            *count -= 1;
            if *count == 0 {
                self.starts.remove(&start);
            }
        }
    }

    /// Returns the begin of the oldest operation in flight.
    pub(super) fn oldest(&self) -> Option<KernelTime> {
        self.starts.first_key_value().map(|(start, _)| *start)
    }

    /// Raises the floor: no later operation began before the oldest one in flight, or before `now`
    /// if there is none. `first` is the begin of the first operation.
    pub(super) fn raise_floor(&mut self, now: KernelTime, first: Option<KernelTime>) {
        let oldest = self.oldest().unwrap_or(now);
        self.floor = self.floor.max(ReplayTime::of(oldest, first.unwrap_or(oldest)));
        self.first = first;
    }

    /// Returns the time before which no later operation began.
    pub fn floor(&self) -> ReplayTime {
        self.floor
    }

    /// Returns true if an operation in flight may have begun at these times.
    pub fn has_begun_in(&self, times: Range<ReplayTime>) -> bool {
        let Some(first) = self.first else { return true };
        let Range { start, end } = times;
        let [start, end] = [start, end].map(|time| time.by_clock(first));
        start < end && self.starts.range(start..end).next().is_some()
    }
}

#[cfg(test)]
impl LowWatermark {
    /// Creates a watermark where the first operation began at 0 and operations with these begins
    /// are in flight.
    pub(super) fn of(floor: ReplayTime, starts: &[ReplayTime]) -> Self {
        let first = KernelTime::MIN;
        let starts = starts.iter().map(|start| (start.by_clock(first), 1)).collect();
        Self { starts, first: Some(first), floor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermark_is_the_start_of_running_operations() {
        let times = |it: Range<u64>| ReplayTime(it.start)..ReplayTime(it.end);
        let mut past = LowWatermark::default();
        assert!(past.has_begun_in(times(0..1)), "nothing is known yet");
        past.add_operation(KernelTime(107));
        past.add_operation(KernelTime(107));
        past.add_operation(KernelTime(131));
        past.raise_floor(KernelTime(200), Some(KernelTime(100)));
        assert_eq!(past.floor(), ReplayTime(7));
        assert!(past.has_begun_in(times(7..8)) && past.has_begun_in(times(8..32)));
        assert!(!past.has_begun_in(times(8..31)) && !past.has_begun_in(times(32..200)));
        past.remove_operation(KernelTime(107));
        assert!(past.has_begun_in(times(7..8)), "the other one");
        past.remove_operation(KernelTime(107));
        assert!(!past.has_begun_in(times(7..8)));
        past.raise_floor(KernelTime(200), Some(KernelTime(100)));
        assert_eq!((past.floor(), past.oldest()), (ReplayTime(31), Some(KernelTime(131))));
    }
}
