//! Report of `files`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::file_systems::FileSystems;
use super::files_findings;
use super::rows::{column, first_rows, key_column, left_out, others};
use super::summary::{file_cells, file_columns, nameless_cells, other_files};
use crate::analysis::bounded_map::KEYS_MAX;
use crate::analysis::files::{FileTotals, FileUse, ProcessUse};
use crate::analysis::summary::KeyParts;
use crate::operation::io_class::IoClass;
use crate::pipeline::Summary;
use crate::text::table::{Cell, Column, Report, Table};
use crate::units::DevId;

/// Columns of a file.
const USE: [Column; 20] = [
    column("opens", "opens"),
    column("failed_opens", "failed"),
    column("count", "operations"),
    column("reads", "reads"),
    column("writes", "writes"),
    column("read_bytes", "read"),
    column("reread_bytes", "read again"),
    column("read_unknown_bytes", ""),
    column("written_bytes", "written"),
    column("overwritten_bytes", "overwritten"),
    column("written_unknown_bytes", ""),
    column("size_p50_bytes", "size p50"),
    column("size_max_bytes", "size max"),
    column("time_ns", "time"),
    column("p99_ns", "p99"),
    column("max_ns", "max"),
    column("removals", "removed"),
    column("written_then_removed_bytes", "written, removed"),
    column("errors", ""),
    column("doubtful_names", ""),
];

fn cells(used: &FileUse) -> Vec<Cell> {
    vec![
        Cell::Count(used.opens),
        Cell::Count(used.failed_opens),
        Cell::Count(used.count),
        Cell::Count(used.read.count),
        Cell::Count(used.written.count),
        Cell::Count(used.read.bytes),
        Cell::Count(used.read.again),
        Cell::Count(used.read.unknown),
        Cell::Count(used.written.bytes),
        Cell::Count(used.written.again),
        Cell::Count(used.written.unknown),
        Cell::count(used.sizes.percentile(500)),
        Cell::count(used.sizes.percentile(1000)),
        Cell::Ns(used.time.sum()),
        Cell::ns(used.time.percentile(990)),
        Cell::Ns(used.time.max()),
        Cell::Count(used.removals),
        Cell::Count(used.written_then_removed),
        Cell::Count(used.errors),
        Cell::Count(used.doubtful),
    ]
}

/// Sorts the rows: files before pipes and other objects, by bytes, then by operations.
fn sort(rows: &mut [(Vec<Cell>, &FileUse)]) {
    let heat = |used: &FileUse| {
        (is_file(used), used.read.bytes.saturating_add(used.written.bytes), used.count)
    };
    rows.sort_by_cached_key(|(names, used)| (Reverse(heat(used)), format!("{names:?}")));
}

/// True if an operation was on a file.
fn is_file(used: &FileUse) -> bool {
    used.io_class() != Some(IoClass::Waiting)
}

/// A table of such rows; the last of the `names` has the number of the combined rows.
fn table(
    key: &'static str,
    title: &str,
    names: &[Column],
    mut rows: Vec<(Vec<Cell>, &FileUse)>,
    limit: usize,
) -> Table {
    let total = rows.len();
    sort(&mut rows);
    let (rows, rest) = first_rows(rows, limit);
    let row = |(names, it): (Vec<Cell>, &FileUse)| cells(it).into_iter().chain(names).collect();
    let mut rows: Vec<Vec<Cell>> = rows.into_iter().map(row).collect();
    if !rest.is_empty() {
        let mut sum = FileUse::default();
        rest.iter().for_each(|rest| sum.merge(rest.1));
        let mut names = vec![Cell::None; names.len()];
        if let Some(last) = names.last_mut() {
            *last = others(rest.len());
        }
        rows.push(row((names, &sum)));
    }
    Table {
        key,
        title: format!("{title} ({total})"),
        columns: USE.iter().chain(names).copied().collect(),
        rows,
    }
}

/// All of `files` except for the last lines of the capture; `limit` rows of each table, 0 for all.
pub fn report(fold: &FileTotals, summary: &Summary, limit: usize) -> Report {
    let wall = summary.end_time().0.saturating_sub(summary.start().0);
    let mut report = Report { kind: "files", ..Report::default() };
    report.facts = vec![
        ("wall_ns", "recorded", Cell::Ns(wall)),
        (
            "file_count",
            "files",
            Cell::Count(fold.files.iter().filter(|file| is_file(file.1)).count() as u64),
        ),
    ];
    report.tables = vec![
        files_findings::table(fold),
        files(fold, limit),
        directories(fold, limit),
        by_file_system(fold, summary, limit),
        by_process(fold, limit),
    ];
    if let Some(others) = fold.files.others() {
        left_out(&mut report, "files", KEYS_MAX, others.count);
    }
    if let Some(others) = fold.by_process.others() {
        left_out(&mut report, "files by process", KEYS_MAX, others.tally.count);
        report
            .notes
            .push("the number of processes of each file is unknown for that reason".to_owned());
    }
    if fold.files.others().is_some() {
        report.notes.push(
            "files without a row of their own are not counted in directories and file systems"
                .to_owned(),
        );
    }
    let all = fold
        .files
        .iter()
        .map(|file| file.1)
        .chain(fold.files.others())
        .chain(fold.nameless.values());
    let unknown: u64 = all.map(|file| file.read.unknown + file.written.unknown).sum();
    if unknown > 0 {
        report.notes.push(format!(
            "it is unknown whether {unknown} bytes had been read or written before: their offset is not known, or the pieces of \
             the file are too many"
        ));
    }
    report
}

fn files(fold: &FileTotals, limit: usize) -> Table {
    let mut columns = vec![column("processes", "processes")];
    columns.extend([column("size_bytes", "size"), key_column(1, "class", "class")]);
    columns.extend(file_columns("file"));
    // The processes of operations beyond the limit are unknown.
    let is_counted = fold.by_process.others().is_none();
    let cells = |used: &FileUse, names: [Cell; 3]| {
        let processes = if is_counted { Cell::Count(used.processes) } else { Cell::None };
        let class = used.io_class().map_or("mixed", IoClass::as_str).to_owned();
        let mut cells = vec![processes, Cell::Count(used.size), Cell::Word(class)];
        cells.extend(names);
        cells
    };
    let rows = fold.files.iter().map(|(key, it)| (cells(it, file_cells(key)), it));
    let rest = fold.files.others().map(|other| (cells(other, other_files()), other));
    let nameless = fold.nameless.iter().map(|(io, it)| (cells(it, nameless_cells(*io)), it));
    let rows = rows.chain(rest).chain(nameless).collect();
    table("files", "Files, pipes and sockets", &columns, rows, limit)
}

/// Sums over the files of each directory, not those of directories in it.
fn directories(fold: &FileTotals, limit: usize) -> Table {
    let mut sums: BTreeMap<Vec<u8>, (u64, FileUse)> = BTreeMap::new();
    for (key, it) in fold.files.iter() {
        let parts = KeyParts::of(key);
        let path = parts.path;
        // An object without a place has no directory: socket:[7], or a path with an unknown
        // beginning.
        let Some(slash) = path.iter().rposition(|path| *path == b'/') else { continue };
        let path = path.get(..slash.max(1)).unwrap_or_default();
        let sum = sums.entry(KeyParts { path, ..parts }.key()).or_default();
        sum.0 += 1;
        sum.1.merge(it);
    }
    let rows = sums.iter().map(|(key, (files, used))| {
        let mut cells = vec![Cell::Count(*files)];
        cells.extend(file_cells(key));
        (cells, used)
    });
    let mut columns = vec![column("files", "files")];
    columns.extend(file_columns("directory"));
    table("directories", "Directories", &columns, rows.collect(), limit)
}

/// Sums over the files of each file system.
fn by_file_system(fold: &FileTotals, summary: &Summary, limit: usize) -> Table {
    let mut sums: BTreeMap<Option<DevId>, (u64, FileUse)> = BTreeMap::new();
    for (_, used) in fold.files.iter().filter(|(_, used)| is_file(used)) {
        let sum = sums.entry(used.file_system).or_default();
        sum.0 += 1;
        sum.1.merge(used);
    }
    let file_systems = FileSystems::of(summary);
    let rows = sums.iter().map(|(dev, (files, used))| {
        let name = dev.map_or_else(|| "not known".to_owned(), |dev| file_systems.name(dev));
        let dev = dev.map_or(NONE, |dev| Cell::Word(dev.to_string()));
        (vec![Cell::Count(*files), dev, Cell::Word(name)], used)
    });
    let columns = [
        column("files", "files"),
        column("fs_dev", ""),
        key_column(0, "file_system", "file system"),
    ];
    table("file_systems", "File systems", &columns, rows.collect(), limit)
}

const BY_PROCESS: [Column; 7] = [
    column("count", "operations"),
    column("errors", "failed"),
    column("read_bytes", "read"),
    column("written_bytes", "written"),
    column("time_ns", "time"),
    key_column(1, "pid", "pid"),
    key_column(0, "comm", "process"),
];

/// An empty cell.
const NONE: Cell = Cell::None;

fn by_process(fold: &FileTotals, limit: usize) -> Table {
    let mut names: BTreeMap<usize, &Vec<u8>> = BTreeMap::new();
    names.extend(fold.files.keys().map(|(key, place)| (place, key)));
    let mut rows: Vec<_> = fold.by_process.iter().collect();
    let heat =
        |used: &ProcessUse| (used.tally.read.saturating_add(used.tally.written), used.tally.count);
    rows.sort_by_key(|(key, it)| (Reverse(heat(it)), **key));
    let total = rows.len();
    let (rows, rest) = first_rows(rows, limit);
    let row = |((process, place), used): &(&(_, usize), &ProcessUse)| {
        let comm = fold.names.of(*process).to_vec();
        let mut cells = numbers(used);
        cells.extend([Cell::Signed(used.pid.0.into()), Cell::Name(comm)]);
        cells.extend(match names.get(place) {
            Some(key) => file_cells(key),
            None => other_files(),
        });
        cells
    };
    let mut rows: Vec<Vec<Cell>> = rows.iter().map(row).collect();
    let mut sum = ProcessUse::default();
    rest.iter().for_each(|rest| sum.tally.merge(&rest.1.tally));
    if !rest.is_empty() {
        let names = [NONE, NONE, NONE, NONE, others(rest.len())];
        rows.push(numbers(&sum).into_iter().chain(names).collect());
    }
    if let Some(further) = fold.by_process.others() {
        let names = [NONE, NONE].into_iter().chain(other_files());
        rows.push(numbers(further).into_iter().chain(names).collect());
    }
    Table {
        key: "by_process",
        title: format!("Processes and files ({total})"),
        columns: BY_PROCESS.into_iter().chain(file_columns("file")).collect(),
        rows,
    }
}

fn numbers(used: &ProcessUse) -> Vec<Cell> {
    let tally = &used.tally;
    vec![
        Cell::Count(tally.count),
        Cell::Count(tally.errors),
        Cell::Count(tally.read),
        Cell::Count(tally.written),
        Cell::Ns(tally.time.sum()),
    ]
}
