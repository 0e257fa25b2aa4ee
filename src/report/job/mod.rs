//! Report of a job: its ranks, hosts, phases and shared files, and sentences about them.

mod facts;
mod input;
mod job_tables;
mod rank_ranges;
mod rank_sentences;
mod row_names;
mod sentences;
mod whole;

pub use facts::{JobFacts, JobGap, JobHostFacts};
pub use input::JobReportInput;
pub use rank_ranges::ranges;
pub use rank_sentences::{last_io, left_out, of_parts};
pub use row_names::{line_name, row_name};
pub use whole::report;
