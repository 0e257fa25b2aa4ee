//! First block of the page: the subject, whether the recording is complete, and the main numbers.

use maud::{Markup, html};

use super::input::PageInput;
use super::page_table::{cut, sentence};
use super::reports::{PageReports, fact};

/// Facts of the summary that are shown: key and heading.
const TILES: [(&str, &str); 6] = [
    ("wall_ns", "recorded"),
    ("operations", "operations"),
    ("read_bytes", "read by calls"),
    ("written_bytes", "written by calls"),
    ("file_ns", "time in operations on files"),
    ("failed", "operations failed"),
];

/// Returns the strip.
pub(super) fn strip(input: &PageInput<'_>, reports: &PageReports) -> Markup {
    let host = &input.summary.header.host;
    let machine = sentence(&format!("{}, Linux {}", host.hostname, host.kernel_release));
    html! {
        h1 { "I/O of " code { (cut(&sentence(&input.subject()))) } }
        p class="where" { (machine) @if let Some(start) = start(input) { ", " (start) } }
        (trust(input))
        dl class="tiles" {
            @for (key, heading) in TILES {
                @let (text, number) = fact(&reports.summary, key);
                div { dt { (heading) } dd data-fact=(key) data-v=[number] { (text) } }
            }
            @for (heading, text) in disks(reports) {
                div { dt { (heading) } dd { (text) } }
            }
        }
    }
}

/// Date and time of the beginning, in UTC.
fn start(input: &PageInput<'_>) -> Option<String> {
    let ns = input.summary.header.clock.start_realtime_ns;
    let time = jiff::Timestamp::from_nanosecond(i128::from(ns)).ok().filter(|_| ns > 0)?;
    Some(time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// Line on what is missing.
fn trust(input: &PageInput<'_>) -> Markup {
    let is_complete = input.incomplete.is_empty();
    html! {
        div class={ "trust " (if is_complete { "good" } else { "bad" }) } role="note" aria-label="Completeness" {
            @if is_complete {
                p { strong { "Complete." } " No record was lost." }
            } @else {
                p { strong { "INCOMPLETE." } " The numbers are too small: " (sentence(&input.incomplete.join("; "))) "." }
            }
            @if !input.unknown.is_empty() {
                p { "Not known: " (sentence(&input.unknown.join("; "))) "." }
            }
            @if !input.is_whole {
                p { "This page is about a part of the recording, which a filter has selected." }
            }
            p { a href="#appendix" { "Coverage, losses and accounting" } }
        }
    }
}

/// Bytes of all disks, if there are any.
fn disks(reports: &PageReports) -> Vec<(String, String)> {
    let Some(table) = super::reports::table(&reports.disk, "disks") else { return Vec::new() };
    let place = |key: &str| table.columns.iter().position(|column| column.key == key);
    let (Some(disk), Some(read), Some(written)) =
        (place("disk"), place("read_bytes"), place("written_bytes"))
    else {
        return Vec::new();
    };
    let tile = |row: &Vec<crate::text::table::Cell>| {
        let name = row.get(disk)?.text();
        let [read, written] = [(read, "read_bytes"), (written, "written_bytes")]
            .map(|(place, key)| row.get(place).map(|cell| cell.text_of(key)).unwrap_or_default());
        Some((format!("disk {name}"), format!("{read} read, {written} written")))
    };
    table.rows.iter().filter_map(tile).take(2).collect()
}
