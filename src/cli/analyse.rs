//! Subcommands that print a report: from a log, or from a recording that is made for it and not
//! kept.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use super::args::{AnalyseArgs, GroupedArgs, LatencyArgs, LayerArg};
use super::converted::Converted;
use super::error::CliError;
use super::exit_code::INCOMPLETE;
use super::files_args::{self, FilesArgs};
use super::filter_args::FilterSpec;
use super::foreign_options::near;
use super::job_fold::fold_all;
use super::log_pass::{fold_log, pass_over};
use super::message::print_error;
use super::recording::{self, LogPlace};
use super::report_args::{ByArg, PrintArgs};
use super::report_output::{ReportOutput, output};
use super::target::{self, TargetWords};
use super::{events, summary_lines};
use crate::analysis::biography::Biographies;
use crate::analysis::cache_use::{CacheUses, SelectedCacheUses};
use crate::analysis::disk_use::DiskUses;
use crate::analysis::files::FileTotals;
use crate::analysis::filter::{Filter, Filtered};
use crate::analysis::grouped::Grouped;
use crate::analysis::job_keys::Absorb;
use crate::analysis::latency::{self, Latency};
use crate::analysis::neighbours::Neighbours;
use crate::analysis::pattern::Patterns;
use crate::analysis::slowest::SelectedSlowest;
use crate::analysis::summary::IoSummary;
use crate::capture::header::Header;
use crate::operation::Sink;
use crate::pipeline::Summary;
use crate::report;
use crate::report::grouping::{Grouping, ReportOptions};
use crate::sys::files as sys_files;
use crate::text::direct_flag;
use crate::text::table::{Report, Separator, TableFormat, incomplete_line};

/// `iotrace-perf disk`.
pub(super) fn disk(args: &GroupedArgs) -> Result<ExitCode, CliError> {
    refuse_threads(
        args,
        "disk: the thread that wrote data which the kernel writes back is not recorded",
    )?;
    run_grouped(args, |_| DiskUses::default(), report::disk::report)
}

/// `iotrace-perf files`.
pub(super) fn files(args: &FilesArgs) -> Result<ExitCode, CliError> {
    let FilesArgs { grouped: args, life } = args;
    refuse_places(args.by)?;
    if let Some(life) = life {
        return lives(args, life);
    }
    let folds_pseudo_files = folds_pseudo_files(&args.analyse);
    let report = |fold: &FileTotals, summary: &Summary, limit| {
        let options = ReportOptions { limit, folds_pseudo_files, ..ReportOptions::default() };
        report::files::report(fold, summary, options)
    };
    run_beside(args, |_| FileTotals::default(), report)
}

/// `iotrace-perf files --life`. The fold needs all operations, and all block requests.
fn lives(args: &GroupedArgs, file: &OsStr) -> Result<ExitCode, CliError> {
    if args.by.is_some() {
        let text = "files --life: a file has one life, which has no groups: leave out --by";
        return Err(CliError::Usage(text.into()));
    }
    let args = &args.analyse;
    let target = files_args::life_target(file)?;
    let wish = FilterSpec::of(&args.filter)?.on(args).with_all_requests();
    let report = |fold: &Biographies, summary: &Summary, limit| {
        report::biography::report(fold, summary, limit)
    };
    run_filtered(args, wish, |_| Biographies::new(target.clone()), report)
}

/// `iotrace-perf cache`. The fold needs all operations, whichever are selected.
pub(super) fn cache(args: &GroupedArgs) -> Result<ExitCode, CliError> {
    refuse_threads(args, "cache")?;
    refuse_places(args.by)?;
    let print_args = &args.analyse.print;
    let wish = FilterSpec::of(&args.analyse.filter)?.on(&args.analyse);
    let options = report_options(args, wish.is_all());
    let empty = CacheUses::new(&Header::default(), 0);
    chosen(report::cache::report(&empty, &Summary::default(), options), print_args)?;
    let to = output(print_args.to.as_deref(), !args.analyse.capture.command.is_empty())?;
    on_log(&args.analyse, |log, go_on| {
        let sink = |filter, header: &Header| {
            let fold = CacheUses::new(header, direct_flag(&header.host.machine));
            SelectedCacheUses::new(filter, fold)
        };
        let (selected, converted) = pass_over(log, wish, sink, go_on)?;
        let filter_notes = summary_lines::filter_notes(&selected.picker);
        let converted = Converted { filter_notes, ..converted };
        let mut report = report::cache::report(&selected.fold, &converted.summary, options);
        summary_lines::add_to(&mut report, &converted);
        print(report, print_args, to)
    })
}

/// `iotrace-perf neighbours`. The fold needs all requests, whichever wait.
pub(super) fn neighbours(args: &GroupedArgs) -> Result<ExitCode, CliError> {
    refuse_places(args.by)?;
    if let Some(ByArg::Thread | ByArg::Directory | ByArg::Mount | ByArg::Device) = args.by {
        return Err(CliError::Usage(
            "neighbours: --by names processes: program, process, user or cgroup".into(),
        ));
    }
    let print_args = &args.analyse.print;
    let wish = FilterSpec::of(&args.analyse.filter)?.on(&args.analyse);
    let options = report_options(args, wish.is_all());
    let empty = Neighbours::new(Filter::default());
    chosen(report::neighbours::report(&empty, &Summary::default(), options), print_args)?;
    let to = output(print_args.to.as_deref(), !args.analyse.capture.command.is_empty())?;
    on_log(&args.analyse, |log, go_on| {
        let sink = |filter, _: &Header| Neighbours::new(filter);
        let (fold, converted) = pass_over(log, wish, sink, go_on)?;
        let filter_notes = summary_lines::filter_notes(fold.picker());
        let converted = Converted { filter_notes, ..converted };
        let mut report = report::neighbours::report(&fold, &converted.summary, options);
        summary_lines::add_to(&mut report, &converted);
        print(report, print_args, to)
    })
}

/// `iotrace-perf slow`. The fold needs all operations, whichever are selected.
pub(super) fn slow(args: &GroupedArgs) -> Result<ExitCode, CliError> {
    let by = args.by;
    refuse_places(by)?;
    let mut args = args.analyse.clone();
    if form(&args.print) == TableFormat::Text {
        args.print.rows.get_or_insert(report::slow::ROWS);
    }
    let wish = FilterSpec::of(&args.filter)?.on(&args);
    let options = grouped_options(&args, by, wish.is_all());
    let report = |fold: &SelectedSlowest, summary: &Summary, rows| {
        let mut report = report::slow::report(&fold.fold, summary, rows);
        report::grouped::add(&mut report, fold.sums.as_ref(), summary, options);
        report
    };
    let empty = SelectedSlowest::new(Filter::default(), sums(by));
    chosen(report(&empty, &Summary::default(), 0), &args.print)?;
    let to = output(args.print.to.as_deref(), !args.capture.command.is_empty())?;
    let rows = limit(&args.print);
    let mut has_damage = false;
    let code = on_log(&args, |log, go_on| {
        let sink = |filter, _: &Header| SelectedSlowest::new(filter, sums(by));
        let (selected, converted) = fold_all(log, wish, sink, go_on)?;
        has_damage = converted.has_damaged_job();
        let mut report = report(&selected, &converted.summary, rows);
        report.notes.extend(converted.job.as_ref().map(|_| {
            "the commits of journals that operations waited for are in the reports on single \
             recordings"
                .to_owned()
        }));
        summary_lines::add_to(&mut report, &converted);
        print(report, &args.print, to)
    })?;
    Ok(status_of(has_damage, code))
}

/// Returns the exit status of a report: that of a job with a damaged recording has one of its own.
fn status_of(has_damage: bool, code: ExitCode) -> ExitCode {
    if has_damage { ExitCode::from(INCOMPLETE) } else { code }
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
    let mut grouped = args.grouped.clone();
    if grouped.analyse.log.is_none() && (options.vfs || options.fs) {
        let words = &mut grouped.analyse.capture.events;
        if words.is_empty() {
            words.push(events::DEFAULT.into());
        }
        words.push(events::LAYERS.into());
    }
    run_beside(&grouped, |_| Latency::new(options), report::latency::report)
}

/// `iotrace-perf pattern`.
pub(super) fn pattern(args: &GroupedArgs) -> Result<ExitCode, CliError> {
    refuse_places(args.by)?;
    let wish = FilterSpec::of(&args.analyse.filter)?.on(&args.analyse);
    let options = report_options(args, wish.is_all());
    let fold = |_: &Header| Grouped { fold: Patterns::default(), sums: sums(args.by) };
    let report = |grouped: &Grouped<Patterns>, summary: &Summary, limit| {
        let mut report = report::pattern::report(&grouped.fold, summary, limit);
        report::grouped::add(&mut report, grouped.sums.as_ref(), summary, options);
        report
    };
    run_filtered(&args.analyse, wish, fold, report)
}

/// Folds a log, a job or a recording, and prints the result, with a table of groups if they are
/// wanted.
fn run_beside<F: Sink<Error = Infallible> + Absorb>(
    args: &GroupedArgs,
    fold: impl Fn(&Header) -> F,
    report: impl Fn(&F, &Summary, usize) -> Report,
) -> Result<ExitCode, CliError> {
    refuse_places(args.by)?;
    let wish = FilterSpec::of(&args.analyse.filter)?.on(&args.analyse);
    let options = report_options(args, wish.is_all());
    let fold = |header: &Header| Grouped { fold: fold(header), sums: sums(args.by) };
    let report = |grouped: &Grouped<F>, summary: &Summary, limit| {
        let mut report = report(&grouped.fold, summary, limit);
        report::grouped::add(&mut report, grouped.sums.as_ref(), summary, options);
        report
    };
    let print_args = &args.analyse.print;
    chosen(report(&fold(&Header::default()), &Summary::default(), 0), print_args)?;
    let to = output(print_args.to.as_deref(), !args.analyse.capture.command.is_empty())?;
    let mut has_damage = false;
    let code = on_log(&args.analyse, |log, go_on| {
        let sink = |filter, header: &Header| Filtered::new(filter, fold(header));
        let (filtered, converted) = fold_all(log, wish, sink, go_on)?;
        has_damage = converted.has_damaged_job();
        let mut report = report(&filtered.sink, &converted.summary, limit(print_args));
        summary_lines::add_to(&mut report, &converted);
        print(report, print_args, to)
    })?;
    Ok(status_of(has_damage, code))
}

/// Returns the sums of a report that has them only if groups are wanted.
fn sums(by: Option<ByArg>) -> Option<IoSummary> {
    by.map(|by| IoSummary::in_dimension(by.dimension()))
}

/// Options of a report with rows of processes: in data each one has a row by default.
pub(super) fn report_options(args: &GroupedArgs, is_whole: bool) -> ReportOptions {
    grouped_options(&args.analyse, args.by, is_whole)
}

fn grouped_options(args: &AnalyseArgs, by: Option<ByArg>, is_whole: bool) -> ReportOptions {
    let default = match form(&args.print) {
        TableFormat::Text => Grouping::Program,
        _ => Grouping::Process,
    };
    ReportOptions {
        limit: limit(&args.print),
        by: by.and_then(ByArg::grouping).unwrap_or(default),
        dimension: by.and_then(ByArg::dimension),
        folds_pseudo_files: folds_pseudo_files(args),
        is_whole,
    }
}

/// True if the files of a pseudo file system share a row: in data each one has a row.
fn folds_pseudo_files(args: &AnalyseArgs) -> bool {
    form(&args.print) == TableFormat::Text && !args.all_files
}

/// Refuses `--by rank` and `--by host` for reports that do not have them.
fn refuse_places(by: Option<ByArg>) -> Result<(), CliError> {
    match by.and_then(ByArg::place) {
        Some(_) => Err(CliError::Usage(
            "--by rank and --by host are for summary: iotrace-perf summary --by rank".into(),
        )),
        None => Ok(()),
    }
}

/// Refuses `--by thread` for reports that do not have the threads.
fn refuse_threads(args: &GroupedArgs, report: &str) -> Result<(), CliError> {
    match args.by {
        Some(ByArg::Thread) => Err(CliError::Usage(format!(
            "--by thread is not for {report}; --by process has each process; threads have summary, files, slow, latency and pattern: \
             iotrace-perf summary --by thread"
        ))),
        _ => Ok(()),
    }
}

/// Folds a log, or a recording, and prints the result, with the processes in groups.
fn run_grouped<F: Sink<Error = Infallible>>(
    args: &GroupedArgs,
    fold: impl Fn(&Header) -> F,
    report: impl Fn(&F, &Summary, ReportOptions) -> Report,
) -> Result<ExitCode, CliError> {
    refuse_places(args.by)?;
    let wish = FilterSpec::of(&args.analyse.filter)?.on(&args.analyse);
    let options = report_options(args, wish.is_all());
    let report = |fold: &F, summary: &Summary, _| report(fold, summary, options);
    run_filtered(&args.analyse, wish, fold, report)
}

/// Folds the selected part of a log, or of a recording, and prints the result.
pub(super) fn run_filtered<F: Sink<Error = Infallible>>(
    args: &AnalyseArgs,
    wish: FilterSpec<'_>,
    fold: impl Fn(&Header) -> F,
    report: impl Fn(&F, &Summary, usize) -> Report,
) -> Result<ExitCode, CliError> {
    // The columns of a report do not depend on the log.
    let empty = report(&fold(&Header::default()), &Summary::default(), 0);
    chosen(empty, &args.print)?;
    let to = output(args.print.to.as_deref(), !args.capture.command.is_empty())?;
    let finish = |(fold, converted): (F, Converted)| {
        let mut report = report(&fold, &converted.summary, limit(&args.print));
        summary_lines::add_to(&mut report, &converted);
        print(report, &args.print, to)
    };
    run_with(args, wish, fold, finish)
}

/// Folds a log, or a recording; `finish` reports the result.
pub(super) fn run_with<F: Sink<Error: Display>>(
    args: &AnalyseArgs,
    wish: FilterSpec<'_>,
    fold: impl FnOnce(&Header) -> F,
    finish: impl FnOnce((F, Converted)) -> Result<(), CliError>,
) -> Result<ExitCode, CliError> {
    on_log(args, |log, go_on| finish(fold_log(log, fold, wish, go_on)?))
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
    let target = target::resolved(&args.capture, TargetWords::of_filter(&args.filter))?;
    let mut recorded = recording::capture(&target, |_| Ok(place), |_| log.try_clone())?;
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

pub(super) fn form(args: &PrintArgs) -> TableFormat {
    match (args.json, args.csv, args.tsv) {
        (true, ..) => TableFormat::Json,
        (_, true, _) => TableFormat::Csv,
        (_, _, true) => TableFormat::Tsv,
        _ => TableFormat::Text,
    }
}

/// Programs get all rows by default.
pub(super) fn limit(args: &PrintArgs) -> usize {
    // All rows are sorted.
    if args.sort.is_some() { 0 } else { shown_rows(args) }
}

fn shown_rows(args: &PrintArgs) -> usize {
    args.rows.unwrap_or(if form(args) == TableFormat::Text { report::ROWS } else { 0 })
}

/// True if a report has to fit a screen. With `--rows`, or in a form for programs, a report has all
/// tables.
pub(super) fn is_brief(args: &PrintArgs, details: bool) -> bool {
    !details && form(args) == TableFormat::Text && args.rows.is_none()
}

/// Checks the names of tables and columns in the options with a report that has all of them.
pub(super) fn chosen(mut report: Report, args: &PrintArgs) -> Result<(), CliError> {
    choose(&mut report, args)
}

/// Keeps the table of the options, and sorts by their column, as far as the report has these.
fn choose(report: &mut Report, args: &PrintArgs) -> Result<(), CliError> {
    let none = |what: &str, name: &str, all: &[&str]| {
        let near = near(name, all.iter().copied());
        let near = near.map_or_else(String::new, |near| format!(", did you mean {near}?"));
        CliError::Usage(format!(
            "this report has no {what} {name}{near}; it has: {}",
            all.join(", ")
        ))
    };
    let mut wrong = None;
    if let Some(table) = &args.table {
        wrong = report.keep_table(table).map_err(|all| none("table", table, &all)).err();
        if wrong.is_none() && form(args) == TableFormat::Text {
            report.facts.clear();
        }
    }
    if let Some(column) = &args.sort {
        let sorted = report.sort(column, shown_rows(args));
        wrong = wrong.or(sorted.map_err(|all| none("column", column, &all)).err());
    }
    wrong.map_or(Ok(()), Err)
}

pub(super) fn print(
    mut report: Report,
    args: &PrintArgs,
    mut to: ReportOutput,
) -> Result<(), CliError> {
    let wrong = choose(&mut report, args).err();
    let separator = match form(args) {
        TableFormat::Csv => Some(Separator::Comma),
        TableFormat::Tsv => Some(Separator::Tab),
        TableFormat::Text | TableFormat::Json => None,
    };
    let is_data = args.table.is_some() && wrong.is_none();
    if let Some(separator) = separator.filter(|_| is_data) {
        incomplete_line(&report.incomplete).iter().for_each(|line| print_error(line));
        return report.print_data(separator, &mut to).map_err(CliError::output);
    }
    to.print(&report, form(args), args).map_err(CliError::output)?;
    // The report may be of a recording that is not kept, so it is printed all the same.
    wrong.map_or(Ok(()), Err)
}
