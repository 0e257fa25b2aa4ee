//! What was typed → what is done. One file per verb.

mod analyse;
mod args;
mod audit_line;
mod control;
mod convert;
mod doctor;
mod error;
mod events;
mod exit_lines;
mod growing;
mod import;
mod info;
mod ladder;
mod live;
mod output;
mod pick;
mod record;
mod replay;
mod replay_args;
mod replay_block;
mod replay_export;
mod replay_in_place;
mod replay_init;
mod replay_loop;
mod replay_places;
mod replay_plan;
mod replay_trace;
mod script;
mod self_test;
mod signals;
mod stacks;
mod unfinished;
mod user;
mod values;
mod watch;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::sys::{apart, helper, limits};
use crate::text::escape;
use crate::tracer::{programs, symbols, unwinding, uprobes};
use args::{Args, Verb};
use error::CliError;

/// Our own failures, as `env` and `timeout` have them: 125 = we failed, 126 = the program is not executable, 127 = it
/// is not there.
pub const FAILURE: u8 = 125;

/// Runs the command. Ends with the traced program's status, if there was one.
pub fn main() -> ExitCode {
    if let Err(error) = limits::be_sufficient() {
        say(&format!("error: {error}"));
        return ExitCode::from(FAILURE);
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version go to standard output and are no failure.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { FAILURE } else { 0 });
        }
    };
    let result = match args.verb {
        None => record::run(&args.record),
        Some(Verb::Record(record)) => record::run(&record),
        Some(Verb::Convert(convert)) => convert::run(&convert),
        Some(Verb::Script(script)) => script::run(&script),
        Some(Verb::Live(args)) => live::run(&args),
        Some(Verb::Watch(args)) => watch::run(args),
        Some(Verb::Ctl(args)) => control::client::run(&args),
        Some(Verb::Summary(args)) => analyse::summary(&args),
        Some(Verb::Latency(args)) => analyse::latency(&args),
        Some(Verb::Files(args)) => analyse::files(&args),
        Some(Verb::Pattern(args)) => analyse::pattern(&args),
        Some(Verb::Stacks(args)) => stacks::run(args),
        Some(Verb::Replay(args)) => replay::run(&args),
        Some(Verb::Import(args)) => import::run(&args),
        Some(Verb::Info(info)) => info::run(&info),
        Some(Verb::Doctor(doctor)) => doctor::run(&doctor),
        Some(Verb::List) => events::run(),
        Some(Verb::NameFunctions) => answer(symbols::apart::answer),
        Some(Verb::FindSites) => answer(uprobes::apart::answer),
        Some(Verb::ReadHeaders) => answer(programs::apart::answer),
        Some(Verb::UnwindStacks) => answer(unwinding::apart::answer),
        Some(Verb::SelfTest) => self_test::run(),
        Some(Verb::SelfTestWork { file }) => self_test::work(&file),
    };
    let code = match result {
        Ok(code) => code,
        Err(CliError::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    };
    // What is not written now never is: what shares our descriptors may not end with us.
    let _ = std::io::stdout().flush();
    apart::close_what_is_shared();
    code
}

/// In the helper. There is nobody to tell but whoever asked, who sees how it ends.
fn answer(answer: fn() -> io::Result<()>) -> Result<ExitCode, CliError> {
    helper::close_others();
    Ok(answer().map_or(ExitCode::from(FAILURE), |()| ExitCode::SUCCESS))
}

/// What targets of `fuzz/` ask of what is private here; in no other build.
#[cfg(fuzzing)]
pub mod fuzzing {
    /// What is answered to a line on the control socket before anything is done; a question is repeated.
    pub fn control_line(line: &[u8]) -> Vec<u8> {
        super::control::repeat(line)
    }
}

/// A line for the user, whatever a log or the traced program has put into it. Standard output belongs to the traced program and to
/// data.
fn say(line: &str) {
    // In one piece: others may write there, too.
    let line = format!("iotrace-perf: {}\n", escape::harmless(line));
    // Nobody to tell if standard error is gone.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
