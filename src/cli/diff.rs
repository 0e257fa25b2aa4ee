//! `iotrace-perf diff`: what differs between the runs of two versions.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::analyse::{fold_log, form, limit, print};
use super::diff_args::DiffArgs;
use super::diff_runs;
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::report_output::output;
use super::{completeness, log_argument, saved_summary};
use crate::analysis::comparison::profile::RunProfile;
use crate::analysis::summary::IoSummary;
use crate::operation::disk;
use crate::report::comparison::{self, ComparedRuns, ComparisonOptions};
use crate::text::table::TableFormat;

/// Exit status for counts that differ, with `--exit-code`.
const DIFFERENT: u8 = 1;

/// Compares two recordings, or two commands that are recorded for it.
pub(super) fn run(args: &DiffArgs) -> Result<ExitCode, CliError> {
    let wish = FilterSpec::of(&args.filter)?;
    let to = output(args.print.to.as_deref(), args.before.is_none())?;
    let (sides, failures, _runs) = match (&args.before, &args.after) {
        (Some(before), Some(after)) => {
            let side = |argument: &Path| -> Result<(String, Vec<PathBuf>), CliError> {
                Ok((argument.display().to_string(), log_argument::runs_of(argument)?))
            };
            ([side(before)?, side(after)?], Vec::new(), None)
        }
        _ if args.commands.is_empty() => {
            return Err(CliError::Usage(
                "diff compares two recordings: iotrace-perf diff BEFORE AFTER; or two commands: \
                 iotrace-perf diff -- COMMAND -- COMMAND"
                    .into(),
            ));
        }
        _ => {
            let runs = diff_runs::record(args)?;
            let [one, other] = runs.names.clone();
            let [logs, other_logs] = runs.logs.clone();
            ([(one, logs), (other, other_logs)], runs.failures.clone(), Some(runs))
        }
    };
    let mut incomplete = Vec::new();
    let mut not_recorded = BTreeSet::new();
    let mut compared = Vec::new();
    for (word, (name, logs)) in ["before", "after"].into_iter().zip(sides) {
        let mut profiles = Vec::new();
        for (number, log) in logs.iter().enumerate() {
            let run = run_of(log, wish.clone())?;
            let of_run = |part| format!("{word}, run {}: {part}", number + 1);
            incomplete.extend(run.missing.into_iter().map(of_run));
            not_recorded.extend(run.not_recorded);
            profiles.push(run.profile);
        }
        compared.push(ComparedRuns { name, profiles });
    }
    let [before, after] = compared.as_slice() else { return Ok(ExitCode::SUCCESS) };
    let options = ComparisonOptions {
        limit: limit(&args.print),
        has_varying: form(&args.print) != TableFormat::Text,
    };
    let mut report = comparison::report(before, after, options);
    report.notes.splice(0..0, failures);
    if incomplete.is_empty() {
        report.notes.push("complete: no run has lost a record".to_owned());
    }
    report.notes.extend(not_recorded);
    report.incomplete = incomplete;
    let has_difference = comparison::has_difference(&report);
    if args.markdown {
        let text = report.markdown();
        to.into_writer().write_all(text.as_bytes()).map_err(CliError::output)?;
    } else {
        print(report, &args.print, to)?;
    }
    let is_failure = args.exit_code && has_difference;
    Ok(if is_failure { ExitCode::from(DIFFERENT) } else { ExitCode::SUCCESS })
}

/// A run that is compared.
struct ReadRun {
    profile: RunProfile,
    /// Parts that are missing from its recording.
    missing: Vec<String>,
    /// Sentence about events that were not recorded.
    not_recorded: Option<String>,
}

fn run_of(log: &Path, wish: FilterSpec<'_>) -> Result<ReadRun, CliError> {
    if log.extension() == Some(OsStr::new("json")) {
        if !wish.is_all() {
            return Err(CliError::Usage(format!(
                "{} is a saved summary, which has no operations to filter: compare the recordings, \
                 or filter when you save it",
                log.display()
            )));
        }
        let (profile, missing) = saved_summary::read(log)?;
        return Ok(ReadRun { profile, missing, not_recorded: None });
    }
    let (fold, converted) = fold_log(log, |_| IoSummary::default(), wish, &mut || true)?;
    let summary = &converted.summary;
    let names = disk::names(&summary.disks());
    Ok(ReadRun {
        profile: RunProfile::of(&fold, &names, summary.ledger.program.ns()),
        missing: completeness::missing(summary),
        not_recorded: completeness::not_recorded(summary),
    })
}
