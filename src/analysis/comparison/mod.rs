//! Comparison of runs: counts first, which are the same from run to run of a program that does the
//! same; times only as far as several runs show a difference.

pub mod file_matching;
pub mod profile;
pub mod rank_test;

use std::collections::{BTreeMap, BTreeSet};

use file_matching::{RenamedFile, renamed};
use profile::{CountMetric, Dimension, RunAmounts, RunProfile};
use rank_test::{probability, significant};

/// Largest chance that a difference of times, or of counts that vary, is reported without a cause.
pub const LEVEL: f64 = 0.01;

/// Group of operations in all runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedGroup {
    /// Property by which the operations are grouped.
    pub dimension: Dimension,
    /// Key of the group in the first runs.
    pub key: Vec<u8>,
    /// Key of a file in the second runs, if it has another name there.
    pub renamed: Option<Vec<u8>>,
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
    /// Varies from run to run, and the runs do not show a difference.
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
    /// Compares runs; each side has at least one.
    pub fn new(before: &[RunProfile], after: &[RunProfile]) -> Self {
        let renamed = renamed_files(before, after);
        let mut groups: Vec<ComparedGroup> = Vec::new();
        for dimension in Dimension::ALL {
            let names = if dimension == Dimension::File { renamed.as_slice() } else { &[] };
            groups.extend(groups_of(dimension, before, after, names));
        }
        let mut comparison = Self { groups, renamed, ..Self::default() };
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
                    self.counts.push(ComparedValue {
                        group: place,
                        metric,
                        before,
                        after,
                        verdict,
                    });
                }
            }
        }
        let varying = self.counts.iter_mut().filter(|value| value.verdict == Verdict::Varies);
        decide(varying.collect());
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
        decide(self.times.iter_mut().collect());
    }
}

/// Compares values of which there is one a run: the times of whole programs.
pub fn compare_values(before: Vec<u64>, after: Vec<u64>) -> ComparedValue<()> {
    let mut value = ComparedValue { group: 0, metric: (), before, after, verdict: Verdict::Varies };
    decide(vec![&mut value]);
    value
}

/// Decides about values that vary, all together.
fn decide<M>(mut values: Vec<&mut ComparedValue<M>>) {
    let chance =
        |value: &&mut ComparedValue<M>| probability(&value.before, &value.after).unwrap_or(1.0);
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

/// Files that all runs of one side have and no run of the other, and that are the same file.
fn renamed_files(before: &[RunProfile], after: &[RunProfile]) -> Vec<RenamedFile> {
    let (Some(first), Some(first_after)) = (before.first(), after.first()) else {
        return Vec::new();
    };
    let only = |profile: &RunProfile, others: &[RunProfile]| -> BTreeMap<Vec<u8>, RunAmounts> {
        let names: BTreeSet<&[u8]> =
            others.iter().flat_map(|run| run.rows(Dimension::File).map(|(key, _)| key)).collect();
        let rows = profile.rows(Dimension::File).filter(|(key, _)| !names.contains(key));
        rows.map(|(key, amounts)| (key.to_vec(), *amounts)).collect()
    };
    renamed(only(first, after), only(first_after, before))
}

/// Groups of one dimension.
fn groups_of(
    dimension: Dimension,
    before: &[RunProfile],
    after: &[RunProfile],
    renamed: &[RenamedFile],
) -> Vec<ComparedGroup> {
    let new_names: BTreeMap<&[u8], &[u8]> =
        renamed.iter().map(|file| (file.before.as_slice(), file.after.as_slice())).collect();
    let taken: BTreeSet<&[u8]> = renamed.iter().map(|file| file.after.as_slice()).collect();
    let all = before.iter().chain(after);
    let keys: BTreeSet<&[u8]> = all.flat_map(|run| run.rows(dimension).map(|row| row.0)).collect();
    let group = |key: &[u8]| {
        let name_after = new_names.get(key).copied();
        let amounts = |runs: &[RunProfile], key: &[u8]| -> Vec<RunAmounts> {
            runs.iter().map(|run| run.amounts(dimension, key)).collect()
        };
        ComparedGroup {
            dimension,
            key: key.to_vec(),
            renamed: name_after.map(<[u8]>::to_vec),
            before: amounts(before, key),
            after: amounts(after, name_after.unwrap_or(key)),
        }
    };
    keys.into_iter().filter(|key| !taken.contains(key)).map(group).collect()
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
    fn file_with_another_name_is_one_group() {
        let run = |path: &str| {
            let mut profile = RunProfile::default();
            profile.add(
                Dimension::File,
                path,
                &RunAmounts { operations: 3, ..RunAmounts::default() },
            );
            profile
        };
        let comparison = RunComparison::new(&[run("/tmp/ccAB.o")], &[run("/tmp/ccXY.o")]);
        assert!(comparison.counts.is_empty(), "{:?}", comparison.counts);
        assert_eq!(comparison.renamed.len(), 1);
        let file = comparison.groups.iter().find(|group| group.dimension == Dimension::File);
        assert_eq!(file.and_then(|file| file.renamed.as_deref()), Some(&b"/tmp/ccXY.o"[..]));
    }
}
