//! Values of one column of a table, until their row group is written.

use std::fmt::Write as _;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedColumnWriter;
use rustc_hash::FxHashMap;

/// Kind of a column's values, as the format declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// Signed numbers.
    Signed,
    /// Unsigned numbers.
    Unsigned,
    /// Nanoseconds since 1970 UTC.
    WallTime,
    /// Text in UTF-8.
    Text,
}

impl ColumnKind {
    /// Declaration in the schema's language (`parquet::schema::parser`).
    pub(super) fn declaration(self, name: &str) -> String {
        match self {
            Self::Signed => format!("optional int64 {name};"),
            Self::Unsigned => format!("optional int64 {name} (INTEGER(64,false));"),
            Self::WallTime => format!("optional int64 {name} (TIMESTAMP(NANOS,true));"),
            Self::Text => format!("optional binary {name} (STRING);"),
        }
    }
}

/// Limit on the different texts of a column that are kept from one row group to the next.
const TEXTS_MAX: usize = 1 << 16;

/// Rows that are given to the writer at once: their texts stay in the processor's cache.
const BATCH_ROWS: usize = 1024;

/// Values of a column, without those that are missing.
#[derive(Debug)]
enum ColumnValues {
    Numbers(Vec<i64>),
    /// Numbers of texts.
    Texts(Vec<u32>, KnownTexts),
}

/// Column of a table, with the values of the rows that wait.
#[derive(Debug)]
pub(super) struct StoredColumn {
    values: ColumnValues,
    /// True for each row that has a value.
    present: Vec<bool>,
}

impl StoredColumn {
    pub(super) fn new(kind: ColumnKind) -> Self {
        let values = match kind {
            ColumnKind::Text => ColumnValues::Texts(Vec::new(), KnownTexts::default()),
            _ => ColumnValues::Numbers(Vec::new()),
        };
        Self { values, present: Vec::new() }
    }

    /// Adds the value of a row. A value of the other kind counts as missing: tests fill each column
    /// of each table.
    pub(super) fn push(&mut self, cell: StoredCell<'_>) {
        let is_there = match (&mut self.values, cell) {
            (ColumnValues::Numbers(numbers), StoredCell::Signed(Some(number))) => {
                numbers.push(number);
                true
            }
            (ColumnValues::Numbers(numbers), StoredCell::Unsigned(Some(number))) => {
                // The format stores unsigned numbers in the bits of signed ones.
                numbers.push(number.cast_signed());
                true
            }
            (ColumnValues::Texts(texts, known), StoredCell::Text(Some(text))) => {
                texts.push(known.number(text));
                true
            }
            (ColumnValues::Texts(texts, known), StoredCell::Word(Some(word))) => {
                texts.push(known.number_of_word(word));
                true
            }
            _ => false,
        };
        self.present.push(is_there);
    }

    /// Writes the values as a part of a row group, and forgets them.
    pub(super) fn write(
        &mut self,
        writer: &mut SerializedColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        let mut levels = Vec::with_capacity(BATCH_ROWS);
        let mut batch = Vec::with_capacity(BATCH_ROWS);
        let mut written = 0;
        for present in self.present.chunks(BATCH_ROWS) {
            // The level of a value is 1, that of a missing one 0.
            levels.clear();
            levels.extend(present.iter().map(|is_there| i16::from(*is_there)));
            let values = written..written + present.iter().filter(|is_there| **is_there).count();
            written = values.end;
            match &self.values {
                ColumnValues::Numbers(numbers) => {
                    let numbers = numbers.get(values).unwrap_or_default();
                    writer.typed::<Int64Type>().write_batch(numbers, Some(&levels), None)?;
                }
                ColumnValues::Texts(texts, known) => {
                    batch.clear();
                    let texts = texts.get(values).unwrap_or_default();
                    batch.extend(texts.iter().filter_map(|number| known.text(*number)));
                    writer.typed::<ByteArrayType>().write_batch(&batch, Some(&levels), None)?;
                }
            }
        }
        self.present.clear();
        match &mut self.values {
            ColumnValues::Numbers(numbers) => numbers.clear(),
            ColumnValues::Texts(texts, known) => {
                texts.clear();
                known.limit();
            }
        }
        Ok(())
    }
}

/// Texts of a column: names repeat, and rows have their numbers.
#[derive(Debug, Default)]
struct KnownTexts {
    /// Texts as they are stored, by their numbers.
    stored: Vec<ByteArray>,
    numbers: FxHashMap<Vec<u8>, u32>,
    /// The latest text, and its number.
    latest: Option<(Vec<u8>, u32)>,
    /// The latest text of the program itself, and its number.
    latest_word: Option<(&'static str, u32)>,
}

impl KnownTexts {
    fn number(&mut self, text: &[u8]) -> u32 {
        if let Some((latest, number)) = &self.latest
            && latest == text
        {
            return *number;
        }
        let number = self.looked_up(text);
        let (latest, number_of_latest) = self.latest.get_or_insert_default();
        latest.clear();
        latest.extend_from_slice(text);
        *number_of_latest = number;
        number
    }

    fn number_of_word(&mut self, word: &'static str) -> u32 {
        if let Some((latest, number)) = self.latest_word
            && std::ptr::eq(latest, word)
        {
            return number;
        }
        let number = self.looked_up(word.as_bytes());
        self.latest_word = Some((word, number));
        number
    }

    fn looked_up(&mut self, text: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        // A row group has fewer rows, so the numbers are unique.
        let number = u32::try_from(self.stored.len()).unwrap_or(u32::MAX);
        self.stored.push(ByteArray::from(utf8(text).into_bytes()));
        self.numbers.insert(text.to_vec(), number);
        number
    }

    fn text(&self, number: u32) -> Option<ByteArray> {
        self.stored.get(usize::try_from(number).ok()?).cloned()
    }

    /// Forgets the texts if there are many. No row may have their numbers.
    fn limit(&mut self) {
        if self.stored.len() >= TEXTS_MAX {
            *self = Self::default();
        }
    }
}

/// Returns a text with bytes that are not UTF-8 as `\xNN`.
fn utf8(text: &[u8]) -> String {
    let mut valid = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        valid.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a String does not fail.
            let _ = write!(valid, "\\x{byte:02x}");
        }
    }
    valid
}

/// Value of a row in a column; `None` within: it has none.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoredCell<'a> {
    Signed(Option<i64>),
    Unsigned(Option<u64>),
    Text(Option<&'a [u8]>),
    /// Text that the program itself has.
    Word(Option<&'static str>),
}

/// Returns the cell of a word.
pub(super) fn word(text: Option<&str>) -> StoredCell<'_> {
    StoredCell::Text(text.map(str::as_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number_until_they_are_forgotten() {
        let mut known = KnownTexts::default();
        let word: &'static str = "read";
        let numbers = [
            known.number(b"/a"),
            known.number_of_word(word),
            known.number(b"/a"),
            known.number(b"read"),
            known.number_of_word(word),
            known.number(b"/a"),
        ];
        assert_eq!(numbers, [0, 1, 0, 1, 1, 0]);
        known.limit();
        assert_eq!(known.text(1).as_ref().map(ByteArray::data), Some(b"read".as_slice()));
        for number in 0..TEXTS_MAX {
            known.number(number.to_string().as_bytes());
        }
        known.limit();
        assert!(known.text(0).is_none());
        assert_eq!((known.number_of_word(word), known.number(b"/a")), (0, 1));
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        assert_eq!(utf8("ä\n".as_bytes()), "ä\n");
        assert_eq!(utf8(b"a\xff\xc3b"), "a\\xff\\xc3b");
    }
}
