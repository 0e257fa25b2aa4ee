//! Values of one column of a table, until their row group is written.

use std::io::Write;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::ColumnDescPtr;

use super::known_texts::KnownTexts;
use super::text_chunk::{TextChunk, TextEncoder};

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

/// Texts that are given to the crate's writer at once, so that they stay in the processor's cache.
const BATCH_TEXTS: usize = 1024;

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
    descriptor: ColumnDescPtr,
}

impl StoredColumn {
    pub(super) fn new(kind: ColumnKind, descriptor: ColumnDescPtr) -> Self {
        let values = match kind {
            ColumnKind::Text => ColumnValues::Texts(Vec::new(), KnownTexts::default()),
            _ => ColumnValues::Numbers(Vec::new()),
        };
        Self { values, descriptor }
    }

    /// Adds the value of a row, and returns true if it has one. A value of the other kind counts as
    /// missing: tests fill each column of each table.
    #[inline]
    pub(super) fn push(&mut self, cell: StoredCell<'_>) -> bool {
        match (&mut self.values, cell) {
            (ColumnValues::Numbers(numbers), StoredCell::Number(Some(number))) => {
                numbers.push(number);
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
        }
    }

    /// Adds the values to a row group, and forgets them. The levels are those of the format: 1 for
    /// each row that has a value, 0 for the others.
    pub(super) fn write(
        &mut self,
        levels: &[i16],
        encoder: &mut TextEncoder,
        group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    ) -> Result<(), ParquetError> {
        match &mut self.values {
            ColumnValues::Numbers(numbers) => {
                if let Some(mut column) = group.next_column()? {
                    column.typed::<Int64Type>().write_batch(numbers, Some(levels), None)?;
                    column.close()?;
                }
                numbers.clear();
            }
            ColumnValues::Texts(numbers, known) => {
                let (descriptor, texts) = (&self.descriptor, known.stored());
                let chunk = TextChunk { descriptor, texts, numbers, levels };
                if chunk.fits() {
                    chunk.write(encoder, group)?;
                } else {
                    write_each(chunk, group)?;
                }
                numbers.clear();
                known.clear();
            }
        }
        Ok(())
    }
}

/// Adds a column whose texts are too long for one dictionary to a row group.
fn write_each(
    chunk: TextChunk<'_>,
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let text = |number: &u32| chunk.texts.get(usize::try_from(*number).ok()?).cloned();
    let mut numbers = chunk.numbers;
    for levels in chunk.levels.chunks(BATCH_TEXTS) {
        let count = levels.iter().filter(|level| **level == 1).count();
        let (batch, rest) = numbers.split_at_checked(count).unwrap_or_default();
        let texts: Vec<ByteArray> = batch.iter().filter_map(text).collect();
        column.typed::<ByteArrayType>().write_batch(&texts, Some(levels), None)?;
        numbers = rest;
    }
    column.close()
}

/// Value of a row in a column; `None` within: it has none.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoredCell<'a> {
    Number(Option<i64>),
    Text(Option<&'a [u8]>),
    /// Text that the program itself has.
    Word(Option<&'static str>),
}

/// Returns the cell of a signed number.
pub(super) fn signed(number: Option<i64>) -> StoredCell<'static> {
    StoredCell::Number(number)
}

/// Returns the cell of an unsigned number, which the format stores in the bits of a signed one.
pub(super) fn unsigned(number: Option<u64>) -> StoredCell<'static> {
    StoredCell::Number(number.map(u64::cast_signed))
}

/// Returns the cell of a word.
pub(super) fn word(text: Option<&str>) -> StoredCell<'_> {
    StoredCell::Text(text.map(str::as_bytes))
}
