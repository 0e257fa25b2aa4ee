//! Report of `disk`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::file_rows::{file_cells, file_columns, other_files};
use super::file_systems::FileSystems;
use super::grouping::{self, Grouping, ProcessGroup, ReportOptions, cells_of, groups};
use super::places::{PlaceTable, PlacedFile, Places, table_of};
use super::rows::{column, first_rows, key_column, left_out, others, rest_of_keys, titled};
use super::summary::device;
use crate::analysis::bounded_map::{BoundedMap, KEYS_MAX};
use crate::analysis::disk_use::{DiskAmount, DiskContents, DiskUse, DiskUses};
use crate::analysis::request_owners::DiskCause;
use crate::operation::attribution::device_of;
use crate::operation::block::DiskstatsClass;
use crate::operation::disk;
use crate::operation::model::ProcessKey;
use crate::pipeline::{OtherRequests, Summary};
use crate::text::quantity::{counted, size, time};
use crate::text::shares;
use crate::text::table::{Cell, Column, Report, Table};
use crate::units::{DevId, Pid};

/// Columns of requests.
const USE: [Column; 11] = [
    column("read_bytes", "read"),
    column("written_bytes", "written"),
    column("written_back_bytes", "written back"),
    column("reads", "reads"),
    column("writes", "writes"),
    column("flushes", "flushes"),
    column("discarded_bytes", "discarded"),
    column("discards", ""),
    column("exact_bytes", ""),
    column("inferred_bytes", "inferred"),
    column("unknown_bytes", "unknown"),
];

fn cells(used: &DiskUse) -> Vec<Cell> {
    let [exact, inferred, unknown] = used.by_link;
    let counts = [
        used.read.bytes,
        used.written.bytes,
        used.written_back,
        used.read.requests,
        used.written.requests,
        used.flushes,
        used.discarded.bytes,
        used.discarded.requests,
        exact,
        inferred,
        unknown,
    ];
    counts.map(Cell::Count).to_vec()
}

/// Requests of a disk with one cause, or of one file.
struct DiskRow {
    dev: DevId,
    /// Cells that name the cause or the file.
    names: Vec<Cell>,
    used: DiskUse,
}

/// Disks of a report and their names.
struct DiskNames(Vec<(DevId, String)>);

impl DiskNames {
    /// Rows of a table with those of most bytes first; beyond the limit they are combined.
    fn table(
        &self,
        key: &'static str,
        title: &str,
        names: &[Column],
        mut rows: Vec<DiskRow>,
        limit: usize,
    ) -> Table {
        let total = rows.len();
        rows.sort_by_cached_key(|row| {
            let heat = (Reverse(row.used.bytes()), Reverse(row.used.requests()));
            (heat, row.dev, format!("{:?}", row.names))
        });
        let (rows, rest) = first_rows(rows, limit);
        let row = |names: Vec<Cell>, disk: Cell, used: &DiskUse| {
            [cells(used), names, vec![disk]].concat()
        };
        let disk = |dev: DevId| match dev == DevId::default() {
            true => Cell::None,
            false => device(dev, &self.0),
        };
        let mut rows: Vec<Vec<Cell>> =
            rows.into_iter().map(|of| row(of.names, disk(of.dev), &of.used)).collect();
        if !rest.is_empty() {
            let mut sum = DiskUse::default();
            rest.iter().for_each(|rest| sum.merge(&rest.used));
            let name = |column: &Column| match column.rank {
                Some(0) => others(rest.len()),
                _ => Cell::None,
            };
            rows.push(row(names.iter().map(name).collect(), Cell::None, &sum));
        }
        let disk = key_column(2, "disk", "disk");
        Table {
            key,
            title: titled(title, total),
            columns: USE.iter().chain(names).copied().chain([disk]).collect(),
            rows,
        }
    }
}

/// Returns the requests of programs that were not recorded, in the classes of `/proc/diskstats`.
fn of_others(others: &OtherRequests) -> DiskUse {
    let mut used = DiskUse::default();
    for (operation, (requests, bytes)) in &others.operations {
        let class = match operation.as_str() {
            "read" => DiskstatsClass::Read,
            "discard" => DiskstatsClass::Discard,
            "flush" => DiskstatsClass::Flush,
            _ => DiskstatsClass::Write,
        };
        used.add(class, DiskAmount { requests: *requests, bytes: *bytes });
        // Neither process nor file is known.
        let [_, _, unknown] = &mut used.by_link;
        *unknown = unknown.saturating_add(*bytes);
    }
    used
}

/// Name of the row of programs that were not recorded.
const OTHER_PROGRAMS: &str = "(other programs)";

/// Returns the requests of programs that were not recorded, by disk; none for a part of a log.
fn of_other_programs(
    summary: &Summary,
    options: ReportOptions,
) -> impl Iterator<Item = (DevId, DiskUse)> {
    let all = summary.others().into_iter().filter(move |_| options.is_whole);
    let all = all.map(|(dev, others)| (dev, of_others(&others)));
    all.filter(|(_, used)| used.requests() > 0)
}

/// Sums of each disk by the programs, processes or users that caused them.
fn causes(fold: &DiskUses, summary: &Summary, options: ReportOptions) -> Vec<DiskRow> {
    let mut processes: BTreeMap<DevId, Vec<(ProcessKey, Pid, DiskUse)>> = BTreeMap::new();
    let mut rows: Vec<DiskRow> = Vec::new();
    let word = |word: &str| cells_of(Cell::Word(word.to_owned()));
    for ((dev, cause), used) in fold.causes.iter() {
        let name = match cause {
            DiskCause::Process(process) => {
                let pid = fold.owners.names.info(*process).map_or(Pid(0), |info| info.pid);
                processes.entry(*dev).or_default().push((*process, pid, *used));
                continue;
            }
            DiskCause::Unseen(pid) => word(&format!("(process {pid})")),
            DiskCause::Kernel => word("(kernel: journals, metadata)"),
            DiskCause::Unknown => word("(unknown)"),
        };
        rows.push(DiskRow { dev: *dev, names: name, used: *used });
    }
    for (dev, processes) in processes {
        let groups = groups(processes.into_iter(), &fold.owners.names, options.by, DiskUse::merge);
        let row =
            |group: ProcessGroup<DiskUse>| DiskRow { dev, names: group.cells(), used: group.sum };
        rows.extend(groups.into_iter().map(row));
    }
    if let Some(used) = fold.causes.others() {
        // The disks of these are not known.
        rows.push(DiskRow { dev: DevId::default(), names: cells_of(rest_of_keys()), used: *used });
    }
    rows.extend(of_other_programs(summary, options).map(|(dev, used)| DiskRow {
        dev,
        names: word(OTHER_PROGRAMS),
        used,
    }));
    rows
}

/// Sums of each disk by the contents of the sectors.
fn contents(fold: &DiskUses, summary: &Summary, options: ReportOptions) -> Vec<DiskRow> {
    let row = |dev: DevId, names: Vec<Cell>, used: &DiskUse| DiskRow { dev, names, used: *used };
    let mut rows: Vec<DiskRow> = Vec::new();
    for ((dev, contents), used) in fold.contents.iter() {
        let name = match contents {
            DiskContents::File(key) => match device_of(*key) {
                Some(_) => "(the device itself)".to_owned(),
                None => format!("(inode {} of {})", key.1, key.0),
            },
            DiskContents::Journal => "(journal)".to_owned(),
            DiskContents::Metadata => "(metadata)".to_owned(),
            DiskContents::Nothing => "(flushes, discards)".to_owned(),
            DiskContents::Unknown => "(unknown)".to_owned(),
        };
        rows.push(row(*dev, vec![Cell::None, Cell::None, Cell::Word(name)], used));
    }
    // The disks of these are not known.
    let rest = fold.contents.others();
    rows.extend(rest.map(|used| row(DevId::default(), other_files().to_vec(), used)));
    rows.extend(of_other_programs(summary, options).map(|(dev, used)| {
        let name = Cell::Word(OTHER_PROGRAMS.to_owned());
        row(dev, vec![Cell::None, Cell::None, name], &used)
    }));
    for (dev, files) in &fold.files {
        rows.extend(files.iter().map(|(key, used)| row(*dev, file_cells(key).to_vec(), used)));
        rows.extend(files.others().map(|used| row(*dev, other_files().to_vec(), used)));
    }
    rows
}

/// Sums of each disk by the place of the files in the sectors.
fn placed(
    fold: &DiskUses,
    summary: &Summary,
    options: ReportOptions,
    places: &Places<'_>,
) -> Vec<DiskRow> {
    let mut rows: BTreeMap<DevId, Vec<(PlacedFile<'_>, DiskUse)>> = BTreeMap::new();
    for (dev, files) in &fold.files {
        let of_disk = rows.entry(*dev).or_default();
        let named = files.iter();
        of_disk.extend(named.map(|(key, used)| (PlacedFile::Named(key, None), *used)));
        of_disk.extend(files.others().map(|used| (PlacedFile::Word("(further ones)"), *used)));
    }
    for ((dev, contents), used) in fold.contents.iter() {
        let file = match contents {
            DiskContents::File(key) if device_of(*key).is_none() => PlacedFile::OnDevice(key.0),
            DiskContents::File(_) => PlacedFile::Word("(the device itself)"),
            DiskContents::Journal => PlacedFile::Word("(journal)"),
            DiskContents::Metadata => PlacedFile::Word("(metadata)"),
            DiskContents::Nothing => PlacedFile::Word("(flushes, discards)"),
            DiskContents::Unknown => PlacedFile::Word("(unknown)"),
        };
        rows.entry(*dev).or_default().push((file, *used));
    }
    // The disks of these are not known.
    let rest = fold.contents.others().map(|used| (PlacedFile::Word("(further ones)"), *used));
    rows.entry(DevId::default()).or_default().extend(rest);
    for (dev, used) in of_other_programs(summary, options) {
        rows.entry(dev).or_default().push((PlacedFile::Word(OTHER_PROGRAMS), used));
    }
    let of_disk = |(dev, rows): (DevId, Vec<(PlacedFile<'_>, DiskUse)>)| {
        let groups = places.groups(rows.into_iter(), DiskUse::merge);
        groups.into_iter().map(move |(names, used)| DiskRow { dev, names, used })
    };
    rows.into_iter().flat_map(of_disk).collect()
}

/// Returns the table of a dimension.
fn by_place(
    fold: &DiskUses,
    summary: &Summary,
    options: ReportOptions,
    disks: &DiskNames,
) -> Option<Table> {
    let dimension = options.dimension?;
    let file_systems = FileSystems::of(summary);
    let places = Places { dimension, file_systems: &file_systems, disks: &disks.0 };
    let PlaceTable { key, title, columns } = table_of(dimension);
    let rows = placed(fold, summary, options, &places);
    let title = format!("{title} on disks");
    Some(disks.table(key, &title, &columns, rows, options.limit))
}

/// All of `disk` except for the last lines of the capture.
pub fn report(fold: &DiskUses, summary: &Summary, options: ReportOptions) -> Report {
    // A part of a recording has no duration of its own.
    let wall = summary.end_time().0.saturating_sub(summary.start().0);
    let wall = if options.is_whole { wall } else { 0 };
    let disks = DiskNames(disk::names(&summary.disks()));
    let mut all: BTreeMap<DevId, DiskUse> = fold.disks.clone();
    for (dev, used) in of_other_programs(summary, options) {
        all.entry(dev).or_default().merge(&used);
    }
    all.retain(|_, used| used.requests() > 0);
    let causes = causes(fold, summary, options);
    let mut report = Report { kind: "disk", ..Report::default() };
    let duration = if options.is_whole { Cell::Ns(wall) } else { Cell::None };
    report.facts = vec![("wall_ns", if options.is_whole { "recorded" } else { "" }, duration)];
    let title = match options.by {
        Grouping::Program => "Programs and disks",
        Grouping::Process => "Processes and disks",
        Grouping::User => "Users and disks",
        Grouping::Cgroup => "Containers, units and disks",
    };
    let contents = contents(fold, summary, options);
    report.tables = vec![
        findings(
            &all,
            &causes,
            &disks,
            FindingForm { wall_ns: wall, name: name_place(options.by) },
        ),
        totals(&all, &disks, wall),
        disks.table("causes", title, &grouping::columns(options.by, true), causes, options.limit),
        disks.table("files", "Files on disks", &file_columns("file"), contents, options.limit),
    ];
    report.tables.extend(by_place(fold, summary, options, &disks));
    let further_files = fold.files.values().filter_map(BoundedMap::others);
    let further_files: u64 =
        further_files.chain(fold.contents.others()).map(DiskUse::requests).sum();
    for (what, requests) in [
        ("causes", fold.causes.others().map(DiskUse::requests)),
        ("files", Some(further_files).filter(|requests| *requests > 0)),
    ] {
        if let Some(requests) = requests {
            left_out(&mut report, what, KEYS_MAX, requests);
        }
    }
    if all.is_empty() && options.is_whole {
        let has_block = summary.header.tracepoints.iter().any(|point| point.system == "block");
        let text = match has_block {
            true => {
                "no disk has completed a request: reads came from memory, and written data is still there"
            }
            false => "block requests were not recorded; record them with -e %default",
        };
        report.notes.push(text.to_owned());
    }
    report
}

/// Table of the disks: their sums are those of `/proc/diskstats`.
fn totals(all: &BTreeMap<DevId, DiskUse>, disks: &DiskNames, wall_ns: u64) -> Table {
    let rate = |bytes: u64| Cell::count(per_second(bytes, wall_ns));
    let row = |(dev, used): (&DevId, &DiskUse)| {
        vec![
            Cell::Count(used.read.bytes),
            rate(used.read.bytes),
            Cell::Count(used.written.bytes),
            rate(used.written.bytes),
            Cell::Count(used.read.requests),
            Cell::Count(used.written.requests),
            Cell::Count(used.flushes),
            Cell::Count(used.discarded.bytes),
            Cell::Count(used.discarded.requests),
            device(*dev, &disks.0),
        ]
    };
    Table {
        key: "disks",
        title: format!("Disks ({})", all.len()),
        columns: vec![
            column("read_bytes", "read"),
            column("read_per_second_bytes", "read/s"),
            column("written_bytes", "written"),
            column("written_per_second_bytes", "written/s"),
            column("reads", "reads"),
            column("writes", "writes"),
            column("flushes", "flushes"),
            column("discarded_bytes", "discarded"),
            column("discards", ""),
            key_column(0, "disk", "disk"),
        ],
        rows: all.iter().map(row).collect(),
    }
}

/// Bytes in a second; `None`: no time has passed.
fn per_second(bytes: u64, wall_ns: u64) -> Option<u64> {
    let each = u128::from(bytes) * 1_000_000_000 / u128::from(wall_ns.max(1));
    u64::try_from(each).ok().filter(|_| wall_ns > 0)
}

/// Number of disks with a sentence.
const SENTENCES_MAX: usize = 3;

/// Sentences about the disks with most bytes: the bytes of each direction, and their main cause.
fn findings(
    all: &BTreeMap<DevId, DiskUse>,
    causes: &[DiskRow],
    disks: &DiskNames,
    form: FindingForm,
) -> Table {
    let FindingForm { wall_ns, name: name_place } = form;
    let mut busiest: Vec<(&DevId, &DiskUse)> = all.iter().collect();
    busiest.sort_by_key(|(dev, used)| (Reverse(used.bytes()), **dev));
    let sentence = |(dev, used): (&DevId, &DiskUse)| {
        let of_disk = || causes.iter().filter(|row| row.dev == *dev);
        let part = |verb: &str, bytes: fn(&DiskUse) -> u64| {
            let first = of_disk().max_by_key(|row| bytes(&row.used))?;
            let (all, its) = (bytes(used), bytes(&first.used));
            (all > 0).then(|| {
                let rate = per_second(all, wall_ns)
                    .map_or_else(String::new, |rate| format!(" ({}/s)", size(rate)));
                let by = shares::of(its, all);
                let cause = first.names.get(name_place).map_or_else(String::new, Cell::text);
                format!("{}{rate} {verb}, {by} by {cause}", size(all))
            })
        };
        let parts: Vec<String> =
            [part("written", |used| used.written.bytes), part("read", |used| used.read.bytes)]
                .into_iter()
                .flatten()
                .collect();
        let name = device(*dev, &disks.0).text();
        let text = match parts.as_slice() {
            [] => format!("{} without data", counted(used.requests(), "request")),
            parts => parts.join("; "),
        };
        let within = if wall_ns > 0 { format!(" (in {})", time(wall_ns)) } else { String::new() };
        vec![Cell::Word(format!("{name}: {text}{within}"))]
    };
    Table {
        key: "findings",
        title: "Findings".into(),
        columns: vec![column("text", "finding")],
        rows: busiest.into_iter().take(SENTENCES_MAX).map(sentence).collect(),
    }
}

/// Duration of the recording, ns, 0 for a part of it, and the place of the cell with the name of a
/// cause.
struct FindingForm {
    wall_ns: u64,
    name: usize,
}

/// Returns the place of the first cell that names a group for people.
fn name_place(by: Grouping) -> usize {
    let columns = grouping::columns(by, true);
    let is_name = |column: &Column| column.rank == Some(0) && !column.title.is_empty();
    columns.iter().position(is_name).unwrap_or(0)
}
