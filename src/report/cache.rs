//! Report of `cache`.

use super::file_rows::{file_cells, file_columns, other_files};
use super::file_systems::FileSystems;
use super::grouping::{self, ProcessGroup, ReportOptions, groups};
use super::places::{PlaceTable, PlacedFile, Places, table_of};
use super::rows::{column, first_rows, key_column, left_out, others, rest_of_keys, titled};
use super::summary::title;
use crate::analysis::bounded_map::KEYS_MAX;
use crate::analysis::cache_use::{CacheUse, CacheUses};
use crate::analysis::completed_op::OpKind;
use crate::operation::disk;
use crate::pipeline::Summary;
use crate::text::quantity::size;
use crate::text::shares;
use crate::text::table::{Cell, Column, Report, Table};
use crate::units::DevId;

/// Columns of reads.
const USE: [Column; 9] = [
    column("read_bytes", "read"),
    column("memory_bytes", "memory"),
    column("memory_share", "share"),
    column("waited_bytes", "waited"),
    column("ahead_bytes", "read ahead"),
    column("direct_bytes", "direct"),
    column("elsewhere_bytes", "elsewhere"),
    column("unknown_bytes", "unknown"),
    column("reads", "reads"),
];

fn cells(used: &CacheUse) -> Vec<Cell> {
    vec![
        Cell::Count(used.bytes),
        Cell::Count(used.memory),
        Cell::share(used.memory, cached(used)),
        Cell::Count(used.waited),
        Cell::Count(used.ahead),
        Cell::Count(used.direct),
        Cell::Count(used.elsewhere),
        Cell::Count(used.unknown),
        Cell::Count(used.reads),
    ]
}

/// Bytes of reads through the cache of a disk.
fn cached(used: &CacheUse) -> u64 {
    used.memory.saturating_add(used.waited).saturating_add(used.ahead)
}

/// A row: the cells with its names, and its reads.
struct CacheRow {
    names: Vec<Cell>,
    used: CacheUse,
}

/// A table with the rows of most bytes first; beyond the limit they are combined.
fn table(
    key: &'static str,
    title: &str,
    names: &[Column],
    mut rows: Vec<CacheRow>,
    limit: usize,
) -> Table {
    let total = rows.len();
    rows.sort_by_cached_key(|row| (std::cmp::Reverse(row.used.bytes), format!("{:?}", row.names)));
    let (mut rows, rest) = first_rows(rows, limit);
    if !rest.is_empty() {
        let mut used = CacheUse::default();
        rest.iter().for_each(|row| used.merge(&row.used));
        let name = |column: &Column| match column.rank {
            Some(0) => others(rest.len()),
            _ => Cell::None,
        };
        rows.push(CacheRow { names: names.iter().map(name).collect(), used });
    }
    Table {
        key,
        title: titled(title, total),
        columns: USE.iter().chain(names).copied().collect(),
        rows: rows.into_iter().map(|row| [cells(&row.used), row.names].concat()).collect(),
    }
}

/// All of `cache` except for the last lines of the capture.
pub fn report(fold: &CacheUses, summary: &Summary, options: ReportOptions) -> Report {
    let mut all = CacheUse::default();
    fold.calls.iter().for_each(|(_, used)| all.merge(used));
    let [disk, unused] = fold.of_disks();
    let mut report = Report { kind: "cache", ..Report::default() };
    // The sums of disks are those of all operations.
    let of_all = |title: &'static str| if options.is_whole { title } else { "" };
    let others = if fold.disk_others > 0 { of_all("read by disks beside") } else { "" };
    report.facts = vec![
        ("read_bytes", "read from files", Cell::Count(all.bytes)),
        ("disk_bytes", of_all("read by disks for files"), Cell::Count(disk)),
        ("unused_bytes", of_all("not used by a read"), Cell::Count(unused)),
        ("disk_other_bytes", others, Cell::Count(fold.disk_others)),
    ];
    report.tables = vec![
        findings(&all, disk, if options.is_whole { unused } else { 0 }),
        calls(fold, options.limit),
        processes(fold, options),
        files(fold, options.limit),
    ];
    report.tables.extend(by_place(fold, summary, options, &all));
    for (what, others) in [
        ("processes", fold.processes.others().map(|row| row.used.reads)),
        ("files", fold.files.others().map(|row| row.used.reads)),
    ] {
        if let Some(reads) = others {
            left_out(&mut report, what, KEYS_MAX, reads);
        }
    }
    report.notes.extend(elsewhere(fold, summary));
    if all.unknown > 0 {
        report.notes.push(format!(
            "{} of the reads have an unknown origin: their file or position is not known, or the requests of their disk were not recorded",
            size(all.unknown)
        ));
    }
    if fold.disk_others > 0 {
        report.notes.push(format!(
            "disks have read {} beside: metadata, journals, and files that are not known (reads of these count as memory)",
            size(fold.disk_others)
        ));
    }
    if fold.forgotten > 0 {
        report.notes.push(format!(
            "{} that disks have read count as memory: the files or their parts are too many",
            size(fold.forgotten)
        ));
    }
    report
}

/// Note on reads from file systems without a device of their own, those with most bytes first.
fn elsewhere(fold: &CacheUses, summary: &Summary) -> Option<String> {
    let file_systems = FileSystems::of(summary);
    let mut all: Vec<(&DevId, &u64)> = fold.by_file_system.iter().collect();
    all.sort_by_key(|(dev, bytes)| (std::cmp::Reverse(**bytes), **dev));
    let shown = all
        .iter()
        .take(FILE_SYSTEMS)
        .map(|(dev, bytes)| format!("{} of {}", size(**bytes), file_systems.name(**dev)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    (!all.is_empty()).then(|| {
        format!(
            "elsewhere: {shown}: no block device of their own, so their reads come from memory, another machine, a program or the file systems below"
        )
    })
}

/// Number of file systems that the note names.
const FILE_SYSTEMS: usize = 3;

fn calls(fold: &CacheUses, limit: usize) -> Table {
    let row = |(what, used): (&OpKind, &CacheUse)| CacheRow {
        names: vec![Cell::Word(what.to_string())],
        used: used.clone(),
    };
    let names = [key_column(0, "operation", "operation")];
    table("calls", "Operations", &names, fold.calls.iter().map(row).collect(), limit)
}

fn processes(fold: &CacheUses, options: ReportOptions) -> Table {
    let rows = fold.processes.iter().map(|(key, row)| (*key, row.pid, row.used.clone()));
    let groups = groups(rows, &fold.names, options.by, CacheUse::merge);
    let has_commands = groups.is_empty() || groups.iter().any(ProcessGroup::has_command);
    let rows = groups.into_iter().map(|group| CacheRow { names: group.cells(), used: group.sum });
    let rest = fold
        .processes
        .others()
        .map(|row| CacheRow { names: grouping::cells_of(rest_of_keys()), used: row.used.clone() });
    let rows = rows.chain(rest);
    let columns = grouping::columns(options.by, has_commands);
    table("processes", title(options.by), &columns, rows.collect(), options.limit)
}

/// Reads of each file, with what disks have read of it.
fn files(fold: &CacheUses, limit: usize) -> Table {
    let rows = fold.files.iter().map(|(key, row)| {
        let [disk, unused] = row.key.map_or([0; 2], |key| fold.of_disk(key));
        let counts = vec![Cell::Count(disk), Cell::Count(unused)];
        CacheRow { names: [counts, file_cells(key).to_vec()].concat(), used: row.used.clone() }
    });
    let rest = fold.files.others().map(|row| CacheRow {
        names: [vec![Cell::None; 2], other_files().to_vec()].concat(),
        used: row.used.clone(),
    });
    let rows = rows.chain(rest);
    let mut names = vec![column("disk_bytes", "disk"), column("unused_bytes", "unused")];
    names.extend(file_columns("file"));
    table("files", "Files", &names, rows.collect(), limit)
}

/// Returns the table of a dimension; `all`: the sum over all reads.
fn by_place(
    fold: &CacheUses,
    summary: &Summary,
    options: ReportOptions,
    all: &CacheUse,
) -> Option<Table> {
    let dimension = options.dimension?;
    let (file_systems, disks) = (FileSystems::of(summary), disk::names(&summary.disks()));
    let places = Places { dimension, file_systems: &file_systems, disks: &disks };
    let named = fold.files.iter().map(|(key, row)| {
        let dev = row.key.map(|key| key.0);
        (PlacedFile::Named(key, dev), row.used.clone())
    });
    let further = fold.files.others();
    let further = further.map(|row| (PlacedFile::Word("(further ones)"), row.used.clone()));
    let mut rows: Vec<(PlacedFile<'_>, CacheUse)> = named.chain(further).collect();
    let mut nameless = all.clone();
    rows.iter().for_each(|(_, used)| nameless.subtract(used));
    if nameless != CacheUse::default() {
        rows.push((PlacedFile::Word("(files without a name)"), nameless));
    }
    let groups = places.groups(rows.into_iter(), CacheUse::merge);
    let rows = groups.into_iter().map(|(names, used)| CacheRow { names, used }).collect();
    let PlaceTable { key, title, columns } = table_of(dimension);
    Some(table(key, title, &columns, rows, options.limit))
}

/// A sentence about the share of memory, and one about bytes that no read has used.
fn findings(all: &CacheUse, disk: u64, unused: u64) -> Table {
    let through = cached(all);
    let hits = (through > 0).then(|| {
        format!(
            "{} of {} came from memory; reads waited for {}, and {} had been read ahead",
            shares::of(all.memory, through),
            size(through),
            size(all.waited),
            size(all.ahead)
        )
    });
    let waste = (unused > 0).then(|| {
        format!(
            "{} of {} that disks have read were used by no call: read ahead in vain, or used through a mapping",
            size(unused),
            size(disk)
        )
    });
    Table {
        key: "findings",
        title: "Findings".into(),
        columns: vec![column("text", "finding")],
        rows: hits.into_iter().chain(waste).map(|text| vec![Cell::Word(text)]).collect(),
    }
}
