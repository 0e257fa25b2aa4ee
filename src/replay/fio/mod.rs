//! Export to fio: one log for each thread that reads or writes, and the jobs that replay the logs.
//!
//! ```text
//!   Step ─► FioExport ─┬─ Names      names of the files for fio
//!                      ├─ Job        one thread: its log, line by line
//!                      └─► Logs      storage of the logs
//! ```
//!
//! The logs have fio's version 3 (`HOWTO.rst`, "Trace file format v3"; `read_iolog()` in
//! `iolog.c`): `TIME FILE add|open|close` and `TIME FILE read|write|sync|datasync OFFSET LENGTH`,
//! times in µs. Three facts are not in its manual, but in its code:
//!
//! - Files are looked up by the whole name that they were added under (`get_fileno()`), so
//!   `directory=` cannot be used. Instead names begin with the directory of the file, and no name
//!   leads out of that directory.
//! - Lines after a time of 0 are not delayed (`delay_since_ttime()`), so times begin at 1.
//! - A read that gets fewer bytes than its line requests ends the job. So lines have the bytes that
//!   calls got, and files are as long as the furthest read.

mod export;
mod job;
mod jobs;
mod names;

use std::fmt;

pub use export::FioExport;
pub use job::{Job, JobDirection};
pub use jobs::{JOBS_MAX, prepare_jobs, replay_jobs};
pub use names::{DIRECTORIES, FileName, NAME_BYTES_MAX};

use super::plan::replayability::SkipReason;

/// Storage of the logs.
pub trait Logs {
    /// Appends lines to the log of a job.
    ///
    /// # Errors
    ///
    /// The lines cannot be written.
    fn append(&mut self, job: usize, lines: &[u8]) -> std::io::Result<()>;

    /// Removes the log of a job that has nothing for fio.
    ///
    /// # Errors
    ///
    /// The log cannot be removed.
    fn remove(&mut self, job: usize) -> std::io::Result<()>;
}

/// Reason why an operation is not in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotExported {
    /// Operation failed.
    Failed,
    /// Operation moved no bytes: it was at the end of its file.
    Nothing,
    /// fio has no equivalent.
    NoCounterpart,
    /// Offset in the file is unknown.
    NoOffset,
    /// Operation moved more bytes than fit into a line of fio.
    TooLong,
    /// Direct I/O of a length that is not a multiple of the sector: the end of a file.
    Unaligned,
    /// Thread neither reads nor writes a file: fio has no job without data.
    NoData,
    /// Operation that no replay executes either.
    Replay(SkipReason),
}

impl NotExported {
    /// Returns the word for the reason in machine-readable outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Nothing => "nothing-moved",
            Self::NoCounterpart => "not-in-fio",
            Self::NoOffset => "offset-unknown",
            Self::TooLong => "too-long",
            Self::Unaligned => "unaligned",
            Self::NoData => "thread-without-data",
            Self::Replay(reason) => reason.as_str(),
        }
    }
}

impl fmt::Display for NotExported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "failed",
            Self::Nothing => "moved nothing",
            Self::NoCounterpart => "fio has no equivalent",
            Self::NoOffset => "the offset in the file is unknown",
            Self::TooLong => "of 4 GiB and more",
            Self::Unaligned => "direct I/O of the end of a file",
            Self::NoData => "of threads that neither read nor write a file",
            Self::Replay(reason) => return reason.fmt(f),
        })
    }
}
