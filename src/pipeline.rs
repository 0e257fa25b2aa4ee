//! Processes a capture log into a sink: reads, merges, decodes, names and pairs its records.
//!
//! The stages are the same for every sink. Memory is bounded by two rounds of records, not by the
//! length of the capture.

mod chains;
mod decode_stage;
mod decoding;
mod erased_sink;
mod error;
mod file_system_texts;
mod frame_records;
mod opening;
mod others;
mod parallel;
mod pid_reuse;
mod recorded;
mod recorded_names;
mod serial;
mod sink_stage;
mod stage_message;
mod summary;
mod thread_scope;
mod threaded;
mod track_stage;

pub use error::PipelineError;
pub use opening::open;
pub use others::OtherRequests;
pub use parallel::{run_threaded, run_until};
pub use serial::run;
pub use sink_stage::run_in_three_threads;
pub use summary::{DurationShare, Summary};
pub use threaded::run_in_two_threads;
