//! Merges many nearly ordered streams into one ordered stream, in bounded memory.
//!
//! A ring is not sorted: the kernel takes the time before it reserves the space, and interrupts
//! nest. But the disorder is bounded. In every round the tracer reads the clock (T) and then takes
//! the content of all rings. A record whose time is before the *previous* round's T was written
//! long before this round took the rings. All such records have therefore arrived:
//!
//! ```text
//!            T1          T2          T3
//!  cpu 0  i  i|i   i   i  |  i  i      |     i = a record at its time
//!  cpu 1   i  | i     i   |i      i   i|
//!             |           |            |
//!  after round 2 everything before T1 is passed on, after round 3 everything before T2, …
//! ```
//!
//! A record that arrives after its time was passed on is *late*: it is returned to the caller, who
//! counts it.

use crate::units::KernelTime;

/// Sorts the items that are pushed, and passes them on round by round.
#[derive(Debug)]
pub struct Merger<V> {
    waiting: Vec<(KernelTime, V)>,
    previous_round: KernelTime,
    released: KernelTime,
}

impl<V> Default for Merger<V> {
    fn default() -> Self {
        Self { waiting: Vec::new(), previous_round: KernelTime::MIN, released: KernelTime::MIN }
    }
}

impl<V> Merger<V> {
    /// Adds an item of any stream. Items of one stream with equal times must be pushed in their
    /// order.
    ///
    /// # Errors
    ///
    /// Returns the item if later items were already passed on.
    pub fn push(&mut self, time: KernelTime, value: V) -> Result<(), V> {
        if time < self.released {
            return Err(value);
        }
        self.waiting.push((time, value));
        Ok(())
    }

    /// Ends a round: all streams were taken after the clock showed `round`. Passes on, in order,
    /// all items before the previous round.
    pub fn round(&mut self, round: KernelTime) -> Vec<(KernelTime, V)> {
        let until = self.previous_round;
        self.previous_round = round.max(until);
        self.release(until)
    }

    /// Ends the streams: passes on the rest, in order.
    pub fn finish(&mut self) -> Vec<(KernelTime, V)> {
        let rest = self.give_up();
        self.released = KernelTime::MAX;
        rest
    }

    /// Passes on all waiting items, in order, because too many wait for their round. Items that
    /// arrive later with a time before the end of these are late.
    pub fn give_up(&mut self) -> Vec<(KernelTime, V)> {
        self.waiting.sort_by_key(|&(time, _)| time);
        if let Some((last, _)) = self.waiting.last() {
            self.released = self.released.max(*last);
        }
        std::mem::take(&mut self.waiting)
    }

    /// Returns the time before which all items were passed on.
    pub fn released(&self) -> KernelTime {
        self.released
    }

    /// Returns the number of items that wait for their round.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn release(&mut self, until: KernelTime) -> Vec<(KernelTime, V)> {
        // The sort is stable, and fast where streams are nearly sorted: it finds the runs and
        // merges them.
        self.waiting.sort_by_key(|&(time, _)| time);
        let end = self.waiting.partition_point(|&(time, _)| time < until);
        self.released = self.released.max(until);
        let later = self.waiting.split_off(end);
        std::mem::replace(&mut self.waiting, later)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(due: Vec<(KernelTime, u32)>) -> Vec<u64> {
        due.into_iter().map(|(time, _)| time.0).collect()
    }

    #[test]
    fn round_passes_on_records_older_than_the_previous_round() {
        let mut merger = Merger::default();
        for (time, value) in [(5, 0), (3, 0), (12, 1), (8, 1)] {
            merger.push(KernelTime(time), value).expect("in time");
        }
        assert_eq!(times(merger.round(KernelTime(10))), Vec::<u64>::new());
        merger.push(KernelTime(9), 2).expect("still in time");
        assert_eq!(times(merger.round(KernelTime(20))), [3, 5, 8, 9]);
        assert_eq!(merger.push(KernelTime(9), 7), Err(7), "late");
        assert_eq!(times(merger.finish()), [12]);
    }

    #[test]
    fn the_last_of_all_times_is_passed_on_too() {
        let mut merger = Merger::default();
        merger.push(KernelTime::MAX, 0).expect("in time");
        assert_eq!(times(merger.finish()), [u64::MAX]);
    }

    #[test]
    fn record_after_its_round_is_late() {
        let mut merger = Merger::default();
        for time in [7, 5] {
            merger.push(KernelTime(time), 0).expect("in time");
        }
        assert_eq!(times(merger.give_up()), [5, 7]);
        assert_eq!(merger.push(KernelTime(6), 1), Err(1));
        merger.push(KernelTime(7), 2).expect("in time");
        assert_eq!(times(merger.finish()), [7]);
    }

    proptest! {
        /// Fails if an item does not come out exactly once, in order, and was not returned as late
        /// either.
        #[test]
        fn out_is_in_sorted_and_whole(
            rounds in prop::collection::vec(prop::collection::vec(0u64..1000, 0..30), 0..12),
        ) {
            let mut merger = Merger::default();
            let (mut pushed, mut late, mut out) = (Vec::new(), Vec::new(), Vec::new());
            for (number, round) in rounds.iter().enumerate() {
                for &offset in round {
                    let time = (number as u64) * 300 + offset;
                    pushed.push(time);
                    if merger.push(KernelTime(time), 0).is_err() {
                        late.push(time);
                    }
                }
                out.extend(times(merger.round(KernelTime((number as u64 + 1) * 300))));
            }
            out.extend(times(merger.finish()));
            prop_assert!(out.is_sorted());
            let mut all = [out, late].concat();
            all.sort_unstable();
            pushed.sort_unstable();
            prop_assert_eq!(all, pushed);
        }

        /// Fails if an item is late although the disorder is shorter than a round.
        #[test]
        fn bounded_disorder_is_never_late(
            items in prop::collection::vec((0u64..10_000, 0u64..250), 0..400),
        ) {
            let mut merger = Merger::default();
            let mut arrivals: Vec<_> = items.iter().map(|&(time, delay)| (time + delay, time)).collect();
            arrivals.sort_unstable();
            let mut next_round = 250;
            for (arrival, time) in arrivals {
                while next_round <= arrival {
                    merger.round(KernelTime(next_round));
                    next_round += 250;
                }
                prop_assert!(merger.push(KernelTime(time), 0).is_ok());
            }
        }
    }
}
