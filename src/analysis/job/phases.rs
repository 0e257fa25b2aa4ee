//! Phases of a job: times in which it reads or writes, and how its ranks are aligned in each.
//!
//! ```text
//!  bytes/s   ▁▁  ▂█▇█▂  ▁     ▃██▃      a phase is a run of columns with at least a fiftieth of
//!  rank 0        ─────        ────      the largest one, with short gaps in it
//!  rank 1        ─────          ──────
//!                └ begins ┘   └┘    └─┘ spread of begins and of ends
//! ```

use std::ops::Range;

use super::balance::ComparedRanks;
use super::fold::JobFold;
use crate::analysis::rank_balance::{LastRanks, RankEnd, RankReading};

/// Part of the largest column that a column of a phase has at least.
const PART_OF_PEAK: u64 = 50;

/// Columns of the map that a gap within a phase has at most, as one part in this number.
const PART_OF_GAP: usize = 100;

/// Part of all bytes that a phase has at least; smaller ones are outside of the phases.
const PART_OF_BYTES: u64 = 100;

/// Largest number of phases of a kind.
pub const PHASES_MAX: usize = 50;

/// Times in which a job reads, or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoPhase {
    /// Columns of the map.
    pub columns: Range<usize>,
    /// Bytes that all ranks moved.
    pub bytes: u64,
    /// Ranks that take part.
    pub ranks: u64,
    /// First columns of the first and of the last rank that begins.
    pub begins: [usize; 2],
    /// Last columns of the first and of the last rank that ends.
    pub ends: [usize; 2],
    /// Latest ends of ranks, in times at which columns begin: of those whose recordings are whole.
    pub last: Option<LastRanks>,
    /// Columns in which a rank reads or writes, added up over the ranks.
    pub busy_columns: u64,
}

/// Phases in which a job reads, or writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoPhases {
    /// Phases, in the order of time.
    pub phases: Vec<IoPhase>,
    /// Bytes outside of them.
    pub outside: u64,
}

impl IoPhases {
    /// Finds the phases in which a job reads (`side` 0) or writes (1). If it has ranks, those of
    /// ranks count.
    pub fn of(fold: &JobFold, side: usize) -> Self {
        let columns = fold.column_sums();
        let amounts: Vec<u64> =
            columns.iter().map(|cell| cell.moved.get(side).copied().unwrap_or(0)).collect();
        let all: u64 = amounts.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes));
        let bytes = |range: &Range<usize>| -> u64 {
            let part = amounts.get(range.clone()).unwrap_or_default();
            part.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
        };
        let mut runs = runs(&amounts);
        runs.retain(|run| bytes(run) >= (all / PART_OF_BYTES).max(1));
        runs.sort_by_key(|run| std::cmp::Reverse(bytes(run)));
        runs.truncate(PHASES_MAX);
        runs.sort_by_key(|run| run.start);
        let ranks = ComparedRanks::of(fold);
        let phase = |run: Range<usize>| phase(bytes(&run), run, fold, &ranks, side);
        let phases: Vec<IoPhase> = runs.into_iter().filter_map(phase).collect();
        let inside: u64 = phases.iter().map(|phase| phase.bytes).sum();
        Self { phases, outside: all.saturating_sub(inside) }
    }
}

/// Runs of columns with much, joined over short gaps.
fn runs(amounts: &[u64]) -> Vec<Range<usize>> {
    let peak = amounts.iter().copied().max().unwrap_or(0);
    let least = (peak / PART_OF_PEAK).max(1);
    let gap = (amounts.len() / PART_OF_GAP).max(1);
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (column, _) in amounts.iter().enumerate().filter(|(_, amount)| **amount >= least) {
        match runs.last_mut() {
            Some(run) if column - run.end <= gap => run.end = column + 1,
            _ => runs.push(column..column + 1),
        }
    }
    runs
}

/// Returns the phase of a run; `None`: no rank takes part.
fn phase(
    bytes: u64,
    columns: Range<usize>,
    fold: &JobFold,
    ranks: &ComparedRanks,
    side: usize,
) -> Option<IoPhase> {
    let mut begins: Option<[usize; 2]> = None;
    let mut ends: Option<[usize; 2]> = None;
    let mut latest: Vec<RankEnd> = Vec::new();
    let (mut taking_part, mut busy_columns) = (0, 0);
    for rank in ranks.0.keys() {
        let rows = ranks.rows(fold, *rank);
        let has = |column: &usize| {
            rows.iter().any(|row| row.marks.get(side).is_some_and(|marks| marks.has(*column)))
        };
        let mut marked = columns.clone().filter(has);
        let Some(begin) = marked.next() else { continue };
        let (mut end, mut count) = (begin, 1);
        for column in marked {
            (end, count) = (column, count + 1);
        }
        taking_part += 1;
        busy_columns += count;
        begins = Some(begins.map_or([begin; 2], |[a, b]| [a.min(begin), b.max(begin)]));
        ends = Some(ends.map_or([end; 2], |[a, b]| [a.min(end), b.max(end)]));
        if rows.iter().all(|row| row.reading == RankReading::Whole) {
            latest.push(RankEnd::new(end as u64 * fold.axis.width_ns(), *rank));
        }
    }
    let (begins, ends, last) = (begins?, ends?, LastRanks::of(latest));
    Some(IoPhase { columns, bytes, ranks: taking_part, begins, ends, last, busy_columns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::job::row_plan::{RecordedRanks, RecordingScope, RowPlan};
    use crate::analysis::job::sums::MapCell;
    use crate::units::KernelTime;

    #[test]
    fn runs_end_at_long_gaps_and_at_little() {
        let mut amounts = vec![0; 300];
        for (from, to, amount) in [(10, 20, 100), (23, 25, 90), (30, 31, 1), (40, 50, 2)] {
            amounts.iter_mut().take(to).skip(from).for_each(|known| *known = amount);
        }
        assert_eq!(runs(&amounts), [10..25, 40..50]);
        assert!(runs(&[]).is_empty() && runs(&[0, 0]).is_empty());
    }

    /// Fails if a rank that begins or ends late is not seen, or a rank without a write takes part.
    #[test]
    fn phases_have_the_spread_of_their_ranks() {
        let scopes: Vec<RecordingScope> = (0..3)
            .map(|rank| RecordingScope { host: 0, ranks: RecordedRanks::One(rank) })
            .collect();
        let plan = RowPlan::new(&scopes);
        let mut fold = JobFold::new(plan, 0, KernelTime(0), KernelTime(400 * 1024 - 1));
        for (row, from, to) in [(0, 100, 110), (1, 104, 130)] {
            fold.lines[row].resize(400, MapCell::default());
            for column in from..to {
                fold.lines[row][column].moved[1] = 100;
            }
            fold.rows[row].marks[1].mark(from..=to - 1);
        }
        let found = IoPhases::of(&fold, 1);
        let width = fold.axis.width_ns();
        let phase = IoPhase {
            columns: 100..130,
            bytes: 3600,
            ranks: 2,
            begins: [100, 104],
            ends: [109, 129],
            last: LastRanks::of(vec![RankEnd::new(109 * width, 0), RankEnd::new(129 * width, 1)]),
            busy_columns: 36,
        };
        assert_eq!(found, IoPhases { phases: vec![phase], outside: 0 });
        assert_eq!(IoPhases::of(&fold, 0), IoPhases::default());
    }
}
