//! Jobs of many ranks.

use std::path::PathBuf;

use iotrace_perf::capture::header::{JobPlace, ProcessRank};

use super::{copied, number, page_of, rows};
use crate::support::page::data;
use crate::support::scratch_dir;

/// Ranks of a node, and nodes.
const RANKS: u64 = 125;
const NODES: u64 = 80;

/// Fails if the page of ten thousand ranks is large, or does not say how many ranks a line has.
#[test]
fn page_of_ten_thousand_ranks_is_small() {
    let dir = scratch_dir("job-many");
    let logs: Vec<PathBuf> = (0..NODES)
        .map(|node| {
            copied("v2/job", &dir.path().join(format!("node{node}")), |header| {
                header.host.hostname = format!("node{node:03}");
                header.scope.mode = "launch".to_owned();
                let first = header.scope.roots.first().copied().unwrap_or(1);
                header.job = Some(JobPlace { rank: Some(node * RANKS), ..JobPlace::default() });
                header.scope.ranks = (0..RANKS)
                    .map(|rank| ProcessRank {
                        pid: first + i32::try_from(rank).expect("small"),
                        rank: Some(node * RANKS + rank),
                        local_rank: Some(rank),
                    })
                    .collect();
            })
        })
        .collect();
    let page = page_of(&logs, &dir.path().join("job.html"));
    let (map, _) = data(&page, "job-map");
    let lines = map["lines"].as_array().expect("lines");
    assert!(lines.len() <= 200, "{}", lines.len());
    let ranks: u64 = lines.iter().map(|line| number(line, "ranks")).sum();
    assert!((RANKS * NODES..=RANKS * NODES + NODES).contains(&ranks), "{ranks}");
    assert!(page.contains("neighbouring ranks ("));
    let (job, limit) = data(&page, "job");
    assert_eq!(number(&job, "rank_count"), RANKS * NODES);
    // Ranks beyond the limit are summed up.
    let others = rows(&page, "ranks");
    let limit: usize = limit.parse().expect("a number");
    assert!(limit == 0 || others.len() == limit + 1, "{limit} {}", others.len());
}
