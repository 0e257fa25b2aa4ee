//! What folds have found, as tables and sentences.

pub mod files;
mod human;
pub mod latency;
pub mod pattern;
pub mod replay;
pub mod replay_block;
pub mod replay_brief;
mod replay_columns;
pub mod replay_export;
pub mod replay_loop;
pub mod replay_run;
pub mod replay_trace;
pub mod stacks;
pub mod summary;

use crate::text::table::{Cell, Column, Report};

/// Rows that people see of each table.
pub const ROWS: usize = 20;

/// A column.
const fn column(key: &'static str, title: &'static str) -> Column {
    Column { key, title }
}

/// A sentence about what is not in a table.
fn left_out(report: &mut Report, what: &str, keys: usize, operations: u64) {
    report.notes.push(format!(
        "{what}: {operations} operations came when there were {keys} rows already: they are in one row without a name"
    ));
}

/// Rows that are shown, and how many are not: those behind the first `limit`, if it is not 0.
fn first_rows<T>(mut rows: Vec<T>, limit: usize) -> (Vec<T>, Vec<T>) {
    let rest = if limit > 0 && rows.len() > limit { rows.split_off(limit) } else { Vec::new() };
    (rows, rest)
}

/// The name in a row for many.
fn others(count: usize) -> Cell {
    Cell::Word(format!("({count} others)"))
}

/// The name of the row of those that came when there were too many.
fn rest_of_keys() -> Cell {
    Cell::Word("(further ones)".to_owned())
}
