//! Comparison of a block replay with the capture.

use std::collections::BTreeMap;

use super::comparison::TimePair;
use super::lateness::Lateness;
use super::plan::block::{BlockPlan, CapturedRequest, CapturedRequestKind};
use crate::units::{Nanos, ReplayTime};

/// Number of differing requests that are kept at most.
const EXAMPLES_MAX: usize = 1000;

/// Result of a replayed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayedRequest {
    /// Index of the request in the plan.
    pub number: u32,
    /// Time of issue.
    pub start: ReplayTime,
    /// Time of completion.
    pub end: ReplayTime,
    /// Bytes moved, or an error number.
    pub result: Result<u64, i32>,
    /// Lateness at issue; `None`: the request had no due time.
    pub late: Option<Nanos>,
}

/// Relation of a replayed result to the captured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockOutcome {
    /// Same result.
    Same,
    /// Both failed, with different errors.
    OtherError,
    /// Replayed request failed, the captured one succeeded.
    Failed,
    /// Replayed request succeeded, the captured one failed.
    Succeeded,
    /// Replayed request moved fewer bytes.
    Less,
}

impl BlockOutcome {
    /// Returns the word for the outcome in machine-readable outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::OtherError => "other-error",
            Self::Failed => "failed",
            Self::Succeeded => "succeeded",
            Self::Less => "less",
        }
    }

    /// Returns a sentence for the report.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Same => "the same result",
            Self::OtherError => "failed with another error",
            Self::Failed => "failed, and had not",
            Self::Succeeded => "succeeded, and had not",
            Self::Less => "fewer bytes",
        }
    }

    fn of(request: &CapturedRequest, result: Result<u64, i32>) -> Self {
        match (request.error, result) {
            (Some(one), Err(other)) if one == other => Self::Same,
            (Some(_), Err(_)) => Self::OtherError,
            (Some(_), Ok(_)) => Self::Succeeded,
            (None, Err(_)) => Self::Failed,
            (None, Ok(bytes)) if request.kind.moves_bytes() && bytes < request.bytes => Self::Less,
            (None, Ok(_)) => Self::Same,
        }
    }
}

/// Request with a result that differs from the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMismatch {
    /// Captured request.
    pub request: CapturedRequest,
    /// Relation of the two results.
    pub outcome: BlockOutcome,
    /// Replayed result.
    pub result: Result<u64, i32>,
}

/// Captured and replayed requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct BlockTimes {
    /// Times from issue to completion.
    pub times: TimePair,
    /// Bytes moved in the replay.
    pub bytes: u64,
}

/// Comparison of all requests.
#[derive(Clone, Debug, Default)]
pub struct BlockComparison {
    /// Number of requests by outcome and kind.
    pub outcomes: BTreeMap<(BlockOutcome, CapturedRequestKind), u64>,
    /// Times by kind.
    pub kinds: BTreeMap<CapturedRequestKind, BlockTimes>,
    /// Lateness of requests at issue.
    pub lateness: Lateness,
    /// Time from the begin of the first request to the end of the last one.
    pub span: Nanos,
    /// Highest number of requests in flight.
    pub depth: u64,
    /// Number of requests issued before all requests had completed that preceded them in the
    /// capture.
    pub early_starts: u64,
    /// Requests with differing results, in order of issue, as far as kept.
    pub mismatches: Vec<BlockMismatch>,
}

impl BlockComparison {
    /// Compares the results of a plan's requests, which may be in any order.
    pub fn new(plan: &BlockPlan, mut got: Vec<ReplayedRequest>) -> Self {
        got.sort_unstable_by_key(|it| it.number);
        let mut comparison = Self::default();
        for it in &got {
            comparison.add(&plan.all[it.number as usize], it);
        }
        let first = got.iter().map(|it| it.start).min().unwrap_or_default();
        let last = got.iter().map(|it| it.end).max().unwrap_or_default();
        comparison.span = last.since(first);
        comparison.depth = depth(&got);
        comparison.early_starts = early_starts(plan, &got);
        comparison
    }

    fn add(&mut self, request: &CapturedRequest, got: &ReplayedRequest) {
        let outcome = BlockOutcome::of(request, got.result);
        *self.outcomes.entry((outcome, request.kind)).or_default() += 1;
        let of_kind = self.kinds.entry(request.kind).or_default();
        of_kind.times.add([request.completed.since(request.issued), got.end.since(got.start)]);
        of_kind.bytes += got.result.unwrap_or(0);
        if let Some(late) = got.late {
            self.lateness.add(late);
        }
        if outcome != BlockOutcome::Same && self.mismatches.len() < EXAMPLES_MAX {
            self.mismatches.push(BlockMismatch { request: *request, outcome, result: got.result });
        }
    }

    /// Returns the number of replayed requests.
    pub fn count(&self) -> u64 {
        self.outcomes.values().sum()
    }

    /// Returns the number of requests with a differing result.
    pub fn mismatched(&self) -> u64 {
        self.outcomes.iter().filter(|it| it.0.0 != BlockOutcome::Same).map(|it| it.1).sum()
    }
}

/// Returns the highest number of requests in flight.
fn depth(got: &[ReplayedRequest]) -> u64 {
    // An end sorts before a begin at the same time.
    let ends = got.iter().map(|it| (it.end, false));
    let mut times: Vec<(ReplayTime, bool)> =
        got.iter().map(|it| (it.start, true)).chain(ends).collect();
    times.sort_unstable();
    let (mut now, mut most) = (0_u64, 0);
    for (_, begins) in times {
        now = if begins { now + 1 } else { now.saturating_sub(1) };
        most = most.max(now);
    }
    most
}

/// Returns the number of requests that began before all their dependencies had completed.
fn early_starts(plan: &BlockPlan, got: &[ReplayedRequest]) -> u64 {
    let mut done = vec![ReplayTime::MAX; plan.all.len()];
    for it in got {
        done[plan.rank[it.number as usize] as usize] = it.end;
    }
    // Latest end among the first n completions of the capture, by n.
    let mut last = vec![ReplayTime::MIN];
    for it in done {
        last.push(it.max(last.last().copied().unwrap_or_default()));
    }
    let is_early = |it: &&ReplayedRequest| it.start < last[plan.waits[it.number as usize] as usize];
    got.iter().filter(is_early).count() as u64
}
