//! Common parts of the subcommands of `iotrace-perf replay`: plans, options, progress, and the
//! report of a replay.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::super::error::CliError;
use super::super::exit_code::MISMATCH;
use super::super::values::{ContentArg, SpeedArg};
use super::super::{analyse, file_kind, report_output};
use super::args::{EngineArg, OrderArg, PacingArg, RunArgs};
use crate::replay::execute::file_content::ContentsSource;
use crate::replay::execute::inherited_fds::UnopenedFd;
use crate::replay::execute::options::{Engine, Pacing, ReplayOptions, ReplayOrder};
use crate::replay::execute::run::{self, Machine, Replayed};
use crate::replay::execute::time_window::TimeWindow;
use crate::replay::outcome::Outcome;
use crate::replay::plan::plan_file::{Index, PlanError, PlanReader};
use crate::report;
use crate::report::replay_run::ReplayRun;
use crate::sys::regular;
use crate::sys::replay::reissue::UringPolicy;
use crate::units::{Nanos, ReplayTime};

/// Runs all operations of a plan; a terminal shows the progress.
pub(super) fn run_plan(
    reader: PlanReader,
    index: Index,
    options: ReplayOptions,
    machine: Machine,
    is_over: &AtomicBool,
) -> Result<Replayed, CliError> {
    let template = "{bar:40} {pos}/{len} operations {per_sec} {elapsed}";
    let bar = bar(report::replay_run::planned(&index), template);
    let mut go_on = |done| {
        bar.set_position(done);
        // ORDERING: only a flag.
        !is_over.load(Ordering::Relaxed)
    };
    let replayed = run::run(reader, index, options, machine, &mut go_on);
    bar.finish_and_clear();
    replayed.map_err(usage)
}

/// Prints the report of a replay; returns its exit code.
pub(super) fn print_report(
    args: &RunArgs,
    options: &ReplayOptions,
    replayed: &Replayed,
    notes: Vec<String>,
    to: report_output::ReportOutput,
) -> Result<ExitCode, CliError> {
    let Replayed {
        index, names, comparison, is_stopped, unopened_fds, too_few, most, rings, ..
    } = replayed;
    let expected = options.pacing != Pacing::Max;
    let run = ReplayRun {
        index,
        comparison,
        names,
        expected_span: expected.then(|| options.scaled(comparison.captured_span())),
        is_stopped: *is_stopped,
        until: options.window.until,
        threads: (*most, replayed.cpus),
        rings: (options.engine != Engine::Calls).then_some(*rings),
    };
    let mut report = report::replay_run::report(&run, analyse::limit(&args.print));
    report.notes.extend(notes);
    for UnopenedFd { path, error } in unopened_fds {
        let note = format!("{} was open before and could not be opened: {error}", path.display());
        report.notes.push(note);
    }
    if let Some((needed, may_have)) = too_few {
        report.notes.push(format!(
            "{needed} files may be open at once, and the limit is {may_have}: some opens may have failed because of it; try: ulimit -n {needed}"
        ));
    }
    if analyse::is_brief(&args.print, args.details) {
        report = report::replay_brief::brief(&run, &report);
    }
    analyse::print(report, &args.print, to)?;
    let is_bad = comparison.count(Outcome::is_mismatch) > args.max_mismatch
        || !report::replay_run::is_whole(&run);
    Ok(if is_bad { ExitCode::from(MISMATCH) } else { ExitCode::SUCCESS })
}

/// Opens a plan and reads its index.
pub(super) fn open(path: &Path) -> Result<(PlanReader, Index), CliError> {
    let file = regular::open_named(path).map_err(|source| match source.kind() {
        io::ErrorKind::IsADirectory => CliError::Usage(file_kind::no_plan(path)),
        io::ErrorKind::NotFound => CliError::Usage(format!(
            "there is no plan {0}; make one of a recording: iotrace-perf replay plan LOG -o {0}",
            path.display()
        )),
        _ => CliError::Open { path: path.to_owned(), source },
    })?;
    PlanReader::new(file).map_err(|error| damaged(path, &error))
}

/// Error of a plan that cannot be read.
pub(super) fn damaged(path: &Path, error: &PlanError) -> CliError {
    if matches!(error, PlanError::NoPlan) {
        return CliError::Usage(file_kind::no_plan(path));
    }
    CliError::Log { path: path.to_owned(), message: error.to_string() }
}

pub(super) fn usage(error: impl std::fmt::Display) -> CliError {
    CliError::Usage(error.to_string())
}

pub(super) fn options(args: &RunArgs) -> ReplayOptions {
    let (pacing, speed) = match (args.speed, args.pacing) {
        (SpeedArg::Max, _) | (_, PacingArg::Max) => (Pacing::Max, 1.0),
        (SpeedArg::Times(speed), PacingArg::Open) => (Pacing::Open, speed),
        (SpeedArg::Times(speed), PacingArg::Closed) => (Pacing::Closed, speed),
    };
    let order = match args.order {
        OrderArg::Total => ReplayOrder::Total,
        OrderArg::Deps => ReplayOrder::Dependencies,
        OrderArg::Thread => ReplayOrder::Thread,
        OrderArg::None => ReplayOrder::None,
    };
    let engine = match args.engine {
        EngineArg::Calls => Engine::Calls,
        EngineArg::IoUring => Engine::IoUring(UringPolicy::new()),
    };
    let [from, until] = [args.from, args.until]
        .map(|time| time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
        .map(|time| time.map(ReplayTime));
    let window = TimeWindow { from, until };
    let contents = contents(args.content);
    ReplayOptions { order, pacing, speed, engine, contents, window, ends_at_names: false }
}

/// Refuses a window without operations.
pub(super) fn check_window(window: TimeWindow, span: Nanos) -> Result<(), CliError> {
    if let (Some(from), Some(until)) = (window.from, window.until)
        && from >= until
    {
        return Err(CliError::Usage("--until must be later than --from".to_owned()));
    }
    let from = window.from.unwrap_or_default();
    let end = ReplayTime::MIN.saturating_add(span);
    let until = window.until.map_or(end, |until| until.min(end));
    if window.from.is_none() || from < until {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "no operations are left between --from and the end: the last one ends {:?} after the first one began",
        Duration::from_nanos(until.0)
    )))
}

pub(super) fn contents(arg: ContentArg) -> ContentsSource {
    match arg {
        ContentArg::Sparse => ContentsSource::Sparse,
        ContentArg::Zero => ContentsSource::Zero,
        ContentArg::Random(seed) => ContentsSource::Random(seed),
        ContentArg::Compressible(percent) => ContentsSource::Compressible(0, percent),
    }
}

/// A progress bar, on a terminal.
pub(super) fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
