//! `replay run --in-place-overwriting-originals`: a replay on the captured files themselves. No
//! directory confines it, no files are made in advance and no list is kept; so it needs an option
//! whose name states the effect.

use std::process::ExitCode;

use super::super::error::CliError;
use super::super::{report_output, signals};
use super::args::{LevelArg, RunArgs};
use super::common::{check_window, damaged, open, options, print_report, run_plan, usage};
use crate::replay::execute::in_place::find_mismatch;
use crate::replay::execute::options::ReplayOptions;
use crate::replay::execute::run::{self, Machine};
use crate::replay::plan::initially_absent::AbsentError;
use crate::sys::replay::{drop_caches, sandbox};

/// Note of the report.
const NOTE: &str = "it was done to the captured files themselves";

/// Note of a replay that was ended early.
const NAMES_DIFFER: &str = "an operation on names succeeded and had not in the capture, or the other way round (see the first mismatches), and each \
     thread ended after its current call: names may lead to other files by then";

/// Replays a plan on the captured files.
pub(super) fn run(args: &RunArgs) -> Result<ExitCode, CliError> {
    if args.block.level == LevelArg::Block {
        return Err(CliError::Usage("--level block needs --device".into()));
    }
    let options = ReplayOptions { ends_at_names: true, ..options(args) };
    let to = report_output::output(args.print.to.as_deref(), false)?;
    let (reader, index) = open(&args.plan)?;
    check_window(options.window, index.span)?;
    let before = reader.files(&index).map_err(|error| damaged(&args.plan, &error))?;
    let mismatch = find_mismatch(&reader, &index, &before).map_err(|error| match error {
        AbsentError::Plan(error) => damaged(&args.plan, &error),
        AbsentError::TooMany => usage(format!("{}: {error}", args.plan.display())),
    })?;
    if let Some(mismatch) = mismatch {
        return Err(CliError::Usage(format!(
            "{mismatch}, and nothing was done; restore the captured state, or replay in a directory: iotrace-perf replay init {} --root DIR",
            args.plan.display()
        )));
    }
    let is_over = signals::flag().map_err(CliError::Output)?;
    let machine = Machine::new();
    if args.drop_caches {
        drop_caches::drop_all().map_err(CliError::Usage)?;
    }
    sandbox::stay().map_err(usage)?;
    run::check(options.engine).map_err(usage)?;
    let replayed = run_plan(reader, index, options, machine, &is_over)?;
    let early = replayed.names_differ.then(|| NAMES_DIFFER.to_owned());
    let notes = std::iter::once(NOTE.to_owned()).chain(early).collect();
    print_report(args, &options, &replayed, notes, to)
}
