//! Report of `files`.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::file_rows::{file_cells, file_columns, nameless_cells, other_files};
use super::file_systems::{FileSystems, type_and_point};
use super::files_findings;
use super::grouping::{ReportOptions, add_places};
use super::places::directory;
use super::pseudo_files::{FoldedRows, KeyedFile, folded, note};
use super::rows::{column, first_rows, key_column, left_out, others, titled};
use crate::analysis::bounded_map::KEYS_MAX;
use crate::analysis::files::{FileTotals, FileUse, ProcessUse};
use crate::operation::disk;
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;
use crate::pipeline::Summary;
use crate::text::quantity::counted;
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
        title: titled(title, total),
        columns: USE.iter().chain(names).copied().collect(),
        rows,
    }
}

/// All of `files` except for the last lines of the capture.
pub fn report(fold: &FileTotals, summary: &Summary, options: ReportOptions) -> Report {
    let limit = options.limit;
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
    let (files, note) = files(fold, summary, options);
    report.notes.extend(note);
    report.tables = vec![
        files_findings::table(fold),
        files,
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
            "it is unknown whether {} had been read or written before: the offset is not known, or the pieces of the file are \
             too many",
            counted(unknown, "byte")
        ));
    }
    report
}

/// Returns the table of files, and the note on files that share a row.
fn files(fold: &FileTotals, summary: &Summary, options: ReportOptions) -> (Table, Option<String>) {
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
    let file_systems = match options.folds_pseudo_files {
        true => FileSystems::of(summary),
        false => FileSystems::none(),
    };
    let rows = fold.files.iter();
    let rows =
        rows.map(|(key, used)| (KeyedFile { key, dev: used.file_system }, Cow::Borrowed(used)));
    let merge = |sum: &mut Cow<'_, FileUse>, more: &Cow<'_, FileUse>| sum.to_mut().merge(more);
    let disks = disk::names(&summary.disks());
    let FoldedRows { named, pseudo } = folded(rows, &file_systems, &disks, merge);
    let rows = named.iter().map(|(key, used)| (cells(used, file_cells(key)), &**used));
    let shared = pseudo.iter().map(|row| {
        let mut cells = cells(&row.sum, [Cell::None, Cell::None, row.name()]);
        // The processes of several files are not added up.
        cells.iter_mut().take(1).for_each(|processes| *processes = Cell::None);
        (cells, &*row.sum)
    });
    let rest = fold.files.others().map(|other| (cells(other, other_files()), other));
    let nameless = fold.nameless.iter().map(|(io, used)| (cells(used, nameless_cells(*io)), used));
    let rows = rows.chain(shared).chain(rest).chain(nameless).collect();
    (table("files", "Files, pipes and sockets", &columns, rows, options.limit), note(&pseudo))
}

/// Sums over the files of each directory, not those of directories in it.
fn directories(fold: &FileTotals, limit: usize) -> Table {
    let mut sums: BTreeMap<Vec<u8>, (u64, FileUse)> = BTreeMap::new();
    for (key, used) in fold.files.iter() {
        let Some(directory) = directory(key) else { continue };
        let sum = sums.entry(directory).or_default();
        sum.0 += 1;
        sum.1.merge(used);
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

/// Sums over the files of each file system: of the device of a file, or by its path.
fn by_file_system(fold: &FileTotals, summary: &Summary, limit: usize) -> Table {
    let file_systems = FileSystems::of(summary);
    let mut sums: BTreeMap<FileSystemKey, (u64, FileUse)> = BTreeMap::new();
    for (key, used) in fold.files.iter().filter(|(_, used)| is_file(used)) {
        let found = file_systems.of_file(key, used.file_system);
        let by_path = found.filter(|found| found.is_by_path).map(|found| found.mount);
        let key = FileSystemKey {
            dev: used.file_system.or(by_path.map(|mount| mount.dev)),
            by_path: by_path.map(type_and_point),
        };
        let sum = sums.entry(key).or_default();
        sum.0 += 1;
        sum.1.merge(used);
    }
    let rows = sums.iter().map(|(FileSystemKey { dev, by_path }, (files, used))| {
        let name = match (by_path, dev) {
            (Some(name), _) => format!("{name}, by path"),
            (None, Some(dev)) => file_systems.name(*dev),
            (None, None) => "not known".to_owned(),
        };
        let dev = dev.map_or(NONE, |dev| Cell::Word(dev.to_string()));
        (vec![Cell::Count(*files), Cell::Flag(by_path.is_some()), dev, Cell::Word(name)], used)
    });
    let columns = [
        column("files", "files"),
        column("by_path", ""),
        column("fs_dev", ""),
        key_column(0, "file_system", "file system"),
    ];
    table("file_systems", "File systems", &columns, rows.collect(), limit)
}

/// File system of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileSystemKey {
    dev: Option<DevId>,
    /// Type and mount point, if only the path shows them.
    by_path: Option<String>,
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
    let processes: Vec<ProcessKey> = rows.iter().map(|((process, _), _)| *process).collect();
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
    let mut table = Table {
        key: "by_process",
        title: titled("Processes and files", total),
        columns: BY_PROCESS.into_iter().chain(file_columns("file")).collect(),
        rows,
    };
    add_places(&mut table, &fold.names, processes.into_iter());
    table
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
