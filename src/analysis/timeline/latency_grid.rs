//! Durations by time: for each bin of the time axis the number of operations in each range of
//! durations. Four ranges double the duration.

use super::time_axis::BINS_MAX;

/// Ranges in which the duration doubles, as a power of two.
const PART_BITS: u32 = 2;

/// Ranges in which the duration doubles.
pub const PARTS_OF_OCTAVE: usize = 1 << PART_BITS;

/// Shortest duration of a range of its own, as a power of two, ns; shorter ones share the first.
const FIRST_OCTAVE: u32 = 6;

/// Longest duration of a range of its own, as a power of two, ns; longer ones share the last.
const LAST_OCTAVE: u32 = 42;

/// Number of ranges.
pub const RANGES: usize = ((LAST_OCTAVE - FIRST_OCTAVE) as usize) * PARTS_OF_OCTAVE;

/// Numbers of operations by bin and range of durations.
#[derive(Clone, Debug)]
pub struct LatencyGrid {
    /// Counts of a bin one after the other.
    counts: Vec<u64>,
}

impl Default for LatencyGrid {
    fn default() -> Self {
        Self { counts: vec![0; BINS_MAX * RANGES] }
    }
}

impl LatencyGrid {
    /// Returns the range of a duration.
    fn range_of(ns: u64) -> usize {
        let octave = ns.max(1).ilog2();
        if octave < FIRST_OCTAVE {
            return 0;
        }
        let part = usize::try_from(ns >> (octave - PART_BITS)).unwrap_or(0) % PARTS_OF_OCTAVE;
        let place = (octave - FIRST_OCTAVE) as usize * PARTS_OF_OCTAVE + part;
        place.min(RANGES - 1)
    }

    /// Returns the shortest duration of a range, ns.
    pub fn begin_ns(range: usize) -> u64 {
        let parts = PARTS_OF_OCTAVE as u64;
        let octave = u32::try_from(range / PARTS_OF_OCTAVE).unwrap_or(u32::MAX);
        let part = parts + (range % PARTS_OF_OCTAVE) as u64;
        part << (octave + FIRST_OCTAVE - PART_BITS).min(63 - PART_BITS - 1)
    }

    /// Counts an operation.
    pub(super) fn add(&mut self, bin: usize, ns: u64) {
        if let Some(count) = self.counts.get_mut(bin * RANGES + Self::range_of(ns)) {
            *count += 1;
        }
    }

    /// Returns the counts of a bin by range.
    pub fn bin(&self, bin: usize) -> &[u64] {
        self.counts.get(bin * RANGES..(bin + 1) * RANGES).unwrap_or_default()
    }

    /// Joins each pair of bins.
    pub(super) fn halve(&mut self) {
        for bin in 0..BINS_MAX {
            for range in 0..RANGES {
                let at = |bin: usize| bin * RANGES + range;
                let count = |bin: usize| self.counts.get(at(bin)).copied().unwrap_or(0);
                let sum = count(2 * bin) + count(2 * bin + 1);
                if let Some(count) = self.counts.get_mut(at(bin)) {
                    *count = sum;
                }
            }
        }
    }
}

/// Returns the duration that `per_mille` of 1000 of the counted operations do not exceed, within a
/// range, ns; `None`: there are no operations.
pub fn percentile(counts: &[u64], per_mille: u64) -> Option<u64> {
    let all: u64 = counts.iter().sum();
    let rank = all.saturating_mul(per_mille).div_ceil(1000).max(1);
    let mut passed = 0;
    for (range, count) in counts.iter().enumerate() {
        if passed + count >= rank && *count > 0 {
            let (begin, end) = (LatencyGrid::begin_ns(range), LatencyGrid::begin_ns(range + 1));
            let part = u128::from(end - begin) * u128::from(rank - passed) / u128::from(*count);
            return Some(begin + u64::try_from(part).unwrap_or(0));
        }
        passed += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_their_durations() {
        for ns in [64, 79, 80, 127, 128, 1_000, 123_456_789, 1 << 41] {
            let range = LatencyGrid::range_of(ns);
            let bounds = [range, range + 1].map(LatencyGrid::begin_ns);
            assert!(bounds[0] <= ns && ns < bounds[1], "{ns}: {bounds:?}");
        }
        assert_eq!(LatencyGrid::range_of(0), 0);
        assert_eq!(LatencyGrid::range_of(u64::MAX), RANGES - 1);
    }

    #[test]
    fn percentiles_lie_within_their_range() {
        let mut grid = LatencyGrid::default();
        (0..99).for_each(|_| grid.add(3, 1000));
        grid.add(3, 1_000_000);
        let at = |per_mille| percentile(grid.bin(3), per_mille).expect("there are operations");
        assert!((896..=1024).contains(&at(500)) && at(990) <= 1024 && at(1000) > 900_000);
        assert_eq!(percentile(grid.bin(4), 500), None);
        grid.halve();
        assert_eq!(grid.bin(1).iter().sum::<u64>(), 100);
        assert_eq!(grid.bin(3).iter().sum::<u64>(), 0);
    }
}
