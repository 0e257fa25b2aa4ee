//! Subcommands on the index of a job: one answer for all recordings, one for each, or none.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::AnalyseArgs;
use super::checked_capture::OpenCapture;
use super::command_line::Verb;
use super::error::CliError;
use super::exit_code::INCOMPLETE;
use super::job_index::{IndexedCapture, JobIndex};
use super::message::{print_error, print_line};
use super::report_args::PrintArgs;
use super::{
    advise, analyse, budget, job_convert, job_info, job_script, stacks, summarise, what_if,
};
use crate::text::escape;

/// Answer of a subcommand for a job.
enum JobAnswer {
    /// One for all recordings.
    Whole,
    /// One for each recording, below its name.
    Each,
    /// None; the words name what makes one for a recording, without its path.
    Refused(&'static str),
}

/// Returns the answer of a subcommand whose log is the index of a job.
fn answer_of(verb: &Verb) -> JobAnswer {
    use JobAnswer::{Each, Refused, Whole};
    match verb {
        Verb::Summary(_) | Verb::Latency(_) | Verb::Slow(_) => Whole,
        Verb::Info(_) | Verb::Script(_) => Whole,
        Verb::Files(args) if args.life.is_none() => Whole,
        Verb::Convert(args) if job_convert::is_possible(args) => Whole,
        Verb::Convert(_) => Refused("convert"),
        Verb::Report(args) if job_convert::is_page_possible(args) => Whole,
        Verb::Report(_) => Refused("report"),
        Verb::Replay(_) => Refused("replay plan"),
        Verb::Stacks(args) if args.svg.is_some() => Refused("stacks --svg NAME.svg"),
        Verb::Check(args) if args.update => Refused("check --update"),
        Verb::Check(args) if args.junit.is_some() => Refused("check --junit NAME.xml"),
        _ => Each,
    }
}

/// Returns the index that a subcommand has in place of a log.
pub(super) fn index_of(verb: &mut Verb) -> Option<PathBuf> {
    let log = match verb {
        Verb::Convert(args) => args.log.clone(),
        Verb::Script(args) => args.log.clone(),
        Verb::Info(args) => args.log.clone(),
        Verb::Check(args) => args.log.clone()?,
        Verb::Report(args) => args.log.clone()?,
        other => analyse_args(other)?.log.clone()?,
    };
    JobIndex::named_by(&log)
}

/// Returns the arguments of a report.
fn analyse_args(verb: &mut Verb) -> Option<&mut AnalyseArgs> {
    Some(match verb {
        Verb::Files(args) => &mut args.grouped.analyse,
        Verb::Slow(args) | Verb::Pattern(args) => &mut args.analyse,
        Verb::Summary(args) | Verb::Disk(args) | Verb::Neighbours(args) | Verb::Cache(args) => {
            &mut args.analyse
        }
        Verb::Advise(args) => &mut args.analyse,
        Verb::Latency(args) => &mut args.grouped.analyse,
        Verb::WhatIf(args) => &mut args.analyse,
        Verb::Stacks(args) => &mut args.analyse,
        Verb::Replay(args) => args.log_argument()?,
        _ => return None,
    })
}

/// Runs a subcommand on a job.
pub(super) fn run(verb: &mut Verb, path: &Path) -> Result<ExitCode, CliError> {
    match answer_of(verb) {
        JobAnswer::Whole => whole(verb, path),
        JobAnswer::Each => each(verb, path),
        JobAnswer::Refused(words) => {
            let index = JobIndex::read(path)?;
            let first = index.captures.first().map(|capture| capture.shown.clone());
            let first = first.unwrap_or_else(|| PathBuf::from("LOG"));
            let all = match verb {
                Verb::Convert(_) => "; of all of them: -o NAME.otf2 or -o NAME.parquet",
                Verb::Report(_) => "; of all of them: a page without filters and --svg",
                _ => "",
            };
            Err(CliError::Usage(format!(
                "{}: {words} takes one recording of a job: iotrace-perf {words} {}{all}",
                JobIndex::named(path).display(),
                first.display()
            )))
        }
    }
}

fn whole(verb: &Verb, path: &Path) -> Result<ExitCode, CliError> {
    match verb {
        Verb::Summary(args) => summarise::run(args),
        Verb::Files(args) => analyse::files(args),
        Verb::Latency(args) => analyse::latency(args),
        Verb::Slow(args) => analyse::slow(args),
        Verb::Info(args) => job_info::run(args, path),
        Verb::Script(args) => job_script::run(args, path),
        Verb::Convert(args) => job_convert::run(args, path),
        Verb::Report(args) => job_convert::page(args, path),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Answers for each recording below a line with its name.
fn each(verb: &mut Verb, path: &Path) -> Result<ExitCode, CliError> {
    let index = JobIndex::read(path)?;
    let is_text = prepare(verb, &index)?;
    let mut codes = Vec::new();
    for left_out in &index.left_out {
        print_error(&format!("LEFT OUT: {left_out}"));
        codes.push(INCOMPLETE.into());
    }
    for capture in &index.captures {
        let label = index.label(capture);
        let opened = match index.open(capture) {
            Ok(opened) => opened,
            Err(reason) => {
                print_error(&format!("NOT READ: {label}: {}: {reason}", capture.shown.display()));
                codes.push(INCOMPLETE.into());
                continue;
            }
        };
        heading(&label, is_text)?;
        set_log(verb, capture, &opened);
        let answer = run_one(verb);
        match answer.map_err(|error| error.shown_as(&opened.path, &capture.shown)) {
            Ok(code) => codes.push(code),
            Err(error @ (CliError::Open { .. } | CliError::Log { .. })) => {
                print_error(&format!("NOT READ: {label}: {error}"));
                codes.push(INCOMPLETE.into());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(worst(&codes))
}

/// Prints the name of a recording: with data for programs on standard error.
fn heading(label: &str, is_text: bool) -> Result<(), CliError> {
    if !is_text {
        print_line(&format!("{label}:"));
        return Ok(());
    }
    let label = escape::harmless(label);
    writeln!(io::stdout().lock(), "{label}:").map_err(CliError::output)
}

/// Prepares a report that is printed several times. Returns true if it is for people.
fn prepare(verb: &mut Verb, index: &JobIndex) -> Result<bool, CliError> {
    let print = match verb {
        Verb::Check(args) => Some(&mut args.print),
        other => analyse_args(other).map(|args| &mut args.print),
    };
    let Some(PrintArgs { to, no_pager, json, csv, tsv, .. }) = print else { return Ok(true) };
    if to.is_some() {
        return Err(CliError::Usage(format!(
            "--to is for one report, and {} has {} recordings: leave it out, and lead standard \
             output into a file",
            index.path.display(),
            index.captures.len()
        )));
    }
    *no_pager = true;
    Ok(!*json && !*csv && !*tsv)
}

/// Sets the log of a report: the file that was checked, by its descriptor.
fn set_log(verb: &mut Verb, capture: &IndexedCapture, opened: &OpenCapture) {
    let log = Some(opened.path.clone());
    match verb {
        Verb::Check(args) => args.log = log,
        other => {
            if let Some(args) = analyse_args(other) {
                args.log = log;
                args.shown = Some(capture.shown.clone());
            }
        }
    }
}

fn run_one(verb: &Verb) -> Result<ExitCode, CliError> {
    match verb {
        Verb::Files(args) => analyse::files(args),
        Verb::Disk(args) => analyse::disk(args),
        Verb::Neighbours(args) => analyse::neighbours(args),
        Verb::Cache(args) => analyse::cache(args),
        Verb::Pattern(args) => analyse::pattern(args),
        Verb::WhatIf(args) => what_if::run(args),
        Verb::Stacks(args) => stacks::run(args.clone()),
        Verb::Advise(args) => advise::run(args),
        Verb::Check(args) => budget::run(args),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Exit codes of reports, the most severe first: a problem and a warning of `advise`, a count of
/// `check` that is too large, one that cannot be checked, a recording that is not whole.
const SEVERE_FIRST: [u8; 5] = [103, 102, 100, 101, INCOMPLETE];

/// Returns the most severe of several codes.
fn worst(codes: &[ExitCode]) -> ExitCode {
    let severe = SEVERE_FIRST.map(ExitCode::from);
    let found = severe.into_iter().find(|code| codes.contains(code));
    let other = || codes.iter().copied().find(|code| *code != ExitCode::SUCCESS);
    found.or_else(other).unwrap_or(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_severe_code_is_kept() {
        let of = |codes: &[u8]| worst(&codes.iter().map(|code| (*code).into()).collect::<Vec<_>>());
        assert_eq!(of(&[]), ExitCode::SUCCESS);
        assert_eq!(of(&[0, 1, 102, 103, 0]), 103.into());
        assert_eq!(of(&[101, 100]), 100.into());
        assert_eq!(of(&[0, 7]), 7.into());
    }
}
