//! The whole document about a job, and the limit of its size.

use maud::{Markup, PreEscaped, html};

use super::line_layout::{JobMap, MapShape};
use super::{heat_map, map_data, strip};
use crate::report::job::{JobReportInput, report};
use crate::report::page::data::DataScripts;
use crate::report::page::document::{PageFrame, SCRIPT};
use crate::report::page::page_table::{page_table, sentence};
use crate::report::page::reports::table;
use crate::text::quantity::time;
use crate::text::table::{Cell, Report, Table};

/// Largest page of a job in bytes.
pub const JOB_PAGE_BYTES_MAX: usize = 3_000_000;

/// Script of the maps.
const MAP_SCRIPT: &str = include_str!("map.js");

/// Rows and fields of a page.
#[derive(Clone, Copy, Debug)]
struct JobPageLevel {
    /// Rows of the shown tables.
    shown: usize,
    /// Rows of the tables in the data, 0 for all.
    data: usize,
    /// Lines and columns that share a field of the map.
    shape: MapShape,
}

const fn level(shown: usize, data: usize, lines: usize, columns: usize) -> JobPageLevel {
    JobPageLevel { shown, data, shape: MapShape { lines, columns } }
}

/// Numbers of rows and fields, from the most to the least.
const LEVELS: [JobPageLevel; 6] = [
    level(100, 0, 1, 1),
    level(100, 2000, 1, 1),
    level(100, 200, 1, 1),
    level(50, 100, 1, 2),
    level(20, 20, 2, 2),
    level(5, 5, 4, 4),
];

/// Returns the page, with fewer rows and larger fields if it would be larger than
/// [`JOB_PAGE_BYTES_MAX`].
pub fn job_page(input: &JobReportInput<'_>) -> String {
    let mut page = String::new();
    for level in LEVELS {
        let map = JobMap::of(input, level.shape);
        let Some(data) = data(input, &map, level.data) else { continue };
        page = document(input, &map, level.shown, &data).into_string();
        if page.len() <= JOB_PAGE_BYTES_MAX {
            return page;
        }
    }
    page
}

/// Returns the data; `None`: they alone are larger than the page may be.
fn data(input: &JobReportInput<'_>, map: &JobMap, rows: usize) -> Option<String> {
    let mut scripts = DataScripts::new(JOB_PAGE_BYTES_MAX);
    let report = report(input, rows);
    scripts.push(report.kind, rows, |out| report.write_json(out)).ok()?;
    let lines = map_data::map(input, map);
    scripts.push("job-map", 0, |out| Ok(serde_json::to_writer(out, &lines)?)).ok()?;
    scripts.into_text()
}

/// Blocks of the page: identifier, heading, and content; without content a block is left out.
type JobBlocks = [(&'static str, &'static str, Option<Markup>); 7];

fn blocks(input: &JobReportInput<'_>, map: &JobMap, report: &Report) -> JobBlocks {
    let shown = |key: &str, note: &'static str| {
        let table = table(report, key)?;
        Some(html! { @if !note.is_empty() { p class="note" { (note) } } (page_table(table)) })
    };
    [
        ("findings", "Findings", Some(findings(report))),
        ("phases", "I/O phases", Some(phases(input, report))),
        ("map", "Ranks over time", heat_map::block(input, map)),
        ("ranks", "Ranks", shown("ranks", RANKS_NOTE)),
        ("hosts", "Hosts", shown("hosts", "")),
        ("files", "Shared files", Some(files(report))),
        ("appendix", "Clock, recordings and limits", Some(appendix(input, report))),
    ]
}

/// Note on the table of ranks.
const RANKS_NOTE: &str = "Times of threads and of asynchronous operations are added up, so they can be longer than the \
                          job. The slowest file is that with the most time in one recording of the rank.";

fn document(input: &JobReportInput<'_>, map: &JobMap, shown: usize, data: &str) -> Markup {
    let report = report(input, shown);
    let end = html! {
        (PreEscaped(data))
        script { (PreEscaped(SCRIPT)) }
        script { (PreEscaped(MAP_SCRIPT)) }
    };
    PageFrame {
        title: &strip::title(input),
        generator: "iotrace-perf merge",
        strip: strip::strip(input, &report),
        blocks: &blocks(input, map, &report),
        end,
    }
    .document()
}

/// List of sentences.
fn findings(report: &Report) -> Markup {
    let texts = |table: &Table| -> Vec<(String, String)> {
        let word = |cell: Option<&Cell>| match cell {
            Some(Cell::Word(word)) => word.clone(),
            _ => String::new(),
        };
        table.rows.iter().map(|row| (word(row.first()), word(row.get(1)))).collect()
    };
    let all = table(report, "findings").map(texts).unwrap_or_default();
    html! {
        @if all.is_empty() {
            p { "There is no operation on a file." }
        } @else {
            ol class="findings" { @for (kind, text) in &all {
                li data-kind=(kind) { p { (sentence(text)) } }
            } }
        }
    }
}

fn phases(input: &JobReportInput<'_>, report: &Report) -> Markup {
    html! {
        p class="note" {
            "A phase is a time in which the job moves at least a fiftieth of the bytes of its busiest step ("
            (time(input.fold.axis.width_ns())) "). Begin and end are the largest distance of two ranks that the steps and "
            "the clocks allow; a rank is clearly last if it ends after every other one by more than both can hide."
        }
        @match table(report, "phases") {
            Some(table) => (page_table(table)),
            None => p { "The job reads and writes no bytes of files." },
        }
    }
}

fn files(report: &Report) -> Markup {
    html! {
        p class="note" {
            "A file on a network file system is one for all hosts if their mounts name the same server and place; a local "
            "path on two hosts is two files."
        }
        @match table(report, "files") {
            Some(table) => (page_table(table)),
            None => p { "No file is used by more than one rank." },
        }
    }
}

fn appendix(input: &JobReportInput<'_>, report: &Report) -> Markup {
    html! {
        ul class="notes" { @for note in &report.notes { li { (sentence(note)) } } }
        @if let Some(table) = table(report, "gaps") { (page_table(table)) }
        p class="note" {
            "The page again: " code { (sentence(&input.facts.command)) }
            ". The numbers of a rank are those of iotrace-perf summary with its recording. All data of the page are in its "
            "source as JSON, in elements whose identifiers begin with " code { "data-" } "."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::job::fold::JobFold;
    use crate::analysis::job::phases::IoPhases;
    use crate::analysis::job::row_plan::{RecordedRanks, RecordingScope, RowPlan};
    use crate::analysis::job::sums::MapCell;
    use crate::report::job::{JobFacts, JobHostFacts};
    use crate::units::KernelTime;

    const HOSTS: usize = 80;
    const RANKS: usize = 125;

    /// Returns a job in whose map no two neighbours are alike.
    fn noisy_fold() -> JobFold {
        let scope = |row: usize| RecordingScope {
            host: row / RANKS,
            ranks: RecordedRanks::One(row as u64),
        };
        let scopes: Vec<RecordingScope> = (0..HOSTS * RANKS).map(scope).collect();
        let until = KernelTime(512_000 * 1024 - 1);
        let mut fold = JobFold::new(RowPlan::new(&scopes), 0, KernelTime(0), until);
        let mut noise = 1_u64;
        let mut next = |bits: u32| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise >> (64 - bits)
        };
        for line in &mut fold.lines {
            let cell = |_| MapCell {
                moved: [next(30), next(30)],
                other_operations: next(12),
                ns: next(40),
            };
            *line = (0..500).map(cell).collect();
        }
        for (number, row) in fold.rows.iter_mut().enumerate() {
            row.recordings = 1;
            row.sums.operations = 1 << 40;
            row.sums.file_operations = 1 << 40;
            row.sums.file_ns = u64::MAX / 20_000;
            row.sums.on_files = [1 << 50, 1 << 50];
            row.slowest = Some((vec![b'x'; 200 + number % 100], 1 << 40));
            row.missing = "7 records lost (0.1 %), found between 1 s and 2 s".repeat(5);
            for side in 0..2 {
                row.marks[side].mark(0..=499);
            }
        }
        fold
    }

    /// Fails if the worst map of ten thousand ranks makes a page beyond the limit.
    #[test]
    fn page_of_ten_thousand_busy_ranks_is_bounded() {
        let fold = noisy_fold();
        let host = |number| JobHostFacts {
            name: format!("a-host-with-a-rather-long-name-{number}.cluster.example"),
            ..JobHostFacts::default()
        };
        let facts = JobFacts {
            hosts: (0..HOSTS).map(host).collect(),
            recordings: vec![String::new(); HOSTS * RANKS],
            order_bound_ns: Some(3_000_000),
            ..JobFacts::default()
        };
        let phases = [0, 1].map(|side| IoPhases::of(&fold, side));
        let input = JobReportInput { fold: &fold, facts: &facts, phases: &phases };
        let page = job_page(&input);
        assert!(page.len() <= JOB_PAGE_BYTES_MAX, "{} bytes", page.len());
        assert!(page.len() > JOB_PAGE_BYTES_MAX / 8, "{} bytes", page.len());
        assert!(page.contains("Columns are narrower than the error of the clocks"));
    }
}
