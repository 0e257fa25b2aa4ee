//! Folds over operations: pure, streaming, memory bounded by the number of distinct keys.

pub mod accounting;
pub mod audit;
pub mod bounded_map;
pub mod cache_use;
pub mod call_totals;
pub mod completed_op;
pub mod disk_use;
pub mod files;
pub mod filter;
pub mod findings;
pub mod group_stats;
pub mod histogram;
pub mod latency;
pub mod layer_split;
pub mod overview;
pub mod pattern;
pub mod process_names;
mod recent_rows;
pub mod slowest;
pub mod stacks;
pub mod summary;
pub mod timeline;
pub mod top;
pub mod watch;
