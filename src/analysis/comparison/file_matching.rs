//! Files that have another name in the other run: temporary files, files of process directories.
//!
//! Three rules, in this order, for names that only one of the runs has:
//!
//! 1. names that are equal but for their digits, if both runs have equally many of them, or those
//!    with equal counts;
//! 2. files of the same name in another directory, with equal counts, one in each run;
//! 3. files of the same directory and extension with equal counts, equally many in each run.

use std::collections::{BTreeMap, BTreeSet};

use super::profile::RunAmounts;

/// Names of one file in both runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RenamedFile {
    /// Name in the first run.
    pub before: Vec<u8>,
    /// Name in the second run.
    pub after: Vec<u8>,
}

/// Names of files that only one run has, with their counts.
type Unmatched = BTreeMap<Vec<u8>, RunAmounts>;

/// Returns the files that have another name in the other run.
pub fn renamed(mut before: Unmatched, mut after: Unmatched) -> Vec<RenamedFile> {
    let mut found = Vec::new();
    let by_pattern = |path: &[u8], _: &RunAmounts| pattern(path);
    take_pairs(&mut before, &mut after, &mut found, by_pattern, usize::MAX);
    let by_pattern_and_counts =
        |path: &[u8], amounts: &RunAmounts| with_counts(pattern(path), amounts);
    take_pairs(&mut before, &mut after, &mut found, by_pattern_and_counts, usize::MAX);
    let by_name = |path: &[u8], amounts: &RunAmounts| with_counts(split(path).1.to_vec(), amounts);
    take_pairs(&mut before, &mut after, &mut found, by_name, 1);
    let by_directory = |path: &[u8], amounts: &RunAmounts| {
        let (directory, name) = split(path);
        let dot = name.iter().rposition(|byte| *byte == b'.').unwrap_or(name.len());
        let extension = name.get(dot..).unwrap_or_default();
        with_counts([directory, b"/", extension].concat(), amounts)
    };
    take_pairs(&mut before, &mut after, &mut found, by_directory, usize::MAX);
    found.sort();
    found
}

/// Pairs the files of equal keys, if both runs have equally many of them, at most `max`.
fn take_pairs<K: Ord>(
    before: &mut Unmatched,
    after: &mut Unmatched,
    found: &mut Vec<RenamedFile>,
    key: impl Fn(&[u8], &RunAmounts) -> K,
    max: usize,
) {
    let grouped = |files: &Unmatched| {
        let mut groups: BTreeMap<K, BTreeSet<([u64; 4], Vec<u8>)>> = BTreeMap::new();
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

/// Path with a `#` in place of each number.
fn pattern(path: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(path.len());
    for byte in path {
        match byte {
            b'0'..=b'9' if pattern.last() == Some(&b'#') => {}
            b'0'..=b'9' => pattern.push(b'#'),
            other => pattern.push(*other),
        }
    }
    pattern
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

    #[track_caller]
    fn check(before: &[(&str, u64)], after: &[(&str, u64)], expected: &[(&str, &str)]) {
        let found = renamed(files(before), files(after));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let found: Vec<_> =
            found.iter().map(|file| (text(&file.before), text(&file.after))).collect();
        let expected: Vec<_> =
            expected.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn digits_of_names_do_not_matter() {
        check(
            &[("/proc/12/stat", 3)],
            &[("/proc/4711/stat", 5)],
            &[("/proc/12/stat", "/proc/4711/stat")],
        );
        let two = [("/t/1", 4), ("/t/2", 3)];
        check(&two, &[("/t/7", 3), ("/t/8", 4)], &[("/t/1", "/t/8"), ("/t/2", "/t/7")]);
        check(&two, &[("/t/7", 3)], &[("/t/2", "/t/7")]);
    }

    #[test]
    fn random_names_are_matched_by_their_counts() {
        check(&[("/tmp/ccab.o", 3)], &[("/tmp/ccxy.o", 3)], &[("/tmp/ccab.o", "/tmp/ccxy.o")]);
        check(&[("/tmp/ccab.o", 3)], &[("/tmp/ccxy.s", 3)], &[]);
        check(&[("/tmp/ccab.o", 3)], &[("/tmp/ccxy.o", 4)], &[]);
        check(&[("/tmp/a.o", 3)], &[("/tmp/b.o", 3), ("/tmp/c.o", 3)], &[]);
    }

    #[test]
    fn moved_files_are_matched_by_their_name() {
        check(&[("/old/lib/a.h", 3)], &[("/new/a.h", 3)], &[("/old/lib/a.h", "/new/a.h")]);
        check(&[("/a/x", 3), ("/b/x", 3)], &[("/c/x", 3), ("/d/x", 3)], &[]);
    }
}
