//! Report of `replay run --level block`: results of the requests, next to the captured ones.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::replay_columns::{self, PERCENTILES, Pace, percentiles};
use super::rows::{column, first_rows, key_column};
use crate::event::block::RequestOp;
use crate::replay::block_comparison::{BlockComparison, BlockMismatch, BlockOutcome, BlockTimes};
use crate::replay::plan::block::{BlockPlan, CapturedRequestKind, RequestSkipReason};
use crate::text::errno::ErrnoName;
use crate::text::quantity::{counted, counted_with};
use crate::text::table::{Cell, Column, Report, Table};
use crate::units::{DevId, Nanos};

/// A replay: its options and its results.
#[derive(Clone, Copy, Debug)]
pub struct BlockRun<'a> {
    /// The plan.
    pub plan: &'a BlockPlan,
    /// Results, compared with the capture.
    pub comparison: &'a BlockComparison,
    /// The captured device and its name.
    pub from: (DevId, &'a str),
    /// The device of the replay and its path.
    pub to: (DevId, &'a Path),
    /// Planned duration; `None`: as short as possible.
    pub expected_span: Option<Nanos>,
    /// True if the replay was stopped before its end.
    pub is_stopped: bool,
    /// Threads that issued requests, and their limit.
    pub threads: (u32, u32),
    /// Number of CPUs.
    pub cpus: usize,
    /// True if requests were issued at their times, independent of the completion of others.
    pub is_open: bool,
}

impl BlockRun<'_> {
    /// True if all requests of the plan were issued.
    pub fn is_whole(&self) -> bool {
        !self.is_stopped && self.comparison.count() == self.plan.all.len() as u64
    }
}

const OUTCOMES: [Column; 4] = [
    column("outcome", ""),
    key_column(0, "operation", "operation"),
    column("count", "requests"),
    column("", "what"),
];

const TIMES: [Column; 3] = [
    key_column(0, "operation", "operation"),
    column("count", "count"),
    column("moved_bytes", "moved"),
];

const MISMATCHES: [Column; 8] = [
    column("start_ns", "at"),
    key_column(0, "operation", "operation"),
    column("offset", "offset"),
    column("bytes", "moved"),
    column("outcome", "outcome"),
    column("captured_error", "captured"),
    column("replayed_error", "replayed"),
    column("replayed_bytes", "moved"),
];

const LEFT: [Column; 4] = [
    column("reason", ""),
    key_column(0, "operation", "operation"),
    column("count", "requests"),
    column("", "because"),
];

/// Results of a replay.
pub fn report(run: &BlockRun<'_>, limit: usize) -> Report {
    let BlockRun { plan, comparison, .. } = *run;
    let pace = Pace {
        lateness: &comparison.lateness,
        span: comparison.span,
        captured_span: plan.span,
        expected_span: run.expected_span,
    };
    let left = plan.left.values().sum();
    let moved = |kind| comparison.kinds.get(&kind).map_or(0, |times: &BlockTimes| times.bytes);
    let mut facts = vec![
        ("requests", "requests replayed", Cell::Count(comparison.count())),
        ("mismatches", "  with another result", Cell::Count(comparison.mismatched())),
        ("skipped", "not replayed", Cell::Count(left)),
        ("followed", "part of others", Cell::Count(plan.followed)),
        ("from_device", "captured device", Cell::Word(run.from.1.to_owned())),
        ("from_dev", "  number", Cell::Word(run.from.0.to_string())),
        ("device", "device", Cell::Name(run.to.1.as_os_str().as_bytes().to_vec())),
        ("dev", "  number", Cell::Word(run.to.0.to_string())),
        ("read_bytes", "bytes read", Cell::Count(moved(CapturedRequestKind::Read))),
        ("written_bytes", "bytes written", Cell::Count(moved(CapturedRequestKind::Write))),
    ];
    facts.extend(pace.facts());
    facts.extend([
        ("captured_depth", "queue depth in the capture", Cell::Count(plan.depth.into())),
        ("depth", "  in the replay", Cell::Count(comparison.depth)),
        ("early", "before their captured predecessors", Cell::Count(comparison.early_starts)),
        ("threads", "threads", Cell::Count(run.threads.0.into())),
        ("cpus", "CPUs", Cell::Count(run.cpus as u64)),
        ("planned", "", Cell::Count(plan.all.len() as u64)),
        ("is_whole", "", Cell::Flag(run.is_whole())),
    ]);
    let mut report = Report { kind: "replay run --level block", facts, ..Report::default() };
    let (shown, rest) = first_rows(comparison.mismatches.iter().collect(), limit);
    report.tables =
        vec![outcomes(comparison), times(comparison), mismatches(&shown), left_out(plan)];
    report.notes = notes(run, rest.len());
    report
}

fn word(text: &str) -> Cell {
    Cell::Word(text.to_owned())
}

fn outcomes(comparison: &BlockComparison) -> Table {
    let row = |((outcome, kind), count): (&(BlockOutcome, CapturedRequestKind), &u64)| {
        let [outcome, what] = [outcome.as_str(), outcome.sentence()].map(word);
        vec![outcome, word(kind.as_str()), Cell::Count(*count), what]
    };
    let rows = comparison.outcomes.iter().map(row).collect();
    Table { key: "outcomes", title: "Results".to_owned(), columns: OUTCOMES.to_vec(), rows }
}

fn times(comparison: &BlockComparison) -> Table {
    let row = |(kind, BlockTimes { times, bytes }): (&CapturedRequestKind, &BlockTimes)| {
        let mut row = vec![word(kind.as_str()), Cell::Count(times.replayed.count())];
        row.push(if kind.moves_bytes() { Cell::Count(*bytes) } else { Cell::None });
        row.extend(percentiles(times));
        row
    };
    let rows = comparison.kinds.iter().map(row).collect();
    let title = "From issue to completion".to_owned();
    Table { key: "requests_done", title, columns: [&TIMES[..], &PERCENTILES].concat(), rows }
}

fn mismatches(shown: &[&BlockMismatch]) -> Table {
    let error = |value: Option<i32>| match value {
        Some(errno) => Cell::Word(ErrnoName(errno).to_string()),
        None => Cell::None,
    };
    let row = |mismatch: &&BlockMismatch| {
        let has_place = mismatch.request.kind != CapturedRequestKind::Flush;
        let place = |mismatch| if has_place { Cell::Count(mismatch) } else { Cell::None };
        vec![
            Cell::Ns(mismatch.request.issued.0),
            word(mismatch.request.kind.as_str()),
            place(mismatch.request.offset),
            place(mismatch.request.bytes),
            word(mismatch.outcome.as_str()),
            error(mismatch.request.error),
            error(mismatch.result.err()),
            Cell::count(mismatch.result.ok().filter(|_| mismatch.request.kind.moves_bytes())),
        ]
    };
    let rows = shown.iter().map(row).collect();
    let title = "First other results".to_owned();
    Table { key: "first_mismatches", title, columns: MISMATCHES.to_vec(), rows }
}

fn left_out(plan: &BlockPlan) -> Table {
    let row = |((why, op), count): (&(RequestSkipReason, RequestOp), &u64)| {
        let [reason, because] = [why.as_str(), why.sentence()].map(word);
        vec![reason, word(op.as_str()), Cell::Count(*count), because]
    };
    let rows = plan.left.iter().map(row).collect();
    let title = "Not replayed".to_owned();
    Table { key: "left_requests", title, columns: LEFT.to_vec(), rows }
}

fn notes(run: &BlockRun<'_>, not_shown: usize) -> Vec<String> {
    let kept = run.comparison.mismatches.len();
    let mut notes =
        replay_columns::not_shown("requests", run.comparison.mismatched(), kept, not_shown);
    let most = run.threads.1;
    if run.plan.depth > most {
        notes.push(format!(
            "in the capture up to {} in flight at once, and the limit is {}: the queue was shortened",
            counted_with(run.plan.depth as u64, "request", ["was", "were"]),
            counted(most as u64, "thread")
        ));
    }
    if run.expected_span.is_some() && run.cpus == 1 {
        notes.push(
            "there is one CPU: threads slept until their times and did not poll the clock, which makes them later by some 50 µs".to_owned(),
        );
    }
    if run.is_open && run.comparison.early_starts > 0 {
        notes.push(format!(
            "{} at the captured time, before all requests had completed that had done so in the capture: the device is slower, or \
             answers in another order",
            counted_with(run.comparison.early_starts, "request", ["was issued", "were issued"])
        ));
    }
    if run.plan.fua > 0 {
        notes.push(format!(
            "{} writes were durable at completion (FUA) in the capture, and are replayed as plain ones",
            run.plan.fua
        ));
    }
    if run.is_stopped {
        notes.push("the replay was stopped before its end".to_owned());
    }
    notes
}
