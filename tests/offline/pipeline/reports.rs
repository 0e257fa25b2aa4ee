//! Reports of recorded logs: do all forms have the same numbers, and are they those of the
//! operations?

use std::collections::BTreeMap;
use std::convert::Infallible;

use iotrace_perf::analysis::bounded_map::BoundedMap;
use iotrace_perf::analysis::cache_use::{CacheUse, CacheUses};
use iotrace_perf::analysis::completed_op::OpKind;
use iotrace_perf::analysis::disk_use::{DiskUse, DiskUses};
use iotrace_perf::analysis::files::FileTotals;
use iotrace_perf::analysis::group_stats::GroupStats;
use iotrace_perf::analysis::latency::{
    Latency, LatencyLayer, LatencyOptions, LatencyTimes, RowKey,
};
use iotrace_perf::analysis::pattern::{Direction, Patterns};
use iotrace_perf::analysis::request_owners::DiskCause;
use iotrace_perf::analysis::summary::IoSummary;
use iotrace_perf::event::block::RequestOp;
use iotrace_perf::event::syscall_table::CallClass;
use iotrace_perf::operation::block::BlockStep;
use iotrace_perf::operation::io_class::IoClass;
use iotrace_perf::operation::{Sink, Step, disk};
use iotrace_perf::pipeline;
use iotrace_perf::report;
use iotrace_perf::report::grouping::{Grouping, ReportOptions};
use iotrace_perf::text::fields::{FieldLines, FieldSelection, RowForm};
use iotrace_perf::text::json::JsonLines;
use iotrace_perf::text::table::{Cell, Report, Separator, Table, TableFormat, TextStyle};
use iotrace_perf::units::{DevId, KernelTime};
use serde_json::Value;

use super::{names, read, run};

fn printed(report: &Report, form: TableFormat) -> String {
    let mut out = Vec::new();
    report.print(form, TextStyle::default(), &mut out).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

/// Fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, is_quoted) {
            ('"', true) if letters.peek() == Some(&'"') => {
                field.push('"');
                letters.next();
            }
            ('"', _) => is_quoted = !is_quoted,
            (',', false) => fields.push(std::mem::take(&mut field)),
            (letter, _) => field.push(letter),
        }
    }
    fields.push(field);
    fields
}

/// The table of this name in CSV: a map of its keys for each row.
fn of_csv(csv: &str, key: &str) -> Vec<BTreeMap<String, String>> {
    let mut rows = Vec::new();
    let mut heads = Vec::new();
    for line in csv.lines() {
        let fields = fields(line);
        if fields[0] == "table" {
            heads = fields;
        } else if fields[0] == key {
            rows.push(heads.iter().cloned().zip(fields).collect());
        }
    }
    rows
}

/// The headings of a table for people, and the cells of its rows.
fn of_text(text: &str, title: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let words = |line: &str| {
        let words = line.split("  ").map(str::trim).filter(|it| !it.is_empty());
        words.map(str::to_owned).collect()
    };
    let mut lines = text.lines().skip_while(|it| *it != title).skip(1).peekable();
    // Sentences have no heading.
    let is_list = lines.peek().is_some_and(|line| line.starts_with("- "));
    let heading = if is_list { None } else { lines.next() };
    let rows = lines.take_while(|it| !it.is_empty());
    (heading.map(words).unwrap_or_default(), rows.map(words).collect())
}

/// Nanoseconds or bytes in the units of a heading.
const UNITS: [(&str, f64); 11] = [
    ("ns", 1.0),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("PB", 1e15),
    ("", 1.0),
];

/// Fails unless a shown number is this value, rounded to its digits, in the unit of its heading.
#[track_caller]
fn check_shown(shown: &str, unit: &str, value: u64, what: &str) {
    let (_, factor) = UNITS.iter().find(|it| it.0 == unit).unwrap_or_else(|| panic!("{unit}"));
    let decimals = shown.split_once('.').map_or(0, |it| it.1.len());
    let step = factor / 10_f64.powi(i32::try_from(decimals).expect("few"));
    let number = shown.trim_start_matches('<').replace(',', "");
    let number: f64 = number.parse().unwrap_or_else(|_| panic!("{what}: {shown}"));
    let value = value as f64;
    let is_rounded = (number * factor - value).abs() <= step * 0.500_001;
    assert!(
        is_rounded || shown.starts_with('<') && value < step,
        "{what}: {shown} {unit} of {value}"
    );
}

/// A row for each process.
fn options(limit: usize) -> ReportOptions {
    ReportOptions { limit, by: Grouping::Process, is_whole: true, ..ReportOptions::default() }
}

#[track_caller]
fn check_table(table: &Table, [text, csv]: [&str; 2], json: &Value, what: &str) {
    let json = json[table.key].as_array().expect("an array");
    let csv = of_csv(csv, table.key);
    let (headings, text) = of_text(text, &table.title);
    let count = table.rows.len();
    assert_eq!((json.len(), csv.len(), text.len()), (count, count, count), "{what}: {}", table.key);
    for (number, row) in table.rows.iter().enumerate() {
        assert_eq!(row.len(), table.columns.len(), "{what}: {}", table.key);
        for (column, cell) in table.columns.iter().zip(row).filter(|it| !it.0.key.is_empty()) {
            let (json, csv) = (&json[number][column.key], &csv[number][column.key]);
            if let Cell::Count(it) | Cell::Ns(it) = cell {
                assert_eq!(json.as_u64(), Some(*it), "{what}: {} {}", table.key, column.key);
                assert_eq!(*csv, it.to_string(), "{what}: {} {}", table.key, column.key);
            }
            assert_eq!(json.is_null(), *cell == Cell::None, "{what}: {}", column.key);
        }
        for (column, cell) in table.columns.iter().zip(row) {
            let (Cell::Count(value) | Cell::Ns(value)) = cell else { continue };
            let unit = |heading: &String| {
                let rest = heading.strip_prefix(column.title)?;
                let unit = if rest.is_empty() { rest } else { rest.strip_prefix(' ')? };
                UNITS.iter().any(|it| it.0 == unit).then(|| unit.to_owned())
            };
            let found = headings.iter().enumerate().find_map(|(at, it)| Some((at, unit(it)?)));
            let Some((at, unit)) = found.filter(|_| !column.title.is_empty()) else { continue };
            check_shown(&text[number][at], &unit, *value, &format!("{what}: {}", column.key));
        }
    }
}

fn check(report: &Report, what: &str) {
    let json: Value = serde_json::from_str(&printed(report, TableFormat::Json)).expect("JSON");
    let (text, csv) = (printed(report, TableFormat::Text), printed(report, TableFormat::Csv));
    assert!(text.chars().chain(csv.chars()).all(|it| it == '\n' || !it.is_control()), "{what}");
    assert_eq!(json["kind"], report.kind);
    for table in &report.tables {
        check_table(table, [&text, &csv], &json, what);
    }
    for note in &report.notes {
        assert!(text.contains(note), "{what}: {note}");
    }
}

fn sum<'a>(all: impl Iterator<Item = &'a GroupStats>) -> [u64; 5] {
    all.fold([0; 5], |sum, it| {
        let its = [it.count, it.errors, it.read, it.written, it.time.sum()];
        std::array::from_fn(|at| sum[at] + its[at])
    })
}

#[test]
fn all_forms_of_a_summary_have_the_numbers_of_the_operations() {
    let mut operations = 0;
    for name in names("iocap") {
        let (summary, totals, fold) = run(&read(&name, "iocap"), IoSummary::default());
        for (call, its) in totals.calls() {
            let classes = fold.calls().into_iter().filter(|it| it.0.0 == OpKind::Call(call));
            let [count, errors, read, written, time_ns] = sum(classes.map(|it| it.1));
            assert_eq!(
                (count, errors, read.max(written), time_ns),
                (its.count, its.errors, its.bytes, its.time_ns),
                "{name}: {}",
                call.call().name
            );
        }
        let all = sum([&fold.all()].into_iter());
        assert_eq!(sum(fold.processes.iter().map(|it| &it.1.tally)), all, "{name}");
        let requests: u64 = totals.blocks.values().map(|it| it.requests).sum();
        let others: u64 = fold.devices.values().map(|it| it.requests).sum();
        assert!(others >= requests, "{name}: {others} {requests}");
        for limit in [0, 2] {
            check(&report::summary::report(&fold, &summary, options(limit)), &name);
        }
        operations += all[0];
    }
    assert!(operations > 5_000, "{operations}");
}

#[test]
fn all_forms_of_files_have_the_numbers_of_the_operations() {
    let mut bytes = 0;
    for name in names("iocap") {
        let (summary, _, fold) = run(&read(&name, "iocap"), FileTotals::default());
        let (_, _, all) = run(&read(&name, "iocap"), IoSummary::default());
        let moved = |it: &iotrace_perf::analysis::files::FileUse| {
            [it.count, it.read.bytes, it.written.bytes, it.time.sum()]
        };
        let mut by_name: BTreeMap<&Vec<u8>, [u64; 4]> = BTreeMap::new();
        by_name.extend(
            all.files.iter().map(|(key, it)| (key, [it.count, it.read, it.written, it.time.sum()])),
        );
        for (key, it) in fold.files.iter().filter(|it| it.1.count > 0) {
            assert_eq!(by_name.remove(key), Some(moved(it)), "{name}: {}", key.escape_ascii());
            bytes += it.read.bytes + it.written.bytes;
            assert!(it.read.again + it.read.unknown <= it.read.bytes, "{name}");
        }
        assert!(by_name.is_empty(), "{name}: {by_name:?}");
        for limit in [0, 2] {
            let report = report::files::report(&fold, &summary, options(limit));
            check(&report, &name);
            let of_file_systems = column_sum(&report, "file_systems", "count");
            let on_files =
                fold.files.iter().filter(|(_, used)| used.io_class() != Some(IoClass::Waiting));
            assert_eq!(
                of_file_systems,
                on_files.map(|(_, used)| used.count).sum::<u64>(),
                "{name}"
            );
        }
    }
    assert!(bytes > 1 << 20, "{bytes}");
}

/// Sum of a column of a table.
fn column_sum(report: &Report, table: &str, column: &str) -> u64 {
    let table = report.tables.iter().find(|candidate| candidate.key == table).expect("the table");
    let place = table.columns.iter().position(|candidate| candidate.key == column);
    let place = place.expect("the column");
    let count = |row: &Vec<Cell>| match row.get(place) {
        Some(Cell::Count(count)) => *count,
        cell => panic!("{cell:?}"),
    };
    table.rows.iter().map(count).sum()
}

#[test]
fn all_forms_of_latency_have_the_times_of_the_operations() {
    let mut requests = 0;
    for name in names("iocap") {
        for (queued, unit_ns) in [(false, 1), (true, 1_000_000)] {
            let options = LatencyOptions {
                syscalls: true,
                vfs: true,
                fs: true,
                block: true,
                queued,
                unit_ns,
            };
            let (summary, totals, fold) = run(&read(&name, "iocap"), Latency::new(options));
            let rows = fold.rows();
            for ((_, operation, _), it) in &rows {
                let count = it.spread.count();
                assert_eq!(it.octaves.iter().sum::<u64>(), count, "{name}: {operation}");
            }
            for (call, its) in totals.calls() {
                let is_it = |it: &(&RowKey, &&LatencyTimes)| {
                    (it.0.0, it.0.1.as_str()) == (LatencyLayer::Syscall, call.call().name)
                };
                let classes = rows.iter().filter(is_it).map(|it| &it.1.spread);
                let both = classes.fold((0, 0), |all, it| (all.0 + it.count(), all.1 + it.sum()));
                assert_eq!(both, (its.count, its.time_ns), "{name}");
            }
            let blocks = rows.iter().filter(|it| it.0.0 == LatencyLayer::Block);
            let counted: u64 = blocks.map(|it| it.1.spread.count()).sum();
            let known: u64 = totals.blocks.values().map(|it| it.requests).sum();
            assert!(counted + fold.without_begin >= known, "{name}: {counted} {known}");
            check(&report::latency::report(&fold, &summary, 0), &name);
            requests += counted;
        }
    }
    assert!(requests > 1000, "{requests}");
}

/// Writes of 0 bytes that ask for a flush, by device: they have no place in a file or on the disk,
/// and so no pattern.
#[derive(Default)]
struct EmptyWrites(BTreeMap<DevId, u64>);

impl Sink for EmptyWrites {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        if let Step::Block { step: BlockStep::Ended(request), .. } = step
            && request.op == RequestOp::Write
            && !request.writes_data()
        {
            *self.0.entry(request.dev).or_default() += 1;
        }
        Ok(())
    }
}

#[test]
fn all_forms_of_a_pattern_have_the_numbers_of_the_operations() {
    let mut asynchronous = 0;
    for name in names("iocap") {
        let (summary, totals, fold) = run(&read(&name, "iocap"), Patterns::default());
        let (_, _, all) = run(&read(&name, "iocap"), IoSummary::default());
        let of_class = |class: CallClass| {
            let (asked, calls) =
                all.calls().iter().fold((0, 0), |sum, ((what, _), it)| match what {
                    OpKind::Async(opcode) if opcode.class() == class => (sum.0 + it.count, sum.1),
                    OpKind::Call(call) if call.call().class == class => (sum.0, sum.1 + it.count),
                    _ => sum,
                });
            assert_eq!(calls, totals.class(class).count, "{name}");
            asynchronous += asked;
            asked + calls
        };
        let [reads, writes, transfers] =
            [CallClass::Read, CallClass::Write, CallClass::Transfer].map(of_class);
        let streams: u64 = fold.streams.iter().map(|it| it.1.stream.count).sum();
        let counted = streams + fold.elsewhere + fold.untold;
        // A transfer may be in a stream of each of its files.
        let least = reads + writes + transfers;
        assert!((least..=least + transfers).contains(&counted), "{name}: {counted} {least}");
        let (_, _, empty) = run(&read(&name, "iocap"), EmptyWrites::default());
        for ((dev, direction), it) in fold.devices.iter() {
            let without_data = empty.0.get(dev).copied().unwrap_or(0);
            let of = |op| all.devices.get(&(*dev, op)).map_or(0, |it| it.requests);
            let expected = match direction {
                Direction::Read => of(RequestOp::Read),
                Direction::Write => of(RequestOp::Write) - without_data,
                Direction::Both => of(RequestOp::Read) + of(RequestOp::Write) - without_data,
            };
            assert_eq!(it.stream.count, expected, "{name}: {dev} {direction:?}");
        }
        for limit in [0, 2] {
            check(&report::pattern::report(&fold, &summary, limit), &name);
        }
    }
    assert!(asynchronous >= 23, "{asynchronous}");
}

#[test]
fn twenty_three_writes_are_twenty_two_transitions() {
    let (summary, _, fold) = run(&read("v1/dd", "iocap"), Patterns::default());
    let report = report::pattern::report(&fold, &summary, 0);
    let csv = of_csv(&printed(&report, TableFormat::Csv), "streams");
    let is_it = |it: &&BTreeMap<String, String>| it["path"] == "/tmp/iotrace-corpus/zeroes";
    let rows: Vec<_> = csv.iter().filter(is_it).collect();
    assert_eq!(rows.len(), 1, "{rows:#?}");
    for (key, value) in [
        ("count", "23"),
        ("bytes", "94277"),
        ("unknown", "0"),
        ("class", "consecutive"),
        ("decided_by", "vfs"),
        ("transitions", "22"),
        ("consecutive_share", "1.000000"),
        ("step_bytes", "4099"),
        ("size_p50_bytes", "4099"),
        ("size_common_bytes", "4099"),
        ("alignment_bytes", "1"),
        ("depth_max", "1"),
        ("direction", "write"),
        ("comm", "dd"),
    ] {
        assert_eq!(rows[0][key], value, "{key}");
    }
}

/// Percentages of a column of which the parts are all of the whole make 100.
#[test]
fn time_shares_add_up() {
    let mut tables = 0;
    for name in names("iocap") {
        let (summary, _, fold) = run(&read(&name, "iocap"), IoSummary::default());
        for limit in [0, 2] {
            let report = report::summary::report(&fold, &summary, options(limit));
            for table in report.tables.iter().filter(|it| ["calls", "processes"].contains(&it.key))
            {
                let place = table.columns.iter().position(|it| it.key == "time_share");
                let place = place.expect("a column");
                let shares = table.rows.iter().filter_map(|it| match it[place] {
                    Cell::Part(_, tenths) => Some(tenths),
                    _ => None,
                });
                let sum = shares.sum::<u64>();
                let is_all = sum == 1000 || fold.all().time.sum() == 0;
                assert!(is_all, "{name}: {}: {sum}", table.key);
                tables += usize::from(sum == 1000);
            }
        }
    }
    assert!(tables > 50, "{tables}");
}

/// One row for each line of the JSON form, in the same order; a filter for everything leaves all of
/// them.
#[test]
fn rows_of_fields_are_the_operations() {
    let mut rows = 0;
    for name in names("iocap") {
        let log = read(&name, "iocap");
        let header = super::header_of(&log);
        let start = KernelTime(header.clock.start_ns);
        let disks = disk::names(&header.disks);
        let fields = |form, all: &[&str]| {
            let all: Vec<String> = all.iter().map(|&it| it.to_owned()).collect();
            let lines = FieldLines::new(
                start,
                disks.clone(),
                form,
                FieldSelection::of(&all).expect("fields"),
                Vec::new(),
            );
            let lines = run(&log, lines.expect("memory")).2.finish().expect("memory");
            String::from_utf8(lines).expect("UTF-8")
        };
        let lines = run(&log, JsonLines::new(start, disks.clone(), Vec::new())).2;
        let json = String::from_utf8(lines.finish().expect("memory")).expect("UTF-8");
        let keys = ["kind", "name", "pid", "start_ns", "duration_ns", "offset", "result", "path"];
        let (of_csv, of_json) =
            (fields(RowForm::Separated(Separator::Comma), &[]), fields(RowForm::Json, &keys));
        let mut csv = of_csv.lines();
        let heads: Vec<&str> = csv.next().expect("heads").split(',').collect();
        assert_eq!(csv.clone().count(), json.lines().count(), "{name}");
        assert_eq!(of_json.lines().count(), json.lines().count(), "{name}");
        for ((csv, few), whole) in csv.zip(of_json.lines()).zip(json.lines()) {
            let whole: Value = serde_json::from_str(whole).expect("JSON");
            let few: Value = serde_json::from_str(few).expect("JSON");
            let fields = fields_of(csv, &heads);
            assert_eq!(whole["kind"], few["kind"]);
            if whole["kind"] != "syscall" {
                continue;
            }
            for key in keys {
                let same =
                    whole[key] == few[key] || key == "path" && !whole["path_bytes"].is_null();
                assert!(same, "{name}: {key}: {whole} {few}");
                let number = whole[key].as_i64().map(|it| it.to_string());
                assert!(number.is_none_or(|it| fields[key] == it), "{name}: {key}: {csv}");
            }
            rows += 1;
        }
    }
    assert!(rows > 1000, "{rows}");
}

fn fields_of<'a>(line: &str, heads: &[&'a str]) -> BTreeMap<&'a str, String> {
    heads.iter().copied().zip(fields(line)).collect()
}

/// Sum of such rows of a disk.
fn sum_of<'a>(rows: impl Iterator<Item = &'a DiskUse>) -> DiskUse {
    let mut sum = DiskUse::default();
    rows.for_each(|row| sum.merge(row));
    sum
}

/// Fails if bytes or requests of a disk have no cause or no contents, or count twice.
#[test]
fn causes_and_contents_of_a_disk_add_up() {
    let mut bytes = 0;
    for name in names("iocap") {
        let (_, totals, fold) = run(&read(&name, "iocap"), DiskUses::default());
        for (dev, used) in &fold.disks {
            let causes = fold.causes.iter().filter(|(key, _)| key.0 == *dev).map(|(_, row)| row);
            let contents = fold.contents.iter().filter(|(key, _)| key.0 == *dev);
            let files = fold.files.get(dev).into_iter().flat_map(BoundedMap::iter);
            let contents = contents.map(|(_, row)| row).chain(files.map(|(_, row)| row));
            for sum in [sum_of(causes), sum_of(contents)] {
                let expected =
                    DiskUse { by_link: sum.by_link, written_back: sum.written_back, ..*used };
                assert_eq!(sum, expected, "{name}: {dev}");
                assert_eq!(sum.by_link.iter().sum::<u64>(), used.bytes(), "{name}: {dev}");
            }
            let of_dev = totals.blocks.iter().filter(|(key, _)| key.0 == *dev).map(|(_, row)| row);
            assert_eq!(
                used.requests(),
                of_dev.map(|row| row.requests).sum::<u64>(),
                "{name}: {dev}"
            );
            bytes += used.bytes();
        }
        for ((_, cause), row) in fold.causes.iter().filter(|(_, row)| row.written_back > 0) {
            // The writer has a name, also if it ended before.
            let DiskCause::Process(process) = cause else { panic!("{cause:?}: {row:?}") };
            assert!(!fold.owners.names.of(*process).is_empty(), "{name}: {row:?}");
        }
    }
    assert!(bytes > 1 << 20, "{bytes}");
}

/// Fails if bytes of a read come from two places, or from none.
#[test]
fn origins_of_reads_add_up() {
    let mut read_bytes = 0;
    for name in names("iocap") {
        let log = read(&name, "iocap");
        let header = pipeline::open::<_, Infallible>(log.as_slice()).expect("a log").1;
        let fold = CacheUses::new(&header, 0o40000);
        let (_, _, fold) = run(&log, fold);
        let mut of_calls = 0;
        for (call, used) in fold.calls.iter() {
            let CacheUse { memory, waited, ahead, direct, elsewhere, unknown, .. } = used;
            let all = memory + waited + ahead + direct + elsewhere + unknown;
            assert_eq!(all, used.bytes, "{name}: {call} {used:?}");
            of_calls += used.bytes;
        }
        let of_processes: u64 = fold.processes.iter().map(|(_, row)| row.used.bytes).sum();
        assert_eq!(of_processes, of_calls, "{name}");
        let [disk, unused] = fold.of_disks();
        assert!(unused <= disk, "{name}: {unused} {disk}");
        read_bytes += of_calls;
    }
    assert!(read_bytes > 1 << 20, "{read_bytes}");
}
