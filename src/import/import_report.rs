//! Report of an import: lines that were not understood and data that the other log lacks, with
//! examples.

use crate::text::quantity::counted_with;
use std::collections::BTreeMap;

/// Limit on the examples of each kind.
const SHOWN: usize = 3;
/// Limit on the bytes of an example.
const CASE_BYTES: usize = 80;
/// Limit on the names that are counted individually.
const NAMES_MAX: usize = 256;

/// Counters of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Lines, or records of a binary log.
    pub read: u64,
    not_understood: u64,
    first: Vec<(u64, String)>,
    counted: Vec<(&'static str, u64)>,
    /// Calls that are not in the table, by name.
    unknown: BTreeMap<String, u64>,
}

impl ImportReport {
    /// Counts a line, or record, that was not understood.
    pub fn not_understood(&mut self, number: u64, line: &[u8]) {
        self.not_understood += 1;
        if self.first.len() < SHOWN {
            let shown = line.get(..CASE_BYTES).unwrap_or(line).escape_ascii().to_string();
            self.first.push((number, shown));
        }
    }

    /// Counts one more case of this kind, which is reported as `N WHAT`.
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// Counts this number of cases.
    pub fn add(&mut self, what: &'static str, count: u64) {
        match self.counted.iter_mut().find(|row| row.0 == what) {
            Some(it) => it.1 += count,
            None if count > 0 => self.counted.push((what, count)),
            None => {}
        }
    }

    /// Counts a call that is not recorded.
    pub fn unknown_call(&mut self, name: &[u8]) {
        let name = name.escape_ascii().to_string();
        let is_room = self.unknown.len() < NAMES_MAX || self.unknown.contains_key(&name);
        *self.unknown.entry(if is_room { name } else { "others".into() }).or_default() += 1;
    }

    /// Number of lines that were not understood.
    pub fn unparsed(&self) -> u64 {
        self.not_understood
    }

    /// Describes all counters.
    pub fn messages(&self, unit: &str) -> Vec<String> {
        let mut messages = Vec::new();
        if self.not_understood > 0 {
            let first: Vec<String> =
                self.first.iter().map(|(number, it)| format!("{number}: {it}")).collect();
            let [all, read] = [self.not_understood, self.read];
            messages.push(format!(
                "{all} of {read} {unit} not understood: first at {}",
                first.join("; ")
            ));
        }
        messages.extend(self.counted.iter().map(|(what, count)| format!("{count} {what}")));
        let all: u64 = self.unknown.values().sum();
        if all > 0 {
            let mut most: Vec<(&String, &u64)> = self.unknown.iter().collect();
            most.sort_by_key(|most| std::cmp::Reverse(most.1));
            let named: Vec<String> = most
                .iter()
                .take(2 * SHOWN)
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            let more = most.len().saturating_sub(named.len());
            let more = if more > 0 { format!(", {more} more") } else { String::new() };
            messages.push(format!(
                "{} not recorded: {}{more}",
                counted_with(all, "call", ["skipped that is", "skipped that are"]),
                named.join(", ")
            ));
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_counted_and_the_first_are_shown() {
        let mut notes = ImportReport { read: 9, ..ImportReport::default() };
        assert_eq!(notes.messages("lines"), Vec::<String>::new());
        (1..=5).for_each(|line| notes.not_understood(line, b"\x1b[2J\xff"));
        notes.count("times went back");
        notes.add("times went back", 2);
        notes.add("nothing", 0);
        [&b"brk"[..], b"brk", b"futex"].iter().for_each(|name| notes.unknown_call(name));
        assert_eq!(
            notes.messages("lines"),
            [
                "5 of 9 lines not understood: first at 1: \\x1b[2J\\xff; 2: \\x1b[2J\\xff; 3: \\x1b[2J\\xff",
                "3 times went back",
                "3 calls skipped that are not recorded: brk 2, futex 1",
            ]
        );
    }
}
