//! Classes of streams, by the positions of consecutive accesses.
//!
//! Input: positions in the order of the accesses' beginnings. A *transition* leads from an access
//! to the next one and is of one of four kinds, which add up to all:
//!
//! ```text
//!   previous access:            ├────────┤
//!   consecutive                          ├─────┤
//!   forward                                    ├─────┤
//!   backward            ├────┤
//!   overlap                  ├─────┤ or      ├────┤
//! ```
//!
//! A *step* leads from the beginning of an access to that of the next one, and is negative
//! backwards. Nothing is inferred across an access whose position is unknown.

use std::ops::Range;

/// Number of earlier accesses whose ends are remembered: this many interleaved runs are recognized.
const ENDS: usize = 8;

/// "Nearly all", per cent: a loop with an occasional jump keeps its class.
const MOST: u64 = 90;
/// "Hardly any", per cent: random accesses follow each other by chance, more often in smaller
/// files.
const HARDLY: u64 = 20;
/// Minimum part of random accesses in each direction, per cent: one half leads forward and one half
/// back, and overlapping accesses reduce both.
const EITHER: u64 = 25;
/// Threshold of interleaved runs, per cent of transitions that continue at the end of one of the
/// last accesses.
const RUNS: u64 = 50;
/// Minimum number of compared steps before they are called constant.
const COMPARED_MIN: u64 = 2;

/// Class of the accesses of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternClass {
    /// More than half of the positions, or of the transitions, are unknown.
    Unknown,
    /// There is only one access.
    Single,
    /// Each access begins at the end of the previous one.
    Consecutive,
    /// Accesses lead forward, with gaps.
    Sequential,
    /// Accesses lead forward by the same step, which is not their length.
    Strided,
    /// Each access ends before the previous one, or at its beginning.
    Backward,
    /// Each access overlaps the previous one.
    Repeated,
    /// Accesses lead forward and backward, and hardly any continues at the end of another one.
    Random,
    /// No other class holds for most accesses.
    Mixed,
}

impl PatternClass {
    /// Returns the word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Single => "single",
            Self::Consecutive => "consecutive",
            Self::Sequential => "sequential",
            Self::Strided => "strided",
            Self::Backward => "backward",
            Self::Repeated => "repeated",
            Self::Random => "random",
            Self::Mixed => "mixed",
        }
    }
}

/// Counters of transitions by kind.
#[derive(Clone, Debug)]
pub struct Transitions {
    /// All transitions: the sum of `consecutive`, `forward`, `backward` and `overlap`.
    pub all: u64,
    /// Transitions to the end of the previous access.
    pub consecutive: u64,
    /// Transitions to a position after that end.
    pub forward: u64,
    /// Transitions to an access that ends before the previous one, or at its beginning.
    pub backward: u64,
    /// Transitions to an access that overlaps the previous one.
    pub overlap: u64,
    /// Transitions that are not consecutive, but lead to the end of one of the last accesses.
    pub resumed: u64,
    /// Transitions after another one: their steps can be compared.
    pub compared: u64,
    /// Compared transitions with the same step as before.
    pub same_step: u64,
    /// Transitions with the same step that lead forward and are not consecutive.
    strided: u64,
    /// First byte and number of bytes of the last access.
    last: Option<(u64, u64)>,
    last_step: Option<i64>,
    /// Most frequent step, if more than half of all transitions have the same.
    step: i64,
    /// Lead of that step over others.
    votes: u64,
    /// Ends of earlier accesses; the one at `oldest` is replaced next.
    ends: [u64; ENDS],
    oldest: usize,
}

impl Default for Transitions {
    fn default() -> Self {
        Self {
            all: 0,
            consecutive: 0,
            forward: 0,
            backward: 0,
            overlap: 0,
            resumed: 0,
            compared: 0,
            same_step: 0,
            strided: 0,
            last: None,
            last_step: None,
            step: 0,
            votes: 0,
            // No access begins at this value.
            ends: [u64::MAX; ENDS],
            oldest: 0,
        }
    }
}

impl Transitions {
    /// Adds an access that moved this number of bytes (not 0) from `offset` on; `None` if the
    /// offset is unknown.
    pub fn next(&mut self, offset: Option<u64>, bytes: u64) {
        let before = self.last;
        self.last = offset.map(|it| (it, bytes));
        match (before, offset) {
            (Some((last, length)), Some(offset)) => {
                self.transition(last..last.saturating_add(length), offset, bytes);
            }
            _ => self.last_step = None,
        }
    }

    /// Adds a transition from the access of these bytes to the one at `offset`.
    fn transition(&mut self, before: Range<u64>, offset: u64, bytes: u64) {
        let Range { start: begin, end } = before;
        let step = offset.wrapping_sub(begin).cast_signed();
        let is_same = self.last_step.map(|it| it == step);
        self.all += 1;
        self.compared += u64::from(is_same.is_some());
        self.same_step += u64::from(is_same == Some(true));
        if offset == end {
            self.consecutive += 1;
        } else {
            self.resumed += u64::from(self.ends.contains(&offset));
            self.strided += u64::from(is_same == Some(true) && step > 0);
            if offset > end {
                self.forward += 1;
            } else if offset.saturating_add(bytes) <= begin {
                self.backward += 1;
            } else {
                self.overlap += 1;
            }
        }
        self.vote(step);
        self.last_step = Some(step);
        if let Some(it) = self.ends.get_mut(self.oldest) {
            *it = end;
        }
        self.oldest = (self.oldest + 1) % ENDS;
    }

    /// Applies Boyer and Moore's vote: the value of more than half of all remains at the end.
    fn vote(&mut self, step: i64) {
        if self.votes == 0 {
            self.step = step;
        }
        if self.step == step {
            self.votes += 1;
        } else {
            self.votes -= 1;
        }
    }

    /// Returns true if `part` is at least this percentage of `whole`.
    fn is_part(part: u64, percent: u64, whole: u64) -> bool {
        u128::from(part) * 100 >= u128::from(percent) * u128::from(whole)
    }

    /// Returns the class of this number of accesses that moved bytes; `None` if there are none.
    pub fn class(&self, accesses: u64) -> Option<PatternClass> {
        if accesses == 0 {
            return None;
        }
        if accesses == 1 && self.last.is_some() {
            return Some(PatternClass::Single);
        }
        if self.all == 0 || self.all < (accesses - 1).div_ceil(2) {
            return Some(PatternClass::Unknown);
        }
        let is_most = |part| Self::is_part(part, MOST, self.all);
        let is_hardly_any = Self::is_part(self.all - self.consecutive, 100 - HARDLY, self.all);
        let has_runs = Self::is_part(self.consecutive + self.resumed, RUNS, self.all);
        let goes_both_ways =
            [self.forward, self.backward].iter().all(|it| Self::is_part(*it, EITHER, self.all));
        Some(if is_most(self.consecutive) {
            PatternClass::Consecutive
        } else if self.has_stride() {
            PatternClass::Strided
        } else if is_most(self.consecutive + self.forward) {
            PatternClass::Sequential
        } else if is_most(self.backward) {
            PatternClass::Backward
        } else if is_most(self.overlap) {
            PatternClass::Repeated
        } else if is_hardly_any && !has_runs && goes_both_ways {
            PatternClass::Random
        } else {
            PatternClass::Mixed
        })
    }

    fn has_stride(&self) -> bool {
        self.compared >= COMPARED_MIN && Self::is_part(self.strided, MOST, self.compared)
    }

    /// Returns the step in bytes, if it is mostly constant.
    pub fn step(&self) -> Option<i64> {
        let is_constant =
            self.compared >= COMPARED_MIN && Self::is_part(self.same_step, MOST, self.compared);
        is_constant.then_some(self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[(u64, u64)]) -> Transitions {
        let mut transitions = Transitions::default();
        all.iter().for_each(|it| transitions.next(Some(it.0), it.1));
        transitions
    }

    /// Creates accesses of 4,099 bytes at the positions that the function gives.
    fn places(count: u64, place: impl Fn(u64) -> u64) -> Vec<(u64, u64)> {
        (0..count).map(|it| (place(it), 4099)).collect()
    }

    #[track_caller]
    fn check(all: &[(u64, u64)], class: PatternClass) -> Transitions {
        let it = of(all);
        assert_eq!(it.class(all.len() as u64), Some(class), "{it:?}");
        assert_eq!(it.consecutive + it.forward + it.backward + it.overlap, it.all);
        it
    }

    #[test]
    fn each_class_has_its_name() {
        let it = check(&places(211, |at| at * 4099), PatternClass::Consecutive);
        assert_eq!((it.all, it.consecutive, it.same_step, it.step()), (210, 210, 209, Some(4099)));
        let it = check(&places(211, |at| at * at * 10_007), PatternClass::Sequential);
        assert_eq!((it.forward, it.same_step, it.step()), (210, 0, None));
        let it = check(&places(211, |at| at * 8191), PatternClass::Strided);
        assert_eq!((it.forward, it.strided, it.step()), (210, 209, Some(8191)));
        // The step may be shorter than the accesses.
        let it = check(&places(211, |at| at * 1009), PatternClass::Strided);
        assert_eq!((it.overlap, it.step()), (210, Some(1009)));
        let it = check(&places(211, |at| (211 - at) * 4099), PatternClass::Backward);
        assert_eq!((it.backward, it.step()), (210, Some(-4099)));
        check(&places(211, |at| (211 - at) * 8191), PatternClass::Backward);
        let it = check(&places(211, |_| 7), PatternClass::Repeated);
        assert_eq!((it.overlap, it.step()), (210, Some(0)));
        // Each block occurs once, in the order of a multiplication.
        let it = check(&places(211, |at| at * at * at % 211 * 4099), PatternClass::Random);
        assert!(it.step().is_none() && it.consecutive < 20, "{it:?}");
    }

    #[test]
    fn interleaved_runs_are_not_random() {
        for runs in [2, 3, 8] {
            let all = places(211, |at| at % runs * 10_000_019 + at / runs * 4099);
            let it = check(&all, PatternClass::Mixed);
            assert_eq!((it.consecutive, it.resumed), (0, 211 - runs), "{it:?}");
        }
    }

    #[test]
    fn a_run_with_jumps_is_mixed() {
        // Three accesses are consecutive, then follows a jump.
        check(
            &places(211, |at| at / 3 * 7919 % 71 * 1_000_003 + at % 3 * 4099),
            PatternClass::Mixed,
        );
    }

    /// Creates 101 accesses; as many as `gaps` jump forward by one byte, after which all follow
    /// again.
    fn with_gaps(gaps: u64) -> Vec<(u64, u64)> {
        let mut offset = 0;
        let place = |at: u64| {
            offset += 4099 + u64::from(at >= 1 && at <= gaps) * (1 + at);
            (offset, 4099)
        };
        (0..101).map(place).collect()
    }

    #[test]
    fn nine_of_ten_are_most() {
        check(&with_gaps(10), PatternClass::Consecutive);
        check(&with_gaps(11), PatternClass::Sequential);
        // Accesses that start again from the beginning this many times.
        let again = |times: u64| {
            (0..101)
                .map(move |at| (if at >= 1 && at <= times { 101 - at } else { 7919 * (at + 1) }, 1))
        };
        check(&again(10).collect::<Vec<_>>(), PatternClass::Sequential);
        check(&again(11).collect::<Vec<_>>(), PatternClass::Mixed);
    }

    #[test]
    fn few_accesses() {
        assert_eq!(of(&[]).class(0), None);
        check(&[(7, 5)], PatternClass::Single);
        check(&[(7, 5), (12, 1)], PatternClass::Consecutive);
        check(&[(7, 5), (13, 1)], PatternClass::Sequential);
        check(&[(7, 5), (2, 5)], PatternClass::Backward);
        check(&[(7, 5), (3, 5)], PatternClass::Repeated);
        // One comparison is not sufficient for a constant step.
        check(&[(0, 1), (10, 1), (20, 1)], PatternClass::Sequential);
        check(&[(0, 1), (10, 1), (20, 1), (30, 1)], PatternClass::Strided);
    }

    #[test]
    fn unknown_offset_interrupts_the_pattern() {
        let mut it = Transitions::default();
        for at in 0..10 {
            it.next(Some(at * 10), 10);
            it.next(None, 10);
        }
        assert_eq!((it.all, it.class(20)), (0, Some(PatternClass::Unknown)));
        let mut it = of(&places(5, |at| at * 4099));
        it.next(None, 1);
        // Four of five transitions are known, then four of eight, then four of nine.
        for (accesses, class) in [
            (6, PatternClass::Consecutive),
            (9, PatternClass::Consecutive),
            (10, PatternClass::Unknown),
        ] {
            assert_eq!(it.class(accesses), Some(class));
        }
        let mut one = Transitions::default();
        one.next(None, 1);
        assert_eq!(one.class(1), Some(PatternClass::Unknown));
    }

    #[test]
    fn places_at_the_end_of_all_numbers() {
        let it = of(&[(u64::MAX - 1, 9), (0, 1), (u64::MAX, 1)]);
        assert_eq!(it.all, 2);
    }
}
