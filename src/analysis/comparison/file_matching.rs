//! Files that have another name in other runs: temporary files, files of process directories.
//!
//! The *pattern* of a name has `#` in place of each number, and `*` in place of the end of its stem
//! if that looks random: at least six letters and digits, with a digit or a capital. A name that
//! only some runs of a side have is replaced by its pattern in all runs. Of the names that all runs
//! of one side have, and none of the other side, those of both sides are paired by two rules:
//!
//! 1. names of one pattern, if both sides have equally many of them, or those with equal counts;
//! 2. files of the same name in another directory, with equal counts, one on each side.

use std::collections::{BTreeMap, BTreeSet};

use super::profile::{Dimension, RunAmounts, RunProfile};

/// Fewest letters and digits that look random.
const RANDOM_MIN: usize = 6;

/// Names of one file on both sides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RenamedFile {
    /// Name in the first runs.
    pub before: Vec<u8>,
    /// Name in the second runs.
    pub after: Vec<u8>,
}

/// Names of files that only one side has, with the counts of its first run.
type Unmatched = BTreeMap<Vec<u8>, RunAmounts>;

/// Files of one key, by their counts.
type Candidates = BTreeSet<([u64; 4], Vec<u8>)>;

/// Names of the files of both sides, made comparable.
#[derive(Clone, Debug, Default)]
pub struct ComparableNames {
    /// Names that only some runs of a side have.
    unstable: BTreeSet<Vec<u8>>,
    /// Files with another name on the second side.
    pub renamed: Vec<RenamedFile>,
    /// Names of the first side, by those of the second one.
    first_names: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl ComparableNames {
    /// Returns the names of two sides, each with at least one run.
    pub fn new(before: &[RunProfile], after: &[RunProfile]) -> Self {
        let sides = [before, after].map(SideNames::of);
        let unstable = sides.iter().flat_map(|side| side.some.iter().cloned()).collect();
        let [first, second] = &sides;
        let only = |side: &SideNames, other: &SideNames| -> Unmatched {
            let is_only =
                |name: &&Vec<u8>| !other.all.contains_key(*name) && !other.some.contains(*name);
            let names = side.all.keys().filter(is_only);
            names
                .map(|name| (name.clone(), side.all.get(name).copied().unwrap_or_default()))
                .collect()
        };
        let renamed = renamed(only(first, second), only(second, first));
        let pairs = renamed.iter().map(|file| (file.after.clone(), file.before.clone()));
        Self { unstable, first_names: pairs.collect(), renamed }
    }

    /// Returns the name by which a file is compared.
    pub fn comparable(&self, name: &[u8]) -> Vec<u8> {
        match self.first_names.get(name) {
            Some(first) => first.clone(),
            None if self.unstable.contains(name) => pattern(name),
            None => name.to_vec(),
        }
    }
}

/// Names of the files of one side.
#[derive(Debug, Default)]
struct SideNames {
    /// Names that all runs have.
    all: Unmatched,
    /// Names that only some runs have.
    some: BTreeSet<Vec<u8>>,
}

impl SideNames {
    fn of(runs: &[RunProfile]) -> Self {
        let mut counts: BTreeMap<&[u8], (usize, RunAmounts)> = BTreeMap::new();
        for (name, amounts) in runs.iter().flat_map(|run| run.rows(Dimension::File)) {
            counts.entry(name).or_insert((0, *amounts)).0 += 1;
        }
        let mut names = Self::default();
        for (name, (count, amounts)) in counts {
            if count == runs.len() {
                names.all.insert(name.to_vec(), amounts);
            } else {
                names.some.insert(name.to_vec());
            }
        }
        names
    }
}

/// Returns the files that have another name on the other side.
fn renamed(mut before: Unmatched, mut after: Unmatched) -> Vec<RenamedFile> {
    let mut found = Vec::new();
    let by_pattern = |path: &[u8], _: &RunAmounts| pattern(path);
    take_pairs(&mut before, &mut after, &mut found, by_pattern, usize::MAX);
    let by_pattern_and_counts =
        |path: &[u8], amounts: &RunAmounts| with_counts(pattern(path), amounts);
    take_pairs(&mut before, &mut after, &mut found, by_pattern_and_counts, usize::MAX);
    let by_name = |path: &[u8], amounts: &RunAmounts| with_counts(split(path).1.to_vec(), amounts);
    take_pairs(&mut before, &mut after, &mut found, by_name, 1);
    found.sort();
    found
}

/// Pairs the files of equal keys, if both sides have equally many of them, at most `max`.
fn take_pairs<K: Ord>(
    before: &mut Unmatched,
    after: &mut Unmatched,
    found: &mut Vec<RenamedFile>,
    key: impl Fn(&[u8], &RunAmounts) -> K,
    max: usize,
) {
    let grouped = |files: &Unmatched| {
        let mut groups: BTreeMap<K, Candidates> = BTreeMap::new();
        for (path, amounts) in files {
            let member = (amounts.counts(), path.clone());
            groups.entry(key(path, amounts)).or_default().insert(member);
        }
        groups
    };
    let mut of_after = grouped(after);
    for (key, members) in grouped(before) {
        let Some(others) = of_after.remove(&key) else { continue };
        if members.len() != others.len() || members.len() > max {
            continue;
        }
        for ((_, one), (_, other)) in members.into_iter().zip(others) {
            before.remove(&one);
            after.remove(&other);
            found.push(RenamedFile { before: one, after: other });
        }
    }
}

/// Key of a text and counts.
fn with_counts(text: Vec<u8>, amounts: &RunAmounts) -> (Vec<u8>, [u64; 4]) {
    (text, amounts.counts())
}

/// Pattern of a name.
fn pattern(path: &[u8]) -> Vec<u8> {
    let (directory, name) = split(path);
    let stem = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0);
    // Without a short extension the name has none: `tmp.Xb3kQ9zLwP`.
    let stem = stem.filter(|dot| name.len() - dot < RANDOM_MIN).unwrap_or(name.len());
    let (stem, extension) = name.split_at(stem);
    let begin = stem.iter().rposition(|byte| !byte.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
    let (fixed, end) = stem.split_at(begin);
    let is_mixed = end.iter().any(|byte| !byte.is_ascii_lowercase())
        && end.iter().any(|byte| !byte.is_ascii_digit());
    let mut pattern = without_numbers(directory);
    if path.len() > name.len() {
        pattern.push(b'/');
    }
    pattern.extend(without_numbers(fixed));
    if end.len() >= RANDOM_MIN && is_mixed {
        pattern.push(b'*');
    } else {
        pattern.extend(without_numbers(end));
    }
    pattern.extend(without_numbers(extension));
    pattern
}

/// Text with `#` in place of each number.
fn without_numbers(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'0'..=b'9' if out.last() == Some(&b'#') => {}
            b'0'..=b'9' => out.push(b'#'),
            other => out.push(*other),
        }
    }
    out
}

/// Directory and name of a path.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => {
            (path.get(..slash).unwrap_or_default(), path.get(slash + 1..).unwrap_or_default())
        }
        None => (b"", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, u64)]) -> Unmatched {
        let amounts = |operations| RunAmounts { operations, ..RunAmounts::default() };
        all.iter().map(|(path, count)| (path.as_bytes().to_vec(), amounts(*count))).collect()
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    #[track_caller]
    fn check(before: &[(&str, u64)], after: &[(&str, u64)], expected: &[(&str, &str)]) {
        let found = renamed(files(before), files(after));
        let found: Vec<_> =
            found.iter().map(|file| (text(&file.before), text(&file.after))).collect();
        let expected: Vec<_> =
            expected.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn digits_of_names_do_not_matter() {
        let one = ("/proc/12/stat", 3);
        check(&[one], &[("/proc/4711/stat", 5)], &[("/proc/12/stat", "/proc/4711/stat")]);
        let two = [("/t/1", 4), ("/t/2", 3)];
        check(&two, &[("/t/7", 3), ("/t/8", 4)], &[("/t/1", "/t/8"), ("/t/2", "/t/7")]);
        check(&two, &[("/t/7", 3)], &[("/t/2", "/t/7")]);
    }

    #[test]
    fn random_names_are_matched() {
        for (one, other) in [
            ("/tmp/ccAb1xYz.o", "/tmp/ccQ9rTuV.o"),
            ("/tmp/tmp.Xb3kQ9zLwP", "/tmp/tmp.0aBcDeFgHi"),
            ("/d/.a.txt.Rx81Lq", "/d/.a.txt.pQ72zz"),
        ] {
            check(&[(one, 3)], &[(other, 4)], &[(one, other)]);
        }
    }

    /// Fails if different files count as one.
    #[test]
    fn other_files_are_not_matched() {
        for (one, other) in [
            ("/etc/passwd", "/etc/shadow"),
            ("/etc/a.conf", "/etc/b.conf"),
            ("/tmp/ccAb1xYz.o", "/tmp/ccQ9rTuV.s"),
            ("/src/reader.c", "/src/writer.c"),
        ] {
            check(&[(one, 3)], &[(other, 3)], &[]);
        }
    }

    #[test]
    fn moved_files_are_matched_by_their_name() {
        check(&[("/old/lib/a.h", 3)], &[("/new/a.h", 3)], &[("/old/lib/a.h", "/new/a.h")]);
        check(&[("/a/x", 3), ("/b/x", 3)], &[("/c/x", 3), ("/d/x", 3)], &[]);
        check(&[("/old/a.h", 3)], &[("/new/a.h", 4)], &[]);
    }

    #[test]
    fn names_of_single_runs_become_patterns() {
        let run = |paths: &[&str]| {
            let mut profile = RunProfile::default();
            let one = RunAmounts { operations: 1, ..RunAmounts::default() };
            paths.iter().for_each(|path| profile.add(Dimension::File, path, &one));
            profile
        };
        let before = [run(&["/a", "/proc/12/stat"]), run(&["/a", "/proc/13/stat", "/rare"])];
        let after = [run(&["/a", "/proc/14/stat"]), run(&["/a", "/proc/15/stat"])];
        let names = ComparableNames::new(&before, &after);
        let comparable = ["/a", "/proc/12/stat", "/proc/15/stat", "/rare"]
            .map(|name| text(&names.comparable(name.as_bytes())));
        assert_eq!(comparable, ["/a", "/proc/#/stat", "/proc/#/stat", "/rare"]);
        assert!(names.renamed.is_empty(), "{names:?}");
    }
}
