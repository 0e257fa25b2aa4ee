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

use super::column::{ColumnKind, StoredCell, StoredColumn};

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
    rows: usize,
    writer: SerializedFileWriter<BufWriter<File>>,
}

impl std::fmt::Debug for ParquetTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetTable").field("rows", &self.rows).finish_non_exhaustive()
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
        let fields = schema.columns.iter().map(|(name, kind)| kind.declaration(name));
        let message = format!("message {} {{ {} }}", schema.name, fields.collect::<String>());
        let properties = properties(schema)?;
        let (out, message) = (BufWriter::new(file), Arc::new(parse_message_type(&message)?));
        Ok(Self {
            columns: schema.columns.iter().map(|(_, kind)| StoredColumn::new(*kind)).collect(),
            rows: 0,
            writer: SerializedFileWriter::new(out, message, Arc::new(properties))?,
        })
    }

    /// Adds a row: a cell for each column, in their order.
    pub(super) fn row(&mut self, cells: &[StoredCell<'_>]) -> Result<(), ParquetError> {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.columns.iter_mut().zip(cells).for_each(|(column, cell)| column.push(*cell));
        self.rows += 1;
        if self.rows < GROUP_ROWS { Ok(()) } else { self.write_group() }
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            if let Some(mut writer) = group.next_column()? {
                column.write(&mut writer)?;
                writer.close()?;
            }
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }

    /// Writes the rest, with these facts about the log.
    pub(super) fn finish(mut self, facts: &[(String, String)]) -> Result<(), ParquetError> {
        if self.rows > 0 {
            self.write_group()?;
        }
        for (key, value) in facts {
            self.writer.append_key_value_metadata(KeyValue::new(key.clone(), value.clone()));
        }
        self.writer.close()?;
        Ok(())
    }
}
