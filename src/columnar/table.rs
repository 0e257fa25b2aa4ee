//! A table in a Parquet file: rows are collected into groups, which are written as a whole.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use super::column::{ColumnKind, StoredCell, StoredColumn};
use super::text_chunk::{DICTIONARY_BYTES_MAX, TextEncoder};

/// Largest number of columns of a table: the bits of a row's set of values.
const COLUMNS_MAX: usize = u32::BITS as usize;

/// Rows of a group: some 10 MB before they are written.
const GROUP_ROWS: usize = 1 << 16;

/// Level of the compression: a higher one takes longer than the tracker.
const ZSTD_LEVEL: i32 = 1;

/// Name and columns of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSchema {
    pub(super) name: &'static str,
    pub(super) columns: &'static [(&'static str, ColumnKind)],
}

/// Writer of a table.
pub(super) struct ParquetTable {
    columns: Vec<StoredColumn>,
    /// Columns in which each of the waiting rows has a value: bit 0 is the first. No table has more
    /// than [`COLUMNS_MAX`].
    rows: Vec<u32>,
    writer: SerializedFileWriter<BufWriter<File>>,
    encoder: TextEncoder,
}

impl std::fmt::Debug for ParquetTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetTable").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

/// Returns how the columns are written. Texts repeat, and are written once in a row group. Numbers
/// are written as differences: times rise, and most others repeat or stay near each other. With a
/// table of all different numbers of a group, the default, a log of one-byte reads and writes took
/// 2.7 times the space.
fn properties(schema: TableSchema) -> Result<WriterProperties, ParquetError> {
    let common = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES_MAX)
        .set_data_page_row_count_limit(GROUP_ROWS)
        .set_created_by(format!("iotrace-perf {}", env!("CARGO_PKG_VERSION")));
    let numbers = schema.columns.iter().filter(|(_, kind)| *kind != ColumnKind::Text);
    let all = numbers.fold(common, |builder, (name, _)| {
        builder
            .set_column_dictionary_enabled((*name).into(), false)
            .set_column_encoding((*name).into(), Encoding::DELTA_BINARY_PACKED)
    });
    Ok(all.build())
}

impl ParquetTable {
    /// Begins a table.
    pub(super) fn create(file: File, schema: TableSchema) -> Result<Self, ParquetError> {
        if schema.columns.len() > COLUMNS_MAX {
            return Err(ParquetError::General(format!("{} has too many columns", schema.name)));
        }
        let fields = schema.columns.iter().map(|(name, kind)| kind.declaration(name));
        let message = format!("message {} {{ {} }}", schema.name, fields.collect::<String>());
        let properties = Arc::new(properties(schema)?);
        let (out, message) = (BufWriter::new(file), Arc::new(parse_message_type(&message)?));
        let writer = SerializedFileWriter::new(out, message, Arc::clone(&properties))?;
        let column = |((_, kind), descriptor): (&(&str, ColumnKind), &ColumnDescPtr)| {
            StoredColumn::new(*kind, Arc::clone(descriptor))
        };
        let descriptors = writer.schema_descr().columns();
        Ok(Self {
            columns: schema.columns.iter().zip(descriptors).map(column).collect(),
            rows: Vec::new(),
            writer,
            encoder: TextEncoder { properties, compressor: Compressor::new(ZSTD_LEVEL)? },
        })
    }

    /// Adds a row: a cell for each column, in their order.
    pub(super) fn row(&mut self, cells: &[StoredCell<'_>]) -> Result<(), ParquetError> {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        let mut row = 0;
        for (index, (column, cell)) in self.columns.iter_mut().zip(cells).enumerate() {
            row |= u32::from(column.push(*cell)) << index;
        }
        self.rows.push(row);
        if self.rows.len() < GROUP_ROWS { Ok(()) } else { self.write_group() }
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let mut levels = Vec::with_capacity(self.rows.len());
        for (index, column) in self.columns.iter_mut().enumerate() {
            levels.clear();
            levels.extend(self.rows.iter().map(|row| i16::from(row >> index & 1 == 1)));
            column.write(&levels, &mut self.encoder, &mut group)?;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }

    /// Writes the rest, with these facts about the log.
    pub(super) fn finish(mut self, facts: &[(String, String)]) -> Result<(), ParquetError> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        for (key, value) in facts {
            self.writer.append_key_value_metadata(KeyValue::new(key.clone(), value.clone()));
        }
        self.writer.close()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use parquet::file::metadata::ParquetMetaData;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::super::column::unsigned;
    use super::*;

    const SCHEMA: TableSchema = TableSchema {
        name: "texts",
        columns: &[("number", ColumnKind::Unsigned), ("text", ColumnKind::Text)],
    };

    /// Fails if the texts of rows are read back as others; returns what the file says of them.
    #[track_caller]
    fn check(texts: &[Option<String>]) -> ParquetMetaData {
        let file = tempfile::tempfile().expect("a file");
        let mut table =
            ParquetTable::create(file.try_clone().expect("a file"), SCHEMA).expect("it");
        for (row, text) in texts.iter().enumerate() {
            let text = text.as_deref().map(str::as_bytes);
            table.row(&[unsigned(Some(row as u64)), StoredCell::Text(text)]).expect("a row");
        }
        table.finish(&[]).expect("a table");
        (&file).rewind().expect("a file");
        let reader = SerializedFileReader::new(file).expect("a Parquet file");
        let mut count = 0;
        for (row, text) in reader.get_row_iter(None).expect("rows").zip(texts) {
            let row = row.expect("a row");
            let fields: Vec<&Field> = row.get_column_iter().map(|column| column.1).collect();
            let text = text.clone().map_or(Field::Null, Field::Str);
            assert_eq!(fields, [&Field::ULong(count), &text]);
            count += 1;
        }
        assert_eq!(count, texts.len() as u64);
        reader.metadata().clone()
    }

    /// Returns facts about the texts of a row group: whether all are in the dictionary, their
    /// bytes, how many are missing and there, the least and the greatest.
    fn facts(
        metadata: &ParquetMetaData,
        group: usize,
    ) -> (bool, Option<i64>, Vec<i64>, [String; 2]) {
        let column = metadata.row_group(group).column(1);
        let levels = column.definition_level_histogram().expect("levels").values().to_vec();
        let texts = column.statistics().expect("statistics");
        let end = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into();
        let ends = [texts.min_bytes_opt(), texts.max_bytes_opt()].map(end);
        assert_eq!(texts.null_count_opt(), levels.first().map(|count| count.cast_unsigned()));
        assert!(column.dictionary_page_offset().is_some());
        let encodings = column.page_encoding_stats_mask().expect("encodings");
        let has_dictionary_only = encodings.is_only(Encoding::RLE_DICTIONARY);
        (has_dictionary_only, column.unencoded_byte_array_data_bytes(), levels, ends)
    }

    #[test]
    fn texts_are_read_back() {
        let text = |text: &str| Some(text.to_owned());
        let found = check(&[text("b"), None, text("a"), text("b"), text("ccc"), None]);
        assert_eq!(facts(&found, 0), (true, Some(6), vec![2, 4], ["a", "ccc"].map(Into::into)));
        assert_eq!(
            facts(&check(&[None, None]), 0),
            (true, Some(0), vec![2, 0], ["", ""].map(Into::into))
        );
        let found = check(&vec![text("same"); 20]);
        assert_eq!(
            facts(&found, 0),
            (true, Some(80), vec![0, 20], ["same", "same"].map(Into::into))
        );
    }

    #[test]
    fn texts_of_several_row_groups_are_read_back() {
        let text = |row: usize| (!row.is_multiple_of(7)).then(|| (row / 5 % 300).to_string());
        let texts: Vec<Option<String>> = (0..GROUP_ROWS + 3000).map(text).collect();
        let found = check(&texts);
        for (group, rows) in texts.chunks(GROUP_ROWS).enumerate() {
            let texts: Vec<&String> = rows.iter().flatten().collect();
            let bytes: usize = texts.iter().map(|text| text.len()).sum();
            let [bytes, missing, there] = [bytes, rows.len() - texts.len(), texts.len()]
                .map(|count| i64::try_from(count).expect("a small table"));
            let levels = vec![missing, there];
            assert_eq!(
                facts(&found, group),
                (true, Some(bytes), levels, ["0", "99"].map(Into::into))
            );
        }
    }

    /// Fails if texts that are longer than a dictionary may be are not written for each row.
    #[test]
    fn texts_too_long_for_a_dictionary_are_read_back() {
        let text = |row: usize| (row % 5 != 1).then(|| format!("{row:0>100}"));
        let texts: Vec<Option<String>> = (0..GROUP_ROWS).map(text).collect();
        let (has_dictionary_only, bytes, levels, _) = facts(&check(&texts), 0);
        assert!(!has_dictionary_only);
        assert_eq!((bytes, levels), (Some(5_242_900), vec![13_107, 52_429]));
    }
}
