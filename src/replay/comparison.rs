//! Comparison of a replay with the capture: a fold over the results and times of all operations.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::lateness::Lateness;
use super::outcome::Outcome;
use super::timeline::{Timeline, TimelineSide};
use crate::analysis::histogram::Histogram;
use crate::units::{Nanos, ReplayTime};

/// Number of differing operations that are kept at most.
const EXAMPLES_MAX: usize = 1000;

/// Times of the same operations in the capture and in the replay.
#[derive(Clone, Debug, Default)]
pub struct TimePair {
    /// Captured times, in ns.
    pub captured: Histogram,
    /// Replayed times, in ns.
    pub replayed: Histogram,
}

impl TimePair {
    /// Adds the durations of an operation.
    pub fn add(&mut self, [captured, replayed]: [Nanos; 2]) {
        self.captured.add(captured.0);
        self.replayed.add(replayed.0);
    }

    fn merge(&mut self, other: &Self) {
        self.captured.merge(&other.captured);
        self.replayed.merge(&other.replayed);
    }
}

/// Comparison of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Compared {
    /// Captured start.
    pub start: ReplayTime,
    /// Worker that executes the operation.
    pub worker: u32,
    /// Index among that worker's operations.
    pub number: u32,
    /// Index of the call in the plan.
    pub call: u16,
    /// Relation of the two results.
    pub outcome: Outcome,
    /// Captured result.
    pub captured: i64,
    /// Replayed result.
    pub replayed: i64,
}

/// One operation with its captured and replayed facts.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Comparison of the results.
    pub compared: Compared,
    /// File that the operation concerns, by its number in the plan.
    pub file: Option<u32>,
    /// Captured end.
    pub captured_end: ReplayTime,
    /// Latest captured end among the operation and those before it in the plan. It decides whether
    /// the operation belongs to a window.
    pub captured_latest: ReplayTime,
    /// Start and end in the replay.
    pub replayed_time: (ReplayTime, ReplayTime),
    /// Lateness at the start; `None`: the operation had no due time.
    pub late: Option<Nanos>,
    /// Path argument of the operation, if any.
    pub path: Option<&'a [u8]>,
    /// True if the operation moves bytes, whose number is its result.
    pub moves_bytes: bool,
}

/// Operation whose result differs from the capture.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mismatch {
    /// Comparison of the results.
    pub compared: Compared,
    /// Path argument of the operation, if any.
    pub path: Option<Vec<u8>>,
    /// File that the operation concerns, by its number in the plan.
    pub file: Option<u32>,
}

/// Operations of one call and worker.
#[derive(Clone, Debug, Default)]
struct ComparisonRow {
    outcomes: [u64; Outcome::ALL.len()],
    times: TimePair,
}

/// Comparison of all operations.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    rows: FxHashMap<(u32, u16), ComparisonRow>,
    /// Times by file, of operations on open files.
    pub files: FxHashMap<u32, TimePair>,
    /// Operations and bytes over time.
    pub timeline: Timeline,
    /// Lateness of operations at their start.
    pub lateness: Lateness,
    /// Start of the first operation in the replay.
    pub first: Option<ReplayTime>,
    /// End of the last operation in the replay.
    pub last: ReplayTime,
    /// Bytes moved in the replay.
    pub bytes: u64,
    /// Operations with differing results, in captured order, as far as kept.
    pub mismatches: Vec<Mismatch>,
    /// Captured end time up to which operations are not timed.
    window_start: Option<ReplayTime>,
    /// Number of operations that are not timed.
    pub prepared: u64,
    /// Captured start of the first timed operation and end of the last one.
    captured: Option<(ReplayTime, ReplayTime)>,
}

impl Comparison {
    /// Creates an empty comparison of the operations in a window. Operations that ended by
    /// `window_start` in the capture ran before the window and are not timed.
    pub fn since(window_start: Option<ReplayTime>) -> Self {
        Self { window_start, ..Self::default() }
    }

    /// Adds an operation.
    pub fn add(&mut self, pair: &Pair<'_>) {
        let Compared { worker, call, outcome, .. } = pair.compared;
        self.rows.entry((worker, call)).or_default().outcomes[outcome as usize] += 1;
        if self.window_start.is_some_and(|start| pair.captured_latest <= start) {
            self.prepared += 1;
        } else {
            self.add_times(pair);
        }
        if outcome.is_mismatch() {
            let path = pair.path.map(<[u8]>::to_vec);
            self.mismatches.push(Mismatch { compared: pair.compared, path, file: pair.file });
            if self.mismatches.len() >= 2 * EXAMPLES_MAX {
                self.keep_first();
            }
        }
    }

    fn add_times(&mut self, pair: &Pair<'_>) {
        let Compared { start: captured_start, worker, call, captured, replayed, .. } =
            pair.compared;
        let (start, end) = pair.replayed_time;
        let lengths = [pair.captured_end.since(captured_start), end.since(start)];
        let row = self.rows.entry((worker, call)).or_default();
        row.times.add(lengths);
        if let Some(file) = pair.file {
            self.files.entry(file).or_default().add(lengths);
        }
        let moved = |ret: i64| u64::try_from(ret).ok().filter(|_| pair.moves_bytes).unwrap_or(0);
        let captured_end = pair.captured_end.since(self.window_start.unwrap_or_default());
        self.timeline.add(TimelineSide::Captured, captured_end, moved(captured));
        self.timeline.add(TimelineSide::Replayed, end.since(ReplayTime::MIN), moved(replayed));
        if let Some(late) = pair.late {
            self.lateness.add(late);
        }
        self.first = Some(self.first.map_or(start, |it| it.min(start)));
        self.last = self.last.max(end);
        self.bytes += moved(replayed);
        self.captured = both(self.captured, Some((captured_start, pair.captured_end)));
    }

    /// Adds all operations of another comparison.
    pub fn merge(&mut self, other: Self) {
        for (key, of) in other.rows {
            let row = self.rows.entry(key).or_default();
            row.outcomes.iter_mut().zip(of.outcomes).for_each(|(it, count)| *it += count);
            row.times.merge(&of.times);
        }
        for (file, times) in other.files {
            self.files.entry(file).or_default().merge(&times);
        }
        self.timeline.merge(other.timeline);
        self.lateness.merge(&other.lateness);
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.max(other.last);
        self.bytes += other.bytes;
        self.captured = both(self.captured, other.captured);
        self.prepared += other.prepared;
        self.mismatches.extend(other.mismatches);
        self.keep_first();
    }

    fn keep_first(&mut self) {
        self.mismatches.sort_unstable();
        self.mismatches.truncate(EXAMPLES_MAX);
    }

    /// Returns the number of operations by outcome and call.
    pub fn outcomes(&self) -> BTreeMap<(Outcome, u16), u64> {
        let mut outcomes = BTreeMap::new();
        for ((_, call), row) in &self.rows {
            for (outcome, count) in Outcome::ALL.into_iter().zip(row.outcomes) {
                if count > 0 {
                    *outcomes.entry((outcome, *call)).or_default() += count;
                }
            }
        }
        outcomes
    }

    /// Returns the times by call.
    pub fn calls(&self) -> BTreeMap<u16, TimePair> {
        self.times(|it| it.1)
    }

    /// Returns the times by worker.
    pub fn workers(&self) -> BTreeMap<u32, TimePair> {
        self.times(|it| it.0)
    }

    fn times<K: Ord>(&self, key: impl Fn(&(u32, u16)) -> K) -> BTreeMap<K, TimePair> {
        let mut all: BTreeMap<K, TimePair> = BTreeMap::new();
        for (of, row) in self.rows.iter().filter(|it| it.1.times.replayed.count() > 0) {
            all.entry(key(of)).or_default().merge(&row.times);
        }
        all
    }

    /// Returns the number of operations with wanted outcomes.
    pub fn count(&self, wanted: impl Fn(Outcome) -> bool) -> u64 {
        let counts = self.rows.values().flat_map(|it| Outcome::ALL.into_iter().zip(it.outcomes));
        counts.filter(|it| wanted(it.0)).map(|it| it.1).sum()
    }

    /// Returns the time from the begin of the first operation to the end of the last one.
    pub fn span(&self) -> Nanos {
        self.last.since(self.first.unwrap_or(self.last))
    }

    /// Returns the captured time from the begin of the first timed operation to the end of the last
    /// one. With a window it counts from the window's begin at the earliest.
    pub fn captured_span(&self) -> Nanos {
        let (first, last) = self.captured.unwrap_or_default();
        last.since(first.max(self.window_start.unwrap_or_default()))
    }
}

/// Returns the earlier begin and the later end of two spans.
fn both(
    one: Option<(ReplayTime, ReplayTime)>,
    other: Option<(ReplayTime, ReplayTime)>,
) -> Option<(ReplayTime, ReplayTime)> {
    let all = || one.into_iter().chain(other);
    Some((all().map(|it| it.0).min()?, all().map(|it| it.1).max()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(number: u32, outcome: Outcome) -> Pair<'static> {
        let start = ReplayTime(u64::from(number) * 10);
        let at = |offset| start.saturating_add(Nanos(offset));
        Pair {
            compared: Compared {
                start,
                worker: number % 3,
                number,
                call: 0,
                outcome,
                captured: 1,
                replayed: 1,
            },
            file: Some(number % 5),
            captured_end: at(2),
            captured_latest: at(2),
            replayed_time: (at(100), at(103)),
            late: Some(Nanos(number.into())),
            path: None,
            moves_bytes: true,
        }
    }

    /// Fails if the result depends on which helper folds which operation.
    #[test]
    fn parts_add_up_to_the_whole() {
        let fold = |numbers: &mut dyn Iterator<Item = u32>| {
            let mut comparison = Comparison::default();
            for it in numbers {
                let outcome = Outcome::ALL[it as usize % Outcome::ALL.len()];
                comparison.add(&pair(it, outcome));
            }
            comparison
        };
        let whole = fold(&mut (0..5000));
        let mut parts = fold(&mut (0..5000).filter(|it| it % 7 == 3));
        parts.merge(fold(&mut (0..5000).filter(|it| it % 7 != 3)));
        assert_eq!(whole.outcomes(), parts.outcomes());
        assert_eq!(whole.timeline, parts.timeline);
        assert_eq!((whole.span(), whole.bytes), (parts.span(), parts.bytes));
        assert_eq!(whole.count(Outcome::is_mismatch), 5000 / 8 * 6);
        let mut kept = whole.mismatches.clone();
        kept.sort_unstable();
        kept.truncate(EXAMPLES_MAX);
        assert_eq!(kept, parts.mismatches);
    }
}
