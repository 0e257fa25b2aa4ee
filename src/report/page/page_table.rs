//! Tables of reports in HTML: the same columns, units and texts as for a terminal, and the exact
//! numbers for sorting.

use maud::{Markup, html};

use crate::text::escape;
use crate::text::table::{Cell, Table};
use crate::text::table_text::{ShownColumn, columns};

/// Longest text of a cell, in letters; the data has all of it.
const LETTERS_MAX: usize = 300;

/// Returns a table in a frame that can be scrolled.
pub(super) fn page_table(table: &Table) -> Markup {
    with_details(table, None)
}

/// Last column of a table: its heading, and the content of each row.
pub(super) struct Details {
    pub(super) heading: &'static str,
    /// Contents of the column; without any there is no column.
    pub(super) rows: Vec<Markup>,
    /// Begin and end of each row's operation, for the selection of a time.
    pub(super) times: Vec<(u64, u64)>,
}

/// Returns a table with a column of details.
pub(super) fn with_details(table: &Table, details: Option<&Details>) -> Markup {
    let mut shown = columns(table);
    shown.retain(|column| column.is_key || !is_empty(column));
    let has_column = details.filter(|details| !details.rows.is_empty());
    let times = |row: usize| details.and_then(|details| details.times.get(row)).copied();
    frame(
        &table.title,
        html! {
            table class="sortable" {
                caption { (table.title) }
                thead { tr {
                    @for column in &shown {
                        th scope="col" class=[(!column.is_left_aligned).then_some("n")] { (column.heading) }
                    }
                    @if let Some(details) = has_column { th scope="col" { (details.heading) } }
                } }
                tbody { @for (number, cells) in table.rows.iter().enumerate() {
                    tr data-from=[times(number).map(|time| time.0)] data-to=[times(number).map(|time| time.1)] {
                        @for (place, column) in shown.iter().enumerate() {
                            (cell(column, number, cells, place == 0))
                        }
                        @if let Some(details) = has_column { td { @if let Some(row) = details.rows.get(number) { (row) } } }
                    }
                } }
            }
        },
    )
}

/// Frame of a wide table, which the keyboard can scroll.
pub(super) fn frame(title: &str, table: Markup) -> Markup {
    html! { div class="wide" role="region" tabindex="0" aria-label=(title) { (table) } }
}

fn cell(column: &ShownColumn, row: usize, cells: &[Cell], is_first: bool) -> Markup {
    let text = column.cells.get(row).map_or("", String::as_str);
    let number = cells.get(column.place).and_then(Cell::number);
    let number = number.filter(|number| number != text);
    let class = (!column.is_left_aligned).then_some("n");
    html! {
        @if is_first {
            th scope="row" class=[class] data-v=[number] { (cut(text)) }
        } @else {
            td class=[class] data-v=[number] { (cut(text)) }
        }
    }
}

/// True if no row has a value.
fn is_empty(column: &ShownColumn) -> bool {
    column.cells.iter().all(|cell| matches!(cell.as_str(), "0" | "-" | ""))
}

/// Text without its middle if it is too long.
pub(super) fn cut(text: &str) -> String {
    let letters = text.chars().count();
    if letters <= LETTERS_MAX {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(LETTERS_MAX / 3).collect();
    let end: String = text.chars().skip(letters - LETTERS_MAX * 2 / 3).collect();
    format!("{beginning}…{end}")
}

/// Sentence of ours that may contain names: without control characters.
pub(super) fn sentence(text: &str) -> String {
    escape::harmless(text)
}

/// Note about contents that stay as they are when a time is selected. It is shown meanwhile.
pub(super) fn unfollowed(text: &str) -> Markup {
    html! { p class="note unfollowed" { (text) } }
}
