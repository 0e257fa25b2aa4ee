//! Histogram of the sizes of accesses, by powers of two.

use super::rows::{column, key_column};
use crate::analysis::pattern::{Direction, Patterns};
use crate::text::table::{Cell, Table};

/// Longest bar.
const BAR_MAX: u64 = 30;

/// Returns the table of accesses of files by their size.
pub(super) fn table(fold: &Patterns) -> Table {
    let mut octaves: Vec<[u64; 2]> = Vec::new();
    let streams = fold.streams.iter().map(|((_, _, direction), row)| (*direction, &row.stream));
    for (direction, stream) in streams {
        let place = usize::from(direction != Direction::Read);
        for (octave, count) in stream.sizes.octaves().into_iter().enumerate() {
            if octaves.len() <= octave {
                octaves.resize(octave + 1, [0; 2]);
            }
            if let Some(sum) = octaves.get_mut(octave).and_then(|sums| sums.get_mut(place)) {
                *sum += count;
            }
        }
    }
    let count = |sums: &[u64; 2]| sums.iter().sum::<u64>();
    let most = octaves.iter().map(count).max().unwrap_or(0).max(1);
    let first = octaves.iter().position(|sums| count(sums) > 0).unwrap_or(0);
    let row = |(octave, sums): (usize, &[u64; 2])| {
        let from = 1_u64.checked_shl(u32::try_from(octave).unwrap_or(u32::MAX)).unwrap_or(u64::MAX);
        let [read, written] = *sums;
        let length = (count(sums) * BAR_MAX).div_ceil(most);
        vec![
            Cell::Count(from),
            Cell::Count(from.saturating_mul(2).saturating_sub(1)),
            Cell::Count(read),
            Cell::Count(written),
            Cell::Word("█".repeat(usize::try_from(length).unwrap_or(0))),
        ]
    };
    Table {
        key: "sizes",
        title: "Sizes of accesses of files, bytes".into(),
        columns: vec![
            key_column(0, "size_from", "from"),
            key_column(1, "size_to", "to"),
            column("reads", "reads"),
            column("writes", "writes"),
            column("", "all"),
        ],
        rows: octaves.iter().enumerate().skip(first).map(row).collect(),
    }
}
