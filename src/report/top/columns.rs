//! Columns of a view, and their widths.

use crate::analysis::top::{HISTORY, TopView};

/// Column of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopColumn {
    /// Process number.
    Pid,
    /// Name of the subject.
    Name,
    /// Number of operations.
    Count,
    /// Bytes read.
    Read,
    /// Bytes written.
    Written,
    /// Time in operations on files.
    Time,
    /// Mean duration of operations on files.
    Mean,
    /// Mean durations of the last intervals.
    Trend,
    /// Failed operations.
    Errors,
    /// Time in operations on pipes, sockets and terminals.
    Waited,
    /// Command line of a process.
    Command,
}

/// Columns that can be sorted by, with the letter of each, in the order of `<` and `>`.
const SORTED: [(TopColumn, char); 9] = [
    (TopColumn::Pid, 'P'),
    (TopColumn::Name, 'N'),
    (TopColumn::Count, 'O'),
    (TopColumn::Read, 'R'),
    (TopColumn::Written, 'W'),
    (TopColumn::Time, 'I'),
    (TopColumn::Mean, 'M'),
    (TopColumn::Errors, 'E'),
    (TopColumn::Waited, 'A'),
];

/// Columns in the order in which a narrow terminal loses them.
const DROPPED: [TopColumn; 8] = [
    TopColumn::Command,
    TopColumn::Waited,
    TopColumn::Errors,
    TopColumn::Trend,
    TopColumn::Mean,
    TopColumn::Pid,
    TopColumn::Time,
    TopColumn::Written,
];

/// Cells of a name below which a column is dropped.
const NAME_MIN: usize = 15;

/// Cells of a path below which a column is dropped.
const PATH_MIN: usize = 26;

/// Cells of the name of a process beside its command line: the kernel keeps 15 bytes of a name.
const COMM_WIDTH: usize = 16;

/// Cells of a command line below which it is not shown.
const COMMAND_MIN: usize = 24;

/// Intervals of the trend on a narrow terminal.
const SHORT_TREND: usize = 8;

/// Cells of a terminal below which the trend is short: names need the room.
const WIDE: usize = 100;

impl TopColumn {
    /// Returns the column that a letter sorts by.
    pub fn by_letter(letter: char) -> Option<Self> {
        SORTED.iter().find(|(_, own)| *own == letter).map(|(column, _)| *column)
    }

    /// Returns the letter that sorts by the column.
    pub fn letter(self) -> Option<char> {
        SORTED.iter().find(|(column, _)| *column == self).map(|(_, letter)| *letter)
    }

    /// Returns the next column to sort by in a view; with `back` the one before.
    #[must_use]
    pub fn neighbour(self, has_pid: bool, back: bool) -> Self {
        let all: Vec<Self> = SORTED.iter().map(|(column, _)| *column).collect();
        let all = if has_pid { all.as_slice() } else { all.get(1..).unwrap_or_default() };
        let place = all.iter().position(|column| *column == self).unwrap_or(0);
        let step = if back { all.len() - 1 } else { 1 };
        all.get((place + step) % all.len().max(1)).copied().unwrap_or(self)
    }

    /// Returns the heading of the column.
    pub(super) fn heading(self, subject: &'static str, is_total: bool) -> &'static str {
        match (self, is_total) {
            (Self::Pid, _) => "PID",
            (Self::Name, _) => subject,
            (Self::Count, false) => "OPS/s",
            (Self::Count, true) => "OPS",
            (Self::Read, false) => "READ/s",
            (Self::Read, true) => "READ",
            (Self::Written, false) => "WRITE/s",
            (Self::Written, true) => "WRITTEN",
            (Self::Time, false) => "IO %",
            (Self::Time, true) => "IO TIME",
            (Self::Mean, _) => "MEAN",
            (Self::Trend, _) => "TREND",
            (Self::Errors, false) => "ERR/s",
            (Self::Errors, true) => "ERRORS",
            (Self::Waited, false) => "WAIT %",
            (Self::Waited, true) => "WAITED",
            (Self::Command, _) => "COMMAND",
        }
    }

    /// True for a text, which begins at the left.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Name | Self::Command | Self::Trend)
    }

    fn width(self) -> usize {
        match self {
            Self::Pid => 7,
            Self::Errors => 6,
            Self::Trend => HISTORY,
            Self::Name => NAME_MIN,
            Self::Command => COMMAND_MIN,
            _ => 8,
        }
    }
}

/// Returns the columns of a view with their widths; one cell is between two columns.
pub(super) fn fitted(view: TopView, is_of_process: bool, width: usize) -> Vec<(TopColumn, usize)> {
    let has_process = view == TopView::Processes && !is_of_process;
    let mut columns = vec![
        TopColumn::Pid,
        TopColumn::Name,
        TopColumn::Count,
        TopColumn::Read,
        TopColumn::Written,
        TopColumn::Time,
        TopColumn::Mean,
        TopColumn::Trend,
        TopColumn::Errors,
        TopColumn::Waited,
        TopColumn::Command,
    ];
    let is_own = |column: &TopColumn| match column {
        TopColumn::Pid | TopColumn::Command => has_process,
        // A device's requests wait for nothing else.
        TopColumn::Waited => view != TopView::Devices,
        _ => true,
    };
    columns.retain(is_own);
    let has_paths = is_of_process || matches!(view, TopView::Files | TopView::Cgroups);
    let width_of = |column: TopColumn| match column {
        TopColumn::Name if has_paths => PATH_MIN,
        column => column.width(),
    };
    let mut columns: Vec<(TopColumn, usize)> =
        columns.into_iter().map(|column| (column, width_of(column))).collect();
    let total = |columns: &[(TopColumn, usize)]| {
        columns.iter().map(|(_, width)| width + 1).sum::<usize>().saturating_sub(1)
    };
    if width < WIDE {
        let trend = columns.iter_mut().filter(|(column, _)| *column == TopColumn::Trend);
        trend.for_each(|(_, width)| *width = SHORT_TREND);
    }
    for dropped in DROPPED {
        if total(&columns) > width {
            columns.retain(|(column, _)| *column != dropped);
        }
    }
    let room = width.saturating_sub(total(&columns));
    let excess = total(&columns).saturating_sub(width);
    let has_command = columns.iter().any(|(column, _)| *column == TopColumn::Command);
    for (column, width) in &mut columns {
        match column {
            TopColumn::Command => *width += room - (COMM_WIDTH - NAME_MIN).min(room),
            TopColumn::Name if has_command => *width += (COMM_WIDTH - NAME_MIN).min(room),
            TopColumn::Name => *width = (*width + room).saturating_sub(excess),
            _ => {}
        }
    }
    columns
}
