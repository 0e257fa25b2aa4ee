//! Reasons why operations are not in a log.

use std::fmt;

use super::super::plan::replayability::SkipReason;

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
