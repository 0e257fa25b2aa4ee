//! Short report of `replay run` for a terminal of 80 columns and 24 lines: the finding, the key
//! figures, the calls that took longest, the first other results. All tables are those of
//! [`super::replay_run`].

use std::collections::BTreeMap;

use super::replay_columns::result;
use super::replay_run::{ReplayRun, is_whole, planned};
use super::rows::column;
use crate::analysis::histogram::Histogram;
use crate::replay::comparison::{Mismatch, TimePair};
use crate::replay::outcome::Outcome;
use crate::text::escape;
use crate::text::quantity::{count, counted, size, time};
use crate::text::table::{Cell, Column, Report, Table};
use crate::text::table_text::end_of;
use crate::units::Nanos;

/// Limit on the rows of the table of calls; with other results there is room for fewer.
const CALLS_MAX: usize = 8;
const CALLS_BESIDE_OTHERS: usize = 4;

/// Limit on the other results that are shown, and on the letters of their paths.
const OTHERS_MAX: usize = 3;
const PATH_LETTERS: usize = 28;

/// Limit on the reasons that are shown for operations that are not replayed.
const REASONS_MAX: usize = 3;

const CALLS: [Column; 6] = [
    column("", "call"),
    column("", "operations"),
    column("", "captured p50"),
    column("", "captured p99"),
    column("", "replayed p50"),
    column("", "replayed p99"),
];

const OTHERS: [Column; 5] = [
    column("", "at"),
    column("", "call"),
    column("", "captured"),
    column("", "replayed"),
    column("", "path"),
];

/// A time, if it is known.
fn known_time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), time)
}

/// Results of a replay on one screen; `whole`: the complete report.
pub fn brief(run: &ReplayRun<'_>, whole: &Report) -> Report {
    let mut facts = vec![("", "result", Cell::Word(finding(run)))];
    facts.extend(figures(run, whole).map(|(title, it)| ("", title, Cell::Word(it))));
    let others = others(run);
    let is_same = others.rows.is_empty();
    let tables = vec![calls(run, if is_same { CALLS_MAX } else { CALLS_BESIDE_OTHERS }), others];
    let notes = whole.notes.len();
    let about = match notes {
        0 => String::new(),
        1 => " and a note".to_owned(),
        _ => format!(" and {notes} notes"),
    };
    let notes = vec![format!("all tables{about}: --details")];
    Report { kind: whole.kind, facts, tables, notes, incomplete: whole.incomplete.clone() }
}

/// The most important result.
fn finding(run: &ReplayRun<'_>) -> String {
    let all = run.comparison.count(|_| true);
    let others = run.comparison.count(Outcome::is_mismatch);
    if run.is_stopped {
        return format!(
            "stopped: {} of {} done",
            count(all),
            counted(planned(run.index), "operation")
        );
    }
    if !is_whole(run) {
        return format!(
            "{} of {} done: the plan is contradictory",
            count(all),
            counted(planned(run.index), "operation")
        );
    }
    if others > 0 {
        let (are, all) = (count(others), counted(all, "operation"));
        return format!("{are} of {all} had another result than in the capture");
    }
    match all {
        1 => "the operation had the result of the capture".to_owned(),
        _ => format!("all {} operations had the result of the capture", count(all)),
    }
}

/// Key figures: titles and lines.
fn figures(run: &ReplayRun<'_>, whole: &Report) -> impl Iterator<Item = (&'static str, String)> {
    let comparison = run.comparison;
    let (Nanos(span), Nanos(captured)) = (comparison.span(), comparison.captured_span());
    let took = match run.expected_span {
        Some(Nanos(expected)) => {
            format!("{}, expected {} (capture: {})", time(span), time(expected), time(captured))
        }
        None => format!("{}, as fast as possible (capture: {})", time(span), time(captured)),
    };
    let late = &comparison.lateness;
    let begun = late.max().map(|max| {
        let [p50, p99] =
            [500, 990].map(|rank| known_time(late.percentile(rank).map(|late| late.0)));
        let comparable = whole.facts.iter().find(|fact| fact.0 == "timing_is_comparable");
        let verdict = match comparable.map(|comparable| &comparable.2) {
            Some(Cell::Flag(true)) => "times can be compared",
            Some(Cell::Flag(false)) => "times cannot be compared",
            _ => "",
        };
        format!("p50 {p50}, p99 {p99}, max {}: {verdict}", time(max.0))
    });
    let (threads, cpus) = run.threads;
    let threads =
        format!("{}, {threads} at once on {cpus} CPUs", count(run.index.workers.len() as u64));
    let figures = [
        ("duration", Some(took)),
        ("lateness", begun),
        ("moved", Some(size(comparison.bytes))),
        ("threads", Some(threads)),
        ("not in the plan", not_done(run)),
    ];
    figures.into_iter().filter_map(|(title, it)| Some((title, it?)))
}

/// Operations of the capture that are not replayed, and the most frequent reasons.
fn not_done(run: &ReplayRun<'_>) -> Option<String> {
    let mut reasons = BTreeMap::<&str, u64>::new();
    run.index.left.iter().for_each(|rest| *reasons.entry(&rest.reason).or_default() += rest.count);
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.1));
    let all: u64 = reasons.iter().map(|reason| reason.1).sum();
    let shown =
        reasons.iter().take(REASONS_MAX).map(|reason| format!("{} {}", reason.0, count(reason.1)));
    let shown: Vec<String> = shown.collect();
    let more = if reasons.len() > REASONS_MAX { ", ..." } else { "" };
    (all > 0).then(|| format!("{} ({}{more})", count(all), shown.join(", ")))
}

/// Calls that took longest together, in the capture or in the replay.
fn calls(run: &ReplayRun<'_>, limit: usize) -> Table {
    let calls = run.comparison.calls();
    let mut calls: Vec<(&u16, &TimePair)> = calls.iter().collect();
    let all = calls.len();
    calls.sort_by_key(|(call, times)| {
        (std::cmp::Reverse(times.captured.sum().max(times.replayed.sum())), **call)
    });
    let of = |spread: &Histogram| [500, 990].map(|at| known_time(spread.percentile(at)));
    let row = |(call, times): &(&u16, &TimePair)| {
        let call =
            run.index.calls.get(usize::from(**call)).map_or("?", |call| call.captured_name());
        let times = [
            of(&times.captured),
            of(&times.replayed),
            [count(times.replayed.count()), String::new()],
        ];
        let [[c50, c99], [r50, r99], [operations, _]] = times;
        [call.to_owned(), operations, c50, c99, r50, r99].map(Cell::Word).to_vec()
    };
    let rows: Vec<Vec<Cell>> = calls.iter().take(limit).map(row).collect();
    let title = format!("Calls that took longest: {} of {all}", rows.len());
    Table { key: "", title, columns: CALLS.to_vec(), rows }
}

/// The first operations with other results.
fn others(run: &ReplayRun<'_>) -> Table {
    let others = &run.comparison.mismatches;
    let row = |mismatch: &Mismatch| {
        let opened = || mismatch.file.and_then(|file| run.names.get(&file)).cloned();
        let mut path = Vec::new();
        escape::shown(&mut path, &mismatch.path.clone().or_else(opened).unwrap_or_default(), b"");
        let path = end_of(&String::from_utf8_lossy(&path), PATH_LETTERS);
        let mismatch = mismatch.compared;
        let call = run
            .index
            .calls
            .get(usize::from(mismatch.call))
            .map_or("?", |call| call.captured_name());
        let [at, call, path] = [time(mismatch.start.0), call.to_owned(), path].map(Cell::Word);
        vec![at, call, result(mismatch.captured), result(mismatch.replayed), path]
    };
    let rows: Vec<Vec<Cell>> = others.iter().take(OTHERS_MAX).map(row).collect();
    let all = count(run.comparison.count(Outcome::is_mismatch));
    let title = format!("Other results: the first {} of {all}", rows.len());
    Table { key: "", title, columns: OTHERS.to_vec(), rows }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use super::*;
    use crate::replay::comparison::{Compared, Comparison, Pair};
    use crate::replay::plan::plan_file::{CallPlan, Index, SkippedOps, WorkerPlan};
    use crate::text::table::{TableFormat, TextStyle};
    use crate::units::ReplayTime;

    fn worker() -> WorkerPlan {
        WorkerPlan {
            pid: 7,
            tid: 7,
            comm: b"program".to_vec(),
            lane: None,
            before: None,
            is_waited_for: false,
            operations: 1009,
            frames: Vec::new(),
        }
    }

    fn index() -> Index {
        let calls = [
            "openat", "read", "write", "close", "lseek", "fstat", "fsync", "unlink", "mkdir",
            "rename",
        ];
        let left = ["memory", "no-name", "rights", "ioctl", "channel"];
        Index {
            calls: calls.map(|call| CallPlan { name: call.into(), asynchronous: None }).to_vec(),
            left: left
                .map(|rest| SkippedOps { reason: rest.into(), call: "mmap".into(), count: 123_457 })
                .to_vec(),
            workers: vec![worker()],
            ..Index::default()
        }
    }

    /// Width of a terminal.
    const COLUMNS: usize = 80;

    /// Renders a report in which every operation takes time; one in 7 has another result if they
    /// differ.
    fn shown(differ: bool, form: TableFormat) -> String {
        let (index, names) = (index(), FxHashMap::default());
        let mut comparison = Comparison::default();
        for number in 0..1009_u32 {
            let start = ReplayTime(u64::from(number) * 1_000_003);
            let at = |offset| start.saturating_add(Nanos(offset));
            let is_other = differ && number % 7 == 0;
            let path = "/a/very/long/path/of/a/file/that/no/terminal/has/room/for/in/a/table";
            comparison.add(&Pair {
                compared: Compared {
                    start,
                    worker: 0,
                    number,
                    call: u16::try_from(number % 10).expect("small"),
                    outcome: if is_other { Outcome::Failed } else { Outcome::Same },
                    captured: 1_000_003,
                    replayed: if is_other { -i64::from(libc::ENOENT) } else { 1_000_003 },
                },
                file: None,
                captured_end: at(12_345_678),
                captured_latest: at(12_345_678),
                replayed_time: (at(77), at(23_456_789)),
                late: Some(Nanos(77)),
                path: Some(path.as_bytes()),
                moves_bytes: true,
            });
        }
        let run = ReplayRun {
            index: &index,
            comparison: &comparison,
            names: &names,
            expected_span: Some(comparison.captured_span()),
            is_stopped: false,
            until: None,
            threads: (1, 2),
            rings: None,
        };
        let whole = super::super::replay_run::report(&run, 20);
        let mut out = Vec::new();
        brief(&run, &whole).print(form, TextStyle::default(), &mut out).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    }

    /// Fails if a report has more lines than a terminal, or longer ones.
    #[test]
    fn brief_report_fits_a_screen() {
        for differ in [false, true] {
            let shown = shown(differ, TableFormat::Text);
            let lines: Vec<&str> = shown.lines().collect();
            // The shell needs one line.
            assert!(lines.len() < 24, "{} lines:\n{shown}", lines.len());
            let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(longest <= COLUMNS, "{longest} letters:\n{shown}");
        }
    }

    /// Fails if the first line is not the result of the replay.
    #[test]
    fn brief_report_begins_with_finding() {
        let first = |differ| shown(differ, TableFormat::Text).lines().next().map(str::to_owned);
        let same = "result           all 1,009 operations had the result of the capture";
        assert_eq!(first(false).as_deref(), Some(same));
        let other =
            "result           145 of 1,009 operations had another result than in the capture";
        assert_eq!(first(true).as_deref(), Some(other));
    }
}
