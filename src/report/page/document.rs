//! The whole document, and the limit of its size.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::input::PageInput;
use super::reports::PageReports;
use super::{
    activity, appendix, data, disks, files, findings, flame, histograms, layers, matrix, slowest,
    timeline, verdict,
};

/// Largest page in bytes.
pub const PAGE_BYTES_MAX: usize = 2_000_000;

/// Rows of the shown tables, and of the tables in the data (0: all), from the most to the least.
const LEVELS: [(usize, usize); 7] =
    [(100, 0), (100, 1000), (100, 200), (50, 50), (20, 20), (10, 5), (3, 3)];

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// Policy of the page: it loads nothing.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// Blocks of the page: identifier, heading, and content; without content a block is left out.
type Blocks = Vec<(&'static str, &'static str, Option<Markup>)>;

/// Returns the page, with fewer rows if it would be larger than [`PAGE_BYTES_MAX`].
pub fn render(input: &PageInput<'_>) -> String {
    let mut page = String::new();
    for (shown, rows) in LEVELS {
        page = document(input, shown, rows).into_string();
        if page.len() <= PAGE_BYTES_MAX {
            break;
        }
    }
    page
}

fn document(input: &PageInput<'_>, shown: usize, rows: usize) -> Markup {
    let reports = PageReports::new(input, shown);
    let title = format!("I/O of {}", short(&input.subject()));
    let blocks = blocks(input, &reports, shown);
    let is_there = || blocks.iter().filter(|(_, _, content)| content.is_some());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content="iotrace-perf report";
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                a class="skip" href="#content" { "Skip to the content" }
                header { (verdict::strip(input, &reports)) }
                nav aria-label="Blocks of the page" {
                    ul { @for (id, heading, _) in is_there() {
                        li { a href={ "#" (id) } { (heading) } }
                    } }
                }
                main id="content" {
                    @for (id, heading, content) in &blocks {
                        @if let Some(content) = content {
                            section id=(id) aria-labelledby={ (id) "-h" } {
                                h2 id={ (id) "-h" } { (heading) }
                                (content)
                            }
                        }
                    }
                }
                footer { p { "Made by iotrace-perf " (env!("CARGO_PKG_VERSION")) ". This page loads nothing." } }
                (data::scripts(input, rows))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

fn blocks(input: &PageInput<'_>, reports: &PageReports, shown: usize) -> Blocks {
    vec![
        ("findings", "Findings", Some(findings::block(reports))),
        ("layers", "Where the time went", Some(layers::block(input, reports))),
        ("timeline", "Timeline", timeline::block(input)),
        ("activity", "Activity", activity::block(input)),
        ("files", "Files", files::block(input, reports)),
        ("histograms", "Sizes and durations", histograms::block(input)),
        ("matrix", "Processes and files", matrix::block(input)),
        ("disks", "Disks: who wrote and read", disks::block(reports)),
        ("stacks", "Flame graph", flame::block(input)),
        ("slowest", "Slowest operations", slowest::block(input, reports, shown)),
        ("appendix", "Appendix", Some(appendix::block(input, reports))),
    ]
}

/// Beginning of a text that may be long.
fn short(text: &str) -> String {
    let beginning: String = text.chars().take(80).collect();
    if beginning.len() < text.len() { format!("{beginning}…") } else { beginning }
}
