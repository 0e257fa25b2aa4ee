//! Verbs that answer a question: from a log, or from a recording that is made for it and not kept.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::{AnalyseArgs, PrintArgs};
use super::convert::{Converted, open};
use super::error::CliError;
use super::pick::Wish;
use super::{exit_lines, record};
use crate::analysis::files::Files;
use crate::analysis::filter::Filtered;
use crate::analysis::summary::IoSummary;
use crate::analysis::totals::{Totals, WithTotals};
use crate::operation::Sink;
use crate::pipeline::{self, Summary};
use crate::report;
use crate::sys::files as sys_files;
use crate::text::table::{Form, Report};

/// `iotrace-perf summary`.
pub(super) fn summary(args: &AnalyseArgs) -> Result<ExitCode, CliError> {
    run(args, IoSummary::default, report::summary::report)
}

/// `iotrace-perf files`.
pub(super) fn files(args: &AnalyseArgs) -> Result<ExitCode, CliError> {
    run(args, Files::default, report::files::report)
}

/// Folds a log, or a recording, and prints what came of it.
fn run<F: Sink<Error = Infallible>>(
    args: &AnalyseArgs,
    fold: impl FnOnce() -> F,
    report: impl FnOnce(&F, &Summary, usize) -> Report,
) -> Result<ExitCode, CliError> {
    // What cannot be is said before anything is recorded.
    let wish = Wish::of(&args.filter)?.on(args);
    let to = output(args)?;
    let tell = |(fold, converted): &(F, Converted)| {
        let limit = args.print.rows.unwrap_or(default_rows(&args.print));
        let mut report = report(fold, &converted.summary, limit);
        report.notes.extend(exit_lines::notes(converted));
        print(&report, form(&args.print), to)
    };
    if let Some(log) = &args.log {
        tell(&fold_log(log, fold(), wish, &mut || true)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (log, path) = private_log()?;
    let mut recorded = record::capture(&args.capture, || Ok(path), |_| log.try_clone())?;
    let work = |path: &Path, go_on: &mut dyn FnMut() -> bool| {
        let result = fold_log(path, fold(), wish, go_on)?;
        tell(&result)
    };
    recorded.work(work, "nothing was worked out");
    recorded.end()
}

/// A log without a name, which is gone when we are.
fn private_log() -> Result<(File, PathBuf), CliError> {
    let place = std::env::temp_dir();
    let log = sys_files::create_unnamed(&place)
        .map_err(|source| CliError::Create { path: place.join("(log)"), source })?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", log.as_raw_fd()));
    Ok((log, path))
}

fn fold_log<F: Sink<Error = Infallible>>(
    log: &Path,
    fold: F,
    wish: Wish<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(F, Converted), CliError> {
    let (items, header) = open(log)?;
    let filter = wish.filter(&header)?;
    let mut totals = Totals::default();
    let mut sink = WithTotals { totals: &mut totals, sink: Filtered::new(filter, fold) };
    let summary = pipeline::run(items, header, &mut sink, go_on)
        .map_err(|it| CliError::pipeline(log, &it))?;
    let fold = sink.sink.sink;
    Ok((fold, Converted { summary, totals, archive: None }))
}

fn form(args: &PrintArgs) -> Form {
    match (args.json, args.csv) {
        (true, _) => Form::Json,
        (_, true) => Form::Csv,
        _ => Form::Text,
    }
}

/// Programs get all rows.
fn default_rows(args: &PrintArgs) -> usize {
    if form(args) == Form::Text { report::ROWS } else { 0 }
}

/// Where a report goes.
enum To {
    Stdout,
    Stderr,
    File(File),
}

fn output(args: &AnalyseArgs) -> Result<To, CliError> {
    match &args.print.to {
        Some(path) => sys_files::create_new(path).map(To::File).map_err(|source| {
            if source.kind() == io::ErrorKind::AlreadyExists {
                CliError::Exists { path: path.clone() }
            } else {
                CliError::Create { path: path.clone(), source }
            }
        }),
        None if args.capture.command.is_empty() => Ok(To::Stdout),
        None => Ok(To::Stderr),
    }
}

fn print(report: &Report, form: Form, to: To) -> Result<(), CliError> {
    let result = match to {
        To::Stdout => report.print(form, &mut io::stdout().lock()),
        To::Stderr => report.print(form, &mut io::stderr().lock()),
        To::File(mut file) => report.print(form, &mut file).and_then(|()| file.flush()),
    };
    result.map_err(CliError::output)
}
