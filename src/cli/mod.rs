//! Command-line interface: one module for each subcommand.

mod advise;
mod analyse;
mod anomaly_digest;
mod archive_staging;
mod args;
mod audit_line;
mod budget;
mod budget_file;
mod budget_results;
mod capsule;
mod capsule_lines;
mod cgroup_target;
mod check;
mod checked_capture;
mod clock_rendezvous;
mod clock_source;
mod clocks;
mod clocks_args;
mod command_line;
mod completeness;
mod container_names;
mod control;
mod convert;
mod convert_args;
mod convert_parquet;
mod convert_perfetto;
mod converted;
mod cost_lines;
mod ctl_args;
mod diff;
mod diff_args;
mod diff_runs;
mod doctor;
mod doctor_names;
mod dump_requests;
mod ending;
mod error;
mod events;
mod examples;
mod excerpt_lines;
mod existing_outputs;
mod exit_code;
mod file_kind;
mod file_staging;
mod files_args;
mod filter_args;
mod filter_notes;
mod flight;
mod flight_args;
mod foreign_options;
mod import;
mod import_args;
mod info;
mod info_mounts;
mod interruptible;
mod invocation;
mod job_convert;
mod job_fold;
mod job_fold_notes;
mod job_index;
mod job_index_format;
mod job_index_writer;
mod job_info;
mod job_lines;
mod job_overlap;
mod job_script;
mod job_verbs;
mod live;
mod log_argument;
mod log_pass;
mod merge;
mod merge_args;
mod merge_clock_lines;
mod merge_clocks;
mod merge_lines;
mod merge_page;
mod merge_result;
mod merge_survey;
mod message;
mod output;
mod outputs;
mod page_args;
mod per_node;
mod program_error;
mod programs_found;
mod record;
mod recording;
mod replaced_outputs;
mod replay;
mod report;
mod report_args;
mod report_output;
mod saved_summary;
mod scope_lines;
mod script;
mod second_signal;
mod self_test;
mod shell_args;
mod shell_files;
mod shown_names;
mod signals;
mod stacks;
mod summarise;
mod summary_lines;
mod tailing_reader;
mod target;
mod target_args;
mod top;
mod top_args;
mod typed_line;
mod usage_error;
mod user_arg;
mod values;
mod version;
mod watch;
mod what_if;

use std::io::{self, Write};
use std::process::ExitCode;

use crate::sys::{rlimits, sandboxed_helper};
use crate::tracer::{kernel_objects, programs, symbols, unwinding, uprobes};
use command_line::{Args, Verb};
use error::CliError;
use exit_code::FAILURE;
use invocation::Unparsed;
use message::{print_error, print_line};

/// Runs the command. Ends with the traced program's status, if there was one. The commit of the
/// source, if it is known, is for `--version`.
pub fn main(commit: Option<&str>) -> ExitCode {
    if let Err(error) = rlimits::raise_low_limits() {
        print_line(&format!("error: {error}"));
        return ExitCode::from(FAILURE);
    }
    let args = match invocation::parse(&std::env::args_os().collect::<Vec<_>>()) {
        Ok(args) => args,
        // Help and version go to standard output and are not failures.
        Err(Unparsed::Help(help)) => {
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
        Err(Unparsed::LongVersion) => {
            let _ = io::stdout().lock().write_all(version::long(commit).as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(Unparsed::Usage(usage)) => {
            usage.print();
            return ExitCode::from(FAILURE);
        }
    };
    match run(args) {
        Ok(code) => code,
        Err(CliError::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(mut args: Args) -> Result<ExitCode, CliError> {
    args.verb.as_mut().map_or(Ok(()), log_argument::settle)?;
    if let Some(verb) = &mut args.verb
        && let Some(index) = job_verbs::index_of(verb)
    {
        return job_verbs::run(verb, &index);
    }
    match args.verb {
        None => record::run(&args.record),
        Some(Verb::Record(record)) => record::run(&record),
        Some(Verb::Convert(convert)) if convert.capsule => capsule::run(&convert),
        Some(Verb::Convert(convert)) if convert_perfetto::is_wanted(&convert) => {
            convert_perfetto::run(&convert)
        }
        Some(Verb::Convert(convert)) if convert_parquet::is_wanted(&convert) => {
            convert_parquet::run(&convert)
        }
        Some(Verb::Convert(convert)) => convert::run(&convert),
        Some(Verb::Script(script)) => script::run(&script),
        Some(Verb::Live(args)) => live::run(&args),
        Some(Verb::Top(args)) => top::run(&args),
        Some(Verb::Watch(args)) => watch::run(args),
        Some(Verb::Ctl(args)) => control::client::run(&args),
        Some(Verb::Summary(args)) => summarise::run(&args),
        Some(Verb::Report(args)) => report::run(&args),
        Some(Verb::Diff(args)) => diff::run(&args),
        Some(Verb::Advise(args)) => advise::run(&args),
        Some(Verb::Check(args)) => budget::run(&args),
        Some(Verb::Disk(args)) => analyse::disk(&args),
        Some(Verb::Neighbours(args)) => analyse::neighbours(&args),
        Some(Verb::Latency(args)) => analyse::latency(&args),
        Some(Verb::Files(args)) => analyse::files(&args),
        Some(Verb::Cache(args)) => analyse::cache(&args),
        Some(Verb::WhatIf(args)) => what_if::run(&args),
        Some(Verb::Slow(args)) => analyse::slow(&args),
        Some(Verb::Pattern(args)) => analyse::pattern(&args),
        Some(Verb::Stacks(args)) => stacks::run(args),
        Some(Verb::Replay(args)) => replay::run(&args),
        Some(Verb::Merge(args)) if job_index_writer::is_wanted(&args) => {
            job_index_writer::run(&args)
        }
        Some(Verb::Merge(args)) => merge::run(&args),
        Some(Verb::Clocks(args)) => clocks::run(&args),
        Some(Verb::Import(args)) => import::run(&args),
        Some(Verb::Info(info)) => info::run(&info),
        Some(Verb::Doctor(doctor)) => doctor::run(&doctor),
        Some(Verb::List) => events::run(),
        Some(Verb::Completions(args)) => shell_files::completions(&args),
        Some(Verb::Man(args)) => shell_files::man(&args),
        Some(Verb::NameFunctions) => answer(symbols::helper_main::answer),
        Some(Verb::FindSites) => answer(uprobes::helper_main::answer),
        Some(Verb::ReadHeaders) => answer(programs::helper_main::answer),
        Some(Verb::UnwindStacks) => answer(unwinding::helper_main::answer),
        Some(Verb::ReleaseKernelObjects { owner }) => status(kernel_objects::release(owner)),
        Some(Verb::SelfTest) => self_test::run(),
        Some(Verb::SelfTestWork { file }) => self_test::work(&file),
    }
}

/// Runs a helper. Its exit code reports to the parent whether it failed.
fn answer(answer: fn() -> io::Result<()>) -> Result<ExitCode, CliError> {
    sandboxed_helper::close_others();
    status(answer())
}

/// Exit code of a helper.
fn status(done: io::Result<()>) -> Result<ExitCode, CliError> {
    Ok(done.map_or(ExitCode::from(FAILURE), |()| ExitCode::SUCCESS))
}

/// Access of the targets in `fuzz/` to private functions; in no other build.
#[cfg(fuzzing)]
pub mod fuzzing {
    /// Response to a line on the control socket, before any effect; a query is returned as it was
    /// understood.
    pub fn control_line(line: &[u8]) -> Vec<u8> {
        super::control::repeat(line)
    }
}
