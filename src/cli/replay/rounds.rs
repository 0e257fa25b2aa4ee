//! Repetition of a replay from the same initial files: `replay run --loop`.
//!
//! A replay changes its files, and its process cannot leave their directory again. So each round
//! has two processes of its own: `replay init` (not before the first round, whose files exist) and
//! `replay run`.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::Ordering;

use indicatif::ProgressBar;
use serde_json::Value;

use super::super::error::CliError;
use super::super::exit_code::FAILURE;
use super::super::exit_code::MISMATCH;
use super::super::{analyse, report_output, signals};
use super::args::RunArgs;
use super::common::bar;
use super::dirs;
use super::trace::without;
use crate::report::replay_loop::{Rounds, report};

/// Options for all rounds together.
const OWN_OPTIONS: [&str; 2] = ["--loop", "--to"];

/// `replay run --loop ROUNDS`.
pub(super) fn run(args: &RunArgs, rounds: NonZeroU32, root: &Path) -> Result<ExitCode, CliError> {
    let to = report_output::output(args.print.to.as_deref(), false)?;
    let is_over = signals::flag().map_err(CliError::Output)?;
    let mut done = Rounds::default();
    let (mut worst, mut seen, mut failed) = (0, BTreeSet::new(), None);
    let given = dirs::init_options(root)?;
    let bar = bar(rounds.get().into(), "{bar:40} {pos}/{len} rounds {elapsed}");
    for number in 1..=rounds.get() {
        // ORDERING: only a flag.
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        if number > 1 {
            let init = ["replay", "init", "--root"].map(OsStr::new);
            let rest = [root.as_os_str(), args.plan.as_os_str()];
            let init = init.into_iter().chain(rest).map(OsStr::to_owned);
            let init = ours(init.chain(given.iter().cloned()))?;
            if !init.status.success() {
                failed = Some(("init", init));
                break;
            }
            // The output of `init` on the made files, and on the next command, comes first.
            pass_on(init.stderr.split_inclusive(is_end).skip(1), &mut seen, &bar)?;
        }
        let again = without(std::env::args_os().skip(1), &OWN_OPTIONS)
            .filter(|argument| argument != "--csv" && argument != "--json")
            .chain([OsString::from("--json")]);
        let again = ours(again)?;
        let code = code(&again);
        if code > MISMATCH {
            failed = Some(("run", again));
            break;
        }
        pass_on(again.stderr.split_inclusive(is_end), &mut seen, &bar)?;
        let round: Value = serde_json::from_slice(&again.stdout).map_err(|error| {
            CliError::Usage(format!("the report of a round cannot be parsed: {error}"))
        })?;
        worst = worst.max(code);
        done.add(&round);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some((verb, output)) = failed {
        pass_on(output.stderr.split_inclusive(is_end), &mut seen, &bar)?;
        // ORDERING: only a flag.
        if !is_over.load(Ordering::Relaxed) {
            return has_failed(verb, &output);
        }
        // Ctrl-C reaches the whole group: finished rounds are reported.
    }
    let is_stopped = done.whole() < rounds.get() as usize;
    let report = report(&done, rounds.get(), analyse::limit(&args.print));
    analyse::print(report, &args.print, to)?;
    Ok(ExitCode::from(if is_stopped { MISMATCH } else { worst }))
}

/// Runs this program with these arguments.
fn ours(arguments: impl Iterator<Item = OsString>) -> Result<Output, CliError> {
    let program = std::env::current_exe().map_err(CliError::Output)?;
    Command::new(program).args(arguments).stdin(Stdio::null()).output().map_err(CliError::Output)
}

fn code(output: &Output) -> u8 {
    output.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILURE)
}

fn is_end(byte: &u8) -> bool {
    *byte == b'\n'
}

/// Prints lines of a round that no earlier round has printed.
fn pass_on<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    seen: &mut BTreeSet<Vec<u8>>,
    bar: &ProgressBar,
) -> Result<(), CliError> {
    let new: Vec<u8> = lines.filter(|line| seen.insert(line.to_vec())).flatten().copied().collect();
    bar.suspend(|| std::io::stderr().write_all(&new)).map_err(CliError::output)
}

/// Exit code of a failed round, which has printed the reason, if it could.
fn has_failed(verb: &str, output: &Output) -> Result<ExitCode, CliError> {
    if output.status.code().is_none() {
        return Err(CliError::Usage(format!(
            "replay {verb} of a round was killed ({}); if the machine ran out of memory, the kernel log shows that: sudo dmesg",
            output.status
        )));
    }
    Ok(ExitCode::from(code(output).max(MISMATCH)))
}
