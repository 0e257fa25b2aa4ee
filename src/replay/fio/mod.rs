//! Operations → what fio replays: one log for each thread that reads or writes, and the jobs that run them.
//!
//! ```text
//!   Step ─► FioExport ─┬─ Names      what fio calls the file
//!                      ├─ Job        one thread: its log, line by line
//!                      └─► Logs      who keeps what is written
//! ```
//!
//! The logs are fio's version 3 (`HOWTO.rst`, "Trace file format v3"; `read_iolog()` in `iolog.c`): `TIME FILE add|open|close` and
//! `TIME FILE read|write|sync|datasync OFFSET LENGTH`, times in µs. Three things are not in its manual, and are in its code:
//!
//! - files are looked up by the whole name that they were added under (`get_fileno()`), so `directory=` cannot be used: names begin with
//!   the directory that they lie in instead, and none of them leads out of it;
//! - what comes behind a time of 0 is not waited for (`delay_since_ttime()`), so times begin at 1;
//! - a read that gets fewer bytes than are in its line ends the job, so lines have what calls got, and files are as long as anybody has read.

mod export;
mod job;
mod jobs;
mod names;

use std::fmt;

pub use export::FioExport;
pub use job::{Job, Moved};
pub use jobs::{JOBS_MAX, prepare_jobs, replay_jobs};
pub use names::{DIRECTORIES, FileName, NAME_BYTES_MAX};

use super::replayability::SkipReason;

/// Keeps the logs.
pub trait Logs {
    /// The next lines of a log: that of this job.
    ///
    /// # Errors
    ///
    /// It cannot.
    fn append(&mut self, job: usize, lines: &[u8]) -> std::io::Result<()>;

    /// That job has nothing for fio.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    fn remove(&mut self, job: usize) -> std::io::Result<()>;
}

/// Why an operation is not in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotExported {
    /// It failed.
    Failed,
    /// It moved no bytes: it was at the end of its file.
    Nothing,
    /// fio has nothing like it.
    NoCounterpart,
    /// It is not known where in the file it was.
    NoOffset,
    /// More bytes than a line of fio's can have.
    TooLong,
    /// Without the page cache, and not of so many bytes as that takes: the end of a file.
    Unaligned,
    /// Its thread neither reads nor writes a file: fio has no job without.
    NoData,
    /// As no replay does it again.
    Replay(SkipReason),
}

impl NotExported {
    /// The word for it in outputs for programs.
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
            Self::NoCounterpart => "fio has nothing like it",
            Self::NoOffset => "it is not known where in the file they were",
            Self::TooLong => "of 4 GiB and more",
            Self::Unaligned => "direct I/O of the end of a file",
            Self::NoData => "of threads that neither read nor write a file",
            Self::Replay(reason) => return reason.fmt(f),
        })
    }
}
