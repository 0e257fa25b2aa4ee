//! Phases of a job: times in which it reads or writes, and how its ranks are aligned in each.
//!
//! ```text
//!  bytes/s   ▁▁  ▂█▇█▂  ▁     ▃██▃      a phase is a run of columns with at least a fiftieth of
//!  rank 0        ─────        ────      the largest one, with short gaps in it
//!  rank 1        ─────          ──────
//!                └ begins ┘   └┘    └─┘ spread of begins and of ends
//! ```

use std::ops::Range;

use super::fold::{JobFold, RankRow};
use super::row_plan::RowSubject;

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
    /// Last column of the rank in the middle.
    pub middle_end: usize,
    /// Row of the rank that ends last.
    pub last_row: usize,
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
        let rows = counted_rows(fold);
        let phase = |run: Range<usize>| phase(bytes(&run), run, &rows, side);
        let phases: Vec<IoPhase> = runs.into_iter().filter_map(phase).collect();
        let inside: u64 = phases.iter().map(|phase| phase.bytes).sum();
        Self { phases, outside: all.saturating_sub(inside) }
    }
}

/// Returns the rows that are compared, with their numbers: those of ranks, if there are any.
pub fn counted_rows(fold: &JobFold) -> Vec<(usize, &RankRow)> {
    let has_ranks = fold.plan.has_ranks();
    let is_counted = |row: &RankRow| match row.key.subject {
        RowSubject::Rank(_) => true,
        RowSubject::Others => false,
        RowSubject::Machine | RowSubject::Recording(_) => !has_ranks,
    };
    fold.rows.iter().enumerate().filter(|(_, row)| is_counted(row)).collect()
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

/// Returns the phase of a run; `None`: no counted row takes part.
fn phase(
    bytes: u64,
    columns: Range<usize>,
    rows: &[(usize, &RankRow)],
    side: usize,
) -> Option<IoPhase> {
    let mut spans: Vec<RowSpan> = Vec::new();
    let mut busy_columns = 0;
    for (row, rank) in rows {
        let Some(marks) = rank.marks.get(side) else { continue };
        let mut marked = columns.clone().filter(|column| marks.has(*column));
        let Some(begin) = marked.next() else { continue };
        let (mut end, mut count) = (begin, 1);
        for column in marked {
            (end, count) = (column, count + 1);
        }
        busy_columns += count;
        spans.push(RowSpan { row: *row, begin, end });
    }
    let begins =
        [spans.iter().map(|span| span.begin).min()?, spans.iter().map(|span| span.begin).max()?];
    spans.sort_by_key(|span| (span.end, std::cmp::Reverse(span.row)));
    let (first, last) = (spans.first()?, spans.last()?);
    Some(IoPhase {
        columns,
        bytes,
        ranks: spans.len() as u64,
        begins,
        ends: [first.end, last.end],
        middle_end: spans.get(spans.len() / 2)?.end,
        last_row: last.row,
        busy_columns,
    })
}

/// First and last column of a row in a phase.
struct RowSpan {
    row: usize,
    begin: usize,
    end: usize,
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
        let phase = IoPhase {
            columns: 100..130,
            bytes: 3600,
            ranks: 2,
            begins: [100, 104],
            ends: [109, 129],
            middle_end: 129,
            last_row: 1,
            busy_columns: 36,
        };
        assert_eq!(found, IoPhases { phases: vec![phase], outside: 0 });
        assert_eq!(IoPhases::of(&fold, 0), IoPhases::default());
    }
}
