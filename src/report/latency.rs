//! The report of `latency`.

use super::column;
use crate::analysis::latency::{Latency, Layer, Times};
use crate::pipeline::Summary;
use crate::text::table::{Cell, Column, Report, Table};

/// Letters of the longest bar.
const BAR: u64 = 40;

const LAYERS: [Column; 10] = [
    column("layer", "layer"),
    column("operation", "operation"),
    column("count", "count"),
    column("time_ns", "time us"),
    column("mean_ns", "mean us"),
    column("p50_ns", "p50"),
    column("p90_ns", "p90"),
    column("p99_ns", "p99"),
    column("p999_ns", "p99.9"),
    column("max_ns", "max"),
];

/// The last one is only for people.
fn histogram_columns(is_ms: bool) -> Vec<Column> {
    let [from, to] = if is_ms { ["from ms", "to ms"] } else { ["from ns", "to ns"] };
    vec![
        column("layer", "layer"),
        column("operation", "operation"),
        column(if is_ms { "from_ms" } else { "from_ns" }, from),
        column(if is_ms { "to_ms" } else { "to_ns" }, to),
        column("count", "count"),
        column("", "distribution"),
    ]
}

fn layer((layer, operation): &(Layer, String), it: &Times) -> Vec<Cell> {
    let spread = &it.spread;
    let mut row = vec![
        Cell::Word(layer.as_str().to_owned()),
        Cell::Word(operation.clone()),
        Cell::Count(spread.count()),
        Cell::Ns(spread.sum()),
        Cell::ns(spread.sum().checked_div(spread.count())),
    ];
    row.extend([500, 900, 990, 999].map(|at| Cell::ns(spread.percentile(at))));
    row.push(Cell::Ns(spread.max()));
    row
}

/// From the first bucket that has any to the last.
fn buckets((layer, operation): &(Layer, String), it: &Times) -> Vec<Vec<Cell>> {
    let most = it.octaves.iter().copied().max().unwrap_or(0).max(1);
    let all = it.octaves.iter().enumerate().skip_while(|it| *it.1 == 0);
    let row = |(octave, count): (usize, &u64)| {
        let from = if octave == 0 { 0 } else { 1_u64 << octave };
        let letters = (count * BAR).div_ceil(most);
        vec![
            Cell::Word(layer.as_str().to_owned()),
            Cell::Word(operation.clone()),
            Cell::Count(from),
            Cell::Count((2_u64 << octave) - 1),
            Cell::Count(*count),
            Cell::Word("*".repeat(usize::try_from(letters).unwrap_or(0))),
        ]
    };
    all.map(row).collect()
}

/// All that `latency` says but for the last lines of the capture.
pub fn report(fold: &Latency, summary: &Summary, _: usize) -> Report {
    let wall = summary.end_time().0.saturating_sub(summary.start().0);
    let rows = fold.rows();
    let is_ms = fold.options.unit_ns > 1;
    let from = if fold.options.queued { "from its first bio (Q)" } else { "from the driver (D)" };
    let mut report = Report { kind: "latency", ..Report::default() };
    report.facts = vec![
        ("wall_ns", "recorded us", Cell::Ns(wall)),
        ("block_from", "", Cell::Word(if fold.options.queued { "Q" } else { "D" }.to_owned())),
        ("requests_without_begin", "", Cell::Count(fold.without_begin)),
    ];
    report.tables = vec![
        Table {
            key: "layers",
            title: format!("Times by layer; a block request {from} to its completion (C)"),
            columns: LAYERS.to_vec(),
            rows: rows.iter().map(|it| layer(it.0, it.1)).collect(),
        },
        Table {
            key: "histogram",
            title: "How they are spread".into(),
            columns: histogram_columns(is_ms),
            rows: rows.iter().flat_map(|it| buckets(it.0, it.1)).collect(),
        },
    ];
    if fold.without_begin > 0 {
        report.notes.push(format!(
            "{} requests completed whose begin is not in the log: they are not in the table",
            fold.without_begin
        ));
    }
    report
}
