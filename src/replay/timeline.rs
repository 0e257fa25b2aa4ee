//! Timeline of capture and replay: operations and bytes per time slice.

use crate::units::Nanos;

/// Side of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineSide {
    /// Captured operations.
    Captured,
    /// Replayed operations.
    Replayed,
}

/// Operations that ended in a slice, and the bytes that they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineCounts {
    /// Number of operations.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// Slices at most. When a time is after the last one, each two slices are merged.
const PARTS_MAX: usize = 64;

/// Length of the shortest slices. Merged ones are twice as long, four times and so on.
const PART_LENGTH_MIN: Nanos = Nanos(1_000_000);

/// Slices from the beginning of capture and replay on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    shift: u32,
    parts: Vec<[TimelineCounts; 2]>,
}

impl Timeline {
    /// Adds an operation that ended at `end`, counted from the begin of the timeline.
    pub fn add(&mut self, side: TimelineSide, end: Nanos, bytes: u64) {
        let end = end.0 / PART_LENGTH_MIN.0;
        while end >> self.shift >= PARTS_MAX as u64 {
            self.widen();
        }
        let part = usize::try_from(end >> self.shift).unwrap_or(0);
        if part >= self.parts.len() {
            self.parts.resize(part + 1, [TimelineCounts::default(); 2]);
        }
        let done = &mut self.parts[part][side as usize];
        done.operations += 1;
        done.bytes += bytes;
    }

    /// Adds all operations of another timeline.
    pub fn merge(&mut self, mut other: Self) {
        while self.shift < other.shift {
            self.widen();
        }
        while other.shift < self.shift {
            other.widen();
        }
        self.parts.resize(self.parts.len().max(other.parts.len()), [TimelineCounts::default(); 2]);
        for (it, of) in self.parts.iter_mut().zip(&other.parts) {
            add(it, of);
        }
    }

    /// Returns the length of a slice.
    pub fn part_length(&self) -> Nanos {
        Nanos(PART_LENGTH_MIN.0 << self.shift)
    }

    /// Returns the slices, each with capture and replay.
    pub fn parts(&self) -> &[[TimelineCounts; 2]] {
        &self.parts
    }

    fn widen(&mut self) {
        let pairs = self.parts.chunks(2).map(|pair| {
            let mut sum = pair[0];
            pair.iter().skip(1).for_each(|part| add(&mut sum, part));
            sum
        });
        self.parts = pairs.collect();
        self.shift += 1;
    }
}

fn add(to: &mut [TimelineCounts; 2], of: &[TimelineCounts; 2]) {
    for (it, of) in to.iter_mut().zip(of) {
        it.operations += of.operations;
        it.bytes += of.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_operations_extend_intervals() {
        let mut timeline = Timeline::default();
        for second in 0..100_u64 {
            timeline.add(TimelineSide::Captured, Nanos(second * 1_000_000_000), 10);
            timeline.add(TimelineSide::Replayed, Nanos(second * 500_000_000), 10);
        }
        assert_eq!(timeline.part_length(), Nanos(2_048_000_000));
        assert!(timeline.parts().len() <= PARTS_MAX);
        let sums = timeline.parts().iter().fold([TimelineCounts::default(); 2], |mut sum, part| {
            add(&mut sum, part);
            sum
        });
        assert_eq!(sums, [TimelineCounts { operations: 100, bytes: 1000 }; 2]);
        let first = [3, 5].map(|it| TimelineCounts { operations: it, bytes: 10 * it });
        assert_eq!(timeline.parts()[0], first);
    }

    #[test]
    fn last_instant_is_in_the_last_slice() {
        let mut timeline = Timeline::default();
        timeline.add(TimelineSide::Captured, Nanos(u64::MAX), 1);
        assert!(timeline.parts().len() <= PARTS_MAX);
    }
}
