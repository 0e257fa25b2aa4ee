//! Names of the rows of a job, and of the lines of its map.

use std::collections::BTreeSet;
use std::ops::Range;

use super::facts::JobFacts;
use super::rank_ranges::ranges;
use crate::analysis::job::row_plan::{JobRowKey, RowSubject};
use crate::text::quantity::counted;

/// Returns the name of a row on its host.
pub fn row_name(key: JobRowKey, facts: &JobFacts) -> String {
    match key.subject {
        RowSubject::Rank(rank) => format!("rank {rank}"),
        RowSubject::Recording(number) => {
            facts.recordings.get(number).map_or("(a recording)", String::as_str).to_owned()
        }
        RowSubject::Machine => "(whole machine)".to_owned(),
        RowSubject::Others => "(processes without a rank)".to_owned(),
    }
}

/// Returns the name of a host.
pub(super) fn host_name(host: usize, facts: &JobFacts) -> &str {
    facts.hosts.get(host).map_or("(unknown host)", |host| host.name.as_str())
}

/// Returns the name of rows that share a line: `ranks 0-39`.
pub fn line_name(keys: &[JobRowKey], rows: &Range<usize>, facts: &JobFacts) -> String {
    let keys = keys.get(rows.clone()).unwrap_or_default();
    if let [key] = keys {
        return row_name(*key, facts);
    }
    let rank = |key: &JobRowKey| match key.subject {
        RowSubject::Rank(rank) => Some(rank),
        _ => None,
    };
    let ranks: BTreeSet<u64> = keys.iter().filter_map(rank).collect();
    let others = keys.len() - keys.iter().filter_map(rank).count();
    match (ranks.len(), others) {
        (0, others) => counted(others as u64, "recording"),
        (_, 0) => format!("ranks {}", ranges(&ranks)),
        (_, others) => format!("ranks {} and {others} without a rank", ranges(&ranks)),
    }
}
