//! Operations → tables in Parquet files, for query engines.
//!
//! ```text
//!   Step ─► ParquetSink ─► ParquetTable: columns of a row group ─► one file for each table
//! ```
//!
//! A row group has 131,072 rows, so memory does not grow with the log. Names that are not UTF-8 are
//! stored with `\xNN` for these bytes. The crate `parquet` encodes; its Arrow side is not used.

mod column;
mod schema;
mod sink;
mod table;

pub use sink::{LogFacts, ParquetSink, table_names};
