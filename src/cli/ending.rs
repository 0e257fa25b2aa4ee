//! Last lines of a recording: what the program did, whether all of it was recorded, where the files
//! are, and what to do next.

use std::path::Path;

use nix::sys::signal::Signal;

use super::audit_line::{AuditVerdict, audit};
use super::completeness::{missing, stat_storm, unknown};
use super::converted::{Converted, LogPaths};
use super::message::{print_error, print_line};
use super::output::Output;
use super::scope_lines;
use super::summary_lines::{self, archive_lines};
use crate::capture::header::CaptureScope;
use crate::pipeline::Summary;
use crate::report::recorded_scope::attached;
use crate::text::quantity::{counted, size, time};
use crate::text::shares;
use crate::text::table::incomplete_line;

/// Prints the lines to standard error: six at most, unless records are missing.
pub(super) fn print(
    log: LogPaths<'_>,
    output: Option<&Output>,
    converted: &Converted,
    is_verbose: bool,
) {
    let summary = &converted.summary;
    let missing = missing(summary);
    incomplete_line(&missing).iter().for_each(|line| print_error(line));
    let mut lines = vec![work(converted), bytes(converted)];
    let verdict = audit(summary, &converted.totals);
    if missing.is_empty() {
        lines.push(trust(summary, verdict.as_ref()));
    }
    let differs = verdict.is_some_and(|verdict| verdict.is_equal == Some(false));
    lines.extend(stat_storm(summary));
    lines.extend(scope_lines::lines(summary));
    lines.extend(files(log, output));
    lines.extend(archive_lines(converted));
    let log_bytes = std::fs::metadata(log.path).map_or(0, |metadata| metadata.len());
    lines.extend(match is_verbose || differs || !missing.is_empty() {
        true => summary_lines::lines(log_bytes, converted),
        false => summary_lines::warnings(summary),
    });
    lines.iter().for_each(|line| print_line(line));
}

/// Returns what was recorded, for how long, and how much of that time operations on files took.
fn work(converted: &Converted) -> String {
    let summary = &converted.summary;
    let files = converted.totals.on_files();
    let recorded = summary.end_time().0.saturating_sub(summary.start().0);
    let has_run = |_: &u64| summary.end.as_ref().is_some_and(|end| end.reason == "exit");
    let is_alone = summary.header.scope.ranks.len() < 2;
    let wall = summary.ledger.program.ns().filter(has_run).filter(|_| is_alone);
    let wall = wall.unwrap_or(recorded);
    let operations = counted(files.count, "operation");
    let scope = &summary.header.scope;
    let is_single = !converted.totals.is_concurrent && scope.ranks.len() < 2;
    let share = match scope.mode.as_str() {
        "launch" if is_single && files.time_ns <= wall => {
            format!(", {} of it in {operations} on files", shares::of(files.time_ns, wall))
        }
        _ => format!(": {operations} on files took {} in all", time(files.time_ns)),
    };
    format!("{} {}{}{share}", subject(summary), time(wall), end(summary))
}

/// Returns the recorded program, processes or machine: only a program that has ended ran for the
/// duration of the recording.
fn subject(summary: &Summary) -> String {
    let scope = &summary.header.scope;
    let has_ended = summary.end.as_ref().is_some_and(|end| end.reason == "exit");
    match (scope.mode.as_str(), scope.command.first()) {
        ("system", Some(program)) if has_ended => {
            format!("the machine while {} ran", name(program))
        }
        ("system", _) => "the machine for".to_owned(),
        (_, Some(program)) if has_ended => format!("{} ran", of_ranks(scope, program)),
        (_, Some(program)) => format!("recorded {} for", of_ranks(scope, program)),
        (_, None) => format!("{} for", attached(scope)),
    }
}

/// Returns the name of a program, with the number of its ranks on this node.
fn of_ranks(scope: &CaptureScope, program: &str) -> String {
    match scope.ranks.len() {
        0 => name(program).to_owned(),
        ranks => format!("{} of {}", counted(ranks as u64, "rank"), name(program)),
    }
}

fn name(program: &str) -> &str {
    Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
}

/// Returns the rank whose end is known, if several were recorded.
fn whose(summary: &Summary) -> String {
    let is_one = summary.header.scope.ranks.len() < 2;
    let rank = summary.header.job.as_ref().and_then(|job| job.rank).filter(|_| !is_one);
    rank.map_or_else(String::new, |rank| format!(" rank {rank}"))
}

/// Returns how the program ended, if it did not succeed, or that the size of the log was reached.
fn end(summary: &Summary) -> String {
    let end = summary.end.as_ref();
    let whose = whose(summary);
    match (end.and_then(|end| end.exit_code), end.and_then(|end| end.exit_signal)) {
        (_, Some(signal)) => {
            let name = Signal::try_from(signal).map_or("a signal", Signal::as_str);
            format!(" and{whose} was killed by {name}")
        }
        (Some(code), _) if code != 0 => format!(" and{whose} ended with status {code}"),
        _ if end.is_some_and(|end| end.reason == "log size") => {
            ", until the log had the size of --max-log".to_owned()
        }
        _ if end.is_some_and(|end| end.reason == "operations") => {
            ", until the log had the operations of --max-operations".to_owned()
        }
        _ => String::new(),
    }
}

/// Returns the bytes, and the kind of operation on files that took the most time.
fn bytes(converted: &Converted) -> String {
    let files = converted.totals.on_files();
    let moved = format!("read {}, wrote {}", size(files.read), size(files.written));
    let longest = converted.totals.longest_on_files();
    match longest.filter(|(_, on_files)| on_files.time_ns > 0) {
        Some((what, on_files)) => format!(
            "{moved}; most time in {what}: {}, {}",
            time(on_files.time_ns),
            counted(on_files.count, "operation")
        ),
        None => moved,
    }
}

/// Returns that all is recorded, and whether the kernel's totals agree.
fn trust(summary: &Summary, verdict: Option<&AuditVerdict>) -> String {
    let audit = match verdict.map(|verdict| verdict.is_equal) {
        Some(Some(true)) => "; totals equal /proc/PID/io",
        Some(Some(false)) => "; totals DIFFER from /proc/PID/io",
        Some(None) => "; totals not comparable with /proc/PID/io (-v)",
        None => "",
    };
    let unknown = unknown(summary);
    let unknown = match unknown.is_empty() {
        true => String::new(),
        false => format!("; not known: {}", unknown.join(", ")),
    };
    format!("complete: nothing lost{audit}{unknown}")
}

/// Returns the files, and the next command.
fn files(log: LogPaths<'_>, output: Option<&Output>) -> Vec<String> {
    if !log.is_kept {
        return Vec::new();
    }
    let bytes = std::fs::metadata(log.path).map_or(0, |metadata| metadata.len());
    let shown = log.shown.display();
    let archive = output.map(Output::archive);
    let archive = archive.as_ref().and_then(|archive| archive.file_name());
    let report = log.shown.parent().filter(|_| log.shown.ends_with(super::output::LOG_NAME));
    let report = report.unwrap_or(log.shown).display();
    let also = archive.map_or_else(String::new, |name| format!(", {}", name.to_string_lossy()));
    vec![
        format!("wrote {shown} ({}){also}", size(bytes)),
        format!("next: iotrace-perf summary {report}"),
    ]
}
