//! Bins of equal width on the time axis. Their number is limited: when a time lies beyond the last
//! bin, the width doubles, and each pair of bins becomes one.

use crate::units::KernelTime;

/// Largest number of bins.
pub const BINS_MAX: usize = 512;

/// Width of the first bins, as a power of two, ns.
const FIRST_SHIFT: u32 = 10;

/// Largest width, as a power of two: with it, all times have a bin.
const LAST_SHIFT: u32 = u64::BITS - BINS_MAX.ilog2();

/// Origin and width of the bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeAxis {
    origin: KernelTime,
    shift: u32,
}

impl TimeAxis {
    /// Creates bins from this time on.
    pub fn new(origin: KernelTime) -> Self {
        Self { origin, shift: FIRST_SHIFT }
    }

    /// Returns the begin of the first bin.
    pub fn origin(&self) -> KernelTime {
        self.origin
    }

    /// Returns the width of a bin, ns.
    pub fn width_ns(&self) -> u64 {
        1 << self.shift
    }

    /// Returns the time since the origin, ns; 0 for an earlier time.
    pub fn since_origin(&self, time: KernelTime) -> u64 {
        time.0.saturating_sub(self.origin.0)
    }

    /// Returns the number of the bin of a time, which may lie beyond the last bin.
    pub fn place(&self, time: KernelTime) -> usize {
        usize::try_from(self.since_origin(time) >> self.shift).unwrap_or(usize::MAX)
    }

    /// Doubles the width until this time has a bin. Returns the number of doublings.
    pub(in crate::analysis) fn reach(&mut self, time: KernelTime) -> u32 {
        let before = self.shift;
        while self.place(time) >= BINS_MAX && self.shift < LAST_SHIFT {
            self.shift += 1;
        }
        self.shift - before
    }
}

/// Divides the time from `from` to `to` (ns since the origin) among columns of `1 << shift` ns, and
/// calls `add` for each column with its part.
pub(in crate::analysis) fn spread(from: u64, to: u64, shift: u32, mut add: impl FnMut(usize, u64)) {
    let (mut begin, last) = (from, to >> shift);
    loop {
        let column = begin >> shift;
        let end = if column >= last { to } else { (column + 1) << shift };
        add(usize::try_from(column).unwrap_or(usize::MAX), end.saturating_sub(begin));
        if column >= last {
            return;
        }
        begin = end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn width_doubles_until_a_time_has_a_bin() {
        let mut axis = TimeAxis::new(KernelTime(100));
        assert_eq!((axis.width_ns(), axis.place(KernelTime(50))), (1024, 0));
        assert_eq!(axis.reach(KernelTime(100 + 512 * 1024 - 1)), 0);
        assert_eq!(axis.reach(KernelTime(100 + 512 * 1024)), 1);
        assert_eq!(axis.place(KernelTime(100 + 512 * 1024)), 256);
        axis.reach(KernelTime(u64::MAX));
        assert!(axis.place(KernelTime(u64::MAX)) < BINS_MAX);
    }

    proptest! {
        /// Fails if a part of an interval is lost, or counts for a column that does not touch it.
        #[test]
        fn parts_add_up(from in 0_u64..5000, ns in 0_u64..5000, shift in 4_u32..12) {
            let (mut sum, to) = (0, from + ns);
            spread(from, to, shift, |column, part| {
                sum += part;
                let begin = (column as u64) << shift;
                assert!(begin <= to && from < begin + (1 << shift) && part <= 1 << shift);
            });
            prop_assert_eq!(sum, ns);
        }
    }
}
