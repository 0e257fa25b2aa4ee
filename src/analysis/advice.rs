//! Findings with advice: facts of a recording that usually can be better, each with its numbers,
//! the files and processes that it concerns, and, for durability, the order of events that proves
//! it.
//!
//! ```text
//!   steps ─┬─► IoSummary, FileTotals, Patterns, CacheUses   (the folds of other reports)
//!          ├─► Habits        counters that no other report has
//!          └─► Durability    state of each file: written, synced, renamed
//!                   │
//!   RULES ──────────┴─► judge ─► findings, and rules that this recording cannot answer
//! ```
//!
//! A rule whose facts are not in the recording is listed as not judged, with the reason. All maps
//! are bounded; what was dropped for lack of room is counted.

pub mod durability;
pub mod facts;
pub mod finding;
pub mod habits;
pub mod judge;
pub mod medium;
pub mod rule;
pub mod rule_table;
