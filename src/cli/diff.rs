//! `iotrace-perf diff`: what differs between the runs of two versions.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::analyse::{form, limit, print};
use super::diff_args::DiffArgs;
use super::diff_runs::{self, RecordedRuns};
use super::error::CliError;
use super::file_staging::FreeName;
use super::filter_args::FilterSpec;
use super::job_fold::{fold_all, is_job};
use super::report_output::output;
use super::{completeness, log_argument, report, saved_summary};
use crate::analysis::comparison::profile::RunProfile;
use crate::analysis::comparison::rank_test::RUNS_MAX;
use crate::analysis::filter::Filtered;
use crate::analysis::summary::IoSummary;
use crate::capture::header::Header;
use crate::operation::disk;
use crate::report::comparison::{self, ComparedRuns, ComparisonOptions};
use crate::report::page::{PAGE_BYTES_MAX, comparison_page};
use crate::sys::output_dir::Users;
use crate::text::table::{Report, TableFormat};

/// Exit status for counts that differ, with `--exit-code`.
const DIFFERENT: u8 = 1;

/// Compares two recordings, or two commands that are recorded for it.
pub(super) fn run(args: &DiffArgs) -> Result<ExitCode, CliError> {
    let wish = FilterSpec::of(&args.filter)?;
    let to = output(args.print.to.as_deref(), args.before.is_none())?;
    let named = |path: &PathBuf| FreeName::find(path, &Users::caller(), args.force);
    let page = args.output.as_ref().map(named).transpose()?;
    let ComparedLogs { sides, failures, runs } = compared_logs(args)?;
    let is_over = runs.as_ref().map(|runs| Arc::clone(&runs.is_over));
    // ORDERING: the flag publishes nothing else.
    let go_on = || is_over.as_ref().is_none_or(|is_over| !is_over.load(Ordering::Relaxed));
    let mut incomplete = Vec::new();
    let mut not_recorded = BTreeSet::new();
    let mut compared = Vec::new();
    let mut first: Option<ReadRun> = None;
    for (word, (name, logs)) in ["before", "after"].into_iter().zip(sides) {
        let mut profiles = Vec::new();
        for (number, log) in logs.iter().enumerate() {
            let run = run_of(log, wish.clone(), &mut || go_on())?;
            let of_run = |part| format!("{word}, run {}: {part}", number + 1);
            incomplete.extend(run.missing.iter().cloned().map(of_run));
            not_recorded.extend(run.not_recorded.clone());
            profiles.push(run.profile.clone());
            let others = first.as_ref().and_then(|first| other_events(first, &run));
            incomplete.extend(others.filter(|text| !incomplete.contains(text)));
            first.get_or_insert(run);
        }
        if profiles.len() > RUNS_MAX {
            let text = format!("diff compares at most {RUNS_MAX} runs with as many, not more");
            return Err(CliError::Usage(text));
        }
        compared.push(ComparedRuns { name, profiles });
    }
    let [before, after] = compared.as_slice() else { return Ok(ExitCode::SUCCESS) };
    let make = |options| {
        let mut report = comparison::report(before, after, options);
        report.notes.splice(0..0, failures.clone());
        if incomplete.is_empty() {
            report.notes.push("complete: no run has lost a record".to_owned());
        }
        report.notes.extend(not_recorded.clone());
        report.incomplete.clone_from(&incomplete);
        report
    };
    let rows =
        if page.is_some() { args.print.rows.unwrap_or(PAGE_ROWS) } else { limit(&args.print) };
    let has_varying = form(&args.print) != TableFormat::Text;
    let report = make(ComparisonOptions { limit: rows, has_varying });
    let has_difference = comparison::has_difference(&report);
    if let Some(place) = &page {
        let text = page_text(&report, make, args);
        report::write_file(place, &text, &mut || go_on())?;
    } else if args.markdown {
        let text = report.markdown();
        to.into_writer().write_all(text.as_bytes()).map_err(CliError::output)?;
    } else {
        print(report, &args.print, to)?;
    }
    let is_failure = args.exit_code && has_difference;
    Ok(if is_failure { ExitCode::from(DIFFERENT) } else { ExitCode::SUCCESS })
}

/// Logs that are compared.
struct ComparedLogs {
    /// Name and logs of each side.
    sides: [(String, Vec<PathBuf>); 2],
    /// Sentences about commands that failed.
    failures: Vec<String>,
    /// Recordings that were made for it, which are removed afterwards.
    runs: Option<RecordedRuns>,
}

/// Finds the logs of the arguments, or records the commands.
fn compared_logs(args: &DiffArgs) -> Result<ComparedLogs, CliError> {
    match (&args.before, &args.after) {
        (Some(before), Some(after)) => {
            let side = |argument: &Path| -> Result<(String, Vec<PathBuf>), CliError> {
                Ok((argument.display().to_string(), log_argument::runs_of(argument)?))
            };
            let sides = [side(before)?, side(after)?];
            Ok(ComparedLogs { sides, failures: Vec::new(), runs: None })
        }
        _ if args.commands.is_empty() => Err(CliError::Usage(
            "diff compares two recordings: iotrace-perf diff BEFORE AFTER; or two commands: \
             iotrace-perf diff -- COMMAND -- COMMAND"
                .into(),
        )),
        _ => {
            let runs = diff_runs::record(args)?;
            let [one, other] = runs.names.clone();
            let [logs, other_logs] = runs.logs.clone();
            let sides = [(one, logs), (other, other_logs)];
            Ok(ComparedLogs { sides, failures: runs.failures.clone(), runs: Some(runs) })
        }
    }
}

/// Rows of the tables that a page shows, unless `--rows` says another number.
const PAGE_ROWS: usize = 100;

/// Rows of the tables with exact numbers of a page, from the most to the least; 0: all.
const PAGE_DATA_ROWS: [usize; 5] = [0, 1000, 200, 50, 10];

/// Returns the page about a report, with fewer exact numbers if it would be too large.
fn page_text(
    report: &Report,
    make: impl Fn(ComparisonOptions) -> Report,
    args: &DiffArgs,
) -> String {
    let words = args.before.iter().chain(&args.after).map(|path| path.display().to_string());
    let commands = args.commands.iter().map(|word| word.display().to_string());
    let dashes = (!args.commands.is_empty()).then(|| "--".to_owned());
    let words: Vec<String> = words.chain(dashes).chain(commands).collect();
    let command = format!("iotrace-perf diff {}", words.join(" "));
    let pages = PAGE_DATA_ROWS.iter().map(|limit| {
        let data = make(ComparisonOptions { limit: *limit, has_varying: true });
        comparison_page(report, &data, &command)
    });
    let mut last = String::new();
    for page in pages {
        last = page;
        if last.len() <= PAGE_BYTES_MAX {
            break;
        }
    }
    last
}

/// A run that is compared.
struct ReadRun {
    profile: RunProfile,
    /// Parts that are missing from its recording.
    missing: Vec<String>,
    /// Sentence about events that were not recorded.
    not_recorded: Option<String>,
    /// Calls and tracepoints that were recorded; `None`: not known.
    events: Option<BTreeSet<String>>,
}

/// Number of events that a sentence names.
const EVENTS_NAMED: usize = 4;

/// Sentence about events that only one of two runs has recorded.
fn other_events(one: &ReadRun, other: &ReadRun) -> Option<String> {
    let (Some(before), Some(after)) = (&one.events, &other.events) else {
        let text = "a saved summary does not tell which events were recorded: counts of other events differ";
        return (one.events.is_some() != other.events.is_some()).then(|| text.to_owned());
    };
    let names = |of: &BTreeSet<String>, others: &BTreeSet<String>, word: &str| {
        let only: Vec<&str> = of.difference(others).map(String::as_str).collect();
        let more = if only.len() > EVENTS_NAMED { ", …" } else { "" };
        let shown: Vec<&str> = only.iter().copied().take(EVENTS_NAMED).collect();
        (!only.is_empty()).then(|| format!("only {word}: {}{more}", shown.join(", ")))
    };
    let parts = [names(before, after, "before"), names(after, before, "after")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let text = || format!("the runs have recorded different events ({})", parts.join("; "));
    (!parts.is_empty()).then(text)
}

fn run_of(
    log: &Path,
    wish: FilterSpec<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<ReadRun, CliError> {
    if log.extension() == Some(OsStr::new("json")) && !is_job(log) {
        if !wish.is_all() {
            return Err(CliError::Usage(format!(
                "{} is a saved summary, which has no operations to filter: compare the recordings, \
                 or filter when you save it",
                log.display()
            )));
        }
        let (profile, missing) = saved_summary::read(log)?;
        return Ok(ReadRun { profile, missing, not_recorded: None, events: None });
    }
    let sink = |filter, _: &Header| Filtered::new(filter, IoSummary::default());
    let (filtered, converted) = fold_all(log, wish, sink, go_on)?;
    let fold = filtered.sink;
    let summary = &converted.summary;
    let names = disk::names(&summary.disks());
    let of_job = converted.job.as_ref().map(|job| job.incomplete.clone());
    let missing = of_job.unwrap_or_else(|| completeness::missing(summary)).into_iter();
    let header = &summary.header;
    // Other tracepoints serve names and depend on the machine.
    let is_counted = |system: &str| matches!(system, "block" | "io_uring");
    let tracepoints = header.tracepoints.iter().filter(|event| is_counted(&event.system));
    let tracepoints = tracepoints.map(|event| format!("{}:{}", event.system, event.name));
    Ok(ReadRun {
        profile: RunProfile::of(&fold, &names, summary.ledger.program.ns()),
        missing: missing.chain(completeness::cut_short(summary)).collect(),
        not_recorded: completeness::not_recorded(summary),
        events: Some(header.calls.iter().cloned().chain(tracepoints).collect()),
    })
}
