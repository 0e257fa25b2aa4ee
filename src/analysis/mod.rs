//! Folds over operations: pure, streaming, memory bounded by the number of distinct keys.

pub mod accounting;
pub mod audit;
pub mod done;
pub mod files;
pub mod filter;
pub mod findings;
pub mod keyed;
pub mod latency;
pub mod names;
pub mod pattern;
pub mod split;
pub mod spread;
pub mod stacks;
pub mod summary;
pub mod tally;
pub mod totals;
pub mod watch;
