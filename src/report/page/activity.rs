//! Activity map: for each process, thread, file and device a row of the times at which it did I/O.

use maud::{Markup, html};

use super::chart::number;
use super::heat::{HeatPaths, level, scale_legend};
use super::input::PageInput;
use super::page_table::{cut, frame};
use super::time_scale::{TimeScale, ratio};
use crate::analysis::bounded_map::BoundedMap;
use crate::analysis::timeline::{ActivityRow, ActivitySum};
use crate::operation::disk;
use crate::report::file_rows::file_cells;
use crate::report::summary::device;
use crate::text::quantity::{count, size, time};
use crate::text::table::Cell;

/// Rows of a kind that are shown.
const ROWS: usize = 15;

/// Kinds of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActivityKind {
    Process,
    Thread,
    File,
    Device,
}

impl ActivityKind {
    /// All kinds, in the order of the page.
    pub(super) const ALL: [Self; 4] = [Self::Process, Self::Thread, Self::File, Self::Device];

    /// Word for identifiers.
    fn word(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
            Self::File => "file",
            Self::Device => "device",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Process => "Processes: time in operations on files",
            Self::Thread => "Threads: time in operations on files",
            Self::File => "Files: time in operations on them",
            Self::Device => "Disks: bytes read and written",
        }
    }

    /// Measure by which rows are sorted and coloured.
    fn amount(self, sum: &ActivitySum) -> u64 {
        if self == Self::Device { sum.bytes } else { sum.ns }
    }

    fn text(self, amount: u64) -> String {
        if self == Self::Device { size(amount) } else { time(amount) }
    }
}

/// A row with its name.
pub(super) struct ShownRow {
    name: String,
    pub(super) row: ActivityRow,
}

/// Rows of a kind: those that are shown, and the sum of the others.
pub(super) struct ShownRows {
    pub(super) shown: Vec<ShownRow>,
    others: usize,
}

/// Identifier of a row.
pub(super) fn row_id(kind: ActivityKind, number: usize) -> String {
    format!("{}-{number}", kind.word())
}

/// Returns the block; none without activity.
pub(super) fn block(input: &PageInput<'_>) -> Option<Markup> {
    let scale = TimeScale::of(input);
    let tables: Vec<Markup> =
        ActivityKind::ALL.into_iter().filter_map(|kind| table(input, kind, &scale)).collect();
    (!tables.is_empty()).then(|| {
        html! {
            p class="note" {
                "Each field is " (time(input.fold.timeline.column_ns())) " long, from the beginning on the left to the end on the right."
            }
            @for table in &tables { (table) }
        }
    })
}

/// Returns the rows of a kind, those with most first.
pub(super) fn rows(input: &PageInput<'_>, kind: ActivityKind) -> ShownRows {
    let fold = &input.fold.timeline;
    match kind {
        ActivityKind::Process => largest(kind, &fold.processes.rows, |key| {
            let pid =
                fold.names.info(*key).map_or_else(String::new, |info| format!(" {}", info.pid));
            Cell::Name(fold.names.of(*key).to_vec()).text() + &pid
        }),
        ActivityKind::Thread => largest(kind, &fold.threads.rows, |key| {
            let thread = fold.thread_names.get(key);
            thread.map_or_else(String::new, |thread| {
                format!("{} {}", Cell::Name(thread.comm.clone()).text(), thread.tid)
            })
        }),
        ActivityKind::File => largest(kind, &fold.files.rows, |key| {
            let [_, _, path] = file_cells(key);
            path.text()
        }),
        ActivityKind::Device => {
            let names = disk::names(&input.summary.disks());
            largest(kind, &fold.devices.rows, |dev| device(*dev, &names).text())
        }
    }
}

fn largest<K: Eq + std::hash::Hash + Ord>(
    kind: ActivityKind,
    rows: &BoundedMap<K, ActivityRow>,
    name: impl Fn(&K) -> String,
) -> ShownRows
where
    ActivityRow: Default,
{
    let mut all: Vec<(&K, &ActivityRow)> = rows.iter().collect();
    all.sort_by_key(|(key, row)| (std::cmp::Reverse(kind.amount(&row.total)), *key));
    let rest = all.split_off(all.len().min(ROWS));
    let row = |(key, row): (&K, &ActivityRow)| ShownRow { name: name(key), row: row.clone() };
    let mut shown: Vec<ShownRow> = all.into_iter().map(row).collect();
    let mut sum = ActivityRow::default();
    rest.iter().map(|(_, row)| *row).chain(rows.others()).for_each(|row| sum.merge(row));
    let further = usize::from(rows.others().is_some());
    if sum.total.operations > 0 {
        let name = match further {
            0 => format!("({} others)", count(rest.len() as u64)),
            _ => "(all others)".to_owned(),
        };
        shown.push(ShownRow { name, row: sum });
    }
    ShownRows { shown, others: rest.len() + further }
}

fn table(input: &PageInput<'_>, kind: ActivityKind, scale: &TimeScale) -> Option<Markup> {
    let ShownRows { shown, others } = rows(input, kind);
    // The threads of programs with one thread each are their processes.
    let is_repeated = kind == ActivityKind::Thread && {
        let fold = &input.fold.timeline;
        fold.threads.rows.iter().count() == fold.processes.rows.iter().count()
    };
    let cells = shown.iter().flat_map(|row| &row.row.cells);
    let most = cells.map(|cell| kind.amount(&cell.sum)).max().unwrap_or(0);
    if shown.is_empty() || is_repeated || most == 0 {
        return None;
    }
    let what = if kind == ActivityKind::Device { "bytes in a field" } else { "time in a field" };
    let caption = match others {
        0 => kind.title().to_owned(),
        _ => format!("{}; the {ROWS} with most, the others together", kind.title()),
    };
    let heading = if kind == ActivityKind::Device { "requests" } else { "operations" };
    let content = html! {
        table class="activity sortable" {
            caption { (caption) }
            thead { tr {
                th scope="col" { (kind.word()) }
                th scope="col" class="strip" { "activity over time" }
                th scope="col" class="n" { "time" }
                th scope="col" class="n" { "bytes" }
                th scope="col" class="n" { (heading) }
                th scope="col" class="n chosen" hidden { "in the selection" }
            } }
            tbody { @for (number, row) in shown.iter().enumerate() {
                (self::row(kind, number, row, most, input.fold.timeline.column_ns(), scale))
            } }
        }
    };
    Some(html! {
        (frame(kind.title(), content))
        (scale_legend(&kind.text(most), what))
    })
}

fn row(
    kind: ActivityKind,
    number: usize,
    row: &ShownRow,
    most: u64,
    column_ns: u64,
    scale: &TimeScale,
) -> Markup {
    let total = &row.row.total;
    html! {
        tr data-row=(row_id(kind, number)) {
            th scope="row" { (cut(&row.name)) }
            td class="strip" { (strip(kind, row, most, column_ns, scale)) }
            td class="n" data-v=(total.ns) { (time(total.ns)) }
            td class="n" data-v=(total.bytes) { (size(total.bytes)) }
            td class="n" data-v=(total.operations) { (count(total.operations)) }
            td class="n chosen" hidden {}
        }
    }
}

fn strip(
    kind: ActivityKind,
    row: &ShownRow,
    most: u64,
    column_ns: u64,
    scale: &TimeScale,
) -> Markup {
    let mut levels = Vec::new();
    for cell in &row.row.cells {
        let column = usize::try_from(cell.column).unwrap_or(0);
        levels.resize(column.max(levels.len()), 0);
        levels.push(level(kind.amount(&cell.sum), most));
    }
    let mut paths = HeatPaths::default();
    paths.row(&levels, 0, 1);
    let from = ratio(scale.from_ns, column_ns);
    let length = ratio(scale.ns(), column_ns);
    let busy = row.row.cells.len();
    let fields = scale.ns().div_ceil(column_ns);
    html! {
        svg viewBox={ (format!("{from:.3}")) " 0 " (format!("{length:.3}")) " 1" } preserveAspectRatio="none"
            role="img" aria-label={ "active in " (busy) " of " (fields) " fields" } {
            (paths.markup("h"))
            rect class="selected" x=(number(from)) y="0" width="0" height="1" {}
        }
    }
}
