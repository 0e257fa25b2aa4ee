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

/// Begins of the operations in flight. Times are ns of the capture's clock or, where noted, since
/// the first operation.
#[derive(Debug, Default)]
pub struct LowWatermark {
    /// Number of operations in flight by their begin.
    starts: BTreeMap<u64, u32>,
    /// Begin of the first operation; `None`: nothing is known yet.
    first: Option<u64>,
    floor: u64,
}

impl LowWatermark {
    /// Adds an operation that began at `start`.
    pub(super) fn begun(&mut self, start: u64) {
        *self.starts.entry(start).or_default() += 1;
    }

    /// Removes an operation that began at `start`.
    pub(super) fn over(&mut self, start: u64) {
        if let Some(count) = self.starts.get_mut(&start) {
            *count -= 1;
            if *count == 0 {
                self.starts.remove(&start);
            }
        }
    }

    /// Returns the begin of the oldest operation in flight.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.starts.first_key_value().map(|(start, _)| *start)
    }

    /// Raises the floor: no later operation began before the oldest one in flight, or before `now`
    /// if there is none. `first` is the begin of the first operation.
    pub(super) fn raise_floor(&mut self, now: u64, first: Option<u64>) {
        let oldest = self.oldest().unwrap_or(now);
        self.floor = self.floor.max(oldest.saturating_sub(first.unwrap_or(oldest)));
        self.first = first;
    }

    /// Returns the time before which no later operation began, in ns since the first operation.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns true if an operation in flight may have begun at these times, in ns since the first
    /// operation.
    pub fn has_begun_in(&self, times: Range<u64>) -> bool {
        let Some(first) = self.first else { return true };
        let Range { start, end } = times;
        let [start, end] = [start, end].map(|time| time.saturating_add(first));
        start < end && self.starts.range(start..end).next().is_some()
    }
}

#[cfg(test)]
impl LowWatermark {
    /// Creates a watermark where the first operation began at 0 and operations with these begins
    /// are in flight.
    pub(super) fn of(floor: u64, starts: &[u64]) -> Self {
        let starts = starts.iter().map(|start| (*start, 1)).collect();
        Self { starts, first: Some(0), floor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_under_way_may_have_begun_before() {
        let mut past = LowWatermark::default();
        assert!(past.has_begun_in(0..1), "nothing is known yet");
        past.begun(107);
        past.begun(107);
        past.begun(131);
        past.raise_floor(200, Some(100));
        assert_eq!(past.floor(), 7);
        assert!(past.has_begun_in(7..8) && past.has_begun_in(8..32));
        assert!(!past.has_begun_in(8..31) && !past.has_begun_in(32..200));
        past.over(107);
        assert!(past.has_begun_in(7..8), "the other one");
        past.over(107);
        assert!(!past.has_begun_in(7..8));
        past.raise_floor(200, Some(100));
        assert_eq!((past.floor(), past.oldest()), (31, Some(131)));
    }
}
