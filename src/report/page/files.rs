//! Tables of files, directories and file systems.

use maud::{Markup, html};
use rustc_hash::{FxHashMap, FxHashSet};

use super::input::PageInput;
use super::offsets;
use super::page_table::{page_table, unfollowed};
use super::reports::{PageReports, table};
use crate::analysis::summary::KeyParts;
use crate::analysis::timeline::ActivityRow;
use crate::text::table::{Cell, Table};

/// Name of a file in a table: its path, whether that may be another file's, and its mounts.
type TableFileName<'a> = (&'a [u8], bool, Option<u64>);

/// Returns the activity over time of each row of the table of files; `None`: it is not known, as
/// that of pipes and sockets.
pub(super) fn activity<'a>(
    input: &PageInput<'a>,
    reports: &PageReports,
) -> Vec<Option<&'a ActivityRow>> {
    let Some(files) = table(&reports.files, "files") else { return Vec::new() };
    let names: Vec<Option<TableFileName<'_>>> =
        files.rows.iter().map(|row| file_name(files, row)).collect();
    let wanted: FxHashSet<TableFileName<'_>> = names.iter().flatten().copied().collect();
    let mut known: FxHashMap<TableFileName<'_>, &ActivityRow> = FxHashMap::default();
    for (key, row) in input.fold.timeline.files.rows.iter() {
        let KeyParts { path, mounts, is_doubtful } = KeyParts::of(key);
        let name = (path, is_doubtful, mounts.map(|mounts| mounts.0.into()));
        if wanted.contains(&name) {
            known.insert(name, row);
        }
    }
    names.iter().map(|name| known.get(&(*name)?).copied()).collect()
}

/// Returns the name of a row; `None`: the row is not one file's.
fn file_name<'a>(table: &Table, row: &'a [Cell]) -> Option<TableFileName<'a>> {
    let cell = |key: &str| {
        let place = table.columns.iter().position(|column| column.key == key)?;
        row.get(place)
    };
    let mounts = match cell("mounts")? {
        Cell::Count(mounts) => Some(*mounts),
        _ => None,
    };
    match cell("path")? {
        Cell::Name(path) => Some((path, false, mounts)),
        Cell::Unverified(path) => Some((path, true, mounts)),
        _ => None,
    }
}

/// Returns the block; none without files.
pub(super) fn block(input: &PageInput<'_>, reports: &PageReports) -> Option<Markup> {
    let files = table(&reports.files, "files")?;
    Some(html! {
        div id="file-table" { (page_table(files)) }
        (unfollowed("Only the table of files follows the selection."))
        @if let Some(pictures) = offsets::pictures(input) { (pictures) }
        @for (key, heading) in [("directories", "Directories"), ("file_systems", "File systems")] {
            @if let Some(table) = table(&reports.files, key) {
                details { summary { (heading) } (page_table(table)) }
            }
        }
    })
}
