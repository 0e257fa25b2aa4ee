//! Filters and groups by place: do the parts of a recording add up to the whole?

use std::collections::BTreeSet;
use std::convert::Infallible;

use iotrace_perf::analysis::cache_use::CacheUses;
use iotrace_perf::analysis::disk_use::DiskUses;
use iotrace_perf::analysis::files::FileTotals;
use iotrace_perf::analysis::filter::{Filter, Filtered, MountFilter};
use iotrace_perf::analysis::grouped::Grouped;
use iotrace_perf::analysis::latency::{Latency, LatencyOptions};
use iotrace_perf::analysis::op_groups::OpDimension;
use iotrace_perf::analysis::pattern::Patterns;
use iotrace_perf::analysis::slowest::{SelectedSlowest, Slowest};
use iotrace_perf::analysis::summary::IoSummary;
use iotrace_perf::operation::mount_table::MountTable;
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::pipeline::Summary;
use iotrace_perf::report;
use iotrace_perf::report::grouping::{Grouping, ReportOptions};
use iotrace_perf::text::table::{Cell, Report, Table};
use iotrace_perf::units::KernelTime;

use super::{names, read, run};

/// Mounts that a log begins with.
#[derive(Default)]
struct Mounts(MountTable);

impl Sink for Mounts {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        if let Step::MountsSeen(table) = step {
            self.0 = (*table).clone();
        }
        Ok(())
    }
}

/// Operations and bytes that a filter selects.
fn selected(log: &[u8], filter: Filter) -> [u64; 3] {
    let all = run(log, Filtered::new(filter, IoSummary::default())).2.sink.all();
    [all.count, all.read, all.written]
}

fn added(sums: impl Iterator<Item = [u64; 3]>) -> [u64; 3] {
    sums.fold([0; 3], |sum, more| [sum[0] + more[0], sum[1] + more[1], sum[2] + more[2]])
}

#[test]
fn each_operation_is_of_one_type_of_file_system() {
    let mut types_of_all = BTreeSet::new();
    for name in names("iocap").into_iter().filter(|name| name.starts_with("v2/")) {
        let log = read(&name, "iocap");
        let table = run(&log, Mounts::default()).2.0;
        let types: BTreeSet<String> =
            table.mounts().iter().map(|mount| mount.fs_type.clone()).collect();
        let of = |words: &[String]| {
            let mounts = MountFilter::new(&[], words).expect("good words");
            selected(&log, Filter { mounts, ..Filter::default() })
        };
        let each = types.iter().map(|fs_type| (fs_type, of(std::slice::from_ref(fs_type))));
        let each: Vec<(&String, [u64; 3])> = each.filter(|(_, sum)| sum[0] > 0).collect();
        let others: Vec<String> = types.iter().map(|fs_type| format!("!{fs_type}")).collect();
        let sum = added(each.iter().map(|(_, sum)| *sum).chain([of(&others)]));
        assert_eq!(sum, selected(&log, Filter::default()), "{name}: {each:?}");
        types_of_all.extend(each.iter().map(|(fs_type, _)| (*fs_type).clone()));
    }
    assert!(types_of_all.len() > 3 && types_of_all.contains("ext4"), "{types_of_all:?}");
}

#[test]
fn results_are_failures_or_successes() {
    for name in names("iocap") {
        let log = read(&name, "iocap");
        let of = |failed| selected(&log, Filter { failed, ..Filter::default() });
        assert_eq!(added([Some(true), Some(false)].map(of).into_iter()), of(None), "{name}");
    }
}

const DIMENSIONS: [(OpDimension, &str); 4] = [
    (OpDimension::Thread, "threads"),
    (OpDimension::Directory, "directories"),
    (OpDimension::Mount, "mounts"),
    (OpDimension::Device, "file_devices"),
];

fn options(dimension: OpDimension) -> ReportOptions {
    let by = Grouping::Process;
    ReportOptions { by, dimension: Some(dimension), is_whole: true, ..ReportOptions::default() }
}

fn table<'a>(report: &'a Report, key: &str) -> &'a Table {
    report.tables.iter().find(|table| table.key == key).unwrap_or_else(|| panic!("{key}"))
}

/// Sums of the columns of a table that are sums themselves.
fn sums(table: &Table, keys: &[&str]) -> Vec<u64> {
    let sum = |key: &&str| {
        let place = table.columns.iter().position(|column| column.key == *key).expect(key);
        let cells = table.rows.iter().map(|row| match row[place] {
            Cell::Count(number) | Cell::Ns(number) => number,
            _ => panic!("{key} of {}", table.key),
        });
        cells.sum()
    };
    keys.iter().map(sum).collect()
}

#[test]
fn groups_of_each_dimension_add_up_to_the_processes() {
    const KEYS: [&str; 6] =
        ["count", "errors", "read_bytes", "written_bytes", "time_ns", "waited_ns"];
    let mut rows = [0; 4];
    for name in names("iocap") {
        for (rows, (dimension, key)) in rows.iter_mut().zip(DIMENSIONS) {
            let log = read(&name, "iocap");
            let (summary, _, fold) = run(&log, IoSummary::in_dimension(Some(dimension)));
            let report = report::summary::report(&fold, &summary, options(dimension));
            let groups = table(&report, key);
            let of_processes = sums(table(&report, "processes"), &KEYS);
            assert_eq!(sums(groups, &KEYS), of_processes, "{name}: {key}");
            *rows += groups.rows.len();
        }
    }
    assert!(rows.iter().all(|rows| *rows > 100), "{rows:?}");
}

/// Fails if a report with `--by` loses an operation, or counts one twice.
#[test]
fn groups_of_other_reports_add_up() {
    const KEYS: [&str; 4] = ["count", "errors", "read_bytes", "written_bytes"];
    let layers = LatencyOptions {
        syscalls: true,
        vfs: true,
        fs: true,
        block: true,
        queued: false,
        unit_ns: 1,
    };
    let processes = [Grouping::Program, Grouping::Process, Grouping::User, Grouping::Cgroup];
    let by_process = processes.map(|by| ReportOptions { by, ..ReportOptions::default() });
    let by_place = DIMENSIONS.map(|(dimension, _)| options(dimension));
    let mut rows = 0;
    for name in names("iocap") {
        let log = read(&name, "iocap");
        let all = run(&log, IoSummary::default()).2.all();
        let whole = vec![all.count, all.errors, all.read, all.written];
        for options in by_process.into_iter().chain(by_place) {
            let sums_of = || Some(IoSummary::in_dimension(options.dimension));
            let check = |mut report: Report, log: &Summary, of: Option<&IoSummary>| {
                report::grouped::add(&mut report, of, log, options);
                let groups = table(&report, "grouped");
                assert_eq!(sums(groups, &KEYS), whole, "{name}: {} {options:?}", report.kind);
                groups.rows.len()
            };
            let fold = Grouped { fold: FileTotals::default(), sums: sums_of() };
            let (log_summary, _, files) = run(&log, fold);
            let report = report::files::report(&files.fold, &log_summary, options);
            rows += check(report, &log_summary, files.sums.as_ref());
            let fold = Grouped { fold: Latency::new(layers), sums: sums_of() };
            let (log_summary, _, latency) = run(&log, fold);
            let report = report::latency::report(&latency.fold, &log_summary, 0);
            rows += check(report, &log_summary, latency.sums.as_ref());
            let fold = Grouped { fold: Patterns::default(), sums: sums_of() };
            let (log_summary, _, patterns) = run(&log, fold);
            let report = report::pattern::report(&patterns.fold, &log_summary, 0);
            rows += check(report, &log_summary, patterns.sums.as_ref());
            // `slow` is about operations on files only.
            let selected = SelectedSlowest::new(Filter::default(), sums_of());
            let (log_summary, _, slow) = run(&log, selected);
            let mut report = report::slow::report(&slow.fold, &log_summary, 0);
            report::grouped::add(&mut report, slow.sums.as_ref(), &log_summary, options);
            let of_groups = sums(table(&report, "grouped"), &["count", "time_ns"]);
            assert_eq!(of_groups, [slow.fold.operations, slow.fold.all_ns], "{name} {options:?}");
        }
    }
    assert!(rows > 1000, "{rows}");
}

#[test]
fn places_of_disks_and_of_cached_reads_add_up() {
    const DISK: [&str; 5] = ["read_bytes", "written_bytes", "reads", "writes", "inferred_bytes"];
    const CACHE: [&str; 4] = ["read_bytes", "memory_bytes", "waited_bytes", "unknown_bytes"];
    let mut bytes = [0; 2];
    for name in names("iocap").into_iter().filter(|name| name.starts_with("v2/")) {
        let log = read(&name, "iocap");
        let (disk_summary, _, disks) = run(&log, DiskUses::default());
        let cached = CacheUses::new(&disk_summary.header, 0o40000);
        let (summary, _, reads) = run(&log, cached);
        for (dimension, key) in &DIMENSIONS[1..] {
            let report = report::disk::report(&disks, &disk_summary, options(*dimension));
            let of_places = sums(table(&report, key), &DISK);
            assert_eq!(of_places, sums(table(&report, "files"), &DISK), "{name}: {key}");
            bytes[0] += of_places[0] + of_places[1];
            let report = report::cache::report(&reads, &summary, options(*dimension));
            let of_places = sums(table(&report, key), &CACHE);
            assert_eq!(of_places, sums(table(&report, "calls"), &CACHE), "{name}: {key}");
            bytes[1] += of_places[0];
        }
    }
    assert!(bytes.iter().all(|bytes| *bytes > 1 << 20), "{bytes:?}");
}

/// Fails if a file of a pseudo file system is lost, or others share its row.
#[test]
fn files_of_pseudo_file_systems_share_a_row() {
    const KEYS: [&str; 4] = ["count", "read_bytes", "written_bytes", "time_ns"];
    let mut shared = BTreeSet::new();
    for name in names("iocap") {
        let log = read(&name, "iocap");
        let (summary, _, fold) = run(&log, IoSummary::default());
        let (_, _, files) = run(&log, FileTotals::default());
        let reports = [true, false].map(|folds_pseudo_files| {
            let options = ReportOptions { folds_pseudo_files, ..ReportOptions::default() };
            [
                report::summary::report(&fold, &summary, options),
                report::files::report(&files, &summary, options),
            ]
        });
        let [folded, all] = &reports;
        for (folded, all) in folded.iter().zip(all) {
            let (folded, all) = (table(folded, "files"), table(all, "files"));
            assert_eq!(sums(folded, &KEYS), sums(all, &KEYS), "{name}");
            let words = folded.rows.iter().filter_map(|row| match row.last() {
                Some(Cell::Word(word)) if word.ends_with(" files)") => Some(word),
                _ => None,
            });
            let words: Vec<&String> = words.collect();
            assert_eq!(words.is_empty(), folded.rows.len() == all.rows.len(), "{name}");
            shared
                .extend(words.iter().filter_map(|word| word.split(':').next()).map(str::to_owned));
        }
    }
    assert!(shared.contains("(proc"), "{shared:?}");
}

/// Names of the tables and columns of a report.
fn columns(report: &Report) -> BTreeSet<[&str; 3]> {
    let of_table = |table: &'_ Table| {
        let columns = table.columns.iter();
        columns.map(|column| [table.key, column.key, column.title]).collect::<Vec<_>>()
    };
    report.tables.iter().flat_map(of_table).collect()
}

/// Fails if the check of `--sort` and `--table` before a recording refuses what a report has.
#[test]
fn report_without_rows_has_all_columns() {
    let latency = || {
        Latency::new(LatencyOptions {
            syscalls: true,
            vfs: true,
            fs: true,
            block: true,
            queued: true,
            unit_ns: 1,
        })
    };
    let none = Summary::default();
    let of_none = [
        report::summary::report(&IoSummary::default(), &none, ReportOptions::default()),
        report::files::report(&FileTotals::default(), &none, ReportOptions::default()),
        report::disk::report(&DiskUses::default(), &none, ReportOptions::default()),
        report::slow::report(&Slowest::default(), &none, 0),
        report::pattern::report(&Patterns::default(), &none, 0),
        report::latency::report(&latency(), &none, 0),
    ];
    for name in names("iocap").into_iter().filter(|name| name.starts_with("v2/")) {
        let log = read(&name, "iocap");
        let options = ReportOptions::default();
        let (summary, _, fold) = run(&log, IoSummary::default());
        let of_log = [
            report::summary::report(&fold, &summary, options),
            report::files::report(&run(&log, FileTotals::default()).2, &summary, options),
            report::disk::report(&run(&log, DiskUses::default()).2, &summary, options),
            report::slow::report(&run(&log, Slowest::default()).2, &summary, 0),
            report::pattern::report(&run(&log, Patterns::default()).2, &summary, 0),
            report::latency::report(&run(&log, latency()).2, &summary, 0),
        ];
        for (of_none, of_log) in of_none.iter().zip(&of_log) {
            let (known, all) = (columns(of_none), columns(of_log));
            let unknown: Vec<_> = all.difference(&known).collect();
            assert!(unknown.is_empty(), "{name}: {} {unknown:?}", of_log.kind);
        }
    }
}
