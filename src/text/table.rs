//! Tables of figures in several forms: lines for people (`table_text`), JSON, CSV and TSV for
//! programs. All forms have the same numbers, rounded for people.
//!
//! Keys of columns are those of JSON and CSV and contain their unit (`time_ns`, `read_bytes`); for
//! people each column has a unit that suits its numbers.

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
    /// Name of a number of processes.
    Group(Vec<u8>, u64),
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

    /// Returns a number as the formats for programs have it; `None`: the cell has none.
    pub fn number(&self) -> Option<String> {
        let is_number = matches!(
            self.value(),
            CellValue::Unsigned(_) | CellValue::Signed(_) | CellValue::Fraction(..)
        );
        let mut out = Vec::new();
        self.value().number(&mut out);
        String::from_utf8(out).ok().filter(|_| is_number)
    }

    fn value(&self) -> CellValue<'_> {
        match self {
            Self::None => CellValue::None,
            Self::Count(it) | Self::Ns(it) => CellValue::Unsigned(*it),
            Self::Signed(it) => CellValue::Signed(*it),
            Self::Mean(it) => CellValue::Fraction(*it, 3),
            Self::Share(it) | Self::Part(it, _) => CellValue::Fraction(*it, 6),
            Self::Flag(it) => CellValue::Flag(*it),
            Self::Name(it) | Self::Unverified(it) | Self::Group(it, _) => CellValue::Bytes(it),
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

    /// Writes a field, of CSV (RFC 4180) or between tabs, without line ends or characters that
    /// control a terminal. An unknown value is empty.
    #[inline(always)]
    pub(super) fn field(self, separator: Separator, out: &mut Vec<u8>) {
        match (self, separator) {
            (Self::None, _) => {}
            (Self::Bytes(bytes), Separator::Comma) => escape::csv(out, bytes),
            (Self::Bytes(bytes), Separator::Tab) => escape::shown(out, bytes, b""),
            (Self::Word(word), Separator::Comma) => escape::csv_word(out, word),
            (Self::Word(word), Separator::Tab) => escape::shown(out, word.as_bytes(), b""),
            (Self::Plain(word), _) => out.extend_from_slice(word.as_bytes()),
            (number, _) => number.number(out),
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
    /// Heading for people, without a unit; empty: not for people.
    pub title: &'static str,
    /// For columns that name what the row is about: such columns come first for people, in this
    /// order.
    pub rank: Option<u8>,
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
    /// Parts that are missing from the recording; empty: none.
    pub incomplete: Vec<String>,
    /// Single values: key, title for people (empty: not for people), value.
    pub facts: Vec<(&'static str, &'static str, Cell)>,
    /// The tables.
    pub tables: Vec<Table>,
    /// Sentences at the end.
    pub notes: Vec<String>,
}

/// Returns the line that comes first if these parts are missing from a recording; `None`: none is.
pub fn incomplete_line(parts: &[String]) -> Option<String> {
    (!parts.is_empty()).then(|| format!("INCOMPLETE: {}", parts.join("; ")))
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
    /// Tab-separated, otherwise as CSV.
    Tsv,
}

/// Separator of the fields of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// A comma; fields with one are in quotes.
    Comma,
    /// A tab; a tab in a field is escaped.
    Tab,
}

impl Separator {
    /// Returns the separator as it is written.
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Tab => b'\t',
        }
    }
}

/// Style of a text for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns of the terminal; `None`: no limit.
    pub width: Option<usize>,
    /// True for colours and bold letters.
    pub has_color: bool,
}

impl Report {
    /// Prints the report; the style is that of text.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn print(
        &self,
        form: TableFormat,
        style: TextStyle,
        out: &mut impl io::Write,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        match form {
            TableFormat::Text => bytes.extend(self.text(style).bytes()),
            TableFormat::Json => self.write_json(&mut bytes)?,
            TableFormat::Csv => self.separated(Separator::Comma, &mut bytes),
            TableFormat::Tsv => self.separated(Separator::Tab, &mut bytes),
        }
        out.write_all(&bytes)?;
        out.flush()
    }

    /// Prints the report as one JSON object on one line.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn print_json_line(&self, out: &mut impl io::Write) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.write_json(&mut bytes)?;
        // Line ends in strings are escaped.
        bytes.retain(|byte| *byte != b'\n');
        bytes.push(b'\n');
        out.write_all(&bytes)?;
        out.flush()
    }

    /// Prints the rows of all tables as separated values, after a line with their keys, and nothing
    /// else.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn print_data(&self, separator: Separator, out: &mut impl io::Write) -> io::Result<()> {
        self.print_rows(separator, true, out)
    }

    /// Prints the rows of all tables as separated values; `has_keys`: after a line with their keys.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn print_rows(
        &self,
        separator: Separator,
        has_keys: bool,
        out: &mut impl io::Write,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for table in &self.tables {
            if has_keys {
                let keys = table.columns.iter().map(|column| column.key);
                let keys: Vec<&[u8]> =
                    keys.filter(|key| !key.is_empty()).map(str::as_bytes).collect();
                bytes.extend(keys.join(&separator.byte()));
                bytes.push(b'\n');
            }
            for row in &table.rows {
                for (number, (_, cell)) in table.for_programs(row).enumerate() {
                    if number > 0 {
                        bytes.push(separator.byte());
                    }
                    cell.value().field(separator, &mut bytes);
                }
                bytes.push(b'\n');
            }
        }
        out.write_all(&bytes)?;
        out.flush()
    }

    /// Prints the report as JSON, row by row: the text is never in memory as a whole.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn write_json(&self, out: &mut impl io::Write) -> io::Result<()> {
        let mut part = format!("{{\"kind\":\"{}\",\"version\":{VERSION}", self.kind).into_bytes();
        part.extend_from_slice(b",\n\"incomplete\":");
        strings(&self.incomplete, &mut part);
        for (key, _, value) in &self.facts {
            part.extend_from_slice(b",\n");
            value.value().member(key, &mut part);
        }
        for table in &self.tables {
            part.extend(format!(",\n\"{}\":[", table.key).bytes());
            for (number, row) in table.rows.iter().enumerate() {
                part.extend_from_slice(if number == 0 { b"\n{" } else { b",\n{" });
                for (number, (column, cell)) in table.for_programs(row).enumerate() {
                    if number > 0 {
                        part.push(b',');
                    }
                    cell.value().member(column.key, &mut part);
                }
                part.push(b'}');
                out.write_all(&part)?;
                part.clear();
            }
            part.push(b']');
        }
        part.extend_from_slice(b",\n\"notes\":");
        strings(&self.notes, &mut part);
        part.extend_from_slice(b"}\n");
        out.write_all(&part)
    }

    fn separated(&self, separator: Separator, out: &mut Vec<u8>) {
        let line = |out: &mut Vec<u8>, fields: &[&str]| {
            let fields: Vec<&[u8]> = fields.iter().map(|field| field.as_bytes()).collect();
            out.extend(fields.join(&separator.byte()));
        };
        line(out, &["table", "key", "value\n"]);
        for (key, _, value) in &self.facts {
            line(out, &["facts", key, ""]);
            value.value().field(separator, out);
            out.push(b'\n');
        }
        let incomplete = self.incomplete.iter().map(|part| ("incomplete", part));
        for (key, text) in incomplete.chain(self.notes.iter().map(|note| ("note", note))) {
            line(out, &["facts", key, ""]);
            CellValue::Word(text).field(separator, out);
            out.push(b'\n');
        }
        for table in &self.tables {
            let keys = table.columns.iter().map(|column| column.key);
            let keys: Vec<&str> =
                std::iter::once("table").chain(keys.filter(|key| !key.is_empty())).collect();
            out.push(b'\n');
            line(out, &keys);
            out.push(b'\n');
            for row in &table.rows {
                out.extend(table.key.bytes());
                for (_, cell) in table.for_programs(row) {
                    out.push(separator.byte());
                    cell.value().field(separator, out);
                }
                out.push(b'\n');
            }
        }
    }
}

/// Writes an array of strings, a line each.
fn strings(texts: &[String], out: &mut Vec<u8>) {
    out.push(b'[');
    for (number, text) in texts.iter().enumerate() {
        out.extend_from_slice(if number == 0 { b"\n" } else { b",\n" });
        escape::json_string(out, text);
    }
    out.push(b']');
}

impl Table {
    /// Cells of a row for programs.
    fn for_programs<'a>(&'a self, row: &'a [Cell]) -> impl Iterator<Item = (&'a Column, &'a Cell)> {
        self.columns.iter().zip(row).filter(|column| !column.0.key.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn sample() -> Report {
        let columns = vec![
            Column { key: "count", title: "count", rank: None },
            Column { key: "time_ns", title: "time", rank: None },
            Column { key: "share", title: "", rank: None },
            Column { key: "path", title: "file", rank: Some(0) },
        ];
        let row = |count, ns, name: &[u8]| {
            vec![Cell::Count(count), Cell::Ns(ns), Cell::share(count, 8), Cell::Name(name.to_vec())]
        };
        Report {
            kind: "sample",
            facts: vec![("wall_ns", "wall", Cell::Ns(1_002_003)), ("x", "", Cell::None)],
            incomplete: Vec::new(),
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
        sample().print(form, TextStyle::default(), &mut out).expect("memory");
        expected.assert_eq(&String::from_utf8(out).expect("UTF-8"));
    }

    #[test]
    fn for_people() {
        check(
            TableFormat::Text,
            &expect![[r#"
                wall  1.00 ms

                Files
                file        count  time ms
                a,"b"\x0a       1   <0.001
                \xff\x1b[m  1,000   12.346

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
                "incomplete":[],
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
        sample().print(TableFormat::Json, TextStyle::default(), &mut out).expect("memory");
        let json: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(json["files"][1]["time_ns"], 12_345_678);
    }

    #[test]
    fn as_tsv() {
        check(
            TableFormat::Tsv,
            &expect![[r#"
            table	key	value
            facts	wall_ns	1002003
            facts	x	
            facts	note	That is all.

            table	count	time_ns	share	path
            files	1	5	0.125000	a,"b"\x0a
            files	1000	12345678	125.000000	\xff\x1b[m
        "#]],
        );
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
