//! Last block of the page: the machine, the command, the recorded events, losses, further tables.

use maud::{Markup, html};

use super::input::PageInput;
use super::page_table::{cut, page_table, sentence};
use super::reports::{PageReports, table};
use crate::report::recording_end::recording_end;
use crate::text::quantity::{count, counted, size};

/// Longest list of tracepoints, in letters.
const LIST_LETTERS: usize = 4000;

/// Returns the block.
pub(super) fn block(input: &PageInput<'_>, reports: &PageReports) -> Markup {
    html! {
        h3 { "Accounting and limits" }
        ul class="notes" { @for note in input.notes { li { (sentence(note)) } } }
        h3 { "Machine and recording" }
        dl class="facts" { @for (heading, text) in machine(input) {
            div { dt { (heading) } dd { (cut(&sentence(&text))) } }
        } }
        h3 { "Further tables" }
        @for (report, key) in [(&reports.summary, "calls"), (&reports.summary, "processes"), (&reports.summary, "errors")] {
            @if let Some(table) = table(report, key) { details { summary { (table.title) } (page_table(table)) } }
        }
        details {
            summary { "Recorded events" }
            p { (events(input)) }
        }
        p class="note" {
            "The same numbers: " code { (sentence(input.command)) }
            ". All data of the page are in its source as JSON, in elements whose identifiers begin with " code { "data-" } "."
        }
    }
}

fn machine(input: &PageInput<'_>) -> Vec<(&'static str, String)> {
    let header = &input.summary.header;
    let host = &header.host;
    let ledger = &input.summary.ledger;
    let scope = &header.scope;
    let disks = input.summary.disks();
    let disks: Vec<String> = disks
        .iter()
        .map(|disk| match disk.scheduler.as_str() {
            "" => disk.name.clone(),
            scheduler => format!("{} ({scheduler})", disk.name),
        })
        .collect();
    let end = input.summary.end.as_ref();
    let mut all = vec![
        ("command", input.subject()),
        ("scope", scope.mode.clone()),
        ("host", host.hostname.clone()),
        ("kernel", format!("{} {}", host.kernel_release, host.kernel_version)),
        ("processors", format!("{} ({})", count(host.cpus.len() as u64), host.machine)),
        ("disks", disks.join(", ")),
        ("recorded with", format!("iotrace-perf {}", header.tool_version)),
        ("source of events", with_reason(&header.source, &header.source_reason)),
        ("source of names", with_reason(&header.names, &header.names_reason)),
        ("records", count(ledger.records)),
        ("lost", counted(input.summary.lost(), "record")),
        ("ended", recording_end(end)),
    ];
    if let Some(origin) = &header.imported {
        all.push(("imported", format!("{} ({}; {})", origin.tool, origin.format, origin.file)));
    }
    if let Some(end) = end {
        let cpu = crate::text::quantity::time(end.own.cpu_ns);
        all.push(("own cost", format!("{cpu} of CPU")));
    }
    if input.summary.damaged_bytes > 0 {
        all.push(("damaged", size(input.summary.damaged_bytes)));
    }
    all.retain(|(_, text)| !text.trim().is_empty());
    all
}

/// A choice and its reason, if it has one.
fn with_reason(choice: &str, reason: &str) -> String {
    if reason.is_empty() { choice.to_owned() } else { format!("{choice}: {reason}") }
}

/// Names of the recorded events.
fn events(input: &PageInput<'_>) -> String {
    let header = &input.summary.header;
    let points = header.tracepoints.iter().map(|point| format!("{}:{}", point.system, point.name));
    let all = points.chain(header.calls.iter().cloned()).collect::<Vec<_>>().join(" ");
    let beginning: String = all.chars().take(LIST_LETTERS).collect();
    sentence(&if beginning.len() < all.len() { format!("{beginning} …") } else { beginning })
}
