//! Report of `replay run`: results of the replay, next to the captured ones.

use rustc_hash::FxHashMap;

use super::replay_columns::{self, PERCENTILES, Pace, TOTALS, percentiles, result, totals};
use super::rows::{column, first_rows, key_column};
use crate::replay::comparison::{Comparison, Mismatch, TimePair};
use crate::replay::outcome::Outcome;
use crate::replay::plan::plan_file::Index;
use crate::replay::timeline::TimelineCounts;
use crate::text::quantity::counted_with;
use crate::text::table::{Cell, Column, Report, Table};
use crate::units::{Nanos, ReplayTime};

/// A replay: its options and its results.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRun<'a> {
    /// The plan's index.
    pub index: &'a Index,
    /// Results, compared with the capture.
    pub comparison: &'a Comparison,
    /// Paths of files, by their numbers.
    pub names: &'a FxHashMap<u32, Vec<u8>>,
    /// Planned duration; `None`: as short as possible.
    pub expected_span: Option<Nanos>,
    /// True if the replay was stopped before its end.
    pub is_stopped: bool,
    /// End of the replayed time range; operations that ended later in the capture are skipped.
    pub until: Option<ReplayTime>,
    /// Largest number of concurrent threads, and number of CPUs.
    pub threads: (usize, usize),
    /// Threads that did asynchronous operations with an io_uring; `None`: each lane was a thread
    /// that made calls.
    pub rings: Option<usize>,
}

const OUTCOMES: [Column; 4] = [
    column("outcome", ""),
    key_column(0, "call", "call"),
    column("count", "operations"),
    column("", "what"),
];

const TIMES: [Column; 2] = [key_column(0, "call", "call"), column("count", "count")];

const THREADS: [Column; 4] = [
    key_column(1, "pid", "pid"),
    column("tid", "tid"),
    column("comm", "comm"),
    column("lane", "lane"),
];

const FILES: [Column; 1] = [key_column(0, "path", "path")];

const PARTS: [Column; 5] = [
    column("from_ns", "from"),
    column("captured_count", "captured operations"),
    column("captured_bytes", "captured moved"),
    column("replayed_count", "replayed operations"),
    column("replayed_bytes", "replayed moved"),
];

const MISMATCHES: [Column; 11] = [
    column("start_ns", "at"),
    key_column(1, "pid", "pid"),
    column("tid", "tid"),
    column("number", "its operation"),
    key_column(0, "call", "call"),
    column("outcome", "outcome"),
    column("captured", ""),
    column("", "captured"),
    column("replayed", ""),
    column("", "replayed"),
    key_column(0, "path", "path"),
];

/// Results of a replay.
pub fn report(run: &ReplayRun<'_>, limit: usize) -> Report {
    let ReplayRun { index, comparison, expected_span, .. } = *run;
    let count = |wanted: &dyn Fn(Outcome) -> bool| Cell::Count(comparison.count(wanted));
    let pace = Pace {
        lateness: &comparison.lateness,
        span: comparison.span(),
        captured_span: comparison.captured_span(),
        expected_span,
    };
    let mut facts = vec![
        ("operations", "operations replayed", count(&|_| true)),
        ("mismatches", "  with another result", count(&Outcome::is_mismatch)),
        ("asynchronous", "  asynchronous", Cell::Count(asynchronous(run))),
        ("not_compared", "  not compared", count(&|outcome| outcome == Outcome::NotCompared)),
        ("prepared", "  done before --from", Cell::Count(comparison.prepared)),
        ("skipped", "not replayed", Cell::Count(skipped(index))),
        ("moved_bytes", "bytes moved", Cell::Count(comparison.bytes)),
    ];
    facts.extend(pace.facts());
    facts.extend([
        ("threads", "threads", Cell::Count(threads_of(run))),
        ("lanes", "  lanes for asynchronous operations", Cell::Count(lanes(index))),
        ("rings", "  threads of these with io_uring", Cell::count(rings(run))),
        ("threads_at_once", "  at once", Cell::Count(run.threads.0 as u64)),
        ("cpus", "CPUs", Cell::Count(run.threads.1 as u64)),
        ("planned", "", Cell::Count(planned(index))),
        ("is_whole", "", Cell::Flag(is_whole(run))),
    ]);
    let mut report = Report { kind: "replay run", facts, ..Report::default() };
    let (shown, rest) = first_rows(comparison.mismatches.iter().collect(), limit);
    report.tables = vec![
        outcomes(run),
        times(run),
        threads(run, limit),
        files(run, limit),
        parts(run),
        mismatches(run, &shown),
        left(index),
    ];
    report.notes = notes(run, rest.len());
    report
}

/// Operations of the plan.
pub fn planned(index: &Index) -> u64 {
    index.workers.iter().map(|worker| u64::from(worker.operations)).sum()
}

/// True if all operations of the time range were executed.
pub fn is_whole(run: &ReplayRun<'_>) -> bool {
    !run.is_stopped && (run.until.is_some() || missing(run) == 0)
}

/// Operations of the plan that were not executed.
fn missing(run: &ReplayRun<'_>) -> u64 {
    planned(run.index).abs_diff(run.comparison.count(|_| true))
}

/// Threads of the replay: one for each lane, or one with a ring for several lanes.
fn threads_of(run: &ReplayRun<'_>) -> u64 {
    let workers = run.index.workers.len() as u64;
    rings(run).map_or(workers, |ring| workers - lanes(run.index) + ring)
}

/// Threads that executed asynchronous operations with an io_uring.
fn rings(run: &ReplayRun<'_>) -> Option<u64> {
    run.rings.map(|ring| ring as u64)
}

/// Lanes: workers for asynchronous operations of other threads.
fn lanes(index: &Index) -> u64 {
    index.workers.iter().filter(|worker| worker.lane.is_some()).count() as u64
}

/// Asynchronous operations that were executed.
fn asynchronous(run: &ReplayRun<'_>) -> u64 {
    let is_one = |call: u16| {
        let call = run.index.calls.get(usize::from(call));
        call.is_some_and(|call| call.asynchronous.is_some())
    };
    run.comparison
        .outcomes()
        .iter()
        .filter(|outcome| is_one(outcome.0.1))
        .map(|outcome| *outcome.1)
        .sum()
}

/// Operations of the capture that are not in the replay.
fn skipped(index: &Index) -> u64 {
    index.left.iter().map(|rest| rest.count).sum()
}

fn outcomes(run: &ReplayRun<'_>) -> Table {
    let row = |((outcome, call), count): (&(Outcome, u16), &u64)| {
        vec![
            Cell::Word(outcome.as_str().to_owned()),
            name(run.index, *call),
            Cell::Count(*count),
            Cell::Word(outcome.to_string()),
        ]
    };
    let rows = run.comparison.outcomes().iter().map(row).collect();
    Table { key: "outcomes", title: "Results".to_owned(), columns: OUTCOMES.to_vec(), rows }
}

fn times(run: &ReplayRun<'_>) -> Table {
    let row = |(call, times): (&u16, &TimePair)| {
        let mut row = vec![name(run.index, *call), Cell::Count(times.replayed.count())];
        row.extend(percentiles(times));
        row
    };
    let rows = run.comparison.calls().iter().map(row).collect();
    let title = "Times by call".to_owned();
    Table { key: "calls", title, columns: [&TIMES[..], &PERCENTILES].concat(), rows }
}

fn threads(run: &ReplayRun<'_>, limit: usize) -> Table {
    let workers = run.comparison.workers();
    let (total, shown) = most_first(workers.iter(), limit);
    let row = |(worker, times): (&u32, &TimePair)| {
        let mut row = thread(run.index, *worker, true);
        row.extend(totals(times));
        row
    };
    let rows = shown.into_iter().map(row).collect();
    let title = format!("Times by thread: {total}");
    Table { key: "threads_done", title, columns: [&THREADS[..], &TOTALS].concat(), rows }
}

fn files(run: &ReplayRun<'_>, limit: usize) -> Table {
    let (total, shown) = most_first(run.comparison.files.iter(), limit);
    let row = |(file, times): (&u32, &TimePair)| {
        let mut row = vec![run.names.get(file).cloned().map_or(Cell::None, Cell::Name)];
        row.extend(totals(times));
        row
    };
    let rows = shown.into_iter().map(row).collect();
    let title = format!("Times by file: {total}");
    Table { key: "files_done", title, columns: [&FILES[..], &TOTALS].concat(), rows }
}

/// Total number, and the entries with most operations.
fn most_first<'a>(
    all: impl Iterator<Item = (&'a u32, &'a TimePair)>,
    limit: usize,
) -> (usize, Vec<(&'a u32, &'a TimePair)>) {
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(key, times)| (std::cmp::Reverse(times.replayed.count()), **key));
    (all.len(), first_rows(all, limit).0)
}

/// Operations and bytes by time.
fn parts(run: &ReplayRun<'_>) -> Table {
    let timeline = &run.comparison.timeline;
    let row = |(number, part): (u64, &[TimelineCounts; 2])| {
        let mut row = vec![Cell::Ns(number * timeline.part_length().0)];
        row.extend(part.iter().flat_map(|part| [part.operations, part.bytes].map(Cell::Count)));
        row
    };
    let rows = (0..).zip(timeline.parts()).map(row).collect();
    let title = format!("Operations by time, every {} ms", timeline.part_length().0 / 1_000_000);
    Table { key: "timeline", title, columns: PARTS.to_vec(), rows }
}

fn mismatches(run: &ReplayRun<'_>, shown: &[&Mismatch]) -> Table {
    let index = run.index;
    let row = |mismatch: &&Mismatch| {
        // A descriptor is shown with the path by which its file was opened first.
        let opened = || mismatch.file.and_then(|file| run.names.get(&file)).cloned();
        let path = mismatch.path.clone().or_else(opened);
        let mismatch = mismatch.compared;
        let mut row = vec![Cell::Ns(mismatch.start.0)];
        row.extend(thread(index, mismatch.worker, false));
        row.extend([
            Cell::Count(mismatch.number.into()),
            name(index, mismatch.call),
            Cell::Word(mismatch.outcome.as_str().to_owned()),
            Cell::Signed(mismatch.captured),
            result(mismatch.captured),
            Cell::Signed(mismatch.replayed),
            result(mismatch.replayed),
            path.map_or(Cell::None, Cell::Name),
        ]);
        row
    };
    let rows = shown.iter().map(row).collect();
    let title = "First other results".to_owned();
    Table { key: "first_mismatches", title, columns: MISMATCHES.to_vec(), rows }
}

fn left(index: &Index) -> Table {
    let columns = vec![
        column("reason", "reason"),
        key_column(0, "call", "call"),
        column("count", "operations"),
    ];
    let row = |replay: &crate::replay::plan::plan_file::SkippedOps| {
        vec![
            Cell::Word(replay.reason.clone()),
            Cell::Word(replay.call.clone()),
            Cell::Count(replay.count),
        ]
    };
    let rows = index.left.iter().map(row).collect();
    Table { key: "left_calls", title: "Not replayed".to_owned(), columns, rows }
}

fn notes(run: &ReplayRun<'_>, not_shown: usize) -> Vec<String> {
    let kept = run.comparison.mismatches.len();
    let all = run.comparison.count(Outcome::is_mismatch);
    let mut notes = replay_columns::not_shown("operations", all, kept, not_shown);
    let (most, cpus) = run.threads;
    if run.expected_span.is_some() && most >= cpus {
        notes.push(format!(
            "there were {most} threads at once and {cpus} CPUs: threads slept until their times and did not poll the clock, which makes \
             them later by some 50 µs"
        ));
    }
    if run.is_stopped {
        notes.push("the replay was stopped before its end".to_owned());
    } else if !is_whole(run) {
        notes
            .push("not all operations of the plan were done: the plan is contradictory".to_owned());
    } else if run.until.is_some() {
        notes.push(format!(
            "{} after --until and skipped",
            counted_with(missing(run), "operation", ["that ends", "that end"])
        ));
    }
    if run.comparison.prepared > 0 {
        notes.push(format!(
            "{} before --from: done at full speed, results compared, and all times and bytes are those of the others",
            counted_with(run.comparison.prepared, "operation", ["ended", "ended"])
        ));
    }
    notes
}

fn thread(index: &Index, worker: u32, has_name: bool) -> Vec<Cell> {
    let Some(it) = index.workers.get(worker as usize) else {
        return vec![Cell::None; if has_name { 4 } else { 2 }];
    };
    let mut cells = vec![Cell::Signed(it.pid.into()), Cell::Signed(it.tid.into())];
    if has_name {
        cells.push(Cell::Name(it.comm.clone()));
        cells.push(Cell::count(it.lane.map(u64::from)));
    }
    cells
}

fn name(index: &Index, call: u16) -> Cell {
    index
        .calls
        .get(usize::from(call))
        .map_or(Cell::None, |call| Cell::Word(call.captured_name().to_owned()))
}
