//! Report of `latency`.

use super::rows::{column, key_column};
use crate::analysis::latency::{Latency, LatencyTimes, RowKey};
use crate::analysis::layer_split::{LAYERS, Split};
use crate::capture::header::Header;
use crate::event::layer::{self, is_probe};
use crate::event::syscall_table::CallId;
use crate::operation::io_class::IoClass;
use crate::pipeline::Summary;
use crate::text::escape;
use crate::text::quantity::counted_with;
use crate::text::table::{Cell, Column, Report, Table};

/// Length of the longest bar, in letters.
const BAR: u64 = 40;

const TIMES: [Column; 11] = [
    key_column(1, "layer", "layer"),
    key_column(1, "class", "class"),
    key_column(0, "operation", "operation"),
    column("count", "count"),
    column("time_ns", "time"),
    column("mean_ns", "mean"),
    column("p50_ns", "p50"),
    column("p90_ns", "p90"),
    column("p99_ns", "p99"),
    column("p999_ns", "p99.9"),
    column("max_ns", "max"),
];

/// Columns of layers, in the order of [`LAYERS`].
const SPLIT: [Column; LAYERS.len()] = [
    column("vfs_ns", "vfs"),
    column("fs_ns", "fs"),
    column("cache_ns", "cache"),
    column("journal_ns", "journal"),
    column("throttle_ns", "throttle"),
    column("queue_ns", "queue"),
    column("device_ns", "device"),
];

/// Columns of a histogram. The last one is only for people.
fn histogram_columns(is_ms: bool) -> Vec<Column> {
    let [from, to] = if is_ms { ["from ms", "to ms"] } else { ["from ns", "to ns"] };
    vec![
        key_column(1, "layer", "layer"),
        key_column(1, "class", "class"),
        key_column(0, "operation", "operation"),
        column(if is_ms { "from_ms" } else { "from_ns" }, from),
        column(if is_ms { "to_ms" } else { "to_ns" }, to),
        column("count", "count"),
        column("", "distribution"),
    ]
}

/// Layer, class and operation.
fn names(key: &RowKey) -> Vec<Cell> {
    let (layer, operation, io) = key;
    let class = io.map_or(Cell::None, |direction| Cell::Word(direction.as_str().to_owned()));
    vec![Cell::Word(layer.as_str().to_owned()), class, Cell::Word(operation.clone())]
}

fn layer(key: &RowKey, times: &LatencyTimes) -> Vec<Cell> {
    let spread = &times.spread;
    let mut row = names(key);
    row.extend([
        Cell::Count(spread.count()),
        Cell::Ns(spread.sum()),
        Cell::ns(spread.sum().checked_div(spread.count())),
    ]);
    row.extend([500, 900, 990, 999].map(|at| Cell::ns(spread.percentile(at))));
    row.push(Cell::Ns(spread.max()));
    row
}

/// Buckets from the first one with operations to the last.
fn buckets(key: &RowKey, times: &LatencyTimes) -> Vec<Vec<Cell>> {
    let most = times.octaves.iter().copied().max().unwrap_or(0).max(1);
    let all = times.octaves.iter().enumerate().skip_while(|octave| *octave.1 == 0);
    let row = |(octave, count): (usize, &u64)| {
        let from = if octave == 0 { 0 } else { 1_u64 << octave };
        let letters = (count * BAR).div_ceil(most);
        let mut row = names(key);
        row.extend([
            Cell::Count(from),
            Cell::Count(u64::MAX >> (63 - octave.min(63))),
            Cell::Count(*count),
            Cell::Word("*".repeat(usize::try_from(letters).unwrap_or(0))),
        ]);
        row
    };
    all.map(row).collect()
}

/// True if all layers are reported.
fn has_splits(fold: &Latency) -> bool {
    let it = &fold.options;
    it.syscalls && it.vfs && it.fs && it.block
}

/// True if a tracepoint of this layer was recorded.
pub(super) fn is_recorded(layer: layer::Layer, header: &Header) -> bool {
    use layer::Layer::{Device, Fs, Queue};
    header.tracepoints.iter().any(|tracepoint| match layer {
        Queue | Device => tracepoint.system == "block",
        // The beginning of direct I/O is recorded without its end.
        Fs if header.layers.is_none() => false,
        _ => layer::of_point(&tracepoint.system, &tracepoint.name) == Some(layer),
    })
}

fn splits(fold: &Latency, header: &Header) -> Table {
    let mut columns = vec![
        key_column(1, "class", "class"),
        key_column(0, "operation", "operation"),
        column("count", "count"),
        column("time_ns", "time"),
        column("rest_ns", "rest"),
    ];
    columns.extend(SPLIT);
    let recorded = LAYERS.map(|layer| is_recorded(layer, header));
    let row = |((call, io), split): ((CallId, IoClass), &Split)| {
        let [class, name] = [io.as_str(), call.call().name].map(|word| Cell::Word(word.to_owned()));
        let (count, ns, rest) =
            (Cell::Count(split.count), Cell::Ns(split.ns), Cell::Ns(split.rest()));
        let mut row = vec![class, name, count, ns, rest];
        let layers = split.layers.iter().zip(recorded);
        row.extend(layers.map(|(ns, recorded)| if recorded { Cell::Ns(*ns) } else { Cell::None }));
        row
    };
    Table {
        key: "split",
        title: "Where the time of system calls went: to the deepest layer that was at work".into(),
        columns,
        rows: fold.splits().into_iter().map(row).collect(),
    }
}

/// Sources of the layers inside calls, and their gaps.
fn layer_sources(fold: &Latency, summary: &Summary) -> Vec<String> {
    let header = &summary.header;
    if !fold.options.vfs && !fold.options.fs {
        return Vec::new();
    }
    let points: Vec<&str> = header
        .tracepoints
        .iter()
        .filter(|tracepoint| {
            layer::of_point(&tracepoint.system, &tracepoint.name).is_some()
                && !is_probe(&tracepoint.system)
        })
        .map(|tracepoint| tracepoint.name.as_str())
        .collect();
    // The texts of a log are untrusted.
    let reason = shown(&header.layers_reason);
    let mut notes = match header.layers.as_deref() {
        None => vec![
            "the layers inside calls were not recorded (record -e %default,layers): their time is in `rest`".to_owned(),
        ],
        Some("kprobe") => vec![
            format!("vfs and fs come from kprobes at entry and return of {reason}"),
            format!("cache, throttle and journal come from tracepoints: {}", points.join(", ")),
        ],
        Some(_) => vec![
            format!("no kprobes: {reason}; so layers come from tracepoints: {}", points.join(", ")),
            "fs excludes parts without tracepoints at both ends: reads through the page cache, opens, and of other file systems than \
             ext4 all but direct I/O; vfs has none at all: `rest` is that, the copying, and the entry and exit of the call"
                .to_owned(),
        ],
    };
    if is_recorded(layer::Layer::Cache, header) {
        notes.push(
            "cache: until the pages to read are in the page cache, from the last event of the call (its entry, or the end of \
             what was read before, so with the copying of that)"
                .to_owned(),
        );
    }
    if is_recorded(layer::Layer::Throttle, header) {
        notes.push("throttle: the time for which the kernel made the writer wait".to_owned());
    }
    let books = &summary.ledger.spans;
    for (count, what) in [
        (
            books.without_begin,
            "ends without a recorded beginning, or beginnings that are nested too deeply",
        ),
        (books.without_end, "beginnings without an end inside the call, or whose end was lost"),
        (books.left_out, "intervals of calls that had too many"),
    ] {
        if count > 0 {
            notes.push(format!("{count} {what}: their times are not in the tables"));
        }
    }
    notes
}

/// Text of a log, on one line and without control characters of terminals.
fn shown(words: &str) -> String {
    let mut out = Vec::new();
    escape::shown(&mut out, words.as_bytes(), b"");
    String::from_utf8_lossy(&out).into_owned()
}

/// All of `latency` except for the last lines of the capture.
pub fn report(fold: &Latency, summary: &Summary, _: usize) -> Report {
    let wall = summary.end_time().0.saturating_sub(summary.start().0);
    let rows = fold.rows();
    let is_ms = fold.options.unit_ns > 1;
    let from = if fold.options.queued { "from its first bio (Q)" } else { "from the driver (D)" };
    let mut report = Report { kind: "latency", ..Report::default() };
    report.facts = vec![
        ("wall_ns", "recorded", Cell::Ns(wall)),
        ("block_from", "", Cell::Word(if fold.options.queued { "Q" } else { "D" }.to_owned())),
        ("requests_without_begin", "", Cell::Count(fold.without_begin)),
    ];
    report.tables = vec![
        Table {
            key: "layers",
            title: format!("Times by layer; a block request {from} to its completion (C)"),
            columns: TIMES.to_vec(),
            rows: rows.iter().map(|row| layer(row.0, row.1)).collect(),
        },
        Table {
            key: "histogram",
            title: "Distribution".into(),
            columns: histogram_columns(is_ms),
            rows: rows.iter().flat_map(|row| buckets(row.0, row.1)).collect(),
        },
    ];
    // A report without rows shows which tables and columns there are.
    if has_splits(fold) || rows.is_empty() {
        report.tables.push(splits(fold, &summary.header));
    }
    report.notes.extend(layer_sources(fold, summary));
    if fold.without_begin > 0 {
        report.notes.push(format!(
            "{} issued to no driver during the recording (other requests carry a flush out): not in the table",
            counted_with(
                fold.without_begin,
                "request",
                ["completed that was", "completed that were"]
            )
        ));
    }
    report
}
