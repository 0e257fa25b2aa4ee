//! Report of `slow`.

use std::collections::BTreeMap;

use super::file_rows::{NAMELESS, file_cells, file_columns};
use super::grouping::add_places;
use super::rows::{column, first_rows, key_column, others, titled};
use super::slow_commits;
use super::summary::device;
use crate::analysis::layer_split::LAYERS;
use crate::analysis::slowest::{SlowOperation, SlowRequest, Slowest};
use crate::operation::disk;
use crate::pipeline::Summary;
use crate::text::errno::ErrnoName;
use crate::text::quantity::{count, time};
use crate::text::shares;
use crate::text::table::{Cell, Column, Report, Table};
use crate::units::DevId;

/// Number of operations that are shown by default.
pub const ROWS: usize = 10;

/// Columns of a slow operation.
const OPERATION: [Column; 14] = [
    key_column(0, "rank", "#"),
    column("duration_ns", "time"),
    key_column(1, "operation", "operation"),
    column("start_ns", "begin"),
    column("device_ns", "device"),
    column("queue_ns", "queue"),
    column("journal_ns", "journal"),
    column("other_layers_ns", ""),
    column("requests", "requests"),
    column("size_bytes", ""),
    column("offset", ""),
    column("errno", "error"),
    column("tid", ""),
    column("pid", ""),
];

/// All of `slow` except for the last lines of the capture.
pub fn report(fold: &Slowest, summary: &Summary, limit: usize) -> Report {
    let names = disk::names(&summary.disks());
    let ranked = fold.ranked();
    let limit = if limit == 0 { ranked.len() } else { limit };
    let shown: Vec<&SlowOperation> = ranked.iter().copied().take(limit).collect();
    let mut report = Report { kind: "slow", ..Report::default() };
    report.facts = vec![
        ("operations", "operations on files", Cell::Count(fold.operations)),
        ("file_ns", "time in them", Cell::Ns(fold.all_ns)),
    ];
    let start = summary.start();
    let columns = OPERATION.iter().chain(&PROCESS).chain(&file_columns("file")).copied().collect();
    let row = |(place, slow): (usize, &&SlowOperation)| operation(place + 1, slow, fold, start.0);
    let mut slowest = Table {
        key: "slowest",
        title: format!("Slowest operations ({} of {})", shown.len(), count(fold.operations)),
        columns,
        rows: shown.iter().enumerate().map(row).collect(),
    };
    add_places(&mut slowest, &fold.names, shown.iter().map(|slow| slow.process));
    report.tables = vec![
        findings(&ranked, fold),
        slowest,
        requests(&shown, &names),
        slow_commits::table(&shown, fold, &names, start.0),
        groups(&ranked, limit),
    ];
    if fold.commits.left_out > 0 {
        report.notes.push(format!(
            "commits of slow operations: the first {} are left out for lack of room",
            count(fold.commits.left_out)
        ));
    }
    if !shown.is_empty() && ranked.iter().all(|slow| slow.split.layers.iter().sum::<u64>() == 0) {
        report.notes.push(
            "the time inside the calls was not recorded: record it with -e %default,layers"
                .to_owned(),
        );
    }
    report
}

/// Column of the process of an operation.
const PROCESS: [Column; 1] = [key_column(3, "comm", "process")];

fn layer_ns(slow: &SlowOperation, is_wanted: impl Fn(&str) -> bool) -> u64 {
    let layers = LAYERS.iter().zip(slow.split.layers);
    layers.filter(|(layer, _)| is_wanted(layer.as_str())).map(|(_, ns)| ns).sum()
}

fn operation(rank: usize, slow: &SlowOperation, fold: &Slowest, start: u64) -> Vec<Cell> {
    let (device, queue) =
        (layer_ns(slow, |layer| layer == DEVICE), layer_ns(slow, |layer| layer == QUEUE));
    let journal = layer_ns(slow, |layer| layer == JOURNAL);
    let others = layer_ns(slow, |layer| ![DEVICE, QUEUE, JOURNAL].contains(&layer));
    let requests = slow.requests.len() as u64 + slow.more_requests;
    let mut cells = vec![
        Cell::Count(rank as u64),
        Cell::Ns(slow.ns),
        Cell::Word(slow.what.to_string()),
        Cell::Ns(slow.start.0.saturating_sub(start)),
        Cell::Ns(device),
        Cell::Ns(queue),
        Cell::Ns(journal),
        Cell::Ns(others),
        Cell::Count(requests),
        Cell::Count(slow.bytes),
        Cell::count(slow.offset),
        slow.errno.map_or(Cell::None, |errno| Cell::Word(ErrnoName(errno).to_string())),
        Cell::Signed(slow.tid.0.into()),
        Cell::Signed(slow.pid.0.into()),
        Cell::Name(fold.names.of(slow.process).to_vec()),
    ];
    cells.extend(slow.file.as_deref().map_or(NAMELESS, file_cells));
    cells
}

/// Words of layers, as [`crate::event::layer::Layer`] has them.
const DEVICE: &str = "device";
const QUEUE: &str = "queue";
const JOURNAL: &str = "journal";

/// Table of the requests that the operations waited for.
fn requests(shown: &[&SlowOperation], names: &[(DevId, String)]) -> Table {
    let mut rows = Vec::new();
    for (place, slow) in shown.iter().enumerate() {
        let row = |request: &SlowRequest| {
            vec![
                Cell::Count(place as u64 + 1),
                Cell::ns(request.queue_ns),
                Cell::ns(request.device_ns),
                Cell::count(request.ahead),
                Cell::Count(request.bytes),
                Cell::Count(request.sector),
                Cell::Word(request.op.as_str().to_owned()),
                device(request.dev, names),
                Cell::Name(request.contents.clone()),
            ]
        };
        rows.extend(slow.requests.iter().map(row));
    }
    Table {
        key: "requests",
        title: "Block requests that they waited for".into(),
        columns: vec![
            key_column(0, "rank", "#"),
            column("queue_ns", "queue"),
            column("device_ns", "device"),
            column("ahead", "ahead"),
            column("moved_bytes", "moved"),
            column("sector", "sector"),
            key_column(1, "operation", "operation"),
            key_column(2, "disk", "disk"),
            key_column(3, "contents", "contents"),
        ],
        rows,
    }
}

/// Sums of slow operations of the same kind on the same file.
#[derive(Default)]
struct SlowGroup {
    count: u64,
    ns: u64,
    max: u64,
}

impl SlowGroup {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.ns = self.ns.saturating_add(other.ns);
        self.max = self.max.max(other.max);
    }
}

/// Table of the kept operations by call and file.
fn groups(ranked: &[&SlowOperation], limit: usize) -> Table {
    let mut groups: BTreeMap<(String, Option<&[u8]>), SlowGroup> = BTreeMap::new();
    for slow in ranked {
        let group = groups.entry((slow.what.to_string(), slow.file.as_deref())).or_default();
        group.count += 1;
        group.ns = group.ns.saturating_add(slow.ns);
        group.max = group.max.max(slow.ns);
    }
    let total = groups.len();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.ns));
    let cells = |what: Cell, file: [Cell; 3], group: &SlowGroup| {
        let counts = vec![Cell::Count(group.count), Cell::Ns(group.ns), Cell::Ns(group.max), what];
        [counts, file.to_vec()].concat()
    };
    let (first, rest) = first_rows(groups, limit);
    let mut rows: Vec<Vec<Cell>> = first
        .into_iter()
        .map(|((what, file), group)| {
            cells(Cell::Word(what), file.map_or(NAMELESS, file_cells), &group)
        })
        .collect();
    if !rest.is_empty() {
        let mut sum = SlowGroup::default();
        rest.iter().for_each(|(_, group)| sum.merge(group));
        let name = [Cell::None, Cell::None, others(rest.len())];
        rows.push(cells(Cell::None, name, &sum));
    }
    let columns = [
        column("count", "count"),
        column("time_ns", "time"),
        column("max_ns", "max"),
        key_column(1, "operation", "operation"),
    ];
    Table {
        key: "groups",
        title: titled(&format!("The {} slowest by operation and file", ranked.len()), total),
        columns: columns.into_iter().chain(file_columns("file")).collect(),
        rows,
    }
}

/// A sentence about the slowest operation and its share.
fn findings(ranked: &[&SlowOperation], fold: &Slowest) -> Table {
    let sentence = |slow: &&SlowOperation| {
        let file = slow.file.as_deref().map_or_else(String::new, |key| {
            let [_, _, path] = file_cells(key);
            format!(" of {}", path.text())
        });
        let of_first: u64 = ranked.iter().take(ROWS).map(|slow| slow.ns).sum();
        let first = match ranked.len() {
            0 | 1 => String::new(),
            count => format!(
                "; the {} slowest operations are {} of the time of all operations on files",
                count.min(ROWS),
                shares::of(of_first, fold.all_ns)
            ),
        };
        let comm = Cell::Name(fold.names.of(slow.process).to_vec()).text();
        format!("the slowest: {}{file} by {comm}, {}{first}", slow.what, time(slow.ns))
    };
    Table {
        key: "findings",
        title: "Findings".into(),
        columns: vec![column("text", "finding")],
        rows: ranked.first().map(sentence).into_iter().map(|text| vec![Cell::Word(text)]).collect(),
    }
}
