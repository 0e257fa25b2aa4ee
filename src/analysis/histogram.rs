//! Distribution of values: percentiles and histograms in bounded memory.
//!
//! A dense histogram of this precision takes tens of KiB, and there are several for each file. Here
//! only parts that have values take memory: 4 bytes each, and some 64 for an octave (values from
//! 2^n up to 2^(n+1)), while an octave has few.

/// Number of values that are kept unchanged: percentiles of these are exact.
const EXACT_MAX: usize = 128;

/// Parts of an octave: values in one part differ by less than 1/256.
const PARTS: usize = 1 << PARTS_BITS;
const PARTS_BITS: u32 = 8;

/// Values of one quantity.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    count: u64,
    sum: u128,
    max: u64,
    values: Vec<u64>,
    octaves: Vec<Octave>,
}

/// Number of parts that are kept one by one: with more of them, a new part takes long to insert.
const FEW: usize = 128;

/// Number of additions after which an octave has a count for each part, whether used or not: an
/// addition needs no rank then. The memory of these counts stays below a byte for
/// eight additions.
const MANY: u32 = 16_384;

/// Parts in a word of a bit set.
const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = PARTS / WORD_BITS;

/// Numbers of values in the parts of an octave.
#[derive(Clone, Debug, Default)]
enum Octave {
    #[default]
    Empty,
    Few(Box<FewParts>),
    /// Counts of all parts.
    All(Box<[u64; PARTS]>),
}

/// Parts of an octave of which few have values. A part is found without a search: its rank is the
/// number of set bits before its own.
#[derive(Clone, Debug, Default)]
struct FewParts {
    /// Bit set of the parts that have values.
    occupied: [u64; WORDS],
    /// Number of set bits in the words before each.
    rank_before: [u8; WORDS],
    /// Counts of the parts with values, in order.
    counts: Vec<u32>,
    /// Number of additions.
    additions: u32,
}

impl FewParts {
    /// Adds to a part. Returns false if it has no room, or was added to many times.
    fn add(&mut self, part: u8, count: u64) -> bool {
        self.additions += 1;
        if self.additions > MANY {
            return false;
        }
        let (word, bit) = (usize::from(part) / WORD_BITS, usize::from(part) % WORD_BITS);
        let bits = self.occupied.get_mut(word);
        let (Some(bits), Some(rank_before)) = (bits, self.rank_before.get(word)) else {
            return false;
        };
        let Ok(count) = u32::try_from(count) else { return false };
        let below = *bits & ((1 << bit) - 1);
        let rank = usize::from(*rank_before) + below.count_ones() as usize;
        if *bits >> bit & 1 == 1 {
            let sum = self.counts.get(rank).and_then(|it| it.checked_add(count));
            let entry = self.counts.get_mut(rank).zip(sum);
            return entry.map(|(entry, sum)| *entry = sum).is_some();
        }
        let has_room = self.counts.len() < FEW;
        if has_room {
            *bits |= 1 << bit;
            self.rank_before.iter_mut().skip(word + 1).for_each(|it| *it += 1);
            self.counts.insert(rank, count);
        }
        has_room
    }

    fn each(&self, mut with: impl FnMut(usize, u64)) {
        let mut counts = self.counts.iter();
        for (word, bits) in self.occupied.iter().enumerate() {
            let mut left = *bits;
            while left != 0
                && let Some(count) = counts.next()
            {
                with(word * WORD_BITS + left.trailing_zeros() as usize, u64::from(*count));
                left &= left - 1;
            }
        }
    }
}

impl Octave {
    #[inline]
    fn add(&mut self, part: u8, count: u64) {
        match self {
            Self::All(all) => all[usize::from(part)] += count,
            Self::Empty | Self::Few(_) => self.add_to_few(part, count),
        }
    }

    fn add_to_few(&mut self, part: u8, count: u64) {
        if let Self::Empty = self {
            *self = Self::Few(Box::default());
        }
        if let Self::Few(few) = self {
            if few.add(part, count) {
                return;
            }
            let mut all = Box::new([0; PARTS]);
            few.each(|part, count| {
                if let Some(it) = all.get_mut(part) {
                    *it = count;
                }
            });
            *self = Self::All(all);
        }
        if let Self::All(all) = self
            && let Some(it) = all.get_mut(usize::from(part))
        {
            *it += count;
        }
    }

    /// Calls `with` for each part that has values, in order, with its count.
    fn each(&self, mut with: impl FnMut(usize, u64)) {
        match self {
            Self::Empty => {}
            Self::Few(few) => few.each(with),
            Self::All(all) => {
                all.iter().enumerate().filter(|it| *it.1 > 0).for_each(|it| with(it.0, *it.1));
            }
        }
    }
}

/// A value with its place in a histogram, for additions to several ones.
#[derive(Clone, Copy, Debug)]
pub struct PlacedValue {
    value: u64,
    octave: usize,
    part: u8,
}

impl PlacedValue {
    /// Places a value.
    pub fn of(value: u64) -> Self {
        let (octave, part) = place_of(value);
        Self { value, octave, part }
    }
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.add_placed(&PlacedValue::of(value));
    }

    /// Adds a value whose place is known.
    pub fn add_placed(&mut self, placed: &PlacedValue) {
        let value = placed.value;
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
        if self.octaves.is_empty() {
            if self.values.len() < EXACT_MAX {
                self.values.push(value);
                return;
            }
            for kept in std::mem::take(&mut self.values) {
                self.place(kept, 1);
            }
        }
        self.place_in(placed.octave, placed.part, 1);
    }

    /// Adds the values of another distribution.
    pub fn merge(&mut self, other: &Self) {
        let (count, sum) = (self.count + other.count, self.sum + other.sum);
        other.values.iter().for_each(|it| self.add(*it));
        if !other.octaves.is_empty() {
            for kept in std::mem::take(&mut self.values) {
                self.place(kept, 1);
            }
            other.each_part(|value, count| self.place(value, count));
        }
        (self.count, self.sum, self.max) = (count, sum, self.max.max(other.max));
    }

    fn place(&mut self, value: u64, count: u64) {
        let (octave, part) = place_of(value);
        self.place_in(octave, part, count);
    }

    fn place_in(&mut self, octave: usize, part: u8, count: u64) {
        if self.octaves.len() <= octave {
            self.octaves.resize_with(octave + 1, Octave::default);
        }
        if let Some(it) = self.octaves.get_mut(octave) {
            it.add(part, count);
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the values.
    pub fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    /// Returns the largest value; 0 if there are none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the smallest value that `per_mille` of 1000 of all values do not exceed (nearest
    /// rank); `None` if there are none. It is exact for up to 128 values, and within 0.2 % for
    /// more.
    pub fn percentile(&self, per_mille: u64) -> Option<u64> {
        let rank = u128::from(self.count) * u128::from(per_mille.min(1000));
        let rank = u64::try_from(rank.div_ceil(1000)).unwrap_or(u64::MAX).max(1);
        if self.count == 0 {
            return None;
        }
        if rank == self.count {
            return Some(self.max);
        }
        if self.octaves.is_empty() {
            let mut values = self.values.clone();
            values.sort_unstable();
            return values.get(usize::try_from(rank - 1).ok()?).copied();
        }
        let (mut found, mut passed) = (None, 0);
        self.each_part(|value, count| {
            passed += count;
            if passed >= rank && found.is_none() {
                found = Some(value.min(self.max));
            }
        });
        found
    }

    /// Returns the number of values in each octave, up to the last that has any. Index 0 holds 0
    /// and 1, index n holds 2^n up to 2^(n+1) - 1.
    pub fn octaves(&self) -> Vec<u64> {
        let mut counts = Vec::new();
        let mut add = |value: u64, count: u64| {
            let octave = usize::try_from(value.max(1).ilog2()).unwrap_or(0);
            if counts.len() <= octave {
                counts.resize(octave + 1, 0);
            }
            if let Some(it) = counts.get_mut(octave) {
                *it += count;
            }
        };
        self.values.iter().for_each(|it| add(*it, 1));
        self.each_part(add);
        counts
    }

    /// Calls `with` for each part that has values, in order, with its middle and its count.
    fn each_part(&self, mut with: impl FnMut(u64, u64)) {
        for (octave, parts) in self.octaves.iter().enumerate() {
            parts.each(|part, count| with(middle_of(octave, part), count));
        }
    }
}

/// Returns the octave and part of a value. Below 256 each value has a part of its own.
fn place_of(value: u64) -> (usize, u8) {
    let octave = value.checked_ilog2().unwrap_or(0).saturating_sub(PARTS_BITS - 1);
    // From the second octave on the highest bit is always set: half of the parts would stay empty.
    let part = match octave {
        0 => value,
        _ => (value >> (octave - 1)) - (1 << PARTS_BITS),
    };
    (octave as usize, u8::try_from(part).unwrap_or(u8::MAX))
}

fn middle_of(octave: usize, part: usize) -> u64 {
    let part = part as u64;
    match octave {
        0 => part,
        _ => {
            let low = (part + (1 << PARTS_BITS)) << (octave - 1);
            low + (1_u64 << (octave - 1)) / 2
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spread(values: &[u64]) -> Histogram {
        let mut all = Histogram::default();
        values.iter().for_each(|it| all.add(*it));
        all
    }

    #[test]
    fn few_values_are_exact() {
        let all = spread(&[5, 1, 9, 7, 3]);
        assert_eq!(
            [0, 200, 201, 500, 999, 1000].map(|it| all.percentile(it)),
            [1, 1, 3, 5, 9, 9].map(Some)
        );
        assert_eq!((all.count(), all.sum(), all.max()), (5, 25, 9));
        assert_eq!(Histogram::default().percentile(500), None);
        assert_eq!(spread(&[0, 1, 2, 3, 4, 1024]).octaves(), [2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    /// A count of more than 32 bits needs the full array.
    #[test]
    fn large_counts_are_kept() {
        let mut octave = Octave::default();
        for (part, count) in [(9, 1), (7, u64::from(u32::MAX)), (7, 1), (200, 1 << 40)] {
            octave.add(part, count);
        }
        let mut found = Vec::new();
        octave.each(|part, count| found.push((part, count)));
        assert_eq!(found, [(7, 1 << 32), (9, 1), (200, 1 << 40)]);
    }

    proptest! {
        #[test]
        fn many_values_are_near(
            values in prop::collection::vec((0..u64::MAX, 0..64_u32).prop_map(|it| it.0 >> it.1), 1..400),
            near in prop::collection::vec(1_u64 << 40..1 << 41, 0..300),
            cut in 0..400_usize,
        ) {
            let values = [values, near].concat();
            let all = spread(&values);
            let (first, second) = values.split_at(cut.min(values.len()));
            let mut merged = spread(first);
            merged.merge(&spread(second));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for it in [&all, &merged] {
                prop_assert_eq!(it.count(), values.len() as u64);
                prop_assert_eq!(it.max(), *sorted.last().expect("one"));
                for per_mille in [1, 500, 900, 990, 999, 1000] {
                    let rank = (values.len() as u64 * per_mille).div_ceil(1000).max(1);
                    let exact = sorted[usize::try_from(rank - 1).expect("small")];
                    let found = it.percentile(per_mille).expect("some");
                    prop_assert!(found.abs_diff(exact) <= exact / 500, "{} for {}", found, exact);
                }
            }
            let mut octaves = vec![0; all.octaves().len()];
            values.iter().for_each(|it| octaves[it.max(&1).ilog2() as usize] += 1);
            prop_assert_eq!(all.octaves(), octaves);
        }
    }
}
