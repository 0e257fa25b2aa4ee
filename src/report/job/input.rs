//! Input of the report of a job.

use super::facts::JobFacts;
use crate::analysis::job::fold::JobFold;
use crate::analysis::job::phases::IoPhases;

/// Results of the fold over a job, and facts of the job.
#[derive(Clone, Copy, Debug)]
pub struct JobReportInput<'a> {
    /// Results of the fold.
    pub fold: &'a JobFold,
    /// Facts of the job.
    pub facts: &'a JobFacts,
    /// Phases in which it reads, and in which it writes.
    pub phases: &'a [IoPhases; 2],
}

impl JobReportInput<'_> {
    /// Returns the noun for the rows that are compared.
    pub fn noun(&self) -> &'static str {
        if self.fold.plan.has_ranks() { "rank" } else { "recording" }
    }

    /// Returns the time below which the order of two ends in columns is not known, ns; `None`: a
    /// recording has no dates.
    pub fn column_error_ns(&self) -> Option<u64> {
        let bound = self.facts.order_bound_ns?;
        Some(bound.saturating_add(self.fold.axis.width_ns()))
    }

    /// Returns the duration of the job, from the start of the first recording to the end of the
    /// last one, ns.
    pub fn wall_ns(&self) -> u64 {
        self.fold.end.0.saturating_sub(self.fold.axis.origin().0)
    }
}
