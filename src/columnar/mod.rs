//! Operations → tables in Parquet files, for query engines.
//!
//! ```text
//!   Step ─► ParquetSink ─► ParquetTable: columns of a row group ─► one file for each table
//!                                        ├─ numbers: writer of the crate `parquet`
//!                                        └─ texts: numbers of known texts ─► text_chunk
//! ```
//!
//! A row group has 65,536 rows, so memory does not grow with the log. Names that are not UTF-8 are
//! stored with `\xNN` for these bytes. The crate `parquet` encodes all but the pages of texts; its
//! Arrow side is not used.

mod column;
mod known_texts;
mod runs;
mod schema;
mod sink;
mod table;
mod text_chunk;

pub use sink::{LogFacts, ParquetSink, table_names};
