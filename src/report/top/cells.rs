//! Texts of the cells of a view.

use unicode_width::UnicodeWidthStr;

use super::columns::TopColumn;
use crate::analysis::summary::KeyParts;
use crate::analysis::top::{TopAmounts, TopFile, TopKey, TopLine, TopPair, TopRow};
use crate::operation::io_class::IoClass;
use crate::text::escape;
use crate::text::quantity::{count, size, time};
use crate::text::table::UNVERIFIED;
use crate::text::table_text::{beginning_of, end_of, padded};

/// Mark before the name of a process that has ended.
pub(super) const ENDED: &str = "†";

/// Heights of a trend.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Largest count with all its digits.
const COUNT_MAX: u64 = 999_999;

/// Duration to which amounts belong, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// True for totals, false for rates.
    pub(super) is_total: bool,
    /// Duration of the interval, or of all intervals, ns.
    pub(super) ns: u64,
}

impl Scale {
    /// Returns a number for each second; a total as it is.
    pub(super) fn amount(self, number: u64) -> u64 {
        if self.is_total { number } else { per_second(number, self.ns) }
    }

    fn count(self, number: u64) -> String {
        let tenths = u128::from(number) * 10_000_000_000 / u128::from(self.ns.max(1));
        if !self.is_total && tenths < 100 && !tenths.is_multiple_of(10) {
            return format!("{}.{}", tenths / 10, tenths % 10);
        }
        large(self.amount(number))
    }

    /// Returns a time: of a total itself, otherwise its share in the interval.
    fn time(self, ns: u64) -> String {
        if self.is_total {
            return short_time(ns);
        }
        let tenths = u128::from(ns) * 1000 / u128::from(self.ns.max(1));
        match u64::try_from(tenths / 10).unwrap_or(u64::MAX) {
            percent @ 0..=COUNT_MAX => format!("{percent}.{}", tenths % 10),
            percent => large(percent),
        }
    }
}

/// Returns a rate, rounded.
pub(super) fn per_second(number: u64, ns: u64) -> u64 {
    let ns = u128::from(ns.max(1));
    u64::try_from((u128::from(number) * 1_000_000_000 + ns / 2) / ns).unwrap_or(u64::MAX)
}

/// Formats a count in at most eight cells.
fn large(number: u64) -> String {
    match number {
        0..=COUNT_MAX => count(number),
        _ => short(number),
    }
}

/// Formats a time in at most eight cells.
fn short_time(ns: u64) -> String {
    let text = time(ns);
    // `3 min 20 s` without its seconds.
    let mut ends = text.match_indices(' ').map(|(place, _)| place);
    match ends.nth(1) {
        Some(end) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// Draws the newest means of a history: the largest one of all is the highest.
pub(super) fn trend(history: &[u64], width: usize) -> String {
    let max = history.iter().copied().max().unwrap_or(0).max(1);
    let level = |mean: &u64| match *mean {
        0 => ' ',
        mean => {
            let level = (u128::from(mean) * 8).div_ceil(u128::from(max)).clamp(1, 8) - 1;
            LEVELS.get(usize::try_from(level).unwrap_or(0)).copied().unwrap_or(' ')
        }
    };
    let newest = history.get(history.len().saturating_sub(width)..).unwrap_or(history);
    newest.iter().map(level).collect()
}

/// Returns the cell of a line in a column, padded to its width.
pub(super) fn cell(line: &TopLine, column: TopColumn, width: usize, scale: Scale) -> String {
    let text = match column {
        TopColumn::Name => name(line, width),
        TopColumn::Pid => line.pid.map_or_else(String::new, |pid| pid.0.to_string()),
        TopColumn::Command => command(line, width),
        _ => amount_cell(&line.row, column, width, scale),
    };
    padded(&text, width, column.is_text())
}

/// Returns the cell of amounts in a column.
pub(super) fn amount_cell(row: &TopRow, column: TopColumn, width: usize, scale: Scale) -> String {
    let amounts: &TopAmounts = if scale.is_total { &row.total } else { &row.last };
    match column {
        TopColumn::Count => scale.count(amounts.count),
        TopColumn::Read => size(scale.amount(amounts.read)),
        TopColumn::Written => size(scale.amount(amounts.written)),
        TopColumn::Time => scale.time(amounts.io_ns),
        TopColumn::Mean => amounts.mean_ns().map_or_else(|| "-".to_owned(), short_time),
        TopColumn::Trend => trend(&row.history, width),
        TopColumn::Errors => {
            narrow(scale.count(amounts.errors), scale.amount(amounts.errors), width)
        }
        TopColumn::Waited => scale.time(amounts.elsewhere_ns()),
        TopColumn::Pid | TopColumn::Name | TopColumn::Command => String::new(),
    }
}

/// Formats a count in the cells of a narrow column: with fewer digits if it is too long.
fn narrow(text: String, number: u64, width: usize) -> String {
    if text.width() <= width { text } else { short(number) }
}

/// Formats a large number with its unit: `12.3 M`.
fn short(number: u64) -> String {
    // The units of sizes are those of thousands; the last letter is that of bytes.
    size(number).trim_end_matches('B').to_owned()
}

/// Returns bytes of the traced system as a terminal may have them.
pub(super) fn harmless(bytes: &[u8]) -> String {
    let mut shown = Vec::new();
    escape::shown(&mut shown, bytes, b"");
    String::from_utf8_lossy(&shown).into_owned()
}

/// Returns the name of a file, of which the end says most.
pub(super) fn file_name(file: &TopFile) -> String {
    match file {
        TopFile::Named(key) => {
            let KeyParts { path, is_doubtful, .. } = KeyParts::of(key);
            harmless(path) + if is_doubtful { UNVERIFIED } else { "" }
        }
        TopFile::Nameless(io) => nameless(*io).to_owned(),
    }
}

/// Returns the label of files without a name.
pub(super) fn nameless(io: IoClass) -> &'static str {
    match io {
        IoClass::File => "(files without a name)",
        IoClass::Waiting => "(pipes, sockets and the like)",
        IoClass::Unknown => "(descriptors of unknown type)",
        IoClass::Nothing => "(no I/O)",
    }
}

fn name(line: &TopLine, width: usize) -> String {
    let own = || harmless(&line.name);
    match &line.key {
        TopKey::File(TopFile::Nameless(io))
        | TopKey::Pair(TopPair { file: TopFile::Nameless(io), .. }) => {
            beginning_of(nameless(*io), width)
        }
        TopKey::File(file) | TopKey::Pair(TopPair { file, .. }) => end_of(&file_name(file), width),
        TopKey::Cgroup(None) => beginning_of("(not known)", width),
        TopKey::Cgroup(Some(_)) => end_of(&own(), width),
        TopKey::Call(_, IoClass::File) | TopKey::Device(_) => beginning_of(&own(), width),
        TopKey::Call(_, io) => beginning_of(&format!("{} ({})", own(), io.as_str()), width),
        TopKey::Process(_) if line.is_ended => beginning_of(&format!("{ENDED} {}", own()), width),
        TopKey::Process(_) => beginning_of(&own(), width),
    }
}

fn command(line: &TopLine, width: usize) -> String {
    let Some(command) = &line.command else { return String::new() };
    let words: Vec<String> =
        command.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(harmless).collect();
    beginning_of(&words.join(" "), width)
}
