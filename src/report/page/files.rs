//! Tables of files, directories and file systems.

use maud::{Markup, html};

use super::input::PageInput;
use super::offsets;
use super::page_table::page_table;
use super::reports::{PageReports, table};

/// Returns the block; none without files.
pub(super) fn block(input: &PageInput<'_>, reports: &PageReports) -> Option<Markup> {
    let files = table(&reports.files, "files")?;
    Some(html! {
        (page_table(files))
        @if let Some(pictures) = offsets::pictures(input) { (pictures) }
        @for (key, heading) in [("directories", "Directories"), ("file_systems", "File systems")] {
            @if let Some(table) = table(&reports.files, key) {
                details { summary { (heading) } (page_table(table)) }
            }
        }
    })
}
