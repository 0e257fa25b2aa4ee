//! Parts that tables share: columns, limits, and names of combined rows.

use crate::text::quantity;
use crate::text::quantity::counted;
use crate::text::table::{Cell, Column, Report};

/// Default number of rows of each table in text.
pub const ROWS: usize = 20;

/// Creates a column.
pub(super) const fn column(key: &'static str, title: &'static str) -> Column {
    Column { key, title, rank: None }
}

/// Creates a column that names what the row is about: the first such column for people has rank 0.
pub(super) const fn key_column(rank: u8, key: &'static str, title: &'static str) -> Column {
    Column { key, title, rank: Some(rank) }
}

/// Adds a note about operations without a row of their own.
pub(super) fn left_out(report: &mut Report, what: &str, keys: usize, operations: u64) {
    report.notes.push(format!(
        "{what}: {} beyond the limit of {} in one row without a name",
        counted(operations, "operation"),
        counted(keys as u64, "row")
    ));
}

/// The first `limit` rows and the rest; all rows if the limit is 0.
pub(super) fn first_rows<T>(mut rows: Vec<T>, limit: usize) -> (Vec<T>, Vec<T>) {
    let rest = if limit > 0 && rows.len() > limit { rows.split_off(limit) } else { Vec::new() };
    (rows, rest)
}

/// Title of a table with the number of its rows.
pub(super) fn titled(title: &str, rows: usize) -> String {
    format!("{title} ({})", quantity::count(rows as u64))
}

/// Name of a row that combines rows beyond the limit.
pub(super) fn others(count: usize) -> Cell {
    Cell::Word(format!("({count} others)"))
}

/// Name of the row for operations whose keys exceed the memory limit.
pub(super) fn rest_of_keys() -> Cell {
    Cell::Word("(further ones)".to_owned())
}

/// Units of sizes of memory.
const BINARY_UNITS: [(u64, &str); 4] =
    [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

/// Returns a size of memory as it is given: a whole number of the largest unit.
pub(super) fn binary_size(bytes: u64) -> String {
    let is_whole = |unit: &&(u64, &str)| bytes >= unit.0 && bytes.is_multiple_of(unit.0);
    let unit = BINARY_UNITS.iter().find(is_whole);
    unit.map_or_else(|| quantity::size(bytes), |(unit, name)| format!("{} {name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_the_unit_in_which_it_is_given() {
        let texts = [64 << 20, 1 << 30, 1536 << 20, 64 << 10, 1000].map(binary_size);
        assert_eq!(texts, ["64 MiB", "1 GiB", "1536 MiB", "64 KiB", "1.00 kB"]);
    }

    #[test]
    fn rows_of_a_title_are_separated_by_thousands() {
        assert_eq!(titled("Files", 23), "Files (23)");
        assert_eq!(titled("Files", 1_234_567), "Files (1,234,567)");
    }
}
