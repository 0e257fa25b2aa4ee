//! Reports whose tables the page shows: those of the other subcommands.

use super::input::PageInput;
use crate::analysis::advice::judge::{AdviceInput, judge};
use crate::report::advice::{self, AdviceOptions};
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
    /// Findings with advice, with the first proofs.
    pub(super) advise: Report,
}

impl PageReports {
    /// Creates the reports; tables have this number of rows, 0 for all.
    pub(super) fn new(input: &PageInput<'_>, limit: usize) -> Self {
        let [summary, files, disk, latency, slow] = MAKERS.map(|make| finished(input, make, limit));
        Self { summary, files, disk, latency, slow, advise: advise(input, true, None) }
    }
}

/// Maker of a report with this limit of rows.
pub(super) type ReportMaker = fn(&PageInput<'_>, usize) -> Report;

/// Makers of the reports of the page, in the order of its data.
pub(super) const MAKERS: [ReportMaker; 5] = [
    |input, limit| summary::report(&input.fold.summary, input.summary, options(input, limit)),
    |input, limit| files::report(&input.fold.files, input.summary, options(input, limit)),
    |input, limit| disk::report(&input.fold.disks, input.summary, options(input, limit)),
    |input, limit| latency::report(&input.fold.latency, input.summary, limit),
    |input, limit| slow::report(&input.fold.slowest, input.summary, limit),
];

/// Returns the findings with advice, from the folds of the page: with the first proofs for the text
/// of the page; for its data with this number of places and proofs of a finding.
pub(super) fn advise(input: &PageInput<'_>, is_text: bool, rows: Option<usize>) -> Report {
    let fold = input.fold;
    let advice = judge(&AdviceInput {
        summary: &fold.summary,
        files: Some(&fold.files),
        facts: &fold.advice,
        recording: input.summary,
        ignored: &[],
    });
    let start = input.summary.start();
    advice::report(&advice, AdviceOptions { log: "LOG", start, is_text, rows })
}

fn options(input: &PageInput<'_>, limit: usize) -> ReportOptions {
    let (by, is_whole) = (Grouping::Process, input.is_whole);
    ReportOptions { limit, by, is_whole, ..ReportOptions::default() }
}

/// Makes a report with what is missing from the recording, and the notes on all of it.
pub(super) fn finished(input: &PageInput<'_>, make: ReportMaker, limit: usize) -> Report {
    with_notes(input, make(input, limit))
}

/// Returns the report with what is missing from the recording, and the notes on all of it.
pub(super) fn with_notes(input: &PageInput<'_>, mut report: Report) -> Report {
    report.incomplete = input.incomplete.to_vec();
    report.notes.extend(input.notes.iter().cloned());
    report
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
