//! Report of one interval, for logs.

use super::cells::{nameless, per_second};
use super::columns::TopColumn;
use super::order::{TopOrder, ordered};
use super::status::long_delay;
use crate::analysis::summary::KeyParts;
use crate::analysis::top::{
    TopAmounts, TopFile, TopKey, TopLine, TopLines, TopModel, TopPair, TopView,
};
use crate::report::rows::{column, first_rows, key_column, others};
use crate::text::quantity::{counted, time};
use crate::text::table::{Cell, Column, Report, Table};

/// Columns of amounts. Those without a title are for programs.
const AMOUNTS: [Column; 14] = [
    column("count", ""),
    column("errors", ""),
    column("read_bytes", ""),
    column("written_bytes", ""),
    column("io_count", ""),
    column("io_ns", ""),
    column("waited_ns", ""),
    column("unknown_type_ns", ""),
    column("count_per_s", "ops/s"),
    column("read_bytes_per_s", "read/s"),
    column("written_bytes_per_s", "write/s"),
    column("io_share", "I/O"),
    column("mean_ns", "mean"),
    column("errors_per_s", "err/s"),
];

/// Columns that begin each row of a table without other lines.
const OF_INTERVAL: [Column; 6] = [
    column("interval", ""),
    column("start_ns", ""),
    column("duration_ns", ""),
    column("lost", ""),
    column("own_cpu_ns", ""),
    column("delay_ns", ""),
];

/// Choice of rows and columns.
#[derive(Clone, Debug)]
pub struct IntervalReportOptions<'a> {
    /// Views that have a table.
    pub views: &'a [TopView],
    /// Rows of each table, the others are summed up; 0: all.
    pub limit: usize,
    /// True if each row begins with its interval.
    pub repeats_interval: bool,
}

/// Returns the report of the last interval: rows with operations in it, those with most time first.
pub fn interval_report(model: &TopModel, options: &IntervalReportOptions<'_>) -> Report {
    let start = model.last.map_or(0, |[start, _]| start.0.saturating_sub(model.facts.start.0));
    let duration_ns = model.last_ns().unwrap_or(0);
    let all = model.last_all;
    let mut report = Report { kind: "top", ..Report::default() };
    if model.last_lost > 0 {
        report.incomplete.push(format!("{} lost", counted(model.last_lost, "event")));
    }
    report.facts = vec![
        ("interval", "", Cell::Count(model.intervals)),
        ("start_ns", "from", Cell::Ns(start)),
        ("duration_ns", "for", Cell::Ns(duration_ns)),
        ("count", "operations", Cell::Count(all.count)),
        ("errors", "", Cell::Count(all.errors)),
        ("read_bytes", "read", Cell::Count(all.read)),
        ("written_bytes", "written", Cell::Count(all.written)),
        ("io_count", "", Cell::Count(all.io_count)),
        ("io_ns", "", Cell::Ns(all.io_ns)),
        ("waited_ns", "", Cell::Ns(all.waited_ns)),
        ("unknown_type_ns", "", Cell::Ns(all.unknown_ns)),
        ("lost", "lost events", Cell::Count(model.last_lost)),
        ("own_cpu_ns", "", Cell::Ns(model.own_cpu_ns)),
        ("own_cpu_share", "own CPU", Cell::share(model.own_cpu_ns, duration_ns)),
        ("delay_ns", "", Cell::Ns(model.delay_ns)),
        ("names", "", Cell::Word(model.facts.names.clone())),
    ];
    let of_interval = match options.repeats_interval {
        true => vec![
            Cell::Count(model.intervals),
            Cell::Ns(start),
            Cell::Ns(duration_ns),
            Cell::Count(model.last_lost),
            Cell::Ns(model.own_cpu_ns),
            Cell::Ns(model.delay_ns),
        ],
        false => Vec::new(),
    };
    report.tables =
        options.views.iter().map(|view| table(model, *view, options.limit, &of_interval)).collect();
    if let Some(delay_ns) = long_delay(model) {
        report.notes.push(format!(
            "the log is read too slowly: the interval was complete {} after its end",
            time(delay_ns)
        ));
    }
    if model.intervals <= 1 {
        report.notes.extend(model.facts.omissions.iter().cloned());
    }
    report
}

fn table(model: &TopModel, view: TopView, limit: usize, of_interval: &[Cell]) -> Table {
    let duration_ns = model.last_ns().unwrap_or(1);
    let TopLines { lines, rest } = model.lines(view);
    let active: Vec<TopLine> = lines.into_iter().filter(|line| line.row.last.count > 0).collect();
    let order = TopOrder { column: TopColumn::Time, is_reversed: false };
    let (shown, left_out) = first_rows(ordered(active, order, "", false), limit);
    let total = shown.len() + left_out.len();
    let row = |names: Vec<Cell>, amounts: &TopAmounts| {
        [of_interval.to_vec(), amount_cells(amounts, duration_ns), names].concat()
    };
    let mut rows: Vec<Vec<Cell>> =
        shown.iter().map(|line| row(name_cells(line), &line.row.last)).collect();
    let mut sum = rest.last;
    left_out.iter().for_each(|line| sum.merge(&line.row.last));
    if sum.count > 0 {
        let label = if left_out.is_empty() {
            Cell::Word("(further ones)".to_owned())
        } else {
            others(left_out.len())
        };
        rows.push(row(others_cells(view, label), &sum));
    }
    let of_interval = if of_interval.is_empty() { &[] } else { OF_INTERVAL.as_slice() };
    Table {
        key: view.as_str(),
        title: format!("{} ({total})", title(view)),
        columns: [of_interval, &AMOUNTS, name_columns(view)].concat(),
        rows,
    }
}

fn title(view: TopView) -> &'static str {
    match view {
        TopView::Processes => "Processes",
        TopView::Files => "Files",
        TopView::Devices => "Devices: completed requests, and their time in driver and device",
        TopView::Calls => "Operations",
        TopView::Cgroups => "Containers and units",
    }
}

fn name_columns(view: TopView) -> &'static [Column] {
    match view {
        TopView::Processes => {
            const {
                &[
                    key_column(0, "pid", "pid"),
                    key_column(1, "program", "program"),
                    column("ended", ""),
                ]
            }
        }
        TopView::Files => {
            const {
                &[
                    column("class", ""),
                    column("mounts", ""),
                    column("unverified", ""),
                    key_column(0, "path", "file"),
                ]
            }
        }
        TopView::Devices => const { &[key_column(0, "device", "device")] },
        TopView::Calls => {
            const { &[key_column(0, "operation", "operation"), key_column(1, "class", "class")] }
        }
        TopView::Cgroups => const { &[key_column(0, "cgroup", "cgroup")] },
    }
}

fn name_cells(line: &TopLine) -> Vec<Cell> {
    let name = || match line.name.is_empty() {
        true => Cell::None,
        false => Cell::Name(line.name.clone()),
    };
    match &line.key {
        TopKey::Process(_) => {
            let pid = line.pid.map_or(Cell::None, |pid| Cell::Signed(pid.0.into()));
            vec![pid, name(), Cell::Flag(line.is_ended)]
        }
        TopKey::File(file) | TopKey::Pair(TopPair { file, .. }) => file_cells(file),
        TopKey::Call(what, io) => {
            vec![Cell::Word(what.to_string()), Cell::Word(io.as_str().to_owned())]
        }
        TopKey::Device(_) | TopKey::Cgroup(_) => vec![name()],
    }
}

fn file_cells(file: &TopFile) -> Vec<Cell> {
    match file {
        TopFile::Named(key) => {
            let KeyParts { path, mounts, is_doubtful } = KeyParts::of(key);
            let name = match is_doubtful {
                true => Cell::Unverified(path.to_vec()),
                false => Cell::Name(path.to_vec()),
            };
            let mounts = Cell::count(mounts.map(|mounts| mounts.0.into()));
            vec![Cell::None, mounts, Cell::Flag(is_doubtful), name]
        }
        TopFile::Nameless(io) => {
            let class = Cell::Word(io.as_str().to_owned());
            vec![class, Cell::None, Cell::Flag(false), Cell::Word(nameless(*io).to_owned())]
        }
    }
}

fn others_cells(view: TopView, label: Cell) -> Vec<Cell> {
    match view {
        TopView::Processes => vec![Cell::None, label, Cell::None],
        TopView::Files => vec![Cell::None, Cell::None, Cell::None, label],
        TopView::Calls => vec![label, Cell::None],
        TopView::Devices | TopView::Cgroups => vec![label],
    }
}

fn amount_cells(amounts: &TopAmounts, duration_ns: u64) -> Vec<Cell> {
    let rate = |number| Cell::Count(per_second(number, duration_ns));
    vec![
        Cell::Count(amounts.count),
        Cell::Count(amounts.errors),
        Cell::Count(amounts.read),
        Cell::Count(amounts.written),
        Cell::Count(amounts.io_count),
        Cell::Ns(amounts.io_ns),
        Cell::Ns(amounts.waited_ns),
        Cell::Ns(amounts.unknown_ns),
        rate(amounts.count),
        rate(amounts.read),
        rate(amounts.written),
        Cell::share(amounts.io_ns, duration_ns),
        Cell::ns(amounts.mean_ns()),
        rate(amounts.errors),
    ]
}
