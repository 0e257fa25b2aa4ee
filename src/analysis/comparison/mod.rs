//! Comparison of runs: counts first, which are the same from run to run of a program that does the
//! same; times only as far as several runs show a difference.

pub mod call_interest;
pub mod file_matching;
pub mod profile;
pub mod rank_test;

use std::collections::BTreeSet;

use file_matching::{ComparableNames, RenamedFile};
use profile::{CountMetric, Dimension, RunAmounts, RunProfile};
use rank_test::{RankTest, significant};

/// Largest chance that a difference of times, or of counts that vary, is reported without a cause.
pub const LEVEL: f64 = 0.01;

/// Group of operations in all runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedGroup {
    /// Property by which the operations are grouped.
    pub dimension: Dimension,
    /// Key of the group. Of a file it is the name in the first runs, or a pattern.
    pub key: Vec<u8>,
    /// Amounts of each of the first runs.
    pub before: Vec<RunAmounts>,
    /// Amounts of each of the second runs.
    pub after: Vec<RunAmounts>,
}

/// Result for a count or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Equal numbers in all runs.
    Equal,
    /// Different: one number in all first runs and another one in all second runs, or numbers whose
    /// ranks differ by more than chance.
    Different,
    /// Ranges that do not overlap, in too few runs to show a difference.
    Apart,
    /// Ranges that overlap, and no difference is shown.
    Varies,
    /// No statement: a side has one run.
    OneRun,
}

/// Values of one metric of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedValue<M> {
    /// Place of the group in [`RunComparison::groups`].
    pub group: usize,
    /// Kind of the values.
    pub metric: M,
    /// Values of the first runs.
    pub before: Vec<u64>,
    /// Values of the second runs.
    pub after: Vec<u64>,
    /// Result of the comparison.
    pub verdict: Verdict,
}

/// Runs of two versions, compared.
#[derive(Clone, Debug, Default)]
pub struct RunComparison {
    /// Groups of operations that any run has.
    pub groups: Vec<ComparedGroup>,
    /// Counts that are not equal in all runs.
    pub counts: Vec<ComparedValue<CountMetric>>,
    /// Number of the counts that are equal in all runs.
    pub equal_counts: usize,
    /// Times of the groups.
    pub times: Vec<ComparedValue<()>>,
    /// Files with another name in the second runs.
    pub renamed: Vec<RenamedFile>,
}

impl RunComparison {
    /// Compares runs; each side has at least one, and at most [`rank_test::RUNS_MAX`].
    pub fn new(before: &[RunProfile], after: &[RunProfile]) -> Self {
        let names = ComparableNames::new(before, after);
        let comparable = |runs: &[RunProfile]| -> Vec<RunProfile> {
            runs.iter().map(|run| run.with_file_names(|name| names.comparable(name))).collect()
        };
        let (before, after) = (comparable(before), comparable(after));
        let groups = Dimension::ALL.into_iter().flat_map(|by| groups_of(by, &before, &after));
        let groups = groups.collect();
        let mut comparison = Self { groups, renamed: names.renamed, ..Self::default() };
        comparison.compare_counts();
        comparison.compare_times();
        comparison
    }

    fn compare_counts(&mut self) {
        for (place, group) in self.groups.iter().enumerate() {
            for metric in CountMetric::ALL {
                let values = |runs: &[RunAmounts]| -> Vec<u64> {
                    runs.iter().map(|amounts| amounts.count(metric)).collect()
                };
                let (before, after) = (values(&group.before), values(&group.after));
                let verdict = match (constant(&before), constant(&after)) {
                    (Some(one), Some(other)) if one == other => Verdict::Equal,
                    (Some(_), Some(_)) => Verdict::Different,
                    _ => Verdict::Varies,
                };
                if verdict == Verdict::Equal {
                    self.equal_counts += 1;
                } else {
                    let value = ComparedValue { group: place, metric, before, after, verdict };
                    self.counts.push(value);
                }
            }
        }
        let is_varying = |value: &&mut ComparedValue<CountMetric>| value.verdict == Verdict::Varies;
        let mut varying: Vec<_> = self.counts.iter_mut().filter(is_varying).collect();
        decide(&mut varying);
        for value in varying {
            let shows = value.verdict == Verdict::Different;
            value.verdict = match (shows, overlap(&value.before, &value.after)) {
                (true, _) => Verdict::Different,
                (false, true) => Verdict::Varies,
                (false, false) => Verdict::Apart,
            };
        }
    }

    fn compare_times(&mut self) {
        for (place, group) in self.groups.iter().enumerate() {
            let values = |runs: &[RunAmounts]| -> Vec<u64> {
                runs.iter().map(|amounts| amounts.time_ns).collect()
            };
            let (before, after) = (values(&group.before), values(&group.after));
            if before.iter().chain(&after).any(|time| *time > 0) {
                let verdict = Verdict::Varies;
                self.times.push(ComparedValue { group: place, metric: (), before, after, verdict });
            }
        }
        decide(&mut self.times.iter_mut().collect::<Vec<_>>());
    }
}

/// Compares values of which there is one a run: the times of whole programs.
pub fn compare_values(before: Vec<u64>, after: Vec<u64>) -> ComparedValue<()> {
    let mut value = ComparedValue { group: 0, metric: (), before, after, verdict: Verdict::Varies };
    decide(&mut [&mut value]);
    value
}

/// Decides about values that vary, all together.
fn decide<M>(values: &mut [&mut ComparedValue<M>]) {
    let Some(first) = values.first() else { return };
    let test = RankTest::new(first.before.len(), first.after.len());
    let chance = |value: &&mut ComparedValue<M>| test.probability(&value.before, &value.after);
    let probabilities: Vec<f64> = values.iter().map(chance).collect();
    let shown = significant(&probabilities, LEVEL);
    for (value, is_shown) in values.iter_mut().zip(shown) {
        value.verdict = match value.before.len().min(value.after.len()) {
            0 | 1 => Verdict::OneRun,
            _ if is_shown => Verdict::Different,
            _ => Verdict::Varies,
        };
    }
}

/// The value that all runs have.
fn constant(values: &[u64]) -> Option<u64> {
    let first = values.first().copied();
    first.filter(|first| values.iter().all(|value| value == first))
}

/// True if the ranges of values overlap.
fn overlap(one: &[u64], other: &[u64]) -> bool {
    let range = |values: &[u64]| (values.iter().min().copied(), values.iter().max().copied());
    let ((low, high), (other_low, other_high)) = (range(one), range(other));
    low <= other_high && other_low <= high
}

/// Groups of one dimension.
fn groups_of(
    dimension: Dimension,
    before: &[RunProfile],
    after: &[RunProfile],
) -> Vec<ComparedGroup> {
    let all = before.iter().chain(after);
    let keys: BTreeSet<&[u8]> = all.flat_map(|run| run.rows(dimension).map(|row| row.0)).collect();
    let group = |key: &[u8]| {
        let amounts = |runs: &[RunProfile]| -> Vec<RunAmounts> {
            runs.iter().map(|run| run.amounts(dimension, key)).collect()
        };
        ComparedGroup {
            dimension,
            key: key.to_vec(),
            before: amounts(before),
            after: amounts(after),
        }
    };
    keys.into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Profile of a run with these calls.
    fn run(calls: &[(&str, u64, u64)]) -> RunProfile {
        let mut profile = RunProfile::default();
        for (call, operations, time_ns) in calls {
            let amounts =
                RunAmounts { operations: *operations, time_ns: *time_ns, ..RunAmounts::default() };
            profile.add(Dimension::Call, call, &amounts);
        }
        profile
    }

    fn verdicts(before: &[RunProfile], after: &[RunProfile]) -> Vec<(String, Verdict)> {
        let comparison = RunComparison::new(before, after);
        let name = |place: usize| {
            let group = comparison.groups.get(place).expect("a group");
            String::from_utf8_lossy(&group.key).into_owned()
        };
        comparison.counts.iter().map(|value| (name(value.group), value.verdict)).collect()
    }

    #[test]
    fn counts_of_single_runs_are_compared() {
        let before = [run(&[("open", 3, 5), ("read", 7, 9)])];
        let after = [run(&[("open", 4, 6), ("read", 7, 1), ("stat", 1, 1)])];
        let expected = [("open", Verdict::Different), ("stat", Verdict::Different)];
        assert_eq!(
            verdicts(&before, &after),
            expected.map(|(name, verdict)| (name.to_owned(), verdict))
        );
        let times = RunComparison::new(&before, &after).times;
        assert!(times.iter().all(|time| time.verdict == Verdict::OneRun), "{times:?}");
    }

    #[test]
    fn counts_that_vary_show_no_difference() {
        let before = [1, 2, 1, 2, 1].map(|count| run(&[("futex", count, 1), ("open", 3, 1)]));
        let after = [2, 1, 2, 2, 1].map(|count| run(&[("futex", count, 1), ("open", 4, 1)]));
        let expected = [("futex", Verdict::Varies), ("open", Verdict::Different)];
        assert_eq!(
            verdicts(&before, &after),
            expected.map(|(name, verdict)| (name.to_owned(), verdict))
        );
    }

    #[test]
    fn times_differ_only_if_the_runs_show_it() {
        let runs = |times: [u64; 10]| times.map(|time| run(&[("fsync", 1, time), ("read", 1, 5)]));
        let slow = runs([201, 202, 203, 204, 205, 206, 207, 208, 209, 210]);
        let fast = runs([101, 102, 103, 104, 105, 106, 107, 108, 109, 110]);
        let verdicts: Vec<Verdict> =
            RunComparison::new(&fast, &slow).times.iter().map(|time| time.verdict).collect();
        assert_eq!(verdicts, [Verdict::Different, Verdict::Varies]);
        let few = RunComparison::new(&fast[..3], &slow[..3]);
        assert!(few.times.iter().all(|time| time.verdict == Verdict::Varies), "{:?}", few.times);
        let mixed = [105, 203, 101, 208, 110].map(|time| run(&[("fsync", 1, time)]));
        let again = [106, 202, 103, 207, 104].map(|time| run(&[("fsync", 1, time)]));
        assert_eq!(RunComparison::new(&mixed, &again).times[0].verdict, Verdict::Varies);
    }

    #[test]
    fn ranges_that_do_not_overlap_are_apart() {
        let before = [1, 1, 1].map(|count| run(&[("open", count, 1)]));
        let after = [500, 501, 502].map(|count| run(&[("open", count, 1)]));
        let expected = [("open".to_owned(), Verdict::Apart)];
        assert_eq!(verdicts(&before, &after), expected);
        assert_eq!(verdicts(&before[..1], &after), expected);
    }

    #[test]
    fn file_with_another_name_is_one_group() {
        let run = |path: &str| {
            let mut profile = RunProfile::default();
            let amounts = RunAmounts { operations: 3, ..RunAmounts::default() };
            profile.add(Dimension::File, path, &amounts);
            profile
        };
        let pair = |one: &str, other: &str| RunComparison::new(&[run(one)], &[run(other)]);
        for comparison in
            [pair("/tmp/ccAb1xYz.o", "/tmp/ccQ9rTuV.o"), pair("/proc/12/maps", "/proc/4711/maps")]
        {
            assert!(comparison.counts.is_empty(), "{:?}", comparison.counts);
            assert_eq!(comparison.renamed.len(), 1);
            assert_eq!(comparison.groups.len(), 2, "{:?}", comparison.groups);
        }
    }
}
