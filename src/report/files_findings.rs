//! Sentences at the top of `files`: failed opens by directory, the file that was opened most, bytes
//! that were read again, bytes that were written and removed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::file_rows::file_cells;
use super::rows::column;
use crate::analysis::files::{FileTotals, FileUse};
use crate::analysis::summary::KeyParts;
use crate::text::quantity::{count, counted, size};
use crate::text::shares;
use crate::text::table::{Cell, Table};

/// Number of directories that a sentence names.
const DIRECTORIES: usize = 3;

/// Smallest numbers for a sentence.
const OPENS_MIN: u64 = 10;
const BYTES_MIN: u64 = 1 << 20;

/// Returns the table of sentences, those about more operations first.
pub(super) fn table(fold: &FileTotals) -> Table {
    let found = [failed_opens, opened_most, read_again, removed];
    let rows = found.iter().filter_map(|find| find(fold));
    let row =
        |(finding, text): (&str, String)| vec![Cell::Word(finding.to_owned()), Cell::Word(text)];
    Table {
        key: "findings",
        title: "Findings".into(),
        columns: vec![column("finding", ""), column("text", "finding")],
        rows: rows.map(row).collect(),
    }
}

fn all(fold: &FileTotals) -> impl Iterator<Item = &FileUse> {
    let named = fold.files.iter().map(|(_, used)| used);
    named.chain(fold.files.others()).chain(fold.nameless.values())
}

fn sum(fold: &FileTotals, of: impl Fn(&FileUse) -> u64) -> u64 {
    all(fold).fold(0, |sum, used| sum.saturating_add(of(used)))
}

/// The file of which there is most, its amount, and that of all files.
fn most(fold: &FileTotals, of: impl Fn(&FileUse) -> u64) -> Option<(&[u8], &FileUse)> {
    let files = fold.files.iter().map(|(key, used)| (key.as_slice(), used));
    files.max_by_key(|(key, used)| (of(used), Reverse(*key)))
}

fn name(key: &[u8]) -> String {
    let [_, _, path] = file_cells(key);
    path.text()
}

fn failed_opens(fold: &FileTotals) -> Option<(&'static str, String)> {
    let mut directories: BTreeMap<&[u8], u64> = BTreeMap::new();
    for (key, used) in fold.files.iter().filter(|(_, used)| used.failed_opens > 0) {
        let path = KeyParts::of(key).path;
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let directory = slash.map_or(&b"."[..], |slash| path.get(..slash.max(1)).unwrap_or(path));
        *directories.entry(directory).or_default() += used.failed_opens;
    }
    let (failed, opens) = (sum(fold, |used| used.failed_opens), sum(fold, |used| used.opens));
    let mut directories: Vec<(&[u8], u64)> = directories.into_iter().collect();
    directories.sort_by_key(|(path, count)| (Reverse(*count), *path));
    let shown = directories.iter().take(DIRECTORIES);
    let shown: Vec<String> =
        shown.map(|(path, failed)| format!("{} {}", name(path), count(*failed))).collect();
    let where_ = match directories.len() {
        0 => String::new(),
        number => format!(", in {}: {}", directories_text(number), shown.join(", ")),
    };
    (failed >= OPENS_MIN).then(|| {
        let all = failed.saturating_add(opens);
        let share = shares::of(failed, all);
        (
            "failed-opens",
            format!("{} of {} failed ({share}){where_}", count(failed), counted(all, "open")),
        )
    })
}

fn directories_text(number: usize) -> String {
    counted(number as u64, "directory")
}

fn opened_most(fold: &FileTotals) -> Option<(&'static str, String)> {
    let (key, used) = most(fold, |used| used.opens)?;
    let share = shares::of(used.opens, sum(fold, |used| used.opens));
    (used.opens >= OPENS_MIN).then(|| {
        (
            "opened-most",
            format!(
                "{} was opened {}, {share} of all opens",
                name(key),
                counted(used.opens, "time")
            ),
        )
    })
}

fn read_again(fold: &FileTotals) -> Option<(&'static str, String)> {
    let again = sum(fold, |used| used.read.again);
    let (key, used) = most(fold, |used| used.read.again)?;
    let share = shares::of(again, sum(fold, |used| used.read.bytes));
    (again >= BYTES_MIN).then(|| {
        let text = format!(
            "{} of the bytes read had been read before ({share}), most of {}: {} of its {}",
            size(again),
            name(key),
            size(used.read.again),
            size(used.read.bytes)
        );
        ("read-again", text)
    })
}

fn removed(fold: &FileTotals) -> Option<(&'static str, String)> {
    let removed = sum(fold, |used| used.written_then_removed);
    let (key, used) = most(fold, |used| used.written_then_removed)?;
    (removed >= BYTES_MIN).then(|| {
        let text = format!(
            "{} were written to files that were removed then, most to {}: {}",
            size(removed),
            name(key),
            size(used.written_then_removed)
        );
        ("written-then-removed", text)
    })
}
