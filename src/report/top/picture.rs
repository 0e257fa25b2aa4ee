//! Picture of a terminal: lines of styled text, as many as the terminal has.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::cells::{Scale, amount_cell, cell, file_name, harmless};
use super::columns::{TopColumn, fitted};
use super::operation_lines::operation_lines;
use super::screen::{TopScreen, TopSubject};
use super::status::{TopStatus, notes, status};
use crate::analysis::top::{TopLine, TopModel, TopRest, TopRow, TopView};
use crate::text::quantity::counted;
use crate::text::table_text::{beginning_of, end_of, padded};

/// Lines that are not rows: three of the state, the headings, and the keys.
const FRAME: usize = 5;

/// Cells below which the other views have only their keys.
const TABS_WIDTH: usize = 60;

/// Smallest terminal with a picture, in cells and lines.
const SMALLEST: TopSize = TopSize { width: 40, height: 8 };

/// Size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopSize {
    /// Cells of a line.
    pub width: usize,
    /// Number of lines.
    pub height: usize,
}

/// Returns the number of rows on a terminal with this number of lines.
pub fn page(height: usize) -> usize {
    height.saturating_sub(FRAME).max(1)
}

/// Returns the picture of a terminal with these cells and lines.
pub fn picture(
    screen: &mut TopScreen,
    model: &TopModel,
    state: &TopStatus,
    size: TopSize,
) -> Vec<Line<'static>> {
    let TopSize { width, height } = size;
    if width < SMALLEST.width || height < SMALLEST.height {
        let text = format!("the terminal is smaller than {}x{}", SMALLEST.width, SMALLEST.height);
        return vec![Line::from(beginning_of(&text, width))];
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![
        Line::styled(status(model, width), bold),
        Line::from(beginning_of(&notes(screen, model, state).join("; "), width)),
        tabs(screen, model, width),
    ];
    let body = match screen.has_help {
        true => help(width),
        false => body(screen, model, width, page(height)),
    };
    lines.extend(body);
    lines.resize(height - 1, Line::default());
    lines.push(keys(screen, width));
    lines
}

/// Returns headings and rows.
fn body(screen: &mut TopScreen, model: &TopModel, width: usize, room: usize) -> Vec<Line<'static>> {
    if let TopSubject::OperationsOf(pair) = screen.subject.clone() {
        let shown = screen.shown(model);
        let mut lines = operation_lines(shown, &pair, width);
        let count = lines.len().saturating_sub(1);
        if count == 0 {
            lines.push("no operation has ended since".to_owned());
        }
        screen.scroll_rows(count, room);
        let rows = lines.split_off(1).into_iter().skip(screen.first).take(room);
        return lines.into_iter().chain(rows).map(Line::from).collect();
    }
    let (rows, rest) = screen.lines(model);
    screen.follow(&rows, room);
    let shown = screen.shown(model);
    let is_of_process = screen.subject != TopSubject::View;
    let columns = fitted(screen.view, is_of_process, width);
    let ns = if screen.is_total { shown.recorded_ns() } else { shown.last_ns().unwrap_or(1) };
    let scale = Scale { is_total: screen.is_total, ns };
    let mut lines = vec![headings(screen, &columns, is_of_process)];
    let of_rows = rows.iter().enumerate().skip(screen.first).take(room);
    lines.extend(
        of_rows.map(|(number, line)| row(line, &columns, scale, number == screen.selected)),
    );
    if rest.total.count > 0 && lines.len() <= room {
        lines.push(rest_row(&rest, &columns, scale));
    }
    if rows.is_empty() {
        lines.push(Line::from(beginning_of(empty(screen, shown), width)));
    }
    lines
}

/// Returns the reason why there are no rows.
fn empty(screen: &TopScreen, model: &TopModel) -> &'static str {
    match (model.intervals, screen.filter.is_empty(), screen.view) {
        (0, ..) => "the first interval has not ended",
        (_, false, _) => "no row matches the filter; Esc ends it",
        (_, _, TopView::Devices) => "no block request has completed",
        _ => "no operation has ended",
    }
}

fn headings(
    screen: &TopScreen,
    columns: &[(TopColumn, usize)],
    is_of_process: bool,
) -> Line<'static> {
    let subject = match (is_of_process, screen.view) {
        (true, _) | (_, TopView::Files) => "FILE",
        (_, TopView::Processes) => "PROGRAM",
        (_, TopView::Devices) => "DEVICE",
        (_, TopView::Calls) => "OPERATION",
        (_, TopView::Cgroups) => "CGROUP",
    };
    let mut spans = Vec::new();
    for (column, width) in columns {
        if !spans.is_empty() {
            spans.push(Span::raw(" "));
        }
        let heading = padded(column.heading(subject, screen.is_total), *width, column.is_text());
        let is_sorted = *column == screen.order.column;
        let style = Style::new().add_modifier(Modifier::UNDERLINED);
        let bold = style.add_modifier(Modifier::BOLD | Modifier::REVERSED);
        spans.push(Span::styled(heading, if is_sorted { bold } else { style }));
    }
    Line::from(spans)
}

fn row(
    line: &TopLine,
    columns: &[(TopColumn, usize)],
    scale: Scale,
    is_selected: bool,
) -> Line<'static> {
    let cells = columns.iter().map(|(column, width)| cell(line, *column, *width, scale));
    let text = cells.collect::<Vec<String>>().join(" ");
    let mut style = Style::new();
    if line.is_ended {
        style = style.add_modifier(Modifier::DIM);
    }
    if is_selected {
        style = style.add_modifier(Modifier::REVERSED);
    }
    Line::styled(text, style)
}

/// Returns the row of the operations without a line.
fn rest_row(rest: &TopRest, columns: &[(TopColumn, usize)], scale: Scale) -> Line<'static> {
    let row = TopRow { last: rest.last, total: rest.total, ..TopRow::default() };
    let name = match rest.rows {
        0 => "(others)".to_owned(),
        rows => format!("({})", counted(rows, "former row")),
    };
    let text = |(column, width): &(TopColumn, usize)| {
        let text = match column {
            TopColumn::Name => beginning_of(&name, *width),
            column => amount_cell(&row, *column, *width, scale),
        };
        padded(&text, *width, column.is_text())
    };
    let text = columns.iter().map(text).collect::<Vec<String>>().join(" ");
    Line::styled(text, Style::new().add_modifier(Modifier::DIM))
}

/// Returns the views, or the way to the rows that are shown.
fn tabs(screen: &TopScreen, model: &TopModel, width: usize) -> Line<'static> {
    let shown = screen.shown(model);
    let process = |key| {
        let name = shown.process_name(key);
        name.map_or_else(
            || "a process that is gone".to_owned(),
            |(pid, comm)| format!("{} {}", pid.0, harmless(comm)),
        )
    };
    let way = match &screen.subject {
        TopSubject::View => None,
        TopSubject::FilesOf(key) => Some(format!("files of {}", process(*key))),
        TopSubject::OperationsOf(pair) => {
            let of = format!("{}: last operations on ", process(pair.process));
            let room = width.saturating_sub(of.width());
            Some(of + &end_of(&file_name(&pair.file), room))
        }
    };
    if let Some(way) = way {
        return Line::styled(beginning_of(&way, width), Style::new().add_modifier(Modifier::BOLD));
    }
    let mut spans = Vec::new();
    for (number, view) in TopView::ALL.into_iter().enumerate() {
        let is_shown = view == screen.view;
        let style = Style::new();
        let style = if is_shown { style.add_modifier(Modifier::REVERSED) } else { style };
        let label = match width < TABS_WIDTH && !is_shown {
            true => format!(" {} ", number + 1),
            false => format!(" {} {} ", number + 1, view.as_str()),
        };
        spans.push(Span::styled(label, style));
    }
    let amounts = if screen.is_total { "totals" } else { "rates" };
    let order = if screen.order.is_reversed { "up" } else { "down" };
    let sorted = screen.order.column.heading("NAME", screen.is_total);
    let rest = format!("  {amounts}, by {sorted} {order}");
    let used: usize = spans.iter().map(Span::width).sum();
    spans.push(Span::raw(beginning_of(&rest, width.saturating_sub(used))));
    Line::from(spans)
}

/// Returns the line of the keys, or the filter.
fn keys(screen: &TopScreen, width: usize) -> Line<'static> {
    let text = match (screen.is_typing, screen.filter.is_empty(), &screen.subject) {
        (true, ..) => format!(
            "/{}_   Enter keeps the filter, Esc ends it",
            harmless(screen.filter.as_bytes())
        ),
        (_, false, _) => format!("filter: {}   Esc ends it", harmless(screen.filter.as_bytes())),
        (_, _, TopSubject::View) if screen.view == TopView::Processes => {
            "? help  Enter files  / filter  < > sort  t totals  space pause  q quit".to_owned()
        }
        (_, _, TopSubject::View) => {
            "? help  / filter  < > sort  r reverse  t totals  space pause  q quit".to_owned()
        }
        (_, _, TopSubject::FilesOf(_)) => {
            "? help  Enter operations  Esc back  / filter  < > sort  t totals  q quit".to_owned()
        }
        (_, _, TopSubject::OperationsOf(_)) => "? help  Esc back  space pause  q quit".to_owned(),
    };
    Line::styled(
        padded(&beginning_of(&text, width), width, true),
        Style::new().add_modifier(Modifier::REVERSED),
    )
}

/// Explanation of keys and columns.
const HELP: &[&str] = &[
    "1 … 5, Tab   processes, files, devices, calls, cgroups",
    "Enter, Esc   a process: its files; a file: its last operations; back",
    "< >          sort by the next column, or by letter: P PID, N name, O ops,",
    "             R read, W written, I IO, M mean, E errors, A wait; r reverses",
    "/            filter by name, command line or PID",
    "t  space     rates or totals; pause",
    "n  q         all names of files; quit",
    "",
    "IO %    time in operations on files, as a share of the interval: over 100 %",
    "        with several threads. Devices: mean requests in the device, times 100",
    "MEAN    mean duration of operations on files; of requests in the device",
    "TREND   MEAN of the last 16 intervals; the highest bar is the row's largest",
    "WAIT %  time on pipes, sockets, terminals, and descriptors of unknown type",
    "† name  a process that has ended: its row goes after 10 s, and is summed up",
    "        in (former rows), like idle rows beyond 4096 of a view",
    "",
    "Memory mappings are not counted. The second line has what else is left out.",
];

fn help(width: usize) -> Vec<Line<'static>> {
    let lines = HELP.iter().map(|line| Line::from(beginning_of(line, width)));
    std::iter::once(Line::default()).chain(lines).collect()
}
