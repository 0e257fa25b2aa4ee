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

/// Limit on the different texts of a column that are kept to be used again.
const TEXTS_MAX: usize = 1 << 16;

/// Values of a column, without those that are missing.
#[derive(Debug)]
enum ColumnValues {
    Numbers(Vec<i64>),
    Texts(Vec<ByteArray>, FxHashMap<Vec<u8>, ByteArray>),
}

/// Column of a table, with the values of the rows that wait.
#[derive(Debug)]
pub(super) struct StoredColumn {
    values: ColumnValues,
    /// For each row 1, or 0 if it has no value.
    levels: Vec<i16>,
}

impl StoredColumn {
    pub(super) fn new(kind: ColumnKind) -> Self {
        let values = match kind {
            ColumnKind::Text => ColumnValues::Texts(Vec::new(), FxHashMap::default()),
            _ => ColumnValues::Numbers(Vec::new()),
        };
        Self { values, levels: Vec::new() }
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
                texts.push(kept(known, text));
                true
            }
            _ => false,
        };
        self.levels.push(i16::from(is_there));
    }

    /// Writes the values as a part of a row group, and forgets them.
    pub(super) fn write(
        &mut self,
        writer: &mut SerializedColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        let levels = Some(self.levels.as_slice());
        match &mut self.values {
            ColumnValues::Numbers(numbers) => {
                writer.typed::<Int64Type>().write_batch(numbers, levels, None)?;
                numbers.clear();
            }
            ColumnValues::Texts(texts, _) => {
                writer.typed::<ByteArrayType>().write_batch(texts, levels, None)?;
                texts.clear();
            }
        }
        self.levels.clear();
        Ok(())
    }
}

/// Returns a text as it is stored: names repeat, and share their bytes.
fn kept(known: &mut FxHashMap<Vec<u8>, ByteArray>, text: &[u8]) -> ByteArray {
    if let Some(stored) = known.get(text) {
        return stored.clone();
    }
    if known.len() >= TEXTS_MAX {
        known.clear();
    }
    let stored = ByteArray::from(utf8(text).into_bytes());
    known.insert(text.to_vec(), stored.clone());
    stored
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
}

/// Returns the cell of a word.
pub(super) fn word(text: Option<&str>) -> StoredCell<'_> {
    StoredCell::Text(text.map(str::as_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        assert_eq!(utf8("ä\n".as_bytes()), "ä\n");
        assert_eq!(utf8(b"a\xff\xc3b"), "a\\xff\\xc3b");
    }
}
