//! The report of `replay run --level block`: what the requests got, beside those of the capture.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{column, first_rows};
use crate::event::block::RequestOp;
use crate::replay::block::{
    BlockComparison, BlockMismatch, BlockOutcome, BlockPlan, BlockTimes, Kind, NotAsked,
};
use crate::text::errno::ErrnoName;
use crate::text::table::{Cell, Column, Report, Table};
use crate::units::DevId;

/// What a replay was told to do, and how it went.
#[derive(Clone, Copy, Debug)]
pub struct BlockRun<'a> {
    /// What was to be done.
    pub plan: &'a BlockPlan,
    /// What it got.
    pub comparison: &'a BlockComparison,
    /// The captured device and its name.
    pub from: (DevId, &'a str),
    /// The device of the replay and its path.
    pub to: (DevId, &'a Path),
    /// How long it was to take, ns; `None`: as fast as it could.
    pub expected_span: Option<u64>,
    /// It was stopped before its end.
    pub is_stopped: bool,
    /// Threads that asked, and how many there may be.
    pub threads: (u32, u32),
    /// CPUs.
    pub cpus: usize,
    /// Requests were asked at their times, whatever was done by then.
    pub is_open: bool,
}

impl BlockRun<'_> {
    /// True if all of it was done.
    pub fn is_whole(&self) -> bool {
        !self.is_stopped && self.comparison.count() == self.plan.all.len() as u64
    }
}

const OUTCOMES: [Column; 4] = [
    column("outcome", ""),
    column("operation", "operation"),
    column("count", "requests"),
    column("", "what"),
];

const TIMES: [Column; 13] = [
    column("operation", "operation"),
    column("count", "count"),
    column("moved_bytes", "bytes"),
    column("captured_p50_ns", "captured p50 us"),
    column("captured_p90_ns", "p90"),
    column("captured_p99_ns", "p99"),
    column("captured_p999_ns", "p99.9"),
    column("captured_max_ns", "max"),
    column("replayed_p50_ns", "replayed p50 us"),
    column("replayed_p90_ns", "p90"),
    column("replayed_p99_ns", "p99"),
    column("replayed_p999_ns", "p99.9"),
    column("replayed_max_ns", "max"),
];

const MISMATCHES: [Column; 8] = [
    column("start_ns", "at us"),
    column("operation", "operation"),
    column("offset", "offset"),
    column("bytes", "bytes"),
    column("outcome", "outcome"),
    column("captured_error", "captured"),
    column("replayed_error", "replayed"),
    column("replayed_bytes", "bytes"),
];

const LEFT: [Column; 4] = [
    column("reason", ""),
    column("operation", "operation"),
    column("count", "requests"),
    column("", "because"),
];

/// Times may be compared if requests were asked at theirs: 99 % of them no later than this, ns.
const LATENESS_MAX: u64 = 100_000;

/// And if all of them took as long as in the capture, but for one part in so many.
const SPAN_PARTS: u64 = 1000;

/// What a replay did.
pub fn report(run: &BlockRun<'_>, limit: usize) -> Report {
    let BlockRun { plan, comparison, .. } = *run;
    let late = &comparison.lateness;
    let lateness = |it: Option<u64>| Cell::ns(it.filter(|_| late.count() > 0));
    let left = plan.left.values().sum();
    let moved = |kind| comparison.kinds.get(&kind).map_or(0, |it: &BlockTimes| it.bytes);
    let facts = vec![
        ("requests", "requests done again", Cell::Count(comparison.count())),
        ("mismatches", "  with another result", Cell::Count(comparison.mismatched())),
        ("skipped", "not done again", Cell::Count(left)),
        ("followed", "in others", Cell::Count(plan.followed)),
        ("from_device", "captured device", Cell::Word(run.from.1.to_owned())),
        ("from_dev", "  number", Cell::Word(run.from.0.to_string())),
        ("device", "device", Cell::Name(run.to.1.as_os_str().as_bytes().to_vec())),
        ("dev", "  number", Cell::Word(run.to.0.to_string())),
        ("read_bytes", "bytes read", Cell::Count(moved(Kind::Read))),
        ("written_bytes", "bytes written", Cell::Count(moved(Kind::Write))),
        ("span_ns", "took us", Cell::Ns(comparison.span)),
        ("captured_span_ns", "  in the capture", Cell::Ns(plan.span)),
        ("expected_span_ns", "  to be", Cell::ns(run.expected_span)),
        ("lateness_p50_ns", "late us: p50", lateness(late.percentile(500))),
        ("lateness_p99_ns", "  p99", lateness(late.percentile(990))),
        ("lateness_max_ns", "  max", lateness(Some(late.max()))),
        ("late_over_1ms", "  more than 1 ms", Cell::Count(comparison.very_late)),
        ("timing_is_comparable", "times can be compared", verdict(run)),
        ("captured_depth", "at once in the capture", Cell::Count(plan.depth.into())),
        ("depth", "  in the replay", Cell::Count(comparison.depth)),
        ("early", "before what they had followed", Cell::Count(comparison.early)),
        ("threads", "threads", Cell::Count(run.threads.0.into())),
        ("cpus", "CPUs", Cell::Count(run.cpus as u64)),
        ("planned", "", Cell::Count(plan.all.len() as u64)),
        ("is_whole", "", Cell::Flag(run.is_whole())),
    ];
    let mut report = Report { kind: "replay run --level block", facts, ..Report::default() };
    let (shown, rest) = first_rows(comparison.mismatches.iter().collect(), limit);
    report.tables =
        vec![outcomes(comparison), times(comparison), mismatches(&shown), left_out(plan)];
    report.notes = notes(run, rest.len());
    report
}

/// Whether what requests took can be compared with the capture; nobody knows where nothing was paced.
fn verdict(run: &BlockRun<'_>) -> Cell {
    let Some(expected) = run.expected_span else { return Cell::None };
    let late = run.comparison.lateness.percentile(990).unwrap_or(0);
    let off = run.comparison.span.abs_diff(expected);
    Cell::Flag(late <= LATENESS_MAX && off <= expected / SPAN_PARTS)
}

fn word(it: &str) -> Cell {
    Cell::Word(it.to_owned())
}

fn outcomes(comparison: &BlockComparison) -> Table {
    let row = |((outcome, kind), count): (&(BlockOutcome, Kind), &u64)| {
        let [outcome, what] = [outcome.as_str(), outcome.sentence()].map(word);
        vec![outcome, word(kind.as_str()), Cell::Count(*count), what]
    };
    let rows = comparison.outcomes.iter().map(row).collect();
    Table { key: "outcomes", title: "Results".to_owned(), columns: OUTCOMES.to_vec(), rows }
}

fn times(comparison: &BlockComparison) -> Table {
    let row = |(kind, times): (&Kind, &BlockTimes)| {
        let mut row = vec![word(kind.as_str()), Cell::Count(times.replayed.count())];
        row.push(if kind.moves_bytes() { Cell::Count(times.bytes) } else { Cell::None });
        for spread in [&times.captured, &times.replayed] {
            row.extend([500, 900, 990, 999].map(|at| Cell::ns(spread.percentile(at))));
            row.push(Cell::Ns(spread.max()));
        }
        row
    };
    let rows = comparison.kinds.iter().map(row).collect();
    let title = "From issue to completion".to_owned();
    Table { key: "requests_done", title, columns: TIMES.to_vec(), rows }
}

fn mismatches(shown: &[&BlockMismatch]) -> Table {
    let error = |it: Option<i32>| match it {
        Some(errno) => Cell::Word(ErrnoName(errno).to_string()),
        None => Cell::None,
    };
    let row = |it: &&BlockMismatch| {
        let has_place = it.asked.kind != Kind::Flush;
        let place = |it| if has_place { Cell::Count(it) } else { Cell::None };
        vec![
            Cell::Ns(it.asked.issued),
            word(it.asked.kind.as_str()),
            place(it.asked.offset),
            place(it.asked.bytes),
            word(it.outcome.as_str()),
            error(it.asked.error),
            error(it.result.err()),
            Cell::count(it.result.ok().filter(|_| it.asked.kind.moves_bytes())),
        ]
    };
    let rows = shown.iter().map(row).collect();
    let title = "Other results, the first of them".to_owned();
    Table { key: "first_mismatches", title, columns: MISMATCHES.to_vec(), rows }
}

fn left_out(plan: &BlockPlan) -> Table {
    let row = |((why, op), count): (&(NotAsked, RequestOp), &u64)| {
        let [reason, because] = [why.as_str(), why.sentence()].map(word);
        vec![reason, word(op.as_str()), Cell::Count(*count), because]
    };
    let rows = plan.left.iter().map(row).collect();
    let title = "Not done again".to_owned();
    Table { key: "left_requests", title, columns: LEFT.to_vec(), rows }
}

fn notes(run: &BlockRun<'_>, not_shown: usize) -> Vec<String> {
    let mut notes = Vec::new();
    let kept = run.comparison.mismatches.len() as u64;
    let all = run.comparison.mismatched();
    if all > kept {
        notes.push(format!("of {all} requests with other results the first {kept} are kept"));
    }
    if not_shown > 0 {
        notes.push(format!(
            "{not_shown} of the requests with other results are not shown; -n 0 shows all"
        ));
    }
    let most = run.threads.1;
    if run.plan.depth > most {
        notes.push(format!(
            "in the capture up to {} requests were under way at once, and there are {most} threads at most: the queue was clipped",
            run.plan.depth
        ));
    }
    if run.expected_span.is_some() && run.cpus == 1 {
        notes.push(
            "there is one CPU: threads slept until their times and did not look at the clock, which makes them later by some 50 us".to_owned(),
        );
    }
    if run.is_open && run.comparison.early > 0 {
        notes.push(format!(
            "{} requests were asked at their times, before all was done that had been done before them in the capture: the device is slower, or \
             answers in another order",
            run.comparison.early
        ));
    }
    if run.plan.fua > 0 {
        notes.push(format!(
            "{} writes were durable when they were done (FUA) in the capture, and are done again as plain ones",
            run.plan.fua
        ));
    }
    if run.is_stopped {
        notes.push("the replay was stopped before its end".to_owned());
    }
    notes
}
