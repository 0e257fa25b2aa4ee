//! Folds over operations: pure, streaming, memory bounded by the number of distinct keys.

pub mod audit;
pub mod totals;
