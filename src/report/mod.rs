//! Renders analysis results as tables, JSON and CSV.

pub mod advice;
pub mod biography;
pub mod budget;
pub mod cache;
pub mod comparison;
pub mod disk;
mod file_rows;
mod file_systems;
pub mod files;
mod files_findings;
pub mod grouped;
pub mod grouping;
pub mod latency;
pub mod neighbours;
mod op_groups;
pub mod page;
pub mod pattern;
mod places;
mod pseudo_files;
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
mod slow_commits;
pub mod stacks;
pub mod summary;
mod tallies;
pub mod top;

pub use rows::ROWS;
