//! Tables of figures in three forms: lines for people, JSON and CSV for programs. All forms have
//! the same numbers.
//!
//! Keys of columns are those of JSON and CSV and contain their unit (`time_ns`); for people times
//! are in microseconds with three decimals, which is as exact.

use std::io;

use super::{escape, number_format, shares};

/// Version of the documented formats (`docs/json.md`): it is incremented when a key changes its
/// meaning or is removed.
pub const VERSION: u64 = 1;

/// Mark after a name that may be another file's.
pub const UNVERIFIED: &str = " (unverified)";

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Unknown, or no value.
    None,
    /// A number: of things, or bytes.
    Count(u64),
    /// A number that may be negative.
    Signed(i64),
    /// Number of nanoseconds.
    Ns(u64),
    /// A mean.
    Mean(f64),
    /// Part of a whole, from 0 to 1.
    Share(f64),
    /// Part of a whole, and the tenths of a percent for people: those of a column add up
    /// ([`shares::tenths`]).
    Part(f64, u64),
    /// True or false.
    Flag(bool),
    /// Bytes of the traced system: a path, a program's name.
    Name(Vec<u8>),
    /// A path that may be another file's; for programs another column states that.
    Unverified(Vec<u8>),
    /// Words of ours.
    Word(String),
}

impl Cell {
    /// Part of a whole; none if the whole is 0.
    pub fn share(part: u64, whole: u64) -> Self {
        // Six digits are shown, so nothing is lost.
        #[expect(clippy::cast_precision_loss, reason = "shown with six digits")]
        let share = part as f64 / whole as f64;
        if whole == 0 { Self::None } else { Self::Share(share) }
    }

    /// Cells of a column: parts of a whole; none if the whole is 0.
    pub fn parts(parts: &[u64], whole: u64) -> Vec<Self> {
        let cell = |(part, tenths): (&u64, u64)| match Self::share(*part, whole) {
            Self::Share(share) => Self::Part(share, tenths),
            other => other,
        };
        parts.iter().zip(shares::tenths(parts, whole)).map(cell).collect()
    }

    /// Cell of a number that may be unknown.
    pub fn count(number: Option<u64>) -> Self {
        number.map_or(Self::None, Self::Count)
    }

    /// Cell of a time that may be unknown.
    pub fn ns(number: Option<u64>) -> Self {
        number.map_or(Self::None, Self::Ns)
    }

    fn is_text(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Unverified(_) | Self::Word(_))
    }

    fn for_people(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::None => out.push(b'-'),
            Self::Count(it) => number_format::unsigned(&mut out, *it),
            Self::Signed(it) => number_format::signed(&mut out, *it),
            Self::Ns(it) => out.extend(format!("{}.{:03}", it / 1000, it % 1000).bytes()),
            Self::Mean(it) => out.extend(format!("{it:.3}").bytes()),
            Self::Share(it) => out.extend(format!("{:.1} %", it * 100.0).bytes()),
            Self::Part(_, tenths) => out.extend(shares::percent(*tenths).bytes()),
            Self::Flag(it) => out.extend_from_slice(if *it { b"yes" } else { b"no" }),
            Self::Name(it) => escape::shown(&mut out, it, b""),
            Self::Unverified(it) => {
                escape::shown(&mut out, it, b"");
                out.extend_from_slice(UNVERIFIED.as_bytes());
            }
            Self::Word(it) => out.extend(it.bytes()),
        }
        out
    }

    fn value(&self) -> CellValue<'_> {
        match self {
            Self::None => CellValue::None,
            Self::Count(it) | Self::Ns(it) => CellValue::Unsigned(*it),
            Self::Signed(it) => CellValue::Signed(*it),
            Self::Mean(it) => CellValue::Fraction(*it, 3),
            Self::Share(it) | Self::Part(it, _) => CellValue::Fraction(*it, 6),
            Self::Flag(it) => CellValue::Flag(*it),
            Self::Name(it) | Self::Unverified(it) => CellValue::Bytes(it),
            Self::Word(it) => CellValue::Word(it),
        }
    }
}

/// A value for programs.
#[derive(Clone, Copy, Debug)]
pub(super) enum CellValue<'a> {
    /// Unknown, or no value.
    None,
    Unsigned(u64),
    Signed(i64),
    /// A number with this number of decimals.
    Fraction(f64, usize),
    Flag(bool),
    /// Bytes of the traced system.
    Bytes(&'a [u8]),
    /// Words of ours.
    Word(&'a str),
    /// A word of ours that no format has to escape: letters, digits, dashes, colons.
    Plain(&'a str),
}

// Where the kind of the value is known at compile time, only its own arm is left of these.
impl CellValue<'_> {
    /// Writes a member of an object, and a second one with all bytes of a name that is not UTF-8.
    #[inline(always)]
    pub(super) fn member(self, key: &str, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
        self.json(out);
        if let Self::Bytes(bytes) = self
            && std::str::from_utf8(bytes).is_err()
        {
            out.extend(format!(",\"{key}_bytes\":\"").bytes());
            bytes.iter().for_each(|byte| number_format::hex_byte(out, *byte));
            out.push(b'"');
        }
    }

    #[inline(always)]
    pub(super) fn json(self, out: &mut Vec<u8>) {
        match self {
            Self::None => out.extend_from_slice(b"null"),
            Self::Bytes(it) => match std::str::from_utf8(it) {
                Ok(text) => escape::json_string(out, text),
                Err(_) => escape::json_string(out, &escape::lossless(it)),
            },
            Self::Word(it) => escape::json_string(out, it),
            Self::Plain(it) => {
                out.push(b'"');
                out.extend_from_slice(it.as_bytes());
                out.push(b'"');
            }
            number => number.number(out),
        }
    }

    /// Writes a CSV field (RFC 4180) without line ends or characters that control a terminal. An
    /// unknown value is empty.
    #[inline(always)]
    pub(super) fn csv(self, out: &mut Vec<u8>) {
        match self {
            Self::None => {}
            Self::Bytes(it) => escape::csv(out, it),
            Self::Word(it) => escape::csv_word(out, it),
            Self::Plain(it) => out.extend_from_slice(it.as_bytes()),
            number => number.number(out),
        }
    }

    /// Writes a value that is the same in all formats.
    #[inline(always)]
    fn number(self, out: &mut Vec<u8>) {
        match self {
            Self::Unsigned(it) => number_format::unsigned(out, it),
            Self::Signed(it) => number_format::signed(out, it),
            Self::Fraction(it, decimals) => out.extend(format!("{it:.decimals$}").bytes()),
            Self::Flag(it) => out.extend_from_slice(if it { b"true" } else { b"false" }),
            Self::None | Self::Bytes(_) | Self::Word(_) | Self::Plain(_) => {}
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Key for programs; empty: not for programs.
    pub key: &'static str,
    /// Heading for people; empty: not for people.
    pub title: &'static str,
}

/// Rows of the same kind.
#[derive(Clone, Debug)]
pub struct Table {
    /// Key for programs.
    pub key: &'static str,
    /// Title for people.
    pub title: String,
    /// Columns of the table.
    pub columns: Vec<Column>,
    /// Rows, each with as many cells as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// Complete report of a subcommand.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Name of the subcommand.
    pub kind: &'static str,
    /// Single values: key, title for people (empty: not for people), value.
    pub facts: Vec<(&'static str, &'static str, Cell)>,
    /// The tables.
    pub tables: Vec<Table>,
    /// Sentences at the end.
    pub notes: Vec<String>,
}

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// Comma-separated: the first field of each line is the key of its table.
    Csv,
}

impl Report {
    /// Prints the report.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn print(&self, form: TableFormat, out: &mut impl io::Write) -> io::Result<()> {
        let mut bytes = Vec::new();
        match form {
            TableFormat::Text => self.text(&mut bytes),
            TableFormat::Json => self.json(&mut bytes),
            TableFormat::Csv => self.csv(&mut bytes),
        }
        out.write_all(&bytes)?;
        out.flush()
    }

    fn text(&self, out: &mut Vec<u8>) {
        let shown = || self.facts.iter().filter(|fact| !fact.1.is_empty());
        let width = shown().map(|shown| letters(shown.1.as_bytes())).max().unwrap_or(0);
        for (_, title, value) in shown() {
            out.extend(format!("{title:width$}  ").bytes());
            out.append(&mut value.for_people());
            out.push(b'\n');
        }
        for table in self.tables.iter().filter(|row| !row.rows.is_empty()) {
            out.push(b'\n');
            out.extend(table.title.bytes());
            out.push(b'\n');
            table.text(out);
        }
        if !self.notes.is_empty() {
            out.push(b'\n');
        }
        for note in &self.notes {
            out.extend(note.bytes());
            out.push(b'\n');
        }
    }

    pub(super) fn json(&self, out: &mut Vec<u8>) {
        out.extend(format!("{{\"kind\":\"{}\",\"version\":{VERSION}", self.kind).bytes());
        for (key, _, value) in &self.facts {
            out.extend_from_slice(b",\n");
            value.value().member(key, out);
        }
        for table in &self.tables {
            out.extend(format!(",\n\"{}\":[", table.key).bytes());
            for (number, row) in table.rows.iter().enumerate() {
                out.extend_from_slice(if number == 0 { b"\n{" } else { b",\n{" });
                for (number, (column, cell)) in table.for_programs(row).enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    cell.value().member(column.key, out);
                }
                out.push(b'}');
            }
            out.push(b']');
        }
        out.extend_from_slice(b",\n\"notes\":[");
        for (number, note) in self.notes.iter().enumerate() {
            out.extend_from_slice(if number == 0 { b"\n" } else { b",\n" });
            escape::json_string(out, note);
        }
        out.extend_from_slice(b"]}\n");
    }

    fn csv(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"table,key,value\n");
        for (key, _, value) in &self.facts {
            out.extend(format!("facts,{key},").bytes());
            value.value().csv(out);
            out.push(b'\n');
        }
        for note in &self.notes {
            out.extend_from_slice(b"facts,note,");
            CellValue::Word(note).csv(out);
            out.push(b'\n');
        }
        for table in &self.tables {
            out.extend_from_slice(b"\ntable");
            let keys =
                table.columns.iter().map(|column| column.key).filter(|column| !column.is_empty());
            keys.for_each(|key| out.extend(format!(",{key}").bytes()));
            out.push(b'\n');
            for row in &table.rows {
                out.extend(table.key.bytes());
                for (_, cell) in table.for_programs(row) {
                    out.push(b',');
                    cell.value().csv(out);
                }
                out.push(b'\n');
            }
        }
    }
}

impl Table {
    /// Cells of a row for programs.
    fn for_programs<'a>(&'a self, row: &'a [Cell]) -> impl Iterator<Item = (&'a Column, &'a Cell)> {
        self.columns.iter().zip(row).filter(|column| !column.0.key.is_empty())
    }

    /// Writes the table for people: numbers are right-aligned, text is left-aligned.
    fn text(&self, out: &mut Vec<u8>) {
        let shown: Vec<usize> =
            (0..self.columns.len()).filter(|column| !self.title_of(*column).is_empty()).collect();
        let headings =
            shown.iter().map(|shown| self.title_of(*shown).as_bytes().to_vec()).collect();
        let mut lines: Vec<Vec<Vec<u8>>> = vec![headings];
        for row in &self.rows {
            let cell = |number: &usize| row.get(*number).map_or_else(Vec::new, Cell::for_people);
            lines.push(shown.iter().map(cell).collect());
        }
        let is_text: Vec<bool> = shown
            .iter()
            .map(|shown| self.rows.iter().any(|row| row.get(*shown).is_some_and(Cell::is_text)))
            .collect();
        let wide = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| letters(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..shown.len()).map(wide).collect();
        for line in &lines {
            let from = out.len();
            for ((cell, width), is_text) in line.iter().zip(&widths).zip(&is_text) {
                let missing = std::iter::repeat_n(b' ', width.saturating_sub(letters(cell)));
                if out.len() > from {
                    out.extend_from_slice(b"  ");
                }
                if *is_text {
                    out.extend_from_slice(cell);
                    out.extend(missing);
                } else {
                    out.extend(missing);
                    out.extend_from_slice(cell);
                }
            }
            while out.len() > from && out.last() == Some(&b' ') {
                out.pop();
            }
            out.push(b'\n');
        }
    }

    fn title_of(&self, column: usize) -> &'static str {
        self.columns.get(column).map_or("", |column| column.title)
    }
}

/// Columns of a text, without knowledge of its font.
fn letters(text: &[u8]) -> usize {
    String::from_utf8_lossy(text).chars().count()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn sample() -> Report {
        let columns = vec![
            Column { key: "count", title: "count" },
            Column { key: "time_ns", title: "time µs" },
            Column { key: "share", title: "" },
            Column { key: "path", title: "file" },
        ];
        let row = |count, ns, name: &[u8]| {
            vec![Cell::Count(count), Cell::Ns(ns), Cell::share(count, 8), Cell::Name(name.to_vec())]
        };
        Report {
            kind: "sample",
            facts: vec![("wall_ns", "wall µs", Cell::Ns(1_002_003)), ("x", "", Cell::None)],
            tables: vec![Table {
                key: "files",
                title: "Files".into(),
                columns,
                rows: vec![row(1, 5, b"a,\"b\"\n"), row(1000, 12_345_678, b"\xff\x1b[m")],
            }],
            notes: vec!["That is all.".into()],
        }
    }

    #[track_caller]
    fn check(form: TableFormat, expected: &Expect) {
        let mut out = Vec::new();
        sample().print(form, &mut out).expect("memory");
        expected.assert_eq(&String::from_utf8(out).expect("UTF-8"));
    }

    #[test]
    fn for_people() {
        check(
            TableFormat::Text,
            &expect![[r#"
            wall µs  1002.003

            Files
            count    time µs  file
                1      0.005  a,"b"\x0a
             1000  12345.678  \xff\x1b[m

            That is all.
        "#]],
        );
    }

    #[test]
    fn as_json() {
        check(
            TableFormat::Json,
            &expect![[r#"
            {"kind":"sample","version":1,
            "wall_ns":1002003,
            "x":null,
            "files":[
            {"count":1,"time_ns":5,"share":0.125000,"path":"a,\"b\"\u000a"},
            {"count":1000,"time_ns":12345678,"share":125.000000,"path":"\\xff\u001b[m","path_bytes":"ff1b5b6d"}],
            "notes":[
            "That is all."]}
        "#]],
        );
        let mut out = Vec::new();
        sample().print(TableFormat::Json, &mut out).expect("memory");
        let json: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(json["files"][1]["time_ns"], 12_345_678);
    }

    #[test]
    fn as_csv() {
        check(
            TableFormat::Csv,
            &expect![[r#"
            table,key,value
            facts,wall_ns,1002003
            facts,x,
            facts,note,That is all.

            table,count,time_ns,share,path
            files,1,5,0.125000,"a,""b""\x0a"
            files,1000,12345678,125.000000,\xff\x1b[m
        "#]],
        );
    }
}
