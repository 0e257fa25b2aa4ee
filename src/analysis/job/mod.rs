//! Activity of a job over time, from its recordings one after the other, in memory that does not
//! grow with their number but for a row of sums for each rank.
//!
//! ```text
//!   headers ──► row plan: ranks, in order of hosts ──► at most 200 lines of a map
//!   recording 1 ──► sums of its ranks, cells of their lines, files ─┐
//!   recording 2 ──► …                                               ├─► fold ─► phases, balance
//! ```
//!
//! All times are those of the common clock. Bytes of an operation are spread evenly over the time
//! that it took, so a long write is no peak at its end.

pub mod balance;
pub mod file_uses;
pub mod fold;
pub mod job_files;
pub mod marks;
pub mod phases;
pub mod row_plan;
pub mod row_set;
pub mod sums;
