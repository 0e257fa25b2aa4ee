//! The whole document, and the limit of its size.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::input::PageInput;
use super::page_table::{sentence, unfollowed};
use super::reports::PageReports;
use super::{
    activity, appendix, data, disks, files, findings, flame, histograms, layers, matrix, slowest,
    timeline, verdict,
};

/// Largest page in bytes.
pub const PAGE_BYTES_MAX: usize = 2_000_000;

/// Rows of the tables of a page.
#[derive(Clone, Copy, Debug)]
struct PageLevel {
    /// Rows of the shown tables.
    shown: usize,
    /// Rows of the tables in the data, 0 for all.
    data: usize,
}

/// Numbers of rows, from the most to the least.
const LEVELS: [PageLevel; 7] = [
    PageLevel { shown: 100, data: 0 },
    PageLevel { shown: 100, data: 1000 },
    PageLevel { shown: 100, data: 200 },
    PageLevel { shown: 50, data: 50 },
    PageLevel { shown: 20, data: 20 },
    PageLevel { shown: 10, data: 5 },
    LAST,
];

/// Fewest rows of tables.
const LAST: PageLevel = PageLevel { shown: 3, data: 3 };

pub(super) const STYLE: &str = include_str!("style.css");
/// Script of every page: the form of amounts, then what works on charts and tables.
pub(super) const SCRIPT: &str = concat!(include_str!("amounts.js"), include_str!("page.js"));

/// Policy of the page: it loads nothing.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// Blocks that the script changes with a selection of a time.
const FOLLOWING: [&str; 4] = ["timeline", "activity", "files", "slowest"];

/// Blocks of the page: identifier, heading, and content; without content a block is left out.
type Blocks = Vec<(&'static str, &'static str, Option<Markup>)>;

/// Returns the page, with fewer rows if it would be larger than [`PAGE_BYTES_MAX`]. The data come
/// first: they are printed only up to that size.
pub fn render(input: &PageInput<'_>) -> String {
    for level in LEVELS {
        let Some(data) = data::scripts(input, level.data, PAGE_BYTES_MAX) else { continue };
        let page = document(input, level.shown, &data).into_string();
        if page.len() <= PAGE_BYTES_MAX {
            return page;
        }
    }
    let data = data::scripts(input, LAST.data, usize::MAX).unwrap_or_default();
    document(input, LAST.shown, &data).into_string()
}

/// Head of a page: nothing is loaded, and nothing sent.
pub(super) fn head(title: &str, generator: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content=(generator);
            title { (title) }
            link rel="icon" href="data:,";
            style { (PreEscaped(STYLE)) }
        }
    }
}

fn document(input: &PageInput<'_>, shown: usize, data: &str) -> Markup {
    let reports = PageReports::new(input, shown);
    let following = |(id, heading, content): (&'static str, &'static str, Option<Markup>)| {
        let note =
            (!FOLLOWING.contains(&id)).then_some("This block does not follow the selection.");
        let content = content
            .map(|content| html! { @if let Some(note) = note { (unfollowed(note)) } (content) });
        (id, heading, content)
    };
    let blocks: Blocks = blocks(input, &reports, shown).into_iter().map(following).collect();
    let end = html! {
        (PreEscaped(data))
        (PreEscaped(data::file_rows(input, &reports)))
        script { (PreEscaped(SCRIPT)) }
    };
    PageFrame {
        title: &title(&input.subject()),
        generator: "iotrace-perf report",
        strip: verdict::strip(input, &reports),
        blocks: &blocks,
        end,
    }
    .document()
}

/// Parts of a page that stand in the same frame on all pages.
pub(super) struct PageFrame<'a> {
    pub(super) title: &'a str,
    /// Command that makes such pages.
    pub(super) generator: &'a str,
    pub(super) strip: Markup,
    /// Identifier, heading and content of each block; blocks without content are left out.
    pub(super) blocks: &'a [(&'static str, &'static str, Option<Markup>)],
    /// Data and scripts.
    pub(super) end: Markup,
}

impl PageFrame<'_> {
    /// Returns the whole page.
    pub(super) fn document(&self) -> Markup {
        let is_there = || self.blocks.iter().filter(|(_, _, content)| content.is_some());
        html! {
            (DOCTYPE)
            html lang="en" {
                (head(self.title, self.generator))
                body {
                    a class="skip" href="#content" { "Skip to the content" }
                    header { (self.strip) }
                    nav aria-label="Blocks of the page" {
                        ul { @for (id, heading, _) in is_there() {
                            li { a href={ "#" (id) } { (heading) } }
                        } }
                    }
                    main id="content" {
                        @for (id, heading, content) in is_there() {
                            section id=(id) aria-labelledby={ (id) "-h" } {
                                h2 id={ (id) "-h" } { (heading) }
                                @if let Some(content) = content { (content) }
                            }
                        }
                    }
                    footer { p { "Made by iotrace-perf " (env!("CARGO_PKG_VERSION")) ". This page loads nothing." } }
                    (self.end)
                }
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

/// Title of the page about a subject that may contain anything.
fn title(subject: &str) -> String {
    format!("I/O of {}", short(&sentence(subject)))
}

/// Beginning of a text that may be long.
pub(super) fn short(text: &str) -> String {
    let beginning: String = text.chars().take(80).collect();
    if beginning.len() < text.len() { format!("{beginning}…") } else { beginning }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_has_no_letters_that_turn_the_text() {
        assert_eq!(title("cat \u{202e}txt.exe\n"), "I/O of cat \\xe2\\x80\\xaetxt.exe\\x0a");
    }
}
