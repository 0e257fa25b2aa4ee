//! Matrix of files and processes: bytes that a process moved from and to a file.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::heat::{level, scale_legend};
use super::input::PageInput;
use super::page_table::{cut, frame};
use crate::operation::model::ProcessKey;
use crate::report::file_rows::file_cells;
use crate::text::quantity::{count, size};
use crate::text::table::Cell;

/// Rows of the matrix.
const FILES: usize = 20;
/// Columns of the matrix.
const PROCESSES: usize = 10;

/// Bytes and operations of a field.
type Amount = (u64, u64);

/// Returns the block; none without files.
pub(super) fn block(input: &PageInput<'_>) -> Option<Markup> {
    let fold = &input.fold.files;
    let mut fields: BTreeMap<(usize, ProcessKey), Amount> = BTreeMap::new();
    for ((process, place), used) in fold.by_process.iter() {
        let bytes = used.tally.read.saturating_add(used.tally.written);
        add(fields.entry((*place, *process)).or_default(), (bytes, used.tally.count));
    }
    let files = largest(fields.iter().map(|((place, _), amount)| (*place, *amount)));
    let processes = largest(fields.iter().map(|((_, process), amount)| (*process, *amount)));
    let most = fields.values().map(|amount| amount.0).max().unwrap_or(0);
    let paths: BTreeMap<usize, &Vec<u8>> =
        fold.files.keys().map(|(key, place)| (place, key)).collect();
    let files_left = files.len().saturating_sub(FILES) as u64;
    let processes_left = processes.len().saturating_sub(PROCESSES) as u64;
    let name = |process: &ProcessKey| {
        let pid =
            fold.names.info(*process).map_or_else(String::new, |info| format!(" {}", info.pid));
        Cell::Name(fold.names.of(*process).to_vec()).text() + &pid
    };
    let shown = || processes.iter().take(PROCESSES);
    let content = html! {
        table class="matrix" {
            caption { "Bytes that a process read from and wrote to a file; without bytes the number of operations" }
            thead { tr {
                th scope="col" { "file" }
                @for process in shown() { th scope="col" class="n" { (name(process)) } }
            } }
            tbody { @for place in files.iter().take(FILES) {
                tr {
                    th scope="row" { (path(paths.get(place).copied())) }
                    @for process in shown() { (field(fields.get(&(*place, *process)).copied(), most)) }
                }
            } }
        }
    };
    (!fields.is_empty()).then(|| {
        html! {
            div class="whole" { (frame("Matrix of files and processes", content)) }
            @if most > 0 { (scale_legend(&size(most), "bytes")) }
            @if files_left + processes_left > 0 {
                p class="note" {
                    "The largest are shown; further files: " (count(files_left)) "; further processes: "
                    (count(processes_left)) "."
                }
            }
        }
    })
}

fn add(sum: &mut Amount, more: Amount) {
    sum.0 = sum.0.saturating_add(more.0);
    sum.1 = sum.1.saturating_add(more.1);
}

/// Keys by their sums, the largest first.
fn largest<K: Ord + Copy>(fields: impl Iterator<Item = (K, Amount)>) -> Vec<K> {
    let mut sums: BTreeMap<K, Amount> = BTreeMap::new();
    fields.for_each(|(key, amount)| add(sums.entry(key).or_default(), amount));
    let mut sums: Vec<(K, Amount)> = sums.into_iter().collect();
    sums.sort_by_key(|(key, amount)| (std::cmp::Reverse(*amount), *key));
    sums.into_iter().map(|(key, _)| key).collect()
}

fn path(key: Option<&Vec<u8>>) -> String {
    let text = key.map(|key| {
        let [_, _, path] = file_cells(key);
        path.text()
    });
    cut(&text.unwrap_or_else(|| "(further ones)".to_owned()))
}

fn field(amount: Option<Amount>, most: u64) -> Markup {
    match amount {
        None => html! { td class="n" {} },
        Some((0, operations)) => html! { td class="n" { (operations) " op." } },
        Some((bytes, _)) => html! { td class={ "n f" (level(bytes, most)) } { (size(bytes)) } },
    }
}
