//! Report of `pattern`.

use rustc_hash::FxHashSet;

use super::file_rows::{NAMELESS, file_cells, file_columns};
use super::rows::{column, first_rows, key_column, left_out, others, rest_of_keys, titled};
use super::size_histogram;
use super::summary::device;
use crate::analysis::bounded_map::KEYS_MAX;
use crate::analysis::pattern::class::PatternClass;
use crate::analysis::pattern::stream::Stream;
use crate::analysis::pattern::{
    Decisions, DeviceStream, Direction, PatternLevel, Patterns, ProcessStream, StreamFile,
    StreamKey,
};
use crate::operation::disk;
use crate::operation::model::ProcessKey;
use crate::pipeline::Summary;
use crate::text::direct_flag;
use crate::text::quantity::counted;
use crate::text::table::{Cell, Column, Report, Table};
use crate::units::{DevId, Pid};

/// Columns of streams: of one with many accesses, and of several together.
const COUNTS: [Column; 6] = [
    column("count", "count"),
    column("errors", ""),
    column("empty", ""),
    column("bytes", "moved"),
    column("unknown", "unknown"),
    column("late", ""),
];

/// Columns of one stream.
const SHAPE: [Column; 17] = [
    key_column(1, "class", "class"),
    column("decided_by", "by"),
    column("consecutive_share", "consec."),
    column("forward_share", "forward"),
    column("backward_share", "backward"),
    column("overlap_share", "overlap"),
    column("same_step_share", "same step"),
    column("resumed_share", ""),
    column("transitions", ""),
    column("step_bytes", "step"),
    column("size_p50_bytes", "size p50"),
    column("size_max_bytes", "max"),
    column("size_common_bytes", "commonest"),
    column("size_common_share", "so many"),
    column("alignment_bytes", "alignment"),
    column("depth_max", "depth"),
    column("depth_mean", "mean"),
];

/// A row: a stream, and the cells with its names.
struct StreamRow<'a> {
    stream: &'a Stream,
    /// True if it combines several streams, so that only its counts have a meaning.
    is_many: bool,
    /// Class and level, if they do not follow from its own accesses.
    decided: Option<(Option<PatternClass>, Option<PatternLevel>)>,
    names: Vec<Cell>,
}

impl StreamRow<'_> {
    fn cells(&self) -> Vec<Cell> {
        let it = self.stream;
        let found = it.found();
        let mut cells = counts([it.count, it.errors, it.empty, it.bytes, it.unknown, it.late()]);
        if self.is_many {
            cells.extend(vec![Cell::None; SHAPE.len()]);
            return cells;
        }
        let by_block = found
            .class
            .filter(|class| *class != PatternClass::Unknown)
            .map(|_| PatternLevel::Block);
        let (class, by) = self.decided.unwrap_or((found.class, by_block));
        let word =
            |value: Option<&str>| value.map_or(Cell::None, |value| Cell::Word(value.to_owned()));
        let transitions = &found.transitions;
        let share = |part| Cell::share(part, transitions.all);
        let ways = [
            transitions.consecutive,
            transitions.forward,
            transitions.backward,
            transitions.overlap,
        ];
        let common = it.sizes.commonest();
        cells.extend([word(class.map(PatternClass::as_str)), word(by.map(PatternLevel::as_str))]);
        cells.extend(Cell::parts(&ways, transitions.all));
        cells.extend([
            Cell::share(transitions.same_step, transitions.compared),
            share(transitions.resumed),
            Cell::Count(transitions.all),
            transitions.step().map_or(Cell::None, Cell::Signed),
            Cell::count(it.sizes.median()),
            Cell::count(it.sizes.max()),
            Cell::count(common.map(|common| common.0)),
            common.map_or(Cell::None, |common| Cell::share(common.1, it.moved())),
            Cell::count(it.alignment()),
            Cell::Count(found.depth.max),
            found.depth.mean().map_or(Cell::None, Cell::Mean),
        ]);
        cells
    }
}

fn counts(all: [u64; COUNTS.len()]) -> Vec<Cell> {
    all.into_iter().map(Cell::Count).collect()
}

/// A table with the streams with most bytes first; after the first `limit` rows the others are
/// summed up.
fn table(
    key: &'static str,
    title: &str,
    names: &[Column],
    mut rows: Vec<StreamRow<'_>>,
    limit: usize,
) -> Table {
    let total = rows.len();
    rows.sort_by_cached_key(|row| {
        let most = (row.stream.bytes, row.stream.count);
        (std::cmp::Reverse(most), format!("{:?}", row.names))
    });
    let (rows, rest) = first_rows(rows, limit);
    let mut cells: Vec<Vec<Cell>> = Vec::with_capacity(rows.len() + 1);
    for mut row in rows {
        let mut line = row.cells();
        line.append(&mut row.names);
        cells.push(line);
    }
    if !rest.is_empty() {
        let of = |row: &StreamRow<'_>| {
            let row = row.stream;
            [row.count, row.errors, row.empty, row.bytes, row.unknown, row.late()]
        };
        let sum = rest.iter().map(of).fold([0_u64; COUNTS.len()], |sum, its| {
            std::array::from_fn(|at| sum[at].saturating_add(its[at]))
        });
        let mut line = counts(sum);
        line.extend(vec![Cell::None; SHAPE.len() + names.len()]);
        if let Some(last) = line.last_mut() {
            *last = others(rest.len());
        }
        cells.push(line);
    }
    Table {
        key,
        title: titled(title, total),
        columns: COUNTS.iter().chain(&SHAPE).chain(names).copied().collect(),
        rows: cells,
    }
}

/// All of `pattern` except for the last lines of the capture; `limit` rows of each table, 0 for
/// all.
pub fn report(fold: &Patterns, summary: &Summary, limit: usize) -> Report {
    let wall = summary.end_time().0.saturating_sub(summary.start().0);
    let disks = disk::names(&summary.disks());
    let mut report = Report { kind: "pattern", ..Report::default() };
    report.facts = vec![
        ("wall_ns", "recorded", Cell::Ns(wall)),
        ("elsewhere", "operations on pipes, sockets, …", Cell::Count(fold.elsewhere)),
        ("untold", "operations on unknown files", Cell::Count(fold.untold)),
        ("without_data", "block requests without data", Cell::Count(fold.without_data)),
    ];
    let direct = direct_flag(&summary.header.host.machine);
    report.tables = vec![
        streams(fold, direct, limit),
        device_files(fold, &disks, limit),
        devices(fold, &disks, limit),
        size_histogram::table(fold),
    ];
    notes(fold, &mut report);
    report
}

fn notes(fold: &Patterns, report: &mut Report) {
    let streams = || fold.streams.iter().map(|stream| &stream.1.stream);
    let blocks = fold.devices.iter().map(|device| &device.1.stream);
    let unknown: u64 = streams().map(|stream| stream.unknown).sum();
    if unknown > 0 {
        report.notes.push(format!(
            "the offset of {} is unknown; a stream with mostly such operations is `unknown`, or, past the page \
             cache, what its block requests are (`block`)",
            counted(unknown, "operation")
        ));
    }
    let blocks = blocks.chain(fold.device_files.iter().map(|device| &device.1.stream));
    let late: u64 = streams().chain(blocks).map(Stream::late).sum();
    if late > 0 {
        report.notes.push(format!(
            "{late} accesses ended too long after later ones had begun, and are not part of the order"
        ));
    }
    for (what, others) in [
        ("streams", fold.streams.others().map(|other| other.stream.count)),
        ("files on devices", fold.device_files.others().map(|other| other.stream.count)),
        ("devices", fold.devices.others().map(|other| other.stream.count)),
    ] {
        if let Some(count) = others {
            left_out(report, what, KEYS_MAX, count);
        }
    }
}

fn word(direction: Direction) -> Cell {
    Cell::Word(direction.as_str().to_owned())
}

fn streams(fold: &Patterns, direct: u32, limit: usize) -> Table {
    let decisions = Decisions::of(fold, direct);
    let mut names: Vec<(usize, &Vec<u8>)> = fold.files.keys().map(|key| (key.1, key.0)).collect();
    names.sort_unstable_by_key(|name| name.0);
    let path = |file: StreamFile| match file {
        StreamFile::Named(place) => names.get(place).map(|name| file_cells(name.1)),
        StreamFile::Nameless(_) => None,
    };
    let comm = |process: ProcessKey, pid: Pid| {
        let comm = fold.names.of(process).to_vec();
        [Cell::Signed(pid.0.into()), Cell::Name(comm)]
    };
    let row = |(key, stream): (&StreamKey, &ProcessStream)| {
        let (process, file, direction) = key;
        let path = path(*file).unwrap_or(NAMELESS);
        let mut cells = vec![Cell::Flag(stream.is_direct(direct)), Cell::Count(stream.doubtful)];
        cells.push(word(*direction));
        cells.extend(comm(*process, stream.pid).into_iter().chain(path));
        (cells, decisions.class(key, stream))
    };
    let rows = fold.streams.iter().map(|(key, stream)| {
        let (names, decided) = row((key, stream));
        StreamRow { stream: &stream.stream, is_many: false, decided: Some(decided), names }
    });
    let mut columns = vec![
        column("direct", "direct"),
        column("doubtful_names", ""),
        column("direction", "direction"),
        key_column(1, "pid", "pid"),
        key_column(0, "comm", "process"),
    ];
    columns.extend(file_columns("file"));
    let rest = fold.streams.others().map(|other| further(&other.stream, columns.len()));
    let rows = rows.chain(rest).collect();
    table(
        "streams",
        "Files by process: system calls and asynchronous operations",
        &columns,
        rows,
        limit,
    )
}

/// Row of all operations beyond the limit of streams.
fn further(stream: &Stream, names: usize) -> StreamRow<'_> {
    let mut cells = vec![Cell::None; names];
    if let Some(last) = cells.last_mut() {
        *last = rest_of_keys();
    }
    StreamRow { stream, is_many: true, decided: None, names: cells }
}

fn of_device(device: &DeviceStream, names: Vec<Cell>) -> StreamRow<'_> {
    StreamRow { stream: &device.stream, is_many: false, decided: None, names }
}

fn device_files(fold: &Patterns, disks: &[(DevId, String)], limit: usize) -> Table {
    let mut columns = vec![
        column("direction", "direction"),
        key_column(0, "device", "device"),
        column("fs_dev", ""),
        column("ino", ""),
    ];
    columns.extend(file_columns("file"));
    let rows = fold.device_files.iter().map(|((dev, (fs, ino), direction), stream)| {
        let names = stream.name.as_ref().map(|name| file_cells(name));
        let mut cells = vec![word(*direction), device(*dev, disks)];
        cells.extend([Cell::Word(fs.to_string()), Cell::Count(*ino)]);
        cells.extend(names.unwrap_or(NAMELESS));
        of_device(stream, cells)
    });
    let rest = fold.device_files.others().map(|other| further(&other.stream, columns.len()));
    table(
        "device_files",
        "Files on devices: parts of block requests",
        &columns,
        rows.chain(rest).collect(),
        limit,
    )
}

fn devices(fold: &Patterns, disks: &[(DevId, String)], limit: usize) -> Table {
    let columns = [column("direction", "direction"), key_column(0, "device", "device")];
    // Reads and writes together add nothing if there are only reads.
    let keys: FxHashSet<_> = fold.devices.keys().map(|key| *key.0).collect();
    let says_more = |dev| {
        [Direction::Read, Direction::Write]
            .iter()
            .all(|direction| keys.contains(&(dev, *direction)))
    };
    let rows =
        fold.devices.iter().filter(|device| device.0.1 != Direction::Both || says_more(device.0.0));
    let rows = rows
        .map(|((dev, direction), it)| of_device(it, vec![word(*direction), device(*dev, disks)]));
    let rest = fold.devices.others().map(|other| further(&other.stream, columns.len()));
    table("devices", "Devices: block requests", &columns, rows.chain(rest).collect(), limit)
}
