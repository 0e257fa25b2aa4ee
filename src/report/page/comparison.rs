//! Page of `diff`: the findings, tables and notes of its report, with the exact numbers for
//! sorting.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::document::{SCRIPT, head, short};
use super::page_table::{cut, page_table, sentence};
use crate::text::table::{Cell, Report, Table};

/// Key of the table of sentences.
const FINDINGS: &str = "findings";

/// Returns the page about a report of `diff`. `data`: the same report with all rows that have room;
/// `command` prints the same numbers.
pub fn comparison_page(report: &Report, data: &Report, command: &str) -> String {
    let names = ["before", "after"].map(|key| fact_text(report, key));
    let title = format!("I/O of {} and {}", short(&names[0]), short(&names[1]));
    let tables = || report.tables.iter().filter(|table| table.key != FINDINGS);
    let data_of = |table: &Table| data.tables.iter().find(|other| other.key == table.key);
    let has_rows = |table: &Table| !table.rows.is_empty();
    // A count that only varies from run to run is in the data alone.
    let shown = || tables().filter(|table| has_rows(table) || data_of(table).is_some_and(has_rows));
    let absent = || tables().filter(|table| !has_rows(table));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title, "iotrace-perf diff"))
            body {
                a class="skip" href="#content" { "Skip to the content" }
                header { (strip(report, &names)) }
                nav aria-label="Blocks of the page" {
                    ul {
                        li { a href="#findings" { "Findings" } }
                        @for table in shown() { li { a href={ "#" (table.key) } { (heading(table)) } } }
                        li { a href="#notes" { "Notes" } }
                    }
                }
                main id="content" {
                    section id=(FINDINGS) aria-labelledby="findings-h" {
                        h2 id="findings-h" { "Findings" }
                        ol class="findings" { @for text in sentences(report) { li { p { (sentence(text)) } } } }
                    }
                    @for table in shown() {
                        section id=(table.key) aria-labelledby={ (table.key) "-h" } {
                            h2 id={ (table.key) "-h" } { (heading(table)) }
                            @if has_rows(table) { (page_table(table)) } @else { p { "None." } }
                            @if let Some(table) = data_of(table) { (numbers(table)) }
                        }
                    }
                    section id="notes" aria-labelledby="notes-h" {
                        h2 id="notes-h" { "Notes" }
                        @if absent().count() > 0 {
                            p { "None: "
                                @for (number, table) in absent().enumerate() {
                                    @if number > 0 { ", " } (heading(table))
                                }
                                "."
                            }
                        }
                        ul class="notes" { @for note in &report.notes { li { (sentence(note)) } } }
                        p class="note" { "The same numbers: " code { (sentence(command)) } }
                    }
                }
                footer { p { "Made by iotrace-perf " (env!("CARGO_PKG_VERSION")) ". This page loads nothing." } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// First block: what is compared, whether the recordings are complete, and the numbers of counts.
fn strip(report: &Report, names: &[String; 2]) -> Markup {
    let tiles = [
        ("different_counts", "counts differ"),
        ("varying_counts", "counts vary from run to run"),
        ("equal_counts", "counts are equal"),
        ("before_runs", "runs before"),
        ("after_runs", "runs after"),
        ("renamed_files", "files with another name"),
    ];
    html! {
        h1 { "What differs" }
        dl class="facts" {
            @for (word, name) in ["before", "after"].into_iter().zip(names) {
                div { dt { (word) } dd { code { (cut(name)) } } }
            }
        }
        div class={ "trust " (if report.incomplete.is_empty() { "good" } else { "bad" }) } role="note" aria-label="Completeness" {
            @if report.incomplete.is_empty() {
                p { strong { "Complete." } " No run has lost a record." }
            } @else {
                p { strong { "INCOMPLETE." } " Counts may differ for that: " (sentence(&report.incomplete.join("; "))) "." }
            }
        }
        dl class="tiles" {
            @for (key, heading) in tiles {
                @let cell = fact(report, key);
                div { dt { (heading) } dd data-fact=(key) data-v=[cell.number()] { (cell.text()) } }
            }
        }
    }
}

/// Ranges of the counts or times of a table as numbers, in a part that is closed at first.
fn numbers(table: &Table) -> Markup {
    let is_number = |key: &str| {
        let endings = ["_min", "_max", "_ns", "metric", "verdict", "dimension", "name"];
        endings.iter().any(|ending| key.ends_with(ending))
    };
    let columns = || table.columns.iter().enumerate().filter(|(_, column)| is_number(column.key));
    html! {
        @if columns().count() > 1 {
            details {
                summary { "Exact numbers of all runs" }
                div class="wide" role="region" tabindex="0" aria-label={ (heading(table)) ": exact numbers" } {
                    table class="sortable" {
                        thead { tr { @for (_, column) in columns() { th scope="col" { (column.key) } } } }
                        tbody { @for row in &table.rows {
                            tr { @for (place, _) in columns() { td { (cut(&exact(row.get(place)))) } } }
                        } }
                    }
                }
            }
        }
    }
}

/// Value of a cell as data has it.
fn exact(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return String::new() };
    cell.number().unwrap_or_else(|| if *cell == Cell::None { String::new() } else { cell.text() })
}

/// Title of a table.
fn heading(table: &Table) -> &str {
    &table.title
}

fn sentences(report: &Report) -> impl Iterator<Item = &String> {
    let found = report.tables.iter().filter(|table| table.key == FINDINGS);
    let cells = found.flat_map(|table| table.rows.iter().flatten());
    cells.filter_map(|cell| match cell {
        Cell::Word(text) => Some(text),
        _ => None,
    })
}

fn fact(report: &Report, key: &str) -> Cell {
    let found = report.facts.iter().find(|(name, _, _)| *name == key);
    found.map_or(Cell::None, |(_, _, cell)| cell.clone())
}

fn fact_text(report: &Report, key: &str) -> String {
    sentence(&fact(report, key).text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::table::Column;

    /// Fails if a name of the traced system becomes an element, or turns the text around.
    #[test]
    fn names_are_escaped() {
        let hostile = "</script><img src=x onerror=alert(1)>\u{202e}\n&amp;\"'";
        let name = Column { key: "name", title: "file", rank: Some(0) };
        let sentences = Column { key: "text", title: "finding", rank: None };
        let table = |key, columns, cell| Table {
            key,
            title: "Files that differ".into(),
            columns,
            rows: vec![vec![cell]],
        };
        let report = Report {
            kind: "diff",
            incomplete: vec![hostile.to_owned()],
            facts: vec![
                ("before", "before", Cell::Word(hostile.to_owned())),
                ("different_counts", "", Cell::Count(13)),
            ],
            tables: vec![
                table(FINDINGS, vec![sentences], Cell::Word(hostile.to_owned())),
                table("files", vec![name], Cell::Name(hostile.as_bytes().to_vec())),
            ],
            notes: vec![hostile.to_owned()],
        };
        let page = comparison_page(&report, &report, hostile);
        let body = page.split("</style>").nth(1).and_then(|rest| rest.split("<script>").next());
        let body = body.expect("a body");
        for forbidden in ["<img", "</script", "\u{202e}", "alert(1)>"] {
            assert!(!body.contains(forbidden), "{forbidden}: {body}");
        }
        assert!(body.contains("data-fact=\"different_counts\" data-v=\"13\""), "{body}");
        assert_eq!(body.matches("&lt;img src=x").count(), 6, "{body}");
    }
}
