//! Reports whose tables the page shows: those of the other subcommands.

use super::input::PageInput;
use crate::report::grouping::{Grouping, ReportOptions};
use crate::report::{disk, files, latency, slow, summary};
use crate::text::table::{Report, Table};

/// Reports with a limit on their rows.
#[derive(Clone, Debug)]
pub(super) struct PageReports {
    pub(super) summary: Report,
    pub(super) files: Report,
    pub(super) disk: Report,
    pub(super) latency: Report,
    pub(super) slow: Report,
}

impl PageReports {
    /// Creates the reports; tables have this number of rows, 0 for all.
    pub(super) fn new(input: &PageInput<'_>, limit: usize) -> Self {
        let (fold, log) = (input.fold, input.summary);
        let (by, is_whole) = (Grouping::Process, input.is_whole);
        let options = ReportOptions { limit, by, is_whole, ..ReportOptions::default() };
        let finished = |mut report: Report| {
            report.incomplete = input.incomplete.to_vec();
            report.notes.extend(input.notes.iter().cloned());
            report
        };
        Self {
            summary: finished(summary::report(&fold.summary, log, options)),
            files: finished(files::report(&fold.files, log, options)),
            disk: finished(disk::report(&fold.disks, log, options)),
            latency: finished(latency::report(&fold.latency, log, limit)),
            slow: finished(slow::report(&fold.slowest, log, limit)),
        }
    }
}

/// Returns the table of a report with this key, if it has rows.
pub(super) fn table<'a>(report: &'a Report, key: &str) -> Option<&'a Table> {
    report.tables.iter().find(|table| table.key == key && !table.rows.is_empty())
}

/// Returns the text of a fact of a report, for people, and its number.
pub(super) fn fact(report: &Report, key: &str) -> (String, Option<String>) {
    let cell = report.facts.iter().find(|(name, _, _)| *name == key).map(|(_, _, cell)| cell);
    cell.map_or_else(
        || ("-".to_owned(), None),
        |cell| (cell.text_of(key), cell.number().filter(|number| !number.is_empty())),
    )
}
