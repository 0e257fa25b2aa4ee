//! Renders analysis results as tables, JSON and CSV.

pub mod cache;
pub mod disk;
mod file_systems;
pub mod files;
mod files_findings;
pub mod grouping;
pub mod latency;
pub mod page;
pub mod pattern;
pub mod replay;
pub mod replay_block;
pub mod replay_brief;
mod replay_columns;
pub mod replay_export;
pub mod replay_loop;
pub mod replay_run;
pub mod replay_trace;
mod rows;
mod size_histogram;
pub mod slow;
pub mod stacks;
pub mod summary;
pub mod top;

pub use rows::ROWS;
