//! What the requests of a replay got, beside those of the capture.

use std::collections::BTreeMap;

use super::asked::{Asked, Kind};
use super::plan::BlockPlan;
use crate::replay::comparison::Times;
use crate::replay::lateness::Lateness;

/// Requests that were not the same, of which each is kept.
const EXAMPLES_MAX: usize = 1000;

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// Its number in the plan.
    pub number: u32,
    /// When it was asked, ns since the replay began.
    pub start: u64,
    /// When it was done.
    pub end: u64,
    /// Bytes moved, or an error number.
    pub result: Result<u64, i32>,
    /// How long after its time it was asked, ns; `None`: it had none.
    pub late: Option<u64>,
}

/// How it compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockOutcome {
    /// The same result.
    Same,
    /// Both failed, with other errors.
    OtherError,
    /// It failed, and the captured one had not.
    Failed,
    /// It succeeded, and the captured one had not.
    Succeeded,
    /// Fewer bytes.
    Less,
}

impl BlockOutcome {
    /// The word for it in outputs for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::OtherError => "other-error",
            Self::Failed => "failed",
            Self::Succeeded => "succeeded",
            Self::Less => "less",
        }
    }

    /// For people.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Same => "the same result",
            Self::OtherError => "failed with another error",
            Self::Failed => "failed, and had not",
            Self::Succeeded => "succeeded, and had not",
            Self::Less => "fewer bytes",
        }
    }

    fn of(asked: &Asked, result: Result<u64, i32>) -> Self {
        match (asked.error, result) {
            (Some(one), Err(other)) if one == other => Self::Same,
            (Some(_), Err(_)) => Self::OtherError,
            (Some(_), Ok(_)) => Self::Succeeded,
            (None, Err(_)) => Self::Failed,
            (None, Ok(bytes)) if asked.kind.moves_bytes() && bytes < asked.bytes => Self::Less,
            (None, Ok(_)) => Self::Same,
        }
    }
}

/// A request whose result was another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMismatch {
    /// As captured.
    pub asked: Asked,
    /// How it compares.
    pub outcome: BlockOutcome,
    /// What the replay got.
    pub result: Result<u64, i32>,
}

/// Requests of one kind in both.
#[derive(Clone, Debug, Default)]
pub struct BlockTimes {
    /// From issue to completion.
    pub times: Times,
    /// Bytes that they moved in the replay.
    pub bytes: u64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct BlockComparison {
    /// How many compare how, by kind.
    pub outcomes: BTreeMap<(BlockOutcome, Kind), u64>,
    /// Times by kind.
    pub kinds: BTreeMap<Kind, BlockTimes>,
    /// How long after their times they were asked.
    pub lateness: Lateness,
    /// From the first one's begin to the last one's end, ns.
    pub span: u64,
    /// How many were under way at once at most.
    pub depth: u64,
    /// Requests that were asked before all was done that had been done before them in the capture.
    pub early: u64,
    /// Requests that were not the same, those that were issued first.
    pub mismatches: Vec<BlockMismatch>,
}

impl BlockComparison {
    /// Of what a plan's requests got, in any order.
    pub fn new(plan: &BlockPlan, mut got: Vec<Got>) -> Self {
        got.sort_unstable_by_key(|it| it.number);
        let mut comparison = Self::default();
        for it in &got {
            comparison.add(&plan.all[it.number as usize], it);
        }
        let first = got.iter().map(|it| it.start).min().unwrap_or(0);
        let last = got.iter().map(|it| it.end).max().unwrap_or(0);
        comparison.span = last.saturating_sub(first);
        comparison.depth = depth(&got);
        comparison.early = early(plan, &got);
        comparison
    }

    fn add(&mut self, asked: &Asked, got: &Got) {
        let outcome = BlockOutcome::of(asked, got.result);
        *self.outcomes.entry((outcome, asked.kind)).or_default() += 1;
        let of_kind = self.kinds.entry(asked.kind).or_default();
        of_kind.times.add([asked.completed - asked.issued, got.end.saturating_sub(got.start)]);
        of_kind.bytes += got.result.unwrap_or(0);
        if let Some(late) = got.late {
            self.lateness.add(late);
        }
        if outcome != BlockOutcome::Same && self.mismatches.len() < EXAMPLES_MAX {
            self.mismatches.push(BlockMismatch { asked: *asked, outcome, result: got.result });
        }
    }

    /// Requests that were done again.
    pub fn count(&self) -> u64 {
        self.outcomes.values().sum()
    }

    /// Those whose result was another one.
    pub fn mismatched(&self) -> u64 {
        self.outcomes.iter().filter(|it| it.0.0 != BlockOutcome::Same).map(|it| it.1).sum()
    }
}

/// How many were under way at once at most.
fn depth(got: &[Got]) -> u64 {
    // An end stands before a begin at the same time.
    let ends = got.iter().map(|it| (it.end, false));
    let mut times: Vec<(u64, bool)> = got.iter().map(|it| (it.start, true)).chain(ends).collect();
    times.sort_unstable();
    let (mut now, mut most) = (0_u64, 0);
    for (_, begins) in times {
        now = if begins { now + 1 } else { now.saturating_sub(1) };
        most = most.max(now);
    }
    most
}

/// How many began before all was done that they had followed.
fn early(plan: &BlockPlan, got: &[Got]) -> u64 {
    let mut done = vec![u64::MAX; plan.all.len()];
    for it in got {
        done[plan.rank[it.number as usize] as usize] = it.end;
    }
    // The last end of the first so many.
    let mut last = vec![0];
    for it in done {
        last.push(it.max(*last.last().unwrap_or(&0)));
    }
    let is_early = |it: &&Got| it.start < last[plan.waits[it.number as usize] as usize];
    got.iter().filter(is_early).count() as u64
}
