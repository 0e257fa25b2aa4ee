//! Subcommands that print a report: from a log, or from a recording that is made for it and not
//! kept.

use std::convert::Infallible;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use super::args::{AnalyseArgs, LatencyArgs, LayerArg, PrintArgs};
use super::convert::{InputLog, open};
use super::converted::Converted;
use super::error::CliError;
use super::filter_args::FilterSpec;
use super::recording::{self, LogPlace};
use super::{events, summary_lines};
use crate::analysis::call_totals::{Totals, WithTotals};
use crate::analysis::files::FileTotals;
use crate::analysis::filter::{Filter, Filtered};
use crate::analysis::latency::{self, Latency};
use crate::analysis::pattern::Patterns;
use crate::analysis::summary::IoSummary;
use crate::operation::Sink;
use crate::pipeline::{self, Summary};
use crate::report;
use crate::sys::files as sys_files;
use crate::sys::output_dir::{NewFile, Users};
use crate::text::table::{Report, TableFormat};

/// `iotrace-perf summary`.
pub(super) fn summary(args: &AnalyseArgs) -> Result<ExitCode, CliError> {
    run(args, IoSummary::default, report::summary::report)
}

/// `iotrace-perf files`.
pub(super) fn files(args: &AnalyseArgs) -> Result<ExitCode, CliError> {
    run(args, FileTotals::default, report::files::report)
}

/// `iotrace-perf latency`.
pub(super) fn latency(args: &LatencyArgs) -> Result<ExitCode, CliError> {
    let is_wanted = |layer| args.layer == LayerArg::All || args.layer == layer;
    let options = latency::LatencyOptions {
        syscalls: is_wanted(LayerArg::Syscall),
        vfs: is_wanted(LayerArg::Vfs),
        fs: is_wanted(LayerArg::Fs),
        block: is_wanted(LayerArg::Blk),
        queued: args.queued,
        unit_ns: if args.ms { 1_000_000 } else { 1 },
    };
    let mut analyse = args.analyse.clone();
    if analyse.log.is_none() && (options.vfs || options.fs) {
        let words = &mut analyse.capture.events;
        if words.is_empty() {
            words.push(events::DEFAULT.into());
        }
        words.push(events::LAYERS.into());
    }
    run(&analyse, || Latency::new(options), report::latency::report)
}

/// `iotrace-perf pattern`.
pub(super) fn pattern(args: &AnalyseArgs) -> Result<ExitCode, CliError> {
    run(args, Patterns::default, report::pattern::report)
}

/// Folds a log, or a recording, and prints the result.
pub(super) fn run<F: Sink<Error = Infallible>>(
    args: &AnalyseArgs,
    fold: impl FnOnce() -> F,
    report: impl FnOnce(&F, &Summary, usize) -> Report,
) -> Result<ExitCode, CliError> {
    // Invalid options are reported before anything is recorded.
    let wish = FilterSpec::of(&args.filter)?.on(args);
    let to = output(args.print.to.as_deref(), !args.capture.command.is_empty())?;
    let finish = |(fold, converted): (F, Converted)| {
        let mut report = report(&fold, &converted.summary, limit(&args.print));
        report.notes.extend(summary_lines::notes(&converted));
        print(&report, form(&args.print), to)
    };
    run_with(args, wish, fold, finish)
}

/// Folds a log, or a recording; `finish` reports the result.
pub(super) fn run_with<F: Sink<Error: Display>>(
    args: &AnalyseArgs,
    wish: FilterSpec<'_>,
    fold: impl FnOnce() -> F,
    finish: impl FnOnce((F, Converted)) -> Result<(), CliError>,
) -> Result<ExitCode, CliError> {
    on_log(args, |log, go_on| finish(fold_log(log, fold(), wish, go_on)?))
}

/// Works on a log, or a recording; the callback decides now and then whether to go on.
pub(super) fn on_log(
    args: &AnalyseArgs,
    work: impl FnOnce(&Path, &mut dyn FnMut() -> bool) -> Result<(), CliError>,
) -> Result<ExitCode, CliError> {
    if let Some(log) = &args.log {
        work(log, &mut || true)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (log, place) = private_log()?;
    let mut recorded = recording::capture(&args.capture, |_| Ok(place), |_| log.try_clone())?;
    recorded.work(work, "no report was made");
    recorded.end()
}

/// A log without a name, which is removed when this process ends.
pub(super) fn private_log() -> Result<(File, LogPlace), CliError> {
    let directory = std::env::temp_dir();
    let log = sys_files::create_unnamed(&directory)
        .map_err(|source| CliError::Create { path: directory.join("(unnamed)"), source })?;
    let path = sys_files::path_of(&log);
    let shown = format!("a file without a name in {} (TMPDIR)", directory.display());
    Ok((log, LogPlace { path, shown }))
}

/// Folds a log. `go_on` is called now and then.
pub(super) fn fold_log<F: Sink<Error: Display>>(
    log: &Path,
    fold: F,
    wish: FilterSpec<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(F, Converted), CliError> {
    let (filtered, converted) = pass_over(log, wish, |filter| Filtered::new(filter, fold), go_on)?;
    let Filtered { picker, sink: fold } = filtered;
    let unknown_users = picker.unknown_users;
    Ok((fold, Converted { unknown_users, ..converted }))
}

/// Passes all of a log to a sink, which decides what it uses.
pub(super) fn pass_over<S: Sink<Error: Display>>(
    log: &Path,
    wish: FilterSpec<'_>,
    sink: impl FnOnce(Filter) -> S,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(S, Converted), CliError> {
    let InputLog { items, header, .. } = open(log, false)?;
    let filter = wish.filter(&header)?;
    let mut totals = Totals::default();
    let mut sink = WithTotals { totals: &mut totals, sink: sink(filter) };
    let summary = pipeline::run_threaded(items, header, &mut sink, go_on)
        .map_err(|error| CliError::pipeline(log, &error))?;
    let sink = sink.sink;
    Ok((sink, Converted { summary, totals, archive: None, unknown_users: 0 }))
}

pub(super) fn form(args: &PrintArgs) -> TableFormat {
    match (args.json, args.csv) {
        (true, _) => TableFormat::Json,
        (_, true) => TableFormat::Csv,
        _ => TableFormat::Text,
    }
}

/// Programs get all rows by default.
pub(super) fn limit(args: &PrintArgs) -> usize {
    args.rows.unwrap_or(if form(args) == TableFormat::Text { report::ROWS } else { 0 })
}

/// True if a report has to fit a screen. With `--rows`, or in a form for programs, a report has all
/// tables.
pub(super) fn is_brief(args: &PrintArgs, details: bool) -> bool {
    !details && form(args) == TableFormat::Text && args.rows.is_none()
}

pub(super) fn print(
    report: &Report,
    form: TableFormat,
    mut to: Box<dyn Write + Send>,
) -> Result<(), CliError> {
    report.print(form, &mut to).map_err(CliError::output)
}

/// Creates a file that does not exist.
pub(super) fn new_file(path: &Path) -> Result<NewFile, CliError> {
    let path = path.to_owned();
    NewFile::create(&path, &Users::caller()).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CliError::Exists { path },
        _ => CliError::Create { path, source },
    })
}

/// Destination of a report: separate from a traced program's own output.
pub(super) fn output(
    to: Option<&Path>,
    has_program: bool,
) -> Result<Box<dyn Write + Send>, CliError> {
    match to {
        Some(path) => {
            let mut made = new_file(path)?;
            made.keep();
            Ok(Box::new(made.file().try_clone().map_err(CliError::Output)?))
        }
        None if has_program => Ok(Box::new(io::stderr())),
        None => Ok(Box::new(io::stdout())),
    }
}
