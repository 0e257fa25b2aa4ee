//! Result of reading a log, with or without an archive.

use std::path::Path;

use crate::analysis::call_totals::Totals;
use crate::otf2::OtfSummary;
use crate::pipeline::Summary;

/// Result of reading a log.
#[derive(Debug)]
pub(super) struct Converted {
    pub(super) summary: Summary,
    pub(super) totals: Totals,
    pub(super) archive: Option<OtfSummary>,
    /// Notes on the filter: what it could not decide, and that it selects nothing.
    pub(super) filter_notes: Vec<String>,
    /// The job, if the result is of all of its recordings.
    pub(super) job: Option<JobState>,
}

impl Converted {
    /// Returns the result of reading one log without an archive.
    pub(super) fn new(summary: Summary, totals: Totals) -> Self {
        Self { summary, totals, archive: None, filter_notes: Vec::new(), job: None }
    }

    /// Returns true if a recording of the job was not read, or is damaged.
    pub(super) fn has_damaged_job(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.has_damage)
    }
}

/// Recordings of a job that a result is of.
#[derive(Debug, Default)]
pub(super) struct JobState {
    /// Recordings of the index.
    pub(super) captures: u64,
    /// Recordings that were read.
    pub(super) read: u64,
    /// Recordings that were not read.
    pub(super) not_read: u64,
    pub(super) hosts: u64,
    /// Ranks that were recorded.
    pub(super) ranks: u64,
    /// Number of ranks of the job, if it is known.
    pub(super) size: Option<u64>,
    /// Error bound of the order of two events of different clocks, ns; `None`: not known.
    pub(super) bound_ns: Option<u64>,
    /// Hosts of which a recording of the whole machine overlaps with another one.
    pub(super) overlapping_hosts: Vec<String>,
    /// Notes on what the result does not have.
    pub(super) notes: Vec<String>,
    /// Missing parts of the first [`Self::SHOWN_MAX`] recordings.
    pub(super) incomplete: Vec<String>,
    /// Number of recordings of which something is missing.
    pub(super) incomplete_count: usize,
    /// True if a recording is damaged, or was not read.
    pub(super) has_damage: bool,
}

impl JobState {
    /// Largest number of recordings in a message.
    pub(super) const SHOWN_MAX: usize = 16;
}

/// Paths of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogPaths<'a> {
    /// Path by which the log is opened: that of the descriptor for a log that was just written.
    pub(super) path: &'a Path,
    /// Path that messages show.
    pub(super) shown: &'a Path,
    /// False if the disk did not accept the log.
    pub(super) is_kept: bool,
}
