//! What a replay did, against what was captured: folded from each operation's result and times.

use std::collections::BTreeMap;

use super::outcome::Outcome;
use crate::analysis::spread::Spread;

/// Operations that were not the same, of which each is kept.
const EXAMPLES_MAX: usize = 1000;

/// Times of the same operations in both.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// As captured, ns.
    pub captured: Spread,
    /// In the replay, ns.
    pub replayed: Spread,
}

impl Times {
    fn merge(&mut self, other: &Self) {
        self.captured.merge(&other.captured);
        self.replayed.merge(&other.replayed);
    }
}

/// An operation whose result was another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mismatch {
    /// When it began in the capture, ns since the first operation.
    pub start: u64,
    /// Whose.
    pub worker: u32,
    /// Which of its operations.
    pub number: u32,
    /// The call: an index into the plan's.
    pub call: u16,
    /// How it compares.
    pub outcome: Outcome,
    /// What the captured one returned.
    pub captured: i64,
    /// What the replayed one did.
    pub replayed: i64,
    /// The path that it was given, if any.
    pub path: Option<Vec<u8>>,
}

/// One operation of both.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Whose.
    pub worker: u32,
    /// Which of its operations.
    pub number: u32,
    /// The call: an index into the plan's.
    pub call: u16,
    /// How it compares.
    pub outcome: Outcome,
    /// What the captured one returned.
    pub captured: i64,
    /// What the replayed one did.
    pub replayed: i64,
    /// Begin and end as captured, ns since the first operation.
    pub captured_time: (u64, u64),
    /// The same in the replay, ns since the replay began.
    pub replayed_time: (u64, u64),
    /// How long after its time it began, ns; `None`: it had none.
    pub late: Option<u64>,
    /// The path that it was given, if any.
    pub path: Option<&'a [u8]>,
    /// It moves bytes: those that the replay moved are in its result.
    pub moves_bytes: bool,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// How many operations compare how, by call.
    pub outcomes: BTreeMap<(Outcome, u16), u64>,
    /// Times by call.
    pub calls: BTreeMap<u16, Times>,
    /// Times by worker.
    pub workers: BTreeMap<u32, Times>,
    /// How long after their time operations began, ns.
    pub lateness: Spread,
    /// How many of these began more than 1 ms late.
    pub very_late: u64,
    /// Begin of the first operation and end of the last one, ns since the replay began.
    pub first: Option<u64>,
    /// The same.
    pub last: u64,
    /// Bytes that were moved in the replay.
    pub bytes: u64,
    /// Operations that were not the same, those that were captured first.
    pub mismatches: Vec<Mismatch>,
}

impl Comparison {
    /// One more operation.
    pub fn add(&mut self, pair: &Pair<'_>) {
        *self.outcomes.entry((pair.outcome, pair.call)).or_default() += 1;
        let length = |(start, end): (u64, u64)| end.saturating_sub(start);
        let [captured, replayed] = [pair.captured_time, pair.replayed_time].map(length);
        let calls = self.calls.entry(pair.call).or_default();
        let workers = self.workers.entry(pair.worker).or_default();
        for times in [calls, workers] {
            times.captured.add(captured);
            times.replayed.add(replayed);
        }
        if let Some(late) = pair.late {
            self.lateness.add(late);
            self.very_late += u64::from(late > 1_000_000);
        }
        let (start, end) = pair.replayed_time;
        self.first = Some(self.first.map_or(start, |it| it.min(start)));
        self.last = self.last.max(end);
        if pair.moves_bytes {
            self.bytes += u64::try_from(pair.replayed).unwrap_or(0);
        }
        if pair.outcome.is_mismatch() {
            self.mismatched(pair);
        }
    }

    fn mismatched(&mut self, pair: &Pair<'_>) {
        let Pair { worker, number, call, outcome, captured, replayed, .. } = *pair;
        let start = pair.captured_time.0;
        let path = pair.path.map(<[u8]>::to_vec);
        let it = Mismatch { start, worker, number, call, outcome, captured, replayed, path };
        self.mismatches.push(it);
        if self.mismatches.len() >= 2 * EXAMPLES_MAX {
            self.keep_first();
        }
    }

    /// Takes in what another one has.
    pub fn merge(&mut self, other: Self) {
        for (key, count) in other.outcomes {
            *self.outcomes.entry(key).or_default() += count;
        }
        for (call, times) in other.calls {
            self.calls.entry(call).or_default().merge(&times);
        }
        for (worker, times) in other.workers {
            self.workers.entry(worker).or_default().merge(&times);
        }
        self.lateness.merge(&other.lateness);
        self.very_late += other.very_late;
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.max(other.last);
        self.bytes += other.bytes;
        self.mismatches.extend(other.mismatches);
        self.keep_first();
    }

    fn keep_first(&mut self) {
        self.mismatches.sort_unstable();
        self.mismatches.truncate(EXAMPLES_MAX);
    }

    /// How many operations compare so.
    pub fn count(&self, wanted: impl Fn(Outcome) -> bool) -> u64 {
        self.outcomes.iter().filter(|it| wanted(it.0.0)).map(|it| it.1).sum()
    }

    /// From the begin of the first operation to the end of the last one, ns.
    pub fn span(&self) -> u64 {
        self.last.saturating_sub(self.first.unwrap_or(self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(number: u32, outcome: Outcome) -> Pair<'static> {
        let start = u64::from(number) * 10;
        Pair {
            worker: number % 3,
            number,
            call: 0,
            outcome,
            captured: 1,
            replayed: 1,
            captured_time: (start, start + 2),
            replayed_time: (start + 100, start + 103),
            late: Some(u64::from(number)),
            path: None,
            moves_bytes: true,
        }
    }

    /// Fails if it matters which thread folds which operation.
    #[test]
    fn parts_make_the_same_whole() {
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
        assert_eq!(whole.outcomes, parts.outcomes);
        assert_eq!((whole.span(), whole.bytes), (parts.span(), parts.bytes));
        assert_eq!(whole.count(Outcome::is_mismatch), 5000 / 8 * 6);
        let mut kept = whole.mismatches.clone();
        kept.sort_unstable();
        kept.truncate(EXAMPLES_MAX);
        assert_eq!(kept, parts.mismatches);
    }
}
