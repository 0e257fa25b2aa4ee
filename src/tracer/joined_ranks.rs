//! Ranks of a parallel job that are recorded together with the launched program.

use crate::capture::header::ProcessRank;
use crate::units::counted;

/// Time after the last arrival in which a recorder waits for further ranks of a known number, ns.
pub(super) const ARRIVAL_NS: u64 = 10_000_000_000;

/// Ranks that join the program of their recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinedRanks {
    /// Processes of the ranks; each becomes a program when the recording is on.
    pub processes: Vec<ProcessRank>,
    /// Number of ranks on the node that have not come.
    pub missing: u64,
}

impl JoinedRanks {
    /// Returns the warning about ranks that have not come.
    pub(super) fn warning(&self) -> Option<String> {
        (self.missing > 0).then(|| {
            format!(
                "{} of this node did not come within {} s after the others, or gave another -o, and may be missing in this log",
                counted(self.missing, "rank"),
                ARRIVAL_NS / 1_000_000_000
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ranks_are_counted() {
        let joined = |missing| JoinedRanks { processes: Vec::new(), missing }.warning();
        assert_eq!(joined(0), None);
        let warning = joined(2).expect("a warning");
        assert!(warning.starts_with("2 ranks of this node did not come within 10 s"), "{warning}");
    }
}
