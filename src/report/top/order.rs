//! Selection and order of lines.

use std::cmp::Ordering;

use super::columns::TopColumn;
use crate::analysis::top::{TopAmounts, TopLine};

/// Order of the lines of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopOrder {
    /// Column by which the lines are sorted.
    pub column: TopColumn,
    /// True for the smallest value first; of names, for the last one first.
    pub is_reversed: bool,
}

impl Default for TopOrder {
    fn default() -> Self {
        Self { column: TopColumn::Time, is_reversed: false }
    }
}

/// Selects the lines whose name, number or command line contains the text, whatever the case of
/// their letters, and sorts them: the largest value first, names from A on. `is_total`: by the
/// amounts of all intervals.
pub fn ordered(
    mut lines: Vec<TopLine>,
    order: TopOrder,
    filter: &str,
    is_total: bool,
) -> Vec<TopLine> {
    let filter = filter.to_lowercase();
    lines.retain(|line| filter.is_empty() || contains(line, &filter));
    lines.sort_by(|one, other| {
        let ordering = by_column(one, other, order.column, is_total);
        let ordering = if order.is_reversed { ordering.reverse() } else { ordering };
        // Equal lines do not change places from one interval to the next.
        ordering.then_with(|| one.name.cmp(&other.name)).then_with(|| one.key.cmp(&other.key))
    });
    lines
}

fn contains(line: &TopLine, filter: &str) -> bool {
    let has = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_lowercase().contains(filter);
    let number = line.pid.is_some_and(|pid| pid.0.to_string() == filter);
    number || has(&line.name) || line.command.as_ref().is_some_and(|command| has(command))
}

fn by_column(one: &TopLine, other: &TopLine, column: TopColumn, is_total: bool) -> Ordering {
    let amounts = |line: &TopLine| if is_total { line.row.total } else { line.row.last };
    let largest = |value: fn(&TopAmounts) -> u64| value(&amounts(other)).cmp(&value(&amounts(one)));
    let by_value = match column {
        TopColumn::Name | TopColumn::Command => one.name.cmp(&other.name),
        TopColumn::Pid => one.pid.cmp(&other.pid),
        TopColumn::Count => largest(|amounts| amounts.count),
        TopColumn::Read => largest(|amounts| amounts.read),
        TopColumn::Written => largest(|amounts| amounts.written),
        TopColumn::Time => largest(|amounts| amounts.io_ns),
        TopColumn::Mean | TopColumn::Trend => largest(|amounts| amounts.mean_ns().unwrap_or(0)),
        TopColumn::Errors => largest(|amounts| amounts.errors),
        TopColumn::Waited => largest(TopAmounts::elsewhere_ns),
    };
    // Idle rows: those that did most so far first.
    by_value.then_with(|| other.row.total.io_ns.cmp(&one.row.total.io_ns))
}
