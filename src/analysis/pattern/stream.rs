//! Stream of accesses to one file or device in one direction: sizes, alignment, order, depth.

use super::class::{PatternClass, Transitions};
use super::depth::Depth;
use super::order::{AccessOrder, OrderedAccess, ReleasedAccess};
use crate::analysis::histogram::Histogram;

/// Number of sizes that are counted one by one; accesses of later sizes are counted together.
const SIZES_MAX: usize = 64;

/// Maximum alignment in bytes: nothing depends on larger ones.
const ALIGNMENT_MAX: u64 = 1 << 20;

/// Sizes of accesses.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    all: Histogram,
    counts: Vec<(u64, u64)>,
    /// Index of the last counted size.
    last: usize,
    /// Accesses of further sizes.
    further: u64,
}

impl Sizes {
    fn add(&mut self, bytes: u64) {
        self.all.add(bytes);
        if self.counts.get(self.last).is_none_or(|it| it.0 != bytes) {
            match self.counts.iter().position(|it| it.0 == bytes) {
                Some(place) => self.last = place,
                None if self.counts.len() < SIZES_MAX => {
                    self.last = self.counts.len();
                    self.counts.push((bytes, 0));
                }
                None => {
                    self.further += 1;
                    return;
                }
            }
        }
        if let Some(it) = self.counts.get_mut(self.last) {
            it.1 += 1;
        }
    }

    /// Returns the number of accesses in each octave of sizes: index n holds 2^n up to 2^(n+1) - 1.
    pub fn octaves(&self) -> Vec<u64> {
        self.all.octaves()
    }

    /// Returns the largest of the smaller half; `None` if there are none. It is exact if there are
    /// few sizes, else within 0.2 %.
    pub fn median(&self) -> Option<u64> {
        if self.further > 0 {
            return self.all.percentile(500);
        }
        let mut counts = self.counts.clone();
        counts.sort_unstable();
        let mut passed = 0;
        let half = self.all.count().div_ceil(2);
        let found = counts.iter().find(|size| {
            passed += size.1;
            passed >= half
        });
        found.map(|it| it.0)
    }

    /// Returns the largest size; `None` if there are none.
    pub fn max(&self) -> Option<u64> {
        self.all.percentile(1000)
    }

    /// Returns the most common size and its count; the larger one of two. Returns `None` if a size
    /// that was not counted may be as common.
    pub fn commonest(&self) -> Option<(u64, u64)> {
        let (bytes, count) = *self.counts.iter().max_by_key(|it| (it.1, it.0))?;
        (count > self.further).then_some((bytes, count))
    }
}

/// Accesses of a stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Accesses that ended.
    pub count: u64,
    /// Accesses that failed.
    pub errors: u64,
    /// Accesses that moved nothing and did not fail: a read at the end of a file.
    pub empty: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Accesses that moved bytes at an unknown position.
    pub unknown: u64,
    /// Sizes of the accesses that moved bytes.
    pub sizes: Sizes,
    /// Union of the bits of all known offsets and sizes.
    bits: u64,
    transitions: Transitions,
    depth: Depth,
    order: AccessOrder,
}

/// Results of a stream.
#[derive(Clone, Debug)]
pub struct StreamPattern {
    /// Transitions from each access to the next.
    pub transitions: Transitions,
    /// Class of the accesses; `None` if none moved a byte.
    pub class: Option<PatternClass>,
    /// Number of accesses in flight.
    pub depth: Depth,
}

impl Stream {
    /// Adds an access. `bytes_requested` is the number of requested bytes: at the end of a file
    /// fewer are moved, which is no evidence about alignment.
    pub fn add(&mut self, access: OrderedAccess, bytes_requested: u64, failed: bool) {
        self.count += 1;
        self.errors += u64::from(failed);
        self.bytes = self.bytes.saturating_add(access.bytes);
        if access.bytes > 0 {
            self.sizes.add(access.bytes);
            match access.offset {
                Some(offset) => self.bits |= offset | bytes_requested,
                None => self.unknown += 1,
            }
        } else {
            self.empty += u64::from(!failed);
        }
        if let Some(next) = self.order.add(access) {
            pass(next, &mut self.transitions, &mut self.depth);
        }
    }

    /// Returns the number of accesses that came too late to be sorted.
    pub fn late(&self) -> u64 {
        self.order.late
    }

    /// Returns the number of accesses that moved bytes.
    pub fn moved(&self) -> u64 {
        self.sizes.all.count()
    }

    /// Returns the largest power of two, up to 1 MiB, of which all known positions and sizes are
    /// multiples; `None` if none is known.
    pub fn alignment(&self) -> Option<u64> {
        let lowest = (self.bits | ALIGNMENT_MAX) & (self.bits | ALIGNMENT_MAX).wrapping_neg();
        (self.moved() > self.unknown).then_some(lowest)
    }

    /// Returns the results, with all accesses that were held back.
    pub fn found(&self) -> StreamPattern {
        let (mut transitions, mut depth) = (self.transitions.clone(), self.depth.clone());
        for next in self.order.clone().rest() {
            pass(next, &mut transitions, &mut depth);
        }
        let class = transitions.class(self.moved());
        StreamPattern { transitions, class, depth }
    }
}

fn pass(next: ReleasedAccess, transitions: &mut Transitions, depth: &mut Depth) {
    let (ReleasedAccess::InOrder(it) | ReleasedAccess::Late(it)) = next;
    depth.add(it.start, it.end);
    // The right place of a late access cannot be determined any more.
    if matches!(next, ReleasedAccess::InOrder(_)) && it.bytes > 0 {
        transitions.next(it.offset, it.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::KernelTime;

    /// Creates a stream of accesses of 4,096 bytes in sequence, `depth` at a time; the last of each
    /// group ends first.
    fn stream(count: u64, depth: u64) -> Stream {
        let mut stream = Stream::default();
        for at in 0..count {
            let number = at / depth * depth + (depth - 1 - at % depth);
            let lot = number / depth * 1000;
            let access = OrderedAccess {
                start: KernelTime(lot + number % depth),
                number: 0,
                end: KernelTime(lot + 900),
                offset: Some(number * 4096),
                bytes: 4096,
            };
            stream.add(access, 4096, false);
        }
        stream
    }

    #[test]
    fn the_order_of_the_beginnings_counts() {
        for depth in [1, 16] {
            let stream = stream(16 * 13, depth);
            let found = stream.found();
            assert_eq!(found.class, Some(PatternClass::Consecutive), "{depth}");
            assert_eq!((found.transitions.consecutive, stream.late()), (207, 0), "{depth}");
            assert_eq!(found.depth.max, depth);
            assert_eq!((stream.count, stream.bytes), (208, 208 * 4096));
            assert_eq!(stream.sizes.commonest(), Some((4096, 208)));
            assert_eq!(stream.alignment(), Some(4096));
        }
    }

    #[track_caller]
    fn alignment(all: &[(Option<u64>, u64, u64)], expected: Option<u64>) {
        let mut stream = Stream::default();
        for (at, &(offset, bytes, bytes_requested)) in all.iter().enumerate() {
            let time = KernelTime(at as u64);
            let access = OrderedAccess { start: time, number: 0, end: time, offset, bytes };
            stream.add(access, bytes_requested, false);
        }
        assert_eq!(stream.alignment(), expected);
    }

    #[test]
    fn the_largest_power_of_two() {
        alignment(&[], None);
        alignment(&[(None, 512, 512)], None);
        alignment(&[(Some(0), 512, 512), (Some(512), 1024, 1024)], Some(512));
        alignment(&[(Some(0), 512, 512), (Some(513), 512, 512)], Some(1));
        // A read at the end of the file, and accesses that move nothing.
        alignment(
            &[(Some(0), 4096, 4096), (Some(4096), 5, 4096), (Some(4101), 0, 4096)],
            Some(4096),
        );
        alignment(&[(Some(0), 1 << 30, 1 << 30)], Some(1 << 20));
    }

    #[test]
    fn commonest_size_is_certain_or_absent() {
        let mut sizes = Sizes::default();
        (0..7).for_each(|_| sizes.add(13));
        (0..7).for_each(|_| sizes.add(11));
        assert_eq!(sizes.commonest(), Some((13, 7)));
        (100..162).for_each(|it| sizes.add(it));
        (200..206).for_each(|it| sizes.add(it));
        assert_eq!(sizes.commonest(), Some((13, 7)));
        sizes.add(206);
        assert_eq!(sizes.commonest(), None);
    }

    #[test]
    fn half_are_not_larger_than_the_median() {
        let sizes = |all: &[u64]| {
            let mut sizes = Sizes::default();
            all.iter().for_each(|it| sizes.add(*it));
            (sizes.median(), sizes.max())
        };
        assert_eq!(sizes(&[]), (None, None));
        assert_eq!(sizes(&[4099]), (Some(4099), Some(4099)));
        assert_eq!(sizes(&[7, 4099]), (Some(7), Some(4099)));
        assert_eq!(sizes(&[9, 7, 9, 4099, 9]), (Some(9), Some(4099)));
        // More accesses than are kept one by one: of one size, and of many.
        assert_eq!(sizes(&[4099; 211]), (Some(4099), Some(4099)));
        let many: Vec<u64> = (1..=211).collect();
        assert_eq!(sizes(&many), (Some(106), Some(211)));
    }

    #[test]
    fn failed_and_empty_transfers_have_no_offset() {
        let mut stream = stream(3, 1);
        let time = KernelTime(10_000);
        let nothing =
            OrderedAccess { start: time, number: 0, end: time, offset: Some(7), bytes: 0 };
        stream.add(nothing, 4096, true);
        stream.add(nothing, 4096, false);
        assert_eq!((stream.count, stream.errors, stream.empty, stream.moved()), (5, 1, 1, 3));
        assert_eq!(stream.found().class, Some(PatternClass::Consecutive));
    }
}
