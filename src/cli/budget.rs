//! `iotrace-perf check`: counts of a recording beside the limits of a budget.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;

use super::analyse::{on_log, print};
use super::args::{AnalyseArgs, CaptureArgs, RECORDING};
use super::budget_file::{BudgetFile, BudgetLimit};
use super::budget_results::{annotations, junit};
use super::completeness;
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::log_pass::fold_log;
use super::message::{print_help, print_line};
use super::report_args::{FilterArgs, PrintArgs};
use super::report_output::{new_file, output};
use crate::analysis::budget::{self, BudgetCounts, BudgetFold, BudgetMetric};
use crate::capture::header::Header;
use crate::event::syscall_table::{Call, CallClass, CallId};
use crate::report::budget::{self as report, BudgetOutcome, BudgetResult};
use crate::sys::capabilities;

/// Exit status for a count that is larger than its limit.
const EXCEEDED: u8 = 100;

/// Exit status for a count that may be wrong.
const INEXACT: u8 = 101;

/// Arguments of `check`.
#[derive(Debug, ClapArgs)]
pub(super) struct BudgetArgs {
    /// The recording: its directory, log or archive [default: the newest one here]; or one is made
    /// for the check (-a, -p, -- COMMAND), and not kept
    #[arg(conflicts_with_all = ["all_cpus", "command", "events", "pid", "device", "duration", "max_log", "pgid", "no_follow", "max_operations", "keep_foreign", "all_block", "stacks", "buffer_size", "realtime", "tracer_cpus"])]
    pub(super) log: Option<PathBuf>,
    /// The budget: limits of counts, in TOML
    #[arg(long, value_name = "FILE", help_heading = "Budget")]
    pub(super) budget: PathBuf,
    /// Set the limits to the counts of this run; makes the file if there is none
    #[arg(long, help_heading = "Budget")]
    pub(super) update: bool,
    /// Write the results as JUnit XML to this file, which must not exist
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) junit: Option<PathBuf>,
    /// Print annotations for GitHub's runner on standard error
    #[arg(long, help_heading = "Output")]
    pub(super) github: bool,
    #[command(flatten)]
    pub(super) print: PrintArgs,
    #[command(flatten, next_help_heading = RECORDING)]
    pub(super) capture: CaptureArgs,
}

impl BudgetArgs {
    /// Returns the arguments that it shares with the reports.
    pub(super) fn analyse(&self) -> AnalyseArgs {
        AnalyseArgs {
            log: self.log.clone(),
            shown: None,
            print: self.print.clone(),
            all_files: true,
            filter: FilterArgs::default(),
            capture: self.capture.clone(),
        }
    }
}

/// Checks a log, or a recording that is made for it.
pub(super) fn run(args: &BudgetArgs) -> Result<ExitCode, CliError> {
    let mut file = BudgetFile::read(&args.budget, args.update)?;
    let mut analyse = args.analyse();
    if analyse.log.is_none() && analyse.capture.events.is_empty() && !capabilities::may_trace() {
        analyse.capture.events = needed_calls(&file.limits);
    }
    let to = output(args.print.to.as_deref(), !args.capture.command.is_empty())?;
    let mut junit_file = args.junit.as_deref().map(|path| new_file(path, "--junit")).transpose()?;
    let scopes = file.limits.iter().map(|limit| limit.scope.clone());
    let fold = BudgetFold(scopes.map(BudgetCounts::new).collect());
    let wish = FilterSpec::of_all().on(&analyse);
    let mut status = None;
    let code = on_log(&analyse, |log, go_on| {
        let (BudgetFold(counts), converted) = fold_log(log, |_| fold, wish, go_on)?;
        let summary = &converted.summary;
        let missing = completeness::missing(summary);
        let cut = completeness::cut_short(summary);
        let parts: Vec<String> = missing.iter().cloned().chain(cut).collect();
        let doubts = RunDoubts {
            missing: &parts,
            uncounted: &completeness::uncounted(summary),
            refused: completeness::refused(summary),
            header: &summary.header,
        };
        let mut results = results(&file.limits, &counts, &doubts);
        status = status_of(&results, args.update, file.is_new);
        if args.update {
            update(&mut file, args, &results, &counts)?;
            results.iter_mut().for_each(BudgetResult::allow);
        }
        let mut report = report::report(&results);
        report.notes.extend(completeness::not_recorded(summary));
        if let Some(made) = &mut junit_file {
            let xml = junit(&results).map_err(|error| CliError::Usage(error.to_string()))?;
            made.file().write_all(xml.as_bytes()).map_err(CliError::output)?;
            made.keep();
        }
        if args.github {
            print_help(&annotations(&results));
        }
        report.incomplete = missing;
        print(report, &args.print, to)
    })?;
    // The program's own failure comes first.
    let is_success = code == ExitCode::SUCCESS;
    Ok(status.filter(|_| is_success).map_or(code, ExitCode::from))
}

fn update(
    file: &mut BudgetFile,
    args: &BudgetArgs,
    results: &[BudgetResult],
    counts: &[BudgetCounts],
) -> Result<(), CliError> {
    let is_inexact = |result: &&BudgetResult| matches!(result.outcome, BudgetOutcome::Inexact(_));
    let inexact: Vec<&BudgetResult> = results.iter().filter(is_inexact).collect();
    if file.is_new && inexact.len() < results.len() {
        for result in inexact {
            print_line(&format!("left out of the budget: {}", result.sentence()));
            file.leave_out(result.metric);
        }
    } else if !inexact.is_empty() {
        // The report has the reasons.
        print_line(&format!("{} is not written: a count cannot be checked", args.budget.display()));
        return Ok(());
    }
    let measured = |(limit, counts): (&BudgetLimit, &BudgetCounts)| -> Vec<u64> {
        limit.values.iter().map(|(metric, _)| counts.value(*metric)).collect()
    };
    let measured: Vec<Vec<u64>> = file.limits.iter().zip(counts).map(measured).collect();
    file.update(&args.budget, &measured)?;
    print_line(&format!("wrote {}", args.budget.display()));
    Ok(())
}

/// Exit status of the results, unless all counts are within their limits.
fn status_of(results: &[BudgetResult], is_update: bool, is_new: bool) -> Option<u8> {
    let has =
        |wanted: fn(&BudgetOutcome) -> bool| results.iter().any(|result| wanted(&result.outcome));
    if is_update && is_new {
        return None;
    }
    if has(|outcome| matches!(outcome, BudgetOutcome::Inexact(_))) {
        return Some(INEXACT);
    }
    (has(|outcome| *outcome == BudgetOutcome::Exceeded) && !is_update).then_some(EXCEEDED)
}

/// Reasons why counts of a run may be wrong.
struct RunDoubts<'a> {
    /// Parts that are missing from the recording.
    missing: &'a [String],
    /// Operations that are in no count.
    uncounted: &'a [String],
    /// Calls that failed, or seem to have worked, without a record of their arguments.
    refused: Option<String>,
    header: &'a Header,
}

impl RunDoubts<'_> {
    /// Returns the reason why a count may be wrong, whatever it is limited to.
    fn about(&self, metric: BudgetMetric, counts: &BudgetCounts) -> Option<String> {
        if let Some(part) = self.missing.first() {
            return Some(format!("the recording is incomplete: {part}"));
        }
        if let Some(part) = self.uncounted.first() {
            return Some(format!("not counted: {part}"));
        }
        use BudgetMetric::{Failed, FailedOpens, Operations};
        let has_failures = matches!(metric, Failed | FailedOpens | Operations);
        if let Some(part) = self.refused.as_ref().filter(|_| has_failures) {
            return Some(format!("not counted: {part}"));
        }
        let has_uring = self.header.tracepoints.iter().any(|event| event.system == "io_uring");
        if counts.asynchronous_calls() > 0 && !has_uring {
            let text = "the program used io_uring or libaio, whose operations are not recorded";
            return Some(text.to_owned());
        }
        not_recorded(metric, self.header)
    }
}

/// Results of all limited counts.
fn results(
    limits: &[BudgetLimit],
    counts: &[BudgetCounts],
    doubts: &RunDoubts<'_>,
) -> Vec<BudgetResult> {
    let mut results = Vec::new();
    for (limit, counts) in limits.iter().zip(counts) {
        for (metric, value) in &limit.values {
            let (metric, allowed) = (*metric, with_tolerance(*value, limit.tolerance));
            let measured = counts.value(metric);
            let outcome = match doubts.about(metric, counts).or_else(|| counts.doubt(metric)) {
                // A count that is too small cannot hide that it is too large.
                Some(_) if measured > allowed && !doubts.missing.is_empty() => {
                    BudgetOutcome::Exceeded
                }
                Some(cause) => BudgetOutcome::Inexact(cause),
                None if measured > allowed => BudgetOutcome::Exceeded,
                None => BudgetOutcome::Within,
            };
            let limit = limit.name.clone();
            results.push(BudgetResult { limit, metric, measured, allowed, outcome });
        }
    }
    results
}

/// Largest value with a tolerance, rounded down.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a tolerance is not exact; the value itself is added as it is"
)]
fn with_tolerance(value: u64, tolerance: f64) -> u64 {
    value.saturating_add((value as f64 * tolerance) as u64)
}

/// Reason why a count may be wrong: a call that it includes was not recorded.
fn not_recorded(metric: BudgetMetric, header: &Header) -> Option<String> {
    if header.imported.is_some() {
        return Some("an imported log does not tell which calls were recorded".to_owned());
    }
    let is_recorded = |name: &str| header.calls.iter().any(|known| known == name);
    let call = calls_of(metric).find(|call| !is_recorded(call.name))?;
    Some(format!("{} is not recorded", call.name))
}

/// Default calls without which a count may be too small. Asynchronous operations may be of any
/// kind.
fn calls_of(metric: BudgetMetric) -> impl Iterator<Item = &'static Call> {
    let is_needed = move |call: &&Call| {
        let is_counted = match metric {
            BudgetMetric::Opens | BudgetMetric::FailedOpens => budget::is_open(call),
            BudgetMetric::Fsyncs => call.class == CallClass::Sync,
            BudgetMetric::ReadBytes | BudgetMetric::RereadBytes => call.ways()[0],
            BudgetMetric::WrittenBytes => call.ways()[1],
            BudgetMetric::Operations | BudgetMetric::Failed | BudgetMetric::DistinctFiles => true,
        };
        is_counted || call.class == CallClass::Async
    };
    CallId::default_set().map(CallId::call).filter(is_needed)
}

/// Calls to record for a budget by a user without privileges, who pays for each at every fork:
/// those that are counted, if that is enough.
fn needed_calls(limits: &[BudgetLimit]) -> Vec<String> {
    let is_enough = |(metric, _): &(BudgetMetric, u64)| {
        use BudgetMetric::{FailedOpens, Fsyncs, Opens, ReadBytes, WrittenBytes};
        matches!(metric, FailedOpens | Fsyncs | Opens | ReadBytes | WrittenBytes)
    };
    let values = || limits.iter().flat_map(|limit| &limit.values);
    let has_files = limits.iter().any(|limit| limit.scope.files.is_some());
    if has_files || !values().all(is_enough) {
        return Vec::new();
    }
    let names = values().flat_map(|(metric, _)| calls_of(*metric)).map(|call| call.name);
    names.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerance_is_a_part_of_the_value() {
        assert_eq!([with_tolerance(100, 0.05), with_tolerance(10, 0.05)], [105, 10]);
        assert_eq!([with_tolerance(0, 1.0), with_tolerance(u64::MAX, 1.0)], [0, u64::MAX]);
    }

    #[test]
    fn doubt_comes_before_success() {
        let result = |outcome| BudgetResult {
            limit: "all".into(),
            metric: BudgetMetric::Opens,
            measured: 1,
            allowed: 1,
            outcome,
        };
        let [within, exceeded] = [BudgetOutcome::Within, BudgetOutcome::Exceeded].map(result);
        let inexact = result(BudgetOutcome::Inexact("x".into()));
        let status = |results: &[&BudgetResult], is_update| {
            let results: Vec<BudgetResult> = results.iter().map(|&result| result.clone()).collect();
            status_of(&results, is_update, false)
        };
        assert_eq!(status(&[&within], false), None);
        assert_eq!(status(&[&within, &exceeded], false), Some(EXCEEDED));
        assert_eq!(status(&[&within, &exceeded], true), None);
        assert_eq!(status(&[&exceeded, &inexact], false), Some(INEXACT));
    }
}
