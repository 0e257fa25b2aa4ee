//! Reasons why commands on watched files are refused.

use super::limits::{EVENTS_MAX, FILE_EVENTS_MAX, FILES_MAX, TURNS_MAX};

/// Reason why a command on a file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The file is already watched.
    #[error("it is watched already")]
    Watched,
    /// Too many files are watched.
    #[error("{FILES_MAX} files are watched already, which is the maximum; remove one first")]
    Files,
    /// More accesses would be kept than there is space for.
    #[error(
        "at least 1 and at most {FILE_EVENTS_MAX} accesses can be kept of a file, and {EVENTS_MAX} of all; keep fewer, or remove a file"
    )]
    Events,
    /// The file was stopped and started too often.
    #[error("it was stopped and started {TURNS_MAX} times; reset it first")]
    Turns,
}
