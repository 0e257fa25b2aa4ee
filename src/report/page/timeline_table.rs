//! The timeline as a table of a few intervals, for readers without the picture.

use maud::{Markup, html};

use super::input::PageInput;
use super::page_table::page_table;
use super::time_scale::TimeScale;
use crate::analysis::timeline::{RANGES, TimeBin, percentile};
use crate::report::rows::{column, key_column};
use crate::text::table::{Cell, Table};

/// Largest number of intervals.
const INTERVALS: usize = 16;

/// Returns the table, closed.
pub(super) fn details(input: &PageInput<'_>, scale: &TimeScale) -> Markup {
    html! { details { summary { "The timeline as a table" } (page_table(&table(input, scale))) } }
}

fn table(input: &PageInput<'_>, scale: &TimeScale) -> Table {
    let fold = &input.fold.timeline;
    let bins: Vec<usize> = scale.bins(&fold.bins).collect();
    let row = |bins: &[usize]| {
        let (mut sum, mut durations) = (TimeBin::default(), vec![0; RANGES]);
        for bin in bins {
            fold.bins.get(*bin).into_iter().for_each(|bin| sum.merge(bin));
            durations.iter_mut().zip(fold.latency.bin(*bin)).for_each(|(sum, count)| *sum += count);
        }
        let from = bins.first().map_or(0, |bin| scale.origin_ns + *bin as u64 * scale.bin_ns);
        row(from, &sum, &durations)
    };
    let length = bins.len().div_ceil(INTERVALS).max(1);
    Table {
        key: "intervals",
        title: format!(
            "Intervals of {}",
            crate::text::quantity::time(length as u64 * scale.bin_ns)
        ),
        columns: vec![
            key_column(0, "from_ns", "from"),
            column("read_bytes", "read"),
            column("written_bytes", "written"),
            column("reads", "reads"),
            column("writes", "writes"),
            column("other_operations", "other calls"),
            column("p50_ns", "p50 about"),
            column("p99_ns", "p99 about"),
            column("device_read_bytes", "disks read"),
            column("device_written_bytes", "disks written"),
            column("written_back_bytes", "written back"),
            column("read_requests", "read requests"),
            column("write_requests", "write requests"),
            column("other_requests", "discards, flushes"),
            column("depth", "at once"),
        ],
        rows: bins.chunks(length).map(row).collect(),
    }
}

fn row(from: u64, sum: &TimeBin, durations: &[u64]) -> Vec<Cell> {
    let mut row = vec![Cell::Ns(from)];
    row.extend(sum.moved.map(Cell::Count));
    row.extend(sum.operations.map(Cell::Count));
    row.extend([500, 990].map(|per_mille| Cell::ns(percentile(durations, per_mille))));
    row.extend(sum.device_bytes.map(Cell::Count));
    row.push(Cell::Count(sum.written_back));
    row.extend(sum.requests.map(Cell::Count));
    row.push(Cell::Count(sum.depth));
    row
}
