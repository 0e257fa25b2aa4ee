//! Fold of a job: recordings are added one after the other.

use std::convert::Infallible;

use rustc_hash::FxHashMap;

use super::file_uses::{FileUses, RankFileUse};
use super::job_files::JobFiles;
use super::marks::ColumnMarks;
use super::row_plan::{JobRowKey, RecordingRows, RowPlan};
use super::sums::{MapCell, RankSums, is_other};
use crate::analysis::completed_op::CompletedOp;
use crate::analysis::rank_balance::RankReading;
use crate::analysis::timeline::{TimeAxis, spread};
use crate::capture::wall_clock::WallClock;
use crate::operation::io_class::IoClass;
use crate::operation::model::{ProcessInfo, ProcessKey};
use crate::operation::mount_table::MountTable;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Sums and activity of a rank.
#[derive(Clone, Debug)]
pub struct RankRow {
    /// Host and subject.
    pub key: JobRowKey,
    /// Sums of its operations.
    pub sums: RankSums,
    /// Columns in which it reads, and in which it writes files.
    pub marks: [ColumnMarks; 2],
    /// File with the most time in one of its recordings, as a key, and that time, ns.
    pub slowest: Option<(Vec<u8>, u64)>,
    /// End of its last operation on a file.
    pub last: Option<KernelTime>,
    /// Part of its recordings that was read.
    pub reading: RankReading,
    /// Number of its recordings.
    pub recordings: u64,
    /// Parts that are missing from its recordings, in words; empty: none.
    pub missing: String,
}

/// Fold of a job.
#[derive(Clone, Debug)]
pub struct JobFold {
    /// Columns of the map; times are ns since the zero of the common clock.
    pub axis: TimeAxis,
    /// Plan of rows and lines.
    pub plan: RowPlan,
    /// Rows of the plan.
    pub rows: Vec<RankRow>,
    /// Cells of the lines of the plan, up to the last column with an operation.
    pub lines: Vec<Vec<MapCell>>,
    /// Files of the job.
    pub files: JobFiles,
    /// Last time of a recording.
    pub end: KernelTime,
    /// Operations on files that are in no list of files.
    pub beyond_files: u64,
    /// Line of each row.
    line_of_row: Vec<usize>,
    /// Wall clock at the zero of the common clock, ns since 1970.
    zero_wall_ns: i128,
}

impl JobFold {
    /// Creates a fold for planned rows. The common clock has its zero at `zero_wall_ns` (since
    /// 1970). The first recording begins at `from`; the last one that has an end ends at `until`.
    pub fn new(plan: RowPlan, zero_wall_ns: u64, from: KernelTime, until: KernelTime) -> Self {
        let row = |key: &JobRowKey| RankRow {
            key: *key,
            sums: RankSums::default(),
            marks: [ColumnMarks::default(); 2],
            slowest: None,
            last: None,
            reading: RankReading::Whole,
            recordings: 0,
            missing: String::new(),
        };
        let rows = plan.rows.iter().map(row).collect();
        let lines = vec![Vec::new(); plan.lines.len()];
        let line_of = |(line, rows): (usize, &std::ops::Range<usize>)| vec![line; rows.len()];
        let line_of_row = plan.lines.iter().enumerate().flat_map(line_of).collect();
        let mut axis = TimeAxis::new(from);
        axis.reach(until);
        Self {
            axis,
            rows,
            lines,
            files: JobFiles::default(),
            end: until,
            beyond_files: 0,
            line_of_row,
            zero_wall_ns: zero_wall_ns.into(),
            plan,
        }
    }

    /// Begins the recording with this number in the plan, whose times are of this clock.
    pub fn begin(&mut self, number: usize, clock: WallClock) -> RankSink<'_> {
        let rows = self.plan.recordings.get(number).cloned();
        RankSink {
            rows: rows.unwrap_or(RecordingRows::One(usize::MAX)),
            fold: self,
            clock,
            processes: FxHashMap::default(),
            uses: FileUses::default(),
            mounts: MountTable::default(),
        }
    }

    /// Returns the rows of a recording.
    pub fn rows_of(&self, number: usize) -> Vec<usize> {
        match self.plan.recordings.get(number) {
            Some(RecordingRows::One(row)) => vec![*row],
            Some(RecordingRows::ByRank { ranks, others }) => {
                ranks.values().copied().chain([*others]).collect()
            }
            None => Vec::new(),
        }
    }

    /// Notes at the rows of a recording what is missing from it, and which part of it was read.
    pub fn note_missing(&mut self, number: usize, missing: &str, reading: RankReading) {
        for row in self.rows_of(number) {
            let Some(row) = self.rows.get_mut(row) else { continue };
            row.reading = row.reading.max(reading);
            if !row.missing.is_empty() {
                row.missing.push_str("; ");
            }
            row.missing.push_str(missing);
        }
    }

    /// Returns the sums of all rows.
    pub fn total(&self) -> RankSums {
        let mut total = RankSums::default();
        self.rows.iter().for_each(|row| total.merge(&row.sums));
        total
    }

    /// Returns the number of columns with an operation.
    pub fn columns(&self) -> usize {
        self.lines.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns the sums of all lines in each column.
    pub fn column_sums(&self) -> Vec<MapCell> {
        let mut sums = vec![MapCell::default(); self.columns()];
        for line in &self.lines {
            sums.iter_mut().zip(line).for_each(|(sum, cell)| sum.merge(cell));
        }
        sums
    }

    /// Returns a wall-clock time of a recording on the common clock.
    fn time(&self, clock: &WallClock, time: KernelTime) -> KernelTime {
        let since_zero = clock.at(time) - self.zero_wall_ns;
        KernelTime(u64::try_from(since_zero.max(0)).unwrap_or(u64::MAX))
    }

    /// Widens the columns until a time has one.
    fn reach(&mut self, time: KernelTime) {
        for _ in 0..self.axis.reach(time) {
            for line in &mut self.lines {
                *line = line.chunks(2).map(joined).collect();
            }
            let marks = self.rows.iter_mut().flat_map(|row| &mut row.marks);
            marks.for_each(ColumnMarks::halve);
        }
    }

    /// Adds an operation on a file to the map.
    fn add_to_map(&mut self, row: usize, done: &CompletedOp<'_>, clock: &WallClock) {
        let [start, end] = [done.start, done.end].map(|time| self.time(clock, time));
        self.reach(end);
        let [from, to] = [start, end].map(|time| self.axis.since_origin(time));
        let shift = self.axis.width_ns().ilog2();
        let moved = done.moved();
        let columns = self.axis.place(start)..=self.axis.place(end);
        if let Some(row) = self.rows.get_mut(row) {
            row.last = row.last.max(Some(end));
            let marks = row.marks.iter_mut().zip(moved).filter(|(_, bytes)| *bytes > 0);
            marks.for_each(|(marks, _)| marks.mark(columns.clone()));
        }
        let line = self.line_of_row.get(row).and_then(|line| self.lines.get_mut(*line));
        let Some(line) = line else { return };
        if line.len() <= *columns.end() {
            line.resize(columns.end() + 1, MapCell::default());
        }
        let [mut read, mut written, mut ns] =
            [moved[0], moved[1], done.ns()].map(|amount| Portions::new(amount, to - from.min(to)));
        spread(from, to, shift, |column, part| {
            let is_last = column == *columns.end();
            let cell = MapCell {
                moved: [read.next(part, is_last), written.next(part, is_last)],
                other_operations: u64::from(is_last && is_other(done)),
                ns: ns.next(part, is_last),
            };
            line.iter_mut().skip(column).take(1).for_each(|known| known.merge(&cell));
        });
    }
}

/// Amount that is divided in proportion to parts of a time; the parts add up to it.
struct Portions {
    amount: u64,
    whole_ns: u64,
    passed_ns: u64,
    given: u64,
}

impl Portions {
    fn new(amount: u64, whole_ns: u64) -> Self {
        Self { amount, whole_ns, passed_ns: 0, given: 0 }
    }

    /// Returns the portion of the next part; the last one has the rest.
    fn next(&mut self, ns: u64, is_last: bool) -> u64 {
        self.passed_ns = self.passed_ns.saturating_add(ns).min(self.whole_ns);
        let product = u128::from(self.amount) * u128::from(self.passed_ns);
        let until = match is_last {
            true => self.amount,
            false => u64::try_from(product / u128::from(self.whole_ns.max(1))).unwrap_or(u64::MAX),
        };
        let portion = until.saturating_sub(self.given);
        self.given = until;
        portion
    }
}

/// Sum of a pair of cells.
fn joined(pair: &[MapCell]) -> MapCell {
    let mut sum = MapCell::default();
    pair.iter().for_each(|cell| sum.merge(cell));
    sum
}

/// Sink of one recording of the job.
#[derive(Debug)]
pub struct RankSink<'a> {
    fold: &'a mut JobFold,
    rows: RecordingRows,
    clock: WallClock,
    /// Rows of running processes, if the recording has several rows.
    processes: FxHashMap<ProcessKey, usize>,
    uses: FileUses,
    mounts: MountTable,
}

impl RankSink<'_> {
    /// Ends the recording, which is known up to a time of its own.
    pub fn finish(self, end: KernelTime) {
        let Self { fold, rows, clock, uses, mounts, .. } = self;
        let end = fold.time(&clock, end);
        fold.end = fold.end.max(end);
        fold.beyond_files += uses.beyond;
        let mut of_files: Vec<(usize, &[u8], &RankFileUse)> = uses.iter().collect();
        // Ranks with the same file one after the other: it is not left out between them.
        of_files.sort_unstable_by_key(|(row, key, _)| (*key, *row));
        for (row, key, of_rank) in of_files {
            let Some(known) = fold.rows.get_mut(row) else { continue };
            let is_slower =
                |(slowest, ns): &(Vec<u8>, u64)| (of_rank.ns, slowest.as_slice()) > (*ns, key);
            if known.slowest.as_ref().is_none_or(is_slower) {
                known.slowest = Some((key.to_vec(), of_rank.ns));
            }
            fold.files.add(known.key.host, &mounts, key, row, of_rank);
        }
        let rows = match rows {
            RecordingRows::One(row) => vec![row],
            RecordingRows::ByRank { ranks, .. } => ranks.into_values().collect(),
        };
        for row in rows {
            fold.rows.iter_mut().skip(row).take(1).for_each(|row| row.recordings += 1);
        }
    }

    fn done(&mut self, done: &CompletedOp<'_>) {
        let row = match &self.rows {
            RecordingRows::One(row) => *row,
            RecordingRows::ByRank { others, .. } => {
                self.processes.get(&done.process).copied().unwrap_or(*others)
            }
        };
        if let Some(row) = self.fold.rows.get_mut(row) {
            row.sums.add(done);
        }
        if done.io == IoClass::File {
            self.fold.add_to_map(row, done, &self.clock);
            self.uses.add(row, done);
        }
    }

    fn see(&mut self, process: &ProcessInfo) {
        let RecordingRows::ByRank { ranks, .. } = &self.rows else { return };
        match process.rank.and_then(|rank| ranks.get(&rank)) {
            Some(row) => drop(self.processes.insert(process.key, *row)),
            None => drop(self.processes.remove(&process.key)),
        }
    }
}

impl Sink for RankSink<'_> {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.done(&done);
                }
            }
            Step::ProcessSeen(process) | Step::Identified(process) => self.see(process),
            Step::ProcessEnded(process) => drop(self.processes.remove(&process.key)),
            Step::MountsSeen(mounts) => self.mounts = (*mounts).clone(),
            _ => {}
        }
        Ok(())
    }
}
