//! Facts of a job that are in no operation: its hosts, recordings and clocks.

/// A host of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobHostFacts {
    /// Name of the host.
    pub name: String,
    /// Number of its recordings.
    pub recordings: u64,
    /// Largest error of its clocks, ns; `None`: not known.
    pub bound_ns: Option<u64>,
    /// Change of its wall clock while it was recorded, ns.
    pub moved_ns: i64,
    /// Correction of its clock that the user gave, ns.
    pub added_ns: i64,
}

/// A recording that is not there, or not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobGap {
    /// Path of the recording.
    pub path: String,
    /// True if nothing of it is in the numbers.
    pub is_left_out: bool,
    /// Reason, in words.
    pub reason: String,
}

/// Facts of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFacts {
    /// Hosts by their numbers.
    pub hosts: Vec<JobHostFacts>,
    /// Paths of the recordings by their numbers.
    pub recordings: Vec<String>,
    /// Recordings that are not there, or not whole.
    pub gaps: Vec<JobGap>,
    /// Time below which the order of events of two clocks is not known, ns: 0 if there is one
    /// clock, `None` if a recording has no dates.
    pub order_bound_ns: Option<u64>,
    /// Sentences on what makes the numbers too small or too large, for the beginning.
    pub warnings: Vec<String>,
    /// Sentences on ranks, clocks and recordings.
    pub notes: Vec<String>,
    /// Name of the job, as its manager has it; empty: not known.
    pub job: String,
    /// Wall clock at the zero of the common clock, ns since 1970; 0: no recording has dates.
    pub zero_wall_ns: u64,
    /// Command that makes the report.
    pub command: String,
}
