//! Reports for people: the key of a row first, one unit in a column, and no line wider than the
//! terminal as far as the columns allow that.
//!
//! A table that is too wide loses columns without a value, then columns from the right, except its
//! keys, and then long keys lose their beginning: the end of a path says more.

use std::collections::BTreeMap;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::quantity::{self, ColumnUnit};
use super::table::{Cell, Column, Report, Table, TextStyle, UNVERIFIED, incomplete_line};
use super::wrapping::{wrapped, wrapped_lines};
use super::{escape, shares};

/// Cells of a key that stay when the terminal is narrow.
const KEY_WIDTH: usize = 26;

/// Key of the column with command lines.
const COMMAND_LINE: &str = "command_line";

/// Cells between two columns.
const GAP: usize = 2;

/// A column as it is shown.
#[derive(Clone, Debug)]
pub struct ShownColumn {
    /// Title, with the unit of the column.
    pub heading: String,
    /// Texts of the cells.
    pub cells: Vec<String>,
    /// True for texts, false for numbers.
    pub is_left_aligned: bool,
    /// True if the column names what the row is about.
    pub is_key: bool,
    /// Number of the column in the table.
    pub place: usize,
    /// True if the beginning of a long cell stays: that of a command is its program.
    keeps_beginning: bool,
    width: usize,
}

impl Report {
    /// Returns the report in this style.
    pub(super) fn text(&self, style: TextStyle) -> String {
        let TextStyle { width, has_color } = style;
        let styled = |text: String, style: console::Style| match has_color {
            true => style.force_styling(true).apply_to(text).to_string(),
            false => text,
        };
        let mut text = String::new();
        if let Some(line) = incomplete_line(&self.incomplete) {
            let line = wrapped(&escape::harmless(&line), width);
            let line = styled(line, console::Style::new().red().bold());
            text.push_str(&format!("{line}\n\n"));
        }
        let facts = || self.facts.iter().filter(|(_, title, _)| !title.is_empty());
        let title_width = facts().map(|(_, title, _)| title.width()).max().unwrap_or(0);
        for (key, title, value) in facts() {
            let value = cell_text(value, key, None);
            text.push_str(&format!("{}  {value}\n", padded(title, title_width, true)));
        }
        let mut left_out = 0;
        for table in self.tables.iter().filter(|table| !table.rows.is_empty()) {
            let title = styled(table.title.clone(), console::Style::new().bold());
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}{title}\n"));
            let mut columns = columns(table);
            if let [sentences] = columns.as_slice()
                && sentences.is_left_aligned
            {
                for cell in &sentences.cells {
                    text.push_str(&wrapped_lines(&format!("- {cell}"), width));
                }
                continue;
            }
            let all = columns.len();
            if let Some(width) = width {
                fit(&mut columns, width);
            }
            left_out += all - columns.len();
            write(&columns, table.rows.len(), &mut text);
        }
        if !self.notes.is_empty() || left_out > 0 {
            text.push('\n');
        }
        for note in &self.notes {
            text.push_str(&format!("{}\n", wrapped(&escape::harmless(note), width)));
        }
        if left_out > 0 {
            let columns = quantity::counted(left_out as u64, "column");
            let note = format!("{columns} left out for lack of room; all: --wide");
            text.push_str(&format!("{}\n", wrapped(&note, width)));
        }
        text
    }
}

/// Returns the columns that are for people, the keys first.
pub fn columns(table: &Table) -> Vec<ShownColumn> {
    let places = (0..table.columns.len()).zip(&table.columns);
    let mut shown: Vec<(usize, &Column)> =
        places.filter(|(_, column)| !column.title.is_empty()).collect();
    shown.sort_by_key(|(_, column)| column.rank.unwrap_or(u8::MAX));
    let compared = compared_units(table);
    let column = |(place, column): (usize, &Column)| {
        let cells = table.cells_of(place);
        let unit = compared.get(&place).copied().or_else(|| unit(&cells, column.key));
        let texts: Vec<String> =
            cells.iter().map(|cell| cell_text(cell, column.key, unit)).collect();
        let heading = match unit {
            Some(unit) => format!("{} {}", column.title, unit.name),
            None => column.title.to_owned(),
        };
        let width = texts.iter().map(|text| text.width()).chain([heading.width()]).max();
        ShownColumn {
            heading,
            is_left_aligned: cells.iter().any(|cell| is_text(cell)),
            is_key: column.rank.is_some(),
            place,
            keeps_beginning: column.key == COMMAND_LINE,
            width: width.unwrap_or(0),
            cells: texts,
        }
    };
    shown.into_iter().map(column).collect()
}

impl Table {
    /// Returns the cells of a column.
    fn cells_of(&self, place: usize) -> Vec<&Cell> {
        self.rows.iter().filter_map(|row| row.get(place)).collect()
    }
}

/// Returns the units of columns with percentiles and the largest of the same times, by their
/// places.
fn compared_units(table: &Table) -> BTreeMap<usize, ColumnUnit> {
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, column) in table.columns.iter().enumerate() {
        if let Some(times) = compared_times(column.key).filter(|_| !column.title.is_empty()) {
            families.entry(times).or_default().push(place);
        }
    }
    let mut units = BTreeMap::new();
    for places in families.into_values() {
        let values: Vec<Vec<u64>> =
            places.iter().map(|place| times(&table.cells_of(*place))).collect();
        if values.iter().any(|values| !values.is_empty()) {
            units.extend(places.into_iter().zip(ColumnUnit::of_compared_times(&values)));
        }
    }
    units
}

/// Returns the times of which a column has a percentile or the largest: `queue_` of `queue_p99_ns`;
/// `None`: it has something else.
fn compared_times(key: &str) -> Option<&str> {
    let key = key.strip_suffix("_ns")?;
    let (times, last) = match key.rfind('_') {
        Some(place) => key.split_at(place + 1),
        None => ("", key),
    };
    let is_percentile = last
        .strip_prefix('p')
        .is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    (is_percentile || last == "max").then_some(times)
}

/// Returns the times of a column, ns.
fn times(cells: &[&Cell]) -> Vec<u64> {
    let time = |cell: &&Cell| match cell {
        Cell::Ns(ns) => Some(*ns),
        _ => None,
    };
    cells.iter().filter_map(time).collect()
}

/// Returns the unit of a column of times or of sums of bytes.
fn unit(cells: &[&Cell], key: &str) -> Option<ColumnUnit> {
    let times = times(cells);
    if !times.is_empty() {
        return Some(ColumnUnit::of_times(&times));
    }
    let sizes: Vec<u64> = cells
        .iter()
        .filter_map(|cell| match cell {
            Cell::Count(bytes) if is_sum_of_bytes(key) => Some(*bytes),
            _ => None,
        })
        .collect();
    (!sizes.is_empty()).then(|| ColumnUnit::of_sizes(&sizes))
}

/// True for a sum of bytes. The size of one access stays exact, as a power of two is recognized.
fn is_sum_of_bytes(key: &str) -> bool {
    let is_of_one = key.starts_with("size_") && key != "size_bytes" || key.starts_with("step_");
    let key = key.strip_suffix("_per_s").unwrap_or(key);
    key.ends_with("bytes") && !is_of_one && !key.starts_with("alignment_")
}

impl Cell {
    /// Returns the value for people, outside of a table.
    pub fn text(&self) -> String {
        cell_text(self, "", None)
    }

    /// Returns the value of a fact with this key for people.
    pub fn text_of(&self, key: &str) -> String {
        cell_text(self, key, None)
    }
}

/// Returns a value without its unit if the column has one, otherwise with it.
fn cell_text(cell: &Cell, key: &str, unit: Option<ColumnUnit>) -> String {
    match (cell, unit) {
        (Cell::None, _) => "-".to_owned(),
        (Cell::Ns(value) | Cell::Count(value), Some(unit)) => unit.format(*value),
        (Cell::Ns(ns), None) => quantity::time(*ns),
        (Cell::Count(bytes), None) if is_sum_of_bytes(key) => quantity::size(*bytes),
        (Cell::Count(number), None) => quantity::count(*number),
        // Numbers that may be negative are those of processes and errors, not amounts.
        (Cell::Signed(number), _) => number.to_string(),
        (Cell::Mean(mean), _) => format!("{mean:.3}"),
        (Cell::Share(share), _) => format!("{:.1} %", share * 100.0),
        (Cell::Part(_, tenths), _) => shares::percent(*tenths),
        (Cell::Flag(flag), _) => if *flag { "yes" } else { "no" }.to_owned(),
        (Cell::Name(name), _) => name_text(name),
        (Cell::Group(name, count), _) => {
            format!("{} ×{}", name_text(name), quantity::count(*count))
        }
        (Cell::Unverified(name), _) => name_text(name) + UNVERIFIED,
        (Cell::Word(word), _) => word.clone(),
    }
}

fn name_text(name: &[u8]) -> String {
    let mut shown = Vec::new();
    escape::shown(&mut shown, name, b"");
    String::from_utf8_lossy(&shown).into_owned()
}

fn is_text(cell: &Cell) -> bool {
    matches!(cell, Cell::Name(_) | Cell::Group(..) | Cell::Unverified(_) | Cell::Word(_))
}

/// Makes a table fit: columns are left out from the right, then long keys are shortened.
fn fit(columns: &mut Vec<ShownColumn>, width: usize) {
    let least = |column: &ShownColumn| match column.is_key {
        true => column.width.min(KEY_WIDTH),
        false => column.width,
    };
    let smallest = |columns: &[ShownColumn]| columns.iter().map(least).collect::<Vec<usize>>();
    let total = |widths: &[usize]| {
        widths.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
    };
    let is_empty = |column: &ShownColumn| {
        !column.is_key && column.cells.iter().all(|cell| matches!(cell.as_str(), "0" | "-"))
    };
    while columns.len() > 1
        && total(&smallest(columns)) > width
        && let Some(place) = columns.iter().rposition(is_empty)
    {
        columns.remove(place);
    }
    while columns.len() > 1
        && total(&smallest(columns)) > width
        && columns.last().is_some_and(|column| !column.is_key)
    {
        columns.pop();
    }
    let mut widths = smallest(columns);
    let mut room = width.saturating_sub(total(&widths));
    for (column, least) in columns.iter_mut().zip(&mut widths) {
        let more = (column.width - *least).min(room);
        room -= more;
        column.width = *least + more;
        let (width, keeps_beginning) = (column.width, column.keeps_beginning);
        let shortened = |cell: &str| match keeps_beginning {
            true => beginning_of(cell, width),
            false => end_of(cell, width),
        };
        column.cells.iter_mut().for_each(|cell| *cell = shortened(cell));
    }
}

/// Shortens a text to this number of cells: an ellipsis follows the beginning of a longer one.
pub fn beginning_of(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let ends = text.char_indices().map(|(place, letter)| place + letter.len_utf8());
    let fits = |end: &usize| text.get(..*end).is_some_and(|start| start.width() < width);
    let end = ends.take_while(fits).last().unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// Shortens a text to this number of cells: the end of a longer one follows an ellipsis.
pub fn end_of(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut from = text.len();
    for (place, _) in text.char_indices().rev() {
        if text.get(place..).is_none_or(|end| end.width() + 1 > width) {
            break;
        }
        from = place;
    }
    // A mark whose letter was cut off would be on the ellipsis.
    let is_mark = |letter: char| letter.width() == Some(0);
    format!("…{}", text.get(from..).unwrap_or_default().trim_start_matches(is_mark))
}

/// Writes the heading and the rows.
fn write(columns: &[ShownColumn], rows: usize, text: &mut String) {
    let heading = columns.iter().map(|column| column.heading.as_str()).collect();
    let row = |number: usize| {
        columns.iter().map(|column| column.cells.get(number).map_or("", String::as_str)).collect()
    };
    let lines: Vec<Vec<&str>> = std::iter::once(heading).chain((0..rows).map(row)).collect();
    for line in lines {
        let cells = line.iter().zip(columns);
        let cells = cells.map(|(cell, column)| padded(cell, column.width, column.is_left_aligned));
        let line = cells.collect::<Vec<String>>().join(&" ".repeat(GAP));
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// Pads a text with spaces to this number of cells.
pub fn padded(text: &str, width: usize, is_left_aligned: bool) -> String {
    let room = " ".repeat(width.saturating_sub(text.width()));
    if is_left_aligned { format!("{text}{room}") } else { format!("{room}{text}") }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn sample() -> Report {
        let column = |key, title| Column { key, title, rank: None };
        let columns = vec![
            column("count", "count"),
            column("read_bytes", "read"),
            column("time_ns", "time"),
            column("size_p50_bytes", "size p50"),
            Column { key: "path", title: "file", rank: Some(0) },
        ];
        let row = |count: u64, ns, name: &str| {
            let name = Cell::Name(name.as_bytes().to_vec());
            vec![
                Cell::Count(count),
                Cell::Count(4096 * count),
                Cell::Ns(ns),
                Cell::Count(4096),
                name,
            ]
        };
        let rows = vec![
            row(12, 5_000, "/usr/include/x86_64-linux-gnu/sys/types.h"),
            row(1000, 12_345_678, "/日本語/\u{1b}[m"),
        ];
        let (key, title) = ("files", "Files (2)".to_owned());
        Report {
            kind: "sample",
            facts: vec![("wall_ns", "recorded", Cell::Ns(1_002_003))],
            tables: vec![Table { key, title, columns, rows }],
            ..Report::default()
        }
    }

    #[track_caller]
    fn check(width: Option<usize>, expected: &Expect) {
        let text = sample().text(TextStyle { width, has_color: false });
        expected.assert_eq(&text);
        let widest = text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
        assert!(width.is_none_or(|width| widest <= width), "{widest}");
    }

    #[test]
    fn key_is_first_and_columns_have_units() {
        check(
            None,
            &expect![[r#"
            recorded  1.00 ms

            Files (2)
            file                                       count  read MB  time ms  size p50
            /usr/include/x86_64-linux-gnu/sys/types.h     12     0.05     0.01     4,096
            /日本語/\x1b[m                             1,000     4.10    12.35     4,096
        "#]],
        );
    }

    #[test]
    fn percentiles_of_a_row_have_one_unit() {
        let column = |key, title| Column { key, title, rank: None };
        let columns = vec![
            column("time_ns", "time"),
            column("p50_ns", "p50"),
            column("p99_ns", "p99"),
            column("max_ns", "max"),
            column("queue_p50_ns", "queue p50"),
            column("queue_max_ns", "queue max"),
            Column { key: "path", title: "file", rank: Some(0) },
        ];
        let row = |times: [u64; 6], name: &str| {
            let name = Cell::Name(name.as_bytes().to_vec());
            times.map(Cell::Ns).into_iter().chain([name]).collect()
        };
        let rows = vec![
            row([3_000_000_000, 1_230, 45_600, 2_345_678_901, 2_000_000, 9_000_000], "a"),
            row([5_000, 850, 1_000, 1_200, 0, 0], "b"),
        ];
        let (key, title) = ("files", "Files (2)".to_owned());
        let tables = vec![Table { key, title, columns, rows }];
        let text = Report { kind: "sample", tables, ..Report::default() };
        expect![[r#"
            Files (2)
            file  time s  p50 µs  p99 µs     max µs  queue p50 ms  queue max ms
            a      3.000    1.23    45.6  2,345,679          2.00          9.00
            b     <0.001    0.85     1.0          1             0             0
        "#]]
        .assert_eq(&text.text(TextStyle::default()));
    }

    #[test]
    fn narrow_terminal_gets_fewer_columns_and_ends_of_keys() {
        check(
            Some(60),
            &expect![[r#"
            recorded  1.00 ms

            Files (2)
            file                                 count  read MB  time ms
            …clude/x86_64-linux-gnu/sys/types.h     12     0.05     0.01
            /日本語/\x1b[m                       1,000     4.10    12.35

            1 column left out for lack of room; all: --wide
        "#]],
        );
        check(
            Some(44),
            &expect![[r#"
                recorded  1.00 ms

                Files (2)
                file                          count  read MB
                …86_64-linux-gnu/sys/types.h     12     0.05
                /日本語/\x1b[m                1,000     4.10

                2 columns left out for lack of room; all:
                  --wide
            "#]],
        );
    }

    #[test]
    fn terminal_of_any_width_gets_the_keys() {
        for width in 0..100 {
            let text = sample().text(TextStyle { width: Some(width), has_color: false });
            assert!(text.contains("file") && text.contains("/日本語"), "{width}: {text}");
        }
    }

    #[test]
    fn missing_records_come_first() {
        let incomplete = vec!["3 records lost".to_owned()];
        let text = Report { incomplete, ..sample() }.text(TextStyle::default());
        assert!(text.starts_with("INCOMPLETE: 3 records lost\n\nrecorded"), "{text}");
    }

    #[test]
    fn end_of_a_long_text_stays() {
        assert_eq!(end_of("/a/long/path", 6), "…/path");
        assert_eq!(end_of("/a/b", 8), "/a/b");
        assert_eq!(end_of("/日本語", 5), "…本語");
        assert_eq!(end_of("/日本語", 4), "…語");
        assert_eq!(end_of("abcde\u{301}f", 2), "…f");
        assert_eq!(end_of("abcde\u{301}f", 3), "…e\u{301}f");
        assert_eq!(beginning_of("e\u{301}bcd", 2), "e\u{301}…");
        assert_eq!(beginning_of("/a/long/path", 6), "/a/lo…");
        assert_eq!(beginning_of("/a/b", 8), "/a/b");
        assert_eq!(beginning_of("/日本語", 5), "/日…");
    }
}
