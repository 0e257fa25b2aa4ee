//! Result of a merge.

use std::collections::BTreeMap;

use super::merge_survey::{JobSurvey, OmittedLog};
use crate::analysis::call_totals::OnFiles;
use crate::otf2::JobSummary;

/// Counts of recordings that were merged.
#[derive(Clone, Debug, Default)]
pub(super) struct MergedCounts {
    pub(super) recordings: u64,
    pub(super) files: OnFiles,
    pub(super) requests: u64,
    /// Facts about completeness, by name: sums, or `unknown`.
    pub(super) completeness: BTreeMap<String, String>,
}

/// Result of a merge.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) survey: JobSurvey,
    /// Counts by host.
    pub(super) hosts: Vec<MergedCounts>,
    /// Records that are missing from merged recordings, in words, by path.
    pub(super) incomplete: Vec<OmittedLog>,
    /// True if a merged recording is damaged, or has no end.
    pub(super) has_damage: bool,
    pub(super) archive: JobSummary,
}
