//! First block of the page of a job: the job, whether its recordings are whole, and main numbers.

use maud::{Markup, html};

use crate::analysis::job::balance::ComparedRanks;
use crate::report::job::JobReportInput;
use crate::report::page::document::short;
use crate::report::page::page_table::{cut, sentence};
use crate::report::page::reports::fact;
use crate::text::quantity::counted;
use crate::text::table::Report;

/// Facts that are shown: key and heading.
const TILES: [(&str, &str); 9] = [
    ("wall_ns", "from first start to last end"),
    ("rank_count", "ranks"),
    ("host_count", "hosts"),
    ("file_read_bytes", "read from files"),
    ("file_written_bytes", "written to files"),
    ("file_operations", "operations on files"),
    ("file_ns", "time in these, all ranks"),
    ("file_ns_ratio", "longest time of a rank / mean"),
    ("file_bytes_ratio", "most bytes of a rank / mean"),
];

/// Largest number of gaps in the first block; the last block has all.
const GAPS_SHOWN: usize = 8;

/// Returns the title of the page.
pub(super) fn title(input: &JobReportInput<'_>) -> String {
    let ranks = ComparedRanks::of(input.fold).count();
    let hosts = counted(input.facts.hosts.len() as u64, "host");
    let of_job = match input.facts.job.as_str() {
        "" => "a job".to_owned(),
        job => short(&sentence(job)),
    };
    format!("I/O of {of_job}: {} on {hosts}", counted(ranks, input.noun()))
}

/// Returns the block.
pub(super) fn strip(input: &JobReportInput<'_>, report: &Report) -> Markup {
    html! {
        h1 { (title(input)) }
        p class="where" { (counted(input.facts.recordings.len() as u64, "recording")) @if let Some(start) = start(input) { ", from " (start) } }
        (trust(input, report))
        dl class="tiles" {
            @for (key, heading) in TILES {
                @let (text, number) = fact(report, key);
                div { dt { (heading) } dd data-fact=(key) data-v=[number] { (text) } }
            }
        }
    }
}

/// Date and time of the beginning, in UTC.
fn start(input: &JobReportInput<'_>) -> Option<String> {
    let ns = i128::from(input.facts.zero_wall_ns) + i128::from(input.fold.axis.origin().0);
    let is_dated = input.facts.zero_wall_ns > 0;
    let time = jiff::Timestamp::from_nanosecond(ns).ok().filter(|_| is_dated)?;
    Some(time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// Lines on what is missing.
fn trust(input: &JobReportInput<'_>, report: &Report) -> Markup {
    let gaps = &input.facts.gaps;
    let is_whole = gaps.is_empty() && input.facts.warnings.is_empty();
    html! {
        div class={ "trust " (if is_whole { "good" } else { "bad" }) } role="note" aria-label="Completeness" {
            @if is_whole {
                p { strong { "Complete." } " No recording has lost a record." }
            } @else if gaps.is_empty() {
                p { strong { "Not the whole job." } " No recording has lost a record, but:" }
            } @else {
                p { strong { "INCOMPLETE." } " The numbers are too small: " (sentence(&report.incomplete.join("; "))) "." }
                ul class="notes" {
                    @for gap in gaps.iter().take(GAPS_SHOWN) {
                        li {
                            (if gap.is_left_out { "left out: " } else { "incomplete: " })
                            code { (cut(&sentence(&gap.path))) } ": " (cut(&sentence(&gap.reason)))
                        }
                    }
                    @if gaps.len() > GAPS_SHOWN {
                        li { "and " (counted((gaps.len() - GAPS_SHOWN) as u64, "further recording")) }
                    }
                }
            }
            @for note in &input.facts.warnings { p { (sentence(note)) } }
            p { a href="#appendix" { "Clock, recordings and limits" } }
        }
    }
}
