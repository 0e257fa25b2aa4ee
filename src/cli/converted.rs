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
