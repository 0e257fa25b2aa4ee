//! Last operations of a process on a file.

use super::cells::harmless;
use crate::analysis::top::{TopModel, TopOperation, TopPair};
use crate::text::errno::ErrnoName;
use crate::text::quantity::{count, time};
use crate::text::table_text::{beginning_of, padded};

/// Headings with their widths; texts begin at the left.
const COLUMNS: [(&str, usize, bool); 7] = [
    ("ENDED", 12, false),
    ("TID", 7, false),
    ("OPERATION", 14, true),
    ("OFFSET", 15, false),
    ("BYTES", 11, false),
    ("DURATION", 9, false),
    ("ERROR", 10, true),
];

/// Returns the headings and the operations, the newest first.
pub(super) fn operation_lines(model: &TopModel, pair: &TopPair, width: usize) -> Vec<String> {
    let row = |cells: [String; 7]| {
        let cells = cells.iter().zip(COLUMNS);
        let cells = cells
            .map(|(cell, (_, width, is_text))| padded(&beginning_of(cell, width), width, is_text));
        beginning_of(cells.collect::<Vec<String>>().join(" ").trim_end(), width)
    };
    let headings = row(COLUMNS.map(|(heading, ..)| heading.to_owned()));
    let cells = |operation: &TopOperation| {
        let since = operation.end.0.saturating_sub(model.facts.start.0);
        row([
            format!("{}.{:06}", since / 1_000_000_000, since % 1_000_000_000 / 1000),
            operation.tid.0.to_string(),
            harmless(operation.what.to_string().as_bytes()),
            operation.offset.map_or_else(|| "-".to_owned(), count),
            count(operation.bytes),
            time(operation.ns),
            operation.errno.map_or_else(String::new, |errno| ErrnoName(errno).to_string()),
        ])
    };
    let rows = model.operations_of(pair).rev().map(cells);
    std::iter::once(headings).chain(rows).collect()
}
