//! Pictures of files: which offsets were read and written, and when.

use maud::{Markup, html};

use super::chart::legend;
use super::heat::{HeatPaths, level};
use super::input::PageInput;
use super::page_table::cut;
use super::time_scale::{TimeScale, ratio};
use crate::analysis::timeline::{BINS_OF_MAP_COLUMN, MAP_COLUMNS, MAP_ROWS, OffsetMap};
use crate::report::file_rows::file_cells;
use crate::text::quantity::{size, time};

/// Files with a picture.
const FILES: usize = 8;

/// Returns the pictures of the files with most bytes; none if no file has many accesses.
pub(super) fn pictures(input: &PageInput<'_>) -> Option<Markup> {
    let fold = &input.fold.timeline;
    let mut files: Vec<(&Vec<u8>, &OffsetMap, u64)> = Vec::new();
    for (key, place) in fold.files.rows.keys() {
        let bytes = fold.files.rows.get(key).map_or(0, |row| row.total.bytes);
        files.extend(fold.offsets.of(place).map(|map| (key, map, bytes)));
    }
    files.sort_by_key(|(key, _, bytes)| (std::cmp::Reverse(*bytes), *key));
    files.truncate(FILES);
    let scale = TimeScale::of(input);
    (!files.is_empty()).then(|| {
        html! {
            h3 { "Offsets over time" }
            p class="note" {
                "Each picture is a file: its beginning at the bottom, the beginning of the recording on the left. A line that rises is \
                 sequential, scattered fields are random accesses. Strong colours are more bytes."
            }
            (legend(&[("read", "read"), ("written", "written")]))
            div class="pictures" { @for (key, map, bytes) in &files { (picture(key, map, *bytes, &scale)) } }
        }
    })
}

fn picture(key: &[u8], map: &OffsetMap, bytes: u64, scale: &TimeScale) -> Markup {
    let [_, _, path] = file_cells(key);
    let amount = |row: usize, column: usize, place: usize| {
        let field = map.field(row, column);
        let own = field.get(place).copied().unwrap_or(0);
        // A field has the colour of the direction with more bytes.
        if own == field.into_iter().max().unwrap_or(0) { own } else { 0 }
    };
    let is_used = |row: &usize| (0..MAP_COLUMNS).any(|column| map.field(*row, column) != [0; 2]);
    let rows = (0..MAP_ROWS).rev().find(is_used).map_or(1, |row| row + 1);
    let fields = (0..rows).flat_map(|row| (0..MAP_COLUMNS).map(move |column| (row, column)));
    let most = fields.flat_map(|(row, column)| map.field(row, column)).max().unwrap_or(0);
    let [mut read, mut written] = [HeatPaths::default(), HeatPaths::default()];
    for row in 0..rows {
        let y = u32::try_from(rows - 1 - row).unwrap_or(0);
        for (paths, place) in [(&mut read, 0), (&mut written, 1)] {
            let levels = (0..MAP_COLUMNS).map(|column| level(amount(row, column, place), most));
            paths.row(&levels.collect::<Vec<usize>>(), y, 1);
        }
    }
    let column_ns = scale.bin_ns * BINS_OF_MAP_COLUMN as u64;
    let (from, length) = (ratio(scale.from_ns, column_ns), ratio(scale.ns(), column_ns));
    let end = size(map.row_bytes() * rows as u64);
    let text = format!("{} moved; offsets from 0 to {end}, {} long", size(bytes), time(scale.ns()));
    html! {
        figure {
            svg viewBox={ (format!("{from:.3}")) " 0 " (format!("{length:.3}")) " " (rows) } preserveAspectRatio="none"
                role="img" aria-label={ "Offsets of " (cut(&path.text())) ": " (text) } {
                (read.markup("r"))
                (written.markup("w"))
            }
            figcaption { (cut(&path.text())) br; span class="note" { (text) } }
        }
    }
}
