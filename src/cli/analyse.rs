//! Verbs that answer a question: from a log, or from a recording that is made for it and not kept.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::args::{AnalyseArgs, PrintArgs, SideArg};
use super::convert::{Converted, open};
use super::error::CliError;
use super::events::{Wanted, wanted_events};
use super::{exit_lines, record};
use crate::analysis::filter::{Filter, Filtered, Globs, Side};
use crate::analysis::summary::IoSummary;
use crate::analysis::totals::{Totals, WithTotals};
use crate::capture::header::Header;
use crate::operation::{Sink, disk};
use crate::pipeline::{self, Summary};
use crate::report;
use crate::sys::files;
use crate::text::table::{Form, Report};
use crate::units::{DevId, Pid};

/// `iotrace-perf summary`.
pub(super) fn summary(args: &AnalyseArgs) -> Result<ExitCode, CliError> {
    run(args, IoSummary::default, report::summary::report)
}

/// Folds a log, or a recording, and prints what came of it.
fn run<F: Sink<Error = Infallible>>(
    args: &AnalyseArgs,
    fold: impl FnOnce() -> F,
    report: impl FnOnce(&F, &Summary, usize) -> Report,
) -> Result<ExitCode, CliError> {
    // What cannot be is said before anything is recorded.
    let globs = globs(args)?;
    let to = output(args)?;
    let tell = |(fold, converted): &(F, Converted)| {
        let limit = args.print.rows.unwrap_or(default_rows(&args.print));
        let mut report = report(fold, &converted.summary, limit);
        report.notes.extend(exit_lines::notes(converted));
        print(&report, form(&args.print), to)
    };
    if let Some(log) = &args.log {
        let work = |filter| fold_log(log, fold(), filter, &mut || true);
        tell(&work((args, globs))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (log, path) = private_log()?;
    let mut recorded = record::capture(&args.capture, || Ok(path), |_| log.try_clone())?;
    let work = |path: &Path, go_on: &mut dyn FnMut() -> bool| {
        let result = fold_log(path, fold(), (args, globs), go_on)?;
        tell(&result)
    };
    recorded.work(work, "nothing was worked out");
    recorded.end()
}

/// A log without a name, which is gone when we are.
fn private_log() -> Result<(File, PathBuf), CliError> {
    let place = std::env::temp_dir();
    let log = files::create_unnamed(&place)
        .map_err(|source| CliError::Create { path: place.join("(log)"), source })?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", log.as_raw_fd()));
    Ok((log, path))
}

fn fold_log<F: Sink<Error = Infallible>>(
    log: &Path,
    fold: F,
    (args, globs): (&AnalyseArgs, [Option<Globs>; 2]),
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(F, Converted), CliError> {
    let (items, header) = open(log)?;
    let filter = filter(args, globs, &header)?;
    let mut totals = Totals::default();
    let mut sink = WithTotals { totals: &mut totals, sink: Filtered::new(filter, fold) };
    let summary = pipeline::run(items, header, &mut sink, go_on)
        .map_err(|it| CliError::pipeline(log, &it))?;
    let fold = sink.sink.sink;
    Ok((fold, Converted { summary, totals, archive: None }))
}

fn globs(args: &AnalyseArgs) -> Result<[Option<Globs>; 2], CliError> {
    let usage = |it: globset::Error| CliError::Usage(it.to_string());
    let comms = Globs::of_words(&args.filter.comm).map_err(usage)?;
    Ok([comms, Globs::of_paths(&args.filter.files).map_err(usage)?])
}

fn filter(
    args: &AnalyseArgs,
    [comms, files]: [Option<Globs>; 2],
    header: &Header,
) -> Result<Filter, CliError> {
    let of_log = args.log.is_some();
    let side = args.filter.io.map(|it| match it {
        SideArg::R => Side::Read,
        SideArg::W => Side::Write,
        SideArg::Rw => Side::Both,
    });
    let min_ns = args.filter.min_latency.as_ref().map_or(0, Duration::as_nanos);
    let mut filter = Filter {
        comms,
        files,
        side,
        min_ns: u64::try_from(min_ns).unwrap_or(u64::MAX),
        ..Filter::default()
    };
    // A recording has nothing else in it.
    if of_log {
        let capture = &args.capture;
        filter.pids = capture.pid.iter().copied().map(Pid).collect();
        filter.devices = devices(&capture.device, header)?;
        if !capture.events.is_empty() {
            let Wanted { calls, block, .. } = wanted_events(&capture.events)?;
            filter.events = Some((calls.into_iter().collect(), block));
        }
    }
    Ok(filter)
}

/// The disks of a log by name or number.
fn devices(words: &[String], header: &Header) -> Result<Vec<DevId>, CliError> {
    let names = disk::names(&header.disks);
    let find = |word: &String| {
        let bare = word.strip_prefix("/dev/").unwrap_or(word);
        let named = names.iter().find(|it| it.1 == bare).map(|it| it.0);
        named.or_else(|| DevId::parse(bare)).ok_or_else(|| {
            let all: Vec<&str> = names.iter().map(|it| it.1.as_str()).collect();
            CliError::Usage(format!("the log has no disk {word}; it has {}", all.join(", ")))
        })
    };
    words.iter().map(find).collect()
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
        Some(path) => files::create_new(path).map(To::File).map_err(|source| {
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
