//! Report of `summary`.

use std::cmp::Reverse;

use super::file_rows::{file_cells, file_columns, nameless_cells, other_files};
use super::file_systems::FileSystems;
use super::grouping::{self, Grouping, ProcessGroup, ReportOptions, cells_of, groups};
use super::op_groups;
use super::pseudo_files::{FoldedRows, KeyedFile, folded, note};
use super::rows::{column, key_column, left_out, rest_of_keys};
use super::tallies::Tallies;
use crate::analysis::bounded_map::KEYS_MAX;
use crate::analysis::completed_op::OpKind;
use crate::analysis::findings::{Finding, FindingKind, findings};
use crate::analysis::group_stats::GroupStats;
use crate::analysis::histogram::Histogram;
use crate::analysis::summary::{
    DeviceSummary, IoSummary, KeyParts, ProcessSummary, UnfetchedAsync,
};
use crate::operation::disk;
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;
use crate::pipeline::Summary;
use crate::text::errno::ErrnoName;
use crate::text::escape::shown;
use crate::text::quantity::{self, counted, size, time};
use crate::text::shares;
use crate::text::table::{Cell, Column, Report, Table, UNVERIFIED};
use crate::units::DevId;

const DEVICE: [Column; 16] = [
    column("requests", "requests"),
    column("errors", "errors"),
    column("merges", "merges"),
    column("bytes", "moved"),
    column("queue_ns", "queue"),
    column("queue_p50_ns", "queue p50"),
    column("queue_p99_ns", "queue p99"),
    column("queue_max_ns", "queue max"),
    column("device_ns", "in device"),
    column("device_p50_ns", "device p50"),
    column("device_p90_ns", "device p90"),
    column("device_p99_ns", "device p99"),
    column("device_p999_ns", "device p99.9"),
    column("device_max_ns", "device max"),
    key_column(0, "operation", "operation"),
    key_column(0, "device", "device"),
];

fn devices(fold: &IoSummary, names: &[(DevId, String)]) -> Table {
    let row = |((dev, op), stats): (&(DevId, _), &DeviceSummary)| {
        let op: crate::event::block::RequestOp = *op;
        let at = |spread: &Histogram, per_mille| Cell::ns(spread.percentile(per_mille));
        vec![
            Cell::Count(stats.requests),
            Cell::Count(stats.errors),
            Cell::Count(stats.merges),
            Cell::Count(stats.bytes),
            Cell::Ns(stats.queue.sum()),
            at(&stats.queue, 500),
            at(&stats.queue, 990),
            at(&stats.queue, 1000),
            Cell::Ns(stats.device.sum()),
            at(&stats.device, 500),
            at(&stats.device, 900),
            at(&stats.device, 990),
            at(&stats.device, 999),
            at(&stats.device, 1000),
            Cell::Word(op.as_str().to_owned()),
            device(*dev, names),
        ]
    };
    Table {
        key: "devices",
        title: "Block requests: before the driver (queue), in driver and device (device)".into(),
        columns: DEVICE.to_vec(),
        rows: fold.devices.iter().map(row).collect(),
    }
}

/// A device by its name, if it has one.
pub(super) fn device(dev: DevId, names: &[(DevId, String)]) -> Cell {
    let name = names.iter().find(|name| name.0 == dev);
    name.map_or_else(|| Cell::Word(dev.to_string()), |name| Cell::Name(name.1.clone().into_bytes()))
}

fn errors(fold: &IoSummary) -> Table {
    let mut rows: Vec<_> = fold.errors.iter().collect();
    rows.sort_by_key(|row| (Reverse(*row.1), *row.0));
    let row = |((what, io, errno), count): (&(OpKind, IoClass, i32), &u64)| {
        let io = io.as_str().to_owned();
        let words = [ErrnoName(*errno).to_string(), io, what.to_string()].map(Cell::Word);
        [Cell::Count(*count)].into_iter().chain(words).collect()
    };
    Table {
        key: "errors",
        title: "Failures by reason".into(),
        columns: vec![
            column("count", "count"),
            key_column(0, "error", "error"),
            key_column(1, "class", "class"),
            key_column(0, "operation", "operation"),
        ],
        rows: rows.into_iter().map(row).collect(),
    }
}

/// All of `summary` except for the last lines of the capture.
pub fn report(fold: &IoSummary, summary: &Summary, options: ReportOptions) -> Report {
    let limit = options.limit;
    let wall = summary.end_time().0.saturating_sub(summary.start().0);
    let names = disk::names(&summary.disks());
    let found = findings(fold);
    let mut report = Report { kind: "summary", ..Report::default() };
    let all = fold.all();
    // Without such operations the lines would only take room.
    let unless_zero = |title, number: u64| if number == 0 { "" } else { title };
    report.facts = vec![
        ("wall_ns", "recorded", Cell::Ns(wall)),
        ("operations", "operations", Cell::Count(all.count)),
        ("failed", unless_zero("failed", all.errors), Cell::Count(all.errors)),
        ("read_bytes", "bytes read", Cell::Count(all.read)),
        ("written_bytes", "bytes written", Cell::Count(all.written)),
        ("time_ns", "time in them", Cell::Ns(all.time.sum())),
        ("file_ns", "of it on files", Cell::Ns(all.own_time())),
        ("waited_ns", unless_zero("of it on pipes, sockets, …", all.waited), Cell::Ns(all.waited)),
        (
            "unknown_type_ns",
            unless_zero("of it on descriptors of unknown type", all.untyped_ns),
            Cell::Ns(all.untyped_ns),
        ),
        ("unknown_type_count", "", Cell::Count(all.untyped)),
        (
            "no_io_ns",
            unless_zero("of it without I/O", all.without_io_ns),
            Cell::Ns(all.without_io_ns),
        ),
        ("no_io_count", "", Cell::Count(all.without_io)),
        ("time_per_wall", "time in them, of the time recorded", Cell::share(all.time.sum(), wall)),
        ("faults", unless_zero("page faults on files", fold.faults), Cell::Count(fold.faults)),
        ("unseen_results", "", Cell::Count(fold.unseen.count)),
        ("unseen_requested_bytes", "", Cell::Count(fold.unseen.requested)),
    ];
    let (files, note) = files(fold, summary, options, &names);
    report.tables = vec![
        findings_table(&found, &names),
        calls(fold, limit),
        processes(fold, options),
        files,
        devices(fold, &names),
        errors(fold),
    ];
    report.notes.extend(note);
    if let Some(groups) = &fold.groups {
        report.tables.insert(1, op_groups::table(fold, groups, summary, &names, limit));
    }
    for (what, others) in [
        ("processes", fold.processes.others().map(|other| other.tally.count)),
        ("files", fold.files.others().map(|other| other.count)),
    ] {
        if let Some(count) = others {
            left_out(&mut report, what, KEYS_MAX, count);
        }
    }
    report.notes.extend(untyped(fold, &summary.header.names));
    report.notes.extend(unseen(&fold.unseen));
    report
}

/// Note on operations on descriptors of unknown type, and the reason.
fn untyped(fold: &IoSummary, names: &str) -> Option<String> {
    let all = fold.all();
    (all.untyped > 0).then(|| {
        format!(
            "{}, {} of {}, on descriptors of unknown type (names: {}): whether they are file I/O or wait for pipes and \
             sockets is not known, and no other finding counts them (docs/limitations.md#lim-descriptors)",
            counted(all.untyped, "operation"),
            time(all.untyped_ns),
            time(all.time.sum()),
            harmless(names.as_bytes())
        )
    })
}

/// Note on asynchronous operations that are in no table.
fn unseen(unfetched: &UnfetchedAsync) -> Option<String> {
    let unknown = match unfetched.unknown {
        0 => String::new(),
        count => format!(" (and {count} for an unknown number of bytes)"),
    };
    (unfetched.count > 0).then(|| {
        format!(
            "{}, result not seen: they requested {}{unknown} and are in no table",
            counted(unfetched.count, "asynchronous operation"),
            counted(unfetched.requested, "byte")
        )
    })
}

fn calls(fold: &IoSummary, limit: usize) -> Table {
    let rows = fold.calls().into_iter().map(|((what, io), stats)| {
        let names = [io.as_str().to_owned(), what.to_string()].map(Cell::Word);
        (names.to_vec(), stats.clone())
    });
    let names = [key_column(1, "class", "class"), key_column(0, "operation", "operation")];
    let tables =
        Tallies { key: "calls", title: "Operations", names: &names, all: &fold.all(), limit };
    tables.table(rows.collect())
}

/// Returns the table of processes.
pub(super) fn processes(fold: &IoSummary, options: ReportOptions) -> Table {
    let row =
        |(key, process): (&ProcessKey, &ProcessSummary)| (*key, process.pid, process.tally.clone());
    let rows = fold.processes.iter().map(row);
    let groups = groups(rows, &fold.names, options.by, GroupStats::merge);
    let has_commands = groups.is_empty() || groups.iter().any(ProcessGroup::has_command);
    let mut names = grouping::columns(options.by, has_commands).to_vec();
    // Few recordings are of parallel jobs.
    if options.by == Grouping::Process && groups.iter().any(ProcessGroup::has_rank) {
        let of_rank = names.iter_mut().filter(|column| column.key == grouping::RANK);
        of_rank.for_each(|column| (column.title, column.rank) = ("rank", Some(2)));
    }
    // Equal numbers of two hosts are different processes.
    let is_job = groups.iter().any(|group| group.host() != Cell::None);
    let has_hosts = is_job && options.by == Grouping::Process;
    names.extend(has_hosts.then_some(grouping::HOST));
    let with_host = |mut cells: Vec<Cell>, host: Cell| {
        cells.extend(has_hosts.then_some(host));
        cells
    };
    let rows = groups.into_iter().map(|group| (with_host(group.cells(), group.host()), group.sum));
    let rest = fold.processes.others();
    let rest =
        rest.map(|other| (with_host(cells_of(rest_of_keys()), Cell::None), other.tally.clone()));
    let tables = Tallies {
        key: "processes",
        title: title(options.by),
        names: &names,
        all: &fold.all(),
        limit: options.limit,
    };
    tables.table(rows.chain(rest).collect())
}

/// Title of a table of groups of processes.
pub(super) fn title(by: Grouping) -> &'static str {
    match by {
        Grouping::Program => "Programs",
        Grouping::Process => "Processes",
        Grouping::User => "Users",
        Grouping::Cgroup => "Containers and units",
    }
}

/// Class of all operations of a row; `mixed` if there are several.
fn class_of(stats: &GroupStats) -> &'static str {
    match (stats.own, stats.untyped, stats.count) {
        (own, _, count) if own == count => IoClass::File.as_str(),
        (_, untyped, count) if untyped == count => IoClass::Unknown.as_str(),
        (0, 0, _) => IoClass::Waiting.as_str(),
        _ => "mixed",
    }
}

/// Returns the table of files, and the note on files that share a row.
fn files(
    fold: &IoSummary,
    summary: &Summary,
    options: ReportOptions,
    disks: &[(DevId, String)],
) -> (Table, Option<String>) {
    let row = |names: [Cell; 3], stats: &GroupStats| {
        let class = Cell::Word(class_of(stats).to_owned());
        ([vec![class], names.to_vec()].concat(), stats.clone())
    };
    let rows = fold.files.iter().map(|(key, stats)| (KeyedFile { key, dev: None }, stats.clone()));
    let file_systems = match options.folds_pseudo_files {
        true => FileSystems::of(summary),
        false => FileSystems::none(),
    };
    let FoldedRows { named, pseudo } = folded(rows, &file_systems, disks, GroupStats::merge);
    let rows = named.iter().map(|(key, stats)| row(file_cells(key), stats));
    let folded =
        pseudo.iter().map(|pseudo| row([Cell::None, Cell::None, pseudo.name()], &pseudo.sum));
    let nameless = fold.nameless.iter().map(|(io, stats)| row(nameless_cells(*io), stats));
    let rest = fold.files.others().map(|other| row(other_files(), other));
    let rest = folded.chain(rest).chain(nameless);
    let [mounts, unverified, path] = file_columns("file");
    let names = [column("class", ""), mounts, unverified, path];
    let (key, title, limit) = ("files", "Files", options.limit);
    let tables = Tallies { key, title, names: &names, all: &fold.all(), limit };
    (tables.table(rows.chain(rest).collect()), note(&pseudo))
}

fn findings_table(found: &[Finding], names: &[(DevId, String)]) -> Table {
    let row = |finding: &Finding| {
        let kind = Cell::Word(finding.kind().to_owned());
        vec![kind, Cell::Ns(finding.time_ns), Cell::Word(sentence(finding, names))]
    };
    Table {
        key: "findings",
        title: "Findings".into(),
        columns: vec![column("finding", ""), column("time_ns", ""), column("text", "finding")],
        rows: found.iter().map(row).collect(),
    }
}

fn harmless(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    shown(&mut out, bytes, b"");
    String::from_utf8_lossy(&out).into_owned()
}

/// Path of a file by its key.
fn named(key: &[u8]) -> String {
    let KeyParts { path, is_doubtful, .. } = KeyParts::of(key);
    harmless(path) + if is_doubtful { UNVERIFIED } else { "" }
}

fn sentence(finding: &Finding, names: &[(DevId, String)]) -> String {
    let spent = time(finding.time_ns);
    let of = |all: &u64| shares::of(finding.time_ns, *all);
    match &finding.kind {
        FindingKind::Operation { what, count, all_ns } => format!(
            "{what}: {spent} in {}, {} of the time of all file I/O",
            counted(*count, "call"),
            of(all_ns)
        ),
        FindingKind::File { file, count, read, written, all_ns } => format!(
            "{}: {spent} in {}, {} of the time of all file I/O; {} read, {} written",
            named(file),
            counted(*count, "operation"),
            of(all_ns),
            size(*read),
            size(*written)
        ),
        FindingKind::Process { pid, comm, count, all_ns } => format!(
            "process {pid} ({}): {spent} in {}, {} of the time of all file I/O",
            harmless(comm),
            counted(*count, "operation"),
            of(all_ns)
        ),
        FindingKind::Small { what, count, bytes } => format!(
            "{what}: {} move {}, {} on average: with accesses of 4096 bytes up to {spent} less",
            counted(*count, "call"),
            size(*bytes),
            size(bytes / count.max(&1))
        ),
        FindingKind::Failing { what, errno, failed, count } => format!(
            "{what}: {} of {} fail with {}, in some {spent}",
            quantity::count(*failed),
            counted(*count, "call"),
            ErrnoName(*errno)
        ),
        FindingKind::Untyped { count, all_ns } => format!(
            "descriptors of unknown type: {spent} in {}, {} of the time of all operations: file I/O, or waiting for others",
            counted(*count, "operation"),
            of(all_ns)
        ),
        FindingKind::Queued { dev, requests, device_ns } => {
            let name = names.iter().find(|name| name.0 == *dev);
            let name = name.map_or_else(|| dev.to_string(), |name| name.1.clone());
            format!(
                "{}: {} wait {spent} before the driver and are {} in it: more are issued at once than it takes",
                harmless(name.as_bytes()),
                counted(*requests, "request"),
                time(*device_ns)
            )
        }
    }
}
