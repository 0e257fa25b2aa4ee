//! Texts of a column in a row group: each once in a dictionary, and for each row its number.
//!
//! ```text
//!   different texts ─► writer of the crate ─┬─ dictionary, statistics, description ─► row group
//!   numbers, levels ─► own page ────────────┘ in place of its page
//! ```
//!
//! The crate's writer hashes and compares each text that it gets, so it gets each different one
//! once.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Encoding, PageType};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::{get_column_writer, get_typed_column_writer};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::metadata::LevelHistogram;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use super::runs::{put_runs, width_below};

/// Limit on the bytes of a dictionary. Texts above are written for each row.
pub(super) const DICTIONARY_BYTES_MAX: usize = 1 << 20;

/// Bytes of a text's length in a dictionary.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Texts of a column's rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextChunk<'a> {
    pub(super) descriptor: &'a ColumnDescPtr,
    /// The different texts, by their numbers.
    pub(super) texts: &'a [ByteArray],
    /// Numbers of the rows' texts, without the rows that have none.
    pub(super) numbers: &'a [u32],
    /// 1 for each row that has a text, 0 for the others.
    pub(super) levels: &'a [i16],
}

/// Parts of a table's writer that its columns of texts share.
pub(super) struct TextEncoder {
    pub(super) properties: WriterPropertiesPtr,
    pub(super) compressor: Compressor<'static>,
}

impl TextChunk<'_> {
    /// Returns true if the texts are short enough together.
    pub(super) fn fits(&self) -> bool {
        let bytes: usize = self.texts.iter().map(|text| text.len() + LENGTH_BYTES).sum();
        bytes < DICTIONARY_BYTES_MAX
    }

    /// Adds the column to a row group. The texts must fit.
    pub(super) fn write(
        &self,
        encoder: &mut TextEncoder,
        group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    ) -> Result<(), ParquetError> {
        let mut chunk = TrackedWrite::new(Vec::new());
        let pages = ReplacedPage {
            pages: SerializedPageWriter::new(&mut chunk),
            replacement: Some(self.page(&mut encoder.compressor)?),
        };
        let writer = get_column_writer(
            Arc::clone(self.descriptor),
            Arc::clone(&encoder.properties),
            Box::new(pages),
        );
        let mut writer = get_typed_column_writer::<ByteArrayType>(writer);
        let missing = self.levels.len() - self.numbers.len();
        let mut levels = vec![1; self.texts.len()];
        levels.resize(self.texts.len() + missing, 0);
        writer.write_batch(self.texts, Some(&levels), None)?;
        let mut closed = writer.close()?;
        // Counts of the texts are replaced by those of the rows.
        closed.rows_written = self.levels.len() as u64;
        let bytes = self.bytes()?;
        if let Some(index) = &mut closed.offset_index {
            index.unencoded_byte_array_data_bytes = Some(vec![bytes]);
        }
        let counts = vec![count(missing)?, count(self.numbers.len())?];
        let metadata = closed.metadata.into_builder();
        closed.metadata = metadata
            .set_unencoded_byte_array_data_bytes(Some(bytes))
            .set_definition_level_histogram(Some(LevelHistogram::from(counts)))
            .build()?;
        group.append_column(&Bytes::from(chunk.into_inner()?), closed)
    }

    /// Bytes of the texts of all rows.
    fn bytes(&self) -> Result<i64, ParquetError> {
        let lengths: Vec<usize> = self.texts.iter().map(ByteArray::len).collect();
        let length = |number: &u32| lengths.get(*number as usize);
        count(self.numbers.iter().filter_map(length).sum())
    }

    /// Page of the rows' levels and numbers.
    fn page(&self, compressor: &mut Compressor<'_>) -> Result<CompressedPage, ParquetError> {
        let levels: Vec<u32> = self.levels.iter().map(|level| u32::from(*level != 0)).collect();
        let mut level_runs = Vec::new();
        put_runs(&mut level_runs, &levels, 1);
        let width = width_below(self.texts.len());
        let mut page = count::<u32>(level_runs.len())?.to_le_bytes().to_vec();
        page.append(&mut level_runs);
        page.push(count(width as usize)?);
        put_runs(&mut page, self.numbers, width);
        let compressed = Page::DataPage {
            buf: compressor.compress(&page)?.into(),
            num_values: count(self.levels.len())?,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        Ok(CompressedPage::new(compressed, page.len()))
    }
}

/// Returns a count as the format has it.
fn count<T: TryFrom<usize>>(count: usize) -> Result<T, ParquetError> {
    T::try_from(count).map_err(|_| ParquetError::General("a row group is too large".into()))
}

/// Writer of pages that writes another page in place of the one of the values.
struct ReplacedPage<'a> {
    pages: SerializedPageWriter<'a, Vec<u8>>,
    replacement: Option<CompressedPage>,
}

impl PageWriter for ReplacedPage<'_> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec, ParquetError> {
        let page = match page.page_type() {
            PageType::DATA_PAGE => self.replacement.take().ok_or_else(|| {
                ParquetError::General("a row group of texts has more than one page".into())
            })?,
            _ => page,
        };
        self.pages.write_page(page)
    }

    fn close(&mut self) -> Result<(), ParquetError> {
        self.pages.close()
    }
}
