//! Findings of all reports, each with its evidence on the page and a possible next step.

use maud::{Markup, html};

use super::page_table::{page_table, sentence};
use super::reports::{PageReports, table};
use crate::text::table::{Cell, Report, Table};

/// Kind of a finding, the block that shows its evidence, and a next step.
const ADVICE: [(&str, &str, &str); 11] = [
    ("operation", "layers", "See in which layer the time of this call went."),
    ("file", "files", "See how it is read and written, and by which process."),
    ("process", "matrix", "See on which files this process works."),
    ("small", "histograms", "Larger accesses, or a buffer in the program, need fewer calls."),
    ("failing", "appendix", "Find the reason: iotrace-perf script LOG --failed."),
    ("unknown-type", "appendix", "Record with file names, so that these have a type."),
    ("queued", "disks", "Issue fewer requests at once, or use a faster disk."),
    ("failed-opens", "files", "A shorter search path saves these opens."),
    ("opened-most", "files", "Keep the file open, or keep its content."),
    (
        "read-again",
        "files",
        "Keep the data in the program, or check the page cache: iotrace-perf cache LOG.",
    ),
    ("written-then-removed", "files", "A temporary file in memory (tmpfs) needs no disk."),
];

/// Block and next step of other findings of a report.
const OTHERS: [(&str, &str, &str); 2] = [
    ("disk", "disks", "See which processes and files cause it."),
    ("slow", "slowest", "See the requests that it waited for."),
];

/// Joins the lines of a finding. Names in it have no line ends: they are escaped.
fn in_one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Returns the list of findings.
pub(super) fn block(reports: &PageReports) -> Markup {
    let all: Vec<ShownFinding> = [&reports.summary, &reports.files, &reports.disk, &reports.slow]
        .into_iter()
        .flat_map(found)
        .chain(advised(&reports.advise))
        .collect();
    html! {
        @if all.is_empty() {
            p { "Nothing stands out: there is no operation on a file, or all of them are alike." }
        } @else {
            ol class="findings" { @for finding in &all {
                li data-kind=(finding.kind) {
                    p { (sentence(&in_one_line(&finding.text))) }
                    p class="note" {
                        (sentence(&finding.step)) " " a href={ "#" (finding.block) } { "Evidence" }
                        @if !finding.command.is_empty() { ": " code { (finding.command) } }
                    }
                }
            } }
        }
        @if let Some(events) = table(&reports.advise, "events") {
            details {
                summary { "Order of the events that prove the findings about durability" }
                (page_table(events))
            }
        }
        @if let Some(reasons) = table(&reports.advise, "not_judged") {
            details { summary { "Rules that were not judged, with the reason" } (page_table(reasons)) }
        }
    }
}

/// Finding of a report.
struct ShownFinding {
    kind: String,
    text: String,
    block: &'static str,
    step: String,
    /// Command that shows the evidence; empty: only the block does.
    command: String,
}

fn found(report: &Report) -> Vec<ShownFinding> {
    let Some(found) = table(report, "findings") else { return Vec::new() };
    let finding = |cells: &Vec<Cell>| {
        let kind = word(found, cells, "finding").unwrap_or(report.kind);
        let text = word(found, cells, "text").unwrap_or_default();
        let all = ADVICE.iter().chain(&OTHERS);
        let known = all.copied().find(|(name, _, _)| *name == kind);
        let (_, block, step) = known.unwrap_or((kind, "appendix", ""));
        let [kind, text, step] = [kind, text, step].map(str::to_owned);
        ShownFinding { kind, text, block, step, command: String::new() }
    };
    found.rows.iter().map(finding).collect()
}

/// Returns the findings with advice. The evidence of most is about files.
fn advised(report: &Report) -> Vec<ShownFinding> {
    let Some(found) = table(report, "findings") else { return Vec::new() };
    let finding = |cells: &Vec<Cell>| {
        let of = |key: &str| word(found, cells, key).unwrap_or_default().to_owned();
        let kind = of("finding");
        let block = match kind.as_str() {
            "one-at-a-time" | "misaligned-partition" => "disks",
            "journal-commits" | "throttled-writers" | "metadata-heavy" => "layers",
            _ => "files",
        };
        let [text, step, command] = ["text", "action", "command"].map(of);
        ShownFinding { kind, text, block, step, command }
    };
    found.rows.iter().map(finding).collect()
}

/// Word in a column of a row.
fn word<'row>(table: &Table, row: &'row [Cell], key: &str) -> Option<&'row str> {
    let place = table.columns.iter().position(|column| column.key == key)?;
    match row.get(place)? {
        Cell::Word(word) => Some(word),
        _ => None,
    }
}
