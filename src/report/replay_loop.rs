//! Report of `replay run --loop`: results of each round.

use std::collections::BTreeSet;

use serde_json::Value;

use super::rows::{column, first_rows, key_column};
use crate::text::table::{Cell, Column, Report, Table};

/// Converts a value of a round to a cell.
type RoundValueForm = fn(&Value) -> Cell;

/// Values of a round's report in its row: the column, which has the same key as the report, and the
/// conversion.
const ROUND: [(Column, RoundValueForm); 9] = [
    (column("operations", "operations"), count),
    (column("mismatches", "with another result"), count),
    (column("skipped", "not replayed"), count),
    (column("is_whole", "whole"), flag),
    (column("span_ns", "duration"), ns),
    (column("lateness_p50_ns", "lateness: p50"), ns),
    (column("lateness_p99_ns", "p99"), ns),
    (column("lateness_max_ns", "max"), ns),
    (column("timing_is_comparable", "times can be compared"), flag),
];

/// Values of an operation with another result in its row.
const MISMATCH: [(Column, RoundValueForm); 9] = [
    (column("start_ns", "at"), ns),
    (key_column(1, "pid", "pid"), number),
    (column("tid", "tid"), number),
    (column("number", "its operation"), count),
    (key_column(0, "call", "call"), word),
    (column("outcome", "outcome"), word),
    (column("captured", "captured"), number),
    (column("replayed", "replayed"), number),
    (key_column(0, "path", "path"), name),
];

/// Limit on the operations with other results that are kept of all rounds.
const MISMATCHES_MAX: usize = 1000;

/// Results of all rounds so far.
#[derive(Debug, Default)]
pub struct Rounds {
    rows: Vec<Vec<Cell>>,
    operations: u64,
    mismatches: u64,
    /// Durations of the complete rounds.
    spans: Vec<u64>,
    /// First operations with another result of each round.
    different: Vec<Vec<Cell>>,
    notes: BTreeSet<String>,
}

impl Rounds {
    /// Number of complete rounds: one that was stopped is not.
    pub fn whole(&self) -> usize {
        self.spans.len()
    }

    /// Adds the report of a round, as `replay run --json` prints it.
    pub fn add(&mut self, round: &Value) {
        let number = Cell::Count(self.rows.len() as u64 + 1);
        let of = |key: &str| round[key].as_u64().unwrap_or(0);
        self.operations += of("operations");
        self.mismatches += of("mismatches");
        if round["is_whole"] == true {
            self.spans.push(of("span_ns"));
        }
        let row = |from: &Value, cells: &[(Column, RoundValueForm)]| {
            let cells = cells.iter().map(|(column, shown)| shown(&from[column.key]));
            std::iter::once(number.clone()).chain(cells).collect()
        };
        self.rows.push(row(round, &ROUND));
        let room = MISMATCHES_MAX - self.different.len();
        let different = round["first_mismatches"].as_array().into_iter().flatten();
        self.different.extend(different.take(room).map(|operation| row(operation, &MISMATCH)));
        let notes = round["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        self.notes.extend(notes.map(str::to_owned));
    }
}

/// Report on the rounds; `wanted`: their requested number.
pub fn report(rounds: &Rounds, wanted: u32, limit: usize) -> Report {
    let mut spans = rounds.spans.clone();
    spans.sort_unstable();
    let with_others = rounds.rows.iter().filter(|row| !matches!(row[2], Cell::Count(0))).count();
    let facts = vec![
        ("rounds", "rounds", Cell::Count(rounds.rows.len() as u64)),
        ("rounds_wanted", "  wanted", Cell::Count(wanted.into())),
        ("rounds_different", "  with another result", Cell::Count(with_others as u64)),
        ("operations", "operations replayed", Cell::Count(rounds.operations)),
        ("mismatches", "  with another result", Cell::Count(rounds.mismatches)),
        ("span_min_ns", "duration: shortest", Cell::ns(spans.first().copied())),
        ("span_p50_ns", "  median", Cell::ns(spans.get(spans.len() / 2).copied())),
        ("span_max_ns", "  longest", Cell::ns(spans.last().copied())),
    ];
    let mut report = Report { kind: "replay run --loop", facts, ..Report::default() };
    let (shown, rest) = first_rows(rounds.different.clone(), limit);
    report.tables = vec![
        table("rounds_done", "Rounds", &ROUND, rounds.rows.clone()),
        table("first_mismatches", "First other results", &MISMATCH, shown),
    ];
    report.notes = rounds.notes.iter().cloned().collect();
    let kept = rounds.different.len();
    report.notes.extend(super::replay_columns::not_shown(
        "operations",
        rounds.mismatches,
        kept,
        rest.len(),
    ));
    if rounds.whole() < wanted as usize {
        report.notes.push("the replay was stopped before the end of its last round".to_owned());
    }
    report
}

fn table(
    key: &'static str,
    title: &str,
    columns: &[(Column, RoundValueForm)],
    rows: Vec<Vec<Cell>>,
) -> Table {
    let columns = columns.iter().map(|column| column.0);
    let columns = std::iter::once(column("round", "round")).chain(columns).collect();
    Table { key, title: title.to_owned(), columns, rows }
}

fn count(value: &Value) -> Cell {
    Cell::count(value.as_u64())
}

fn number(value: &Value) -> Cell {
    value.as_i64().map_or(Cell::None, Cell::Signed)
}

fn ns(value: &Value) -> Cell {
    Cell::ns(value.as_u64())
}

fn flag(value: &Value) -> Cell {
    value.as_bool().map_or(Cell::None, Cell::Flag)
}

fn word(value: &Value) -> Cell {
    value.as_str().map_or(Cell::None, |value| Cell::Word(value.to_owned()))
}

/// Path in JSON: text, or its bytes as text that no other path has.
fn name(value: &Value) -> Cell {
    value.as_str().map_or(Cell::None, |value| Cell::Name(value.as_bytes().to_vec()))
}
