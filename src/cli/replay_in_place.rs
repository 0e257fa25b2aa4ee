//! `replay run --in-place-overwriting-originals`: on the captured files themselves. There is no directory that keeps it inside, nothing
//! is made before and no list is kept; so it is behind an option that says what it does.

use std::process::ExitCode;

use super::error::CliError;
use super::replay::{all, check_window, damaged, open, options, tell, usage};
use super::replay_args::RunArgs;
use super::{analyse, signals};
use crate::replayer::check::{Lacking, lacking};
use crate::replayer::run::Machine;
use crate::sys::{caches, sandbox};

/// What the report says.
const NOTE: &str = "it was done to the captured files themselves";

/// Replays a plan where it was captured.
pub(super) fn run(args: &RunArgs) -> Result<ExitCode, CliError> {
    let options = options(args);
    let to = analyse::output(args.print.to.as_deref(), false)?;
    let (reader, index) = open(&args.plan)?;
    check_window(options.window, index.span)?;
    let before = reader.files(&index).map_err(|it| damaged(&args.plan, &it))?;
    if let Some(Lacking { first, why, count }) = lacking(&before) {
        return Err(CliError::Usage(format!(
            "{count} of the files that have to be there before the first operation are not as they were captured ({} {why}), and nothing \
             was done; put back what was there before the capture, or replay elsewhere: iotrace-perf replay init {} --root DIR",
            first.display(),
            args.plan.display()
        )));
    }
    if args.drop_caches {
        caches::drop_all().map_err(CliError::Usage)?;
    }
    let is_over = signals::flag().map_err(CliError::Output)?;
    let machine = Machine::new();
    sandbox::stay().map_err(usage)?;
    let replayed = all((reader, index), options, machine, &is_over)?;
    tell(args, &options, &replayed, vec![NOTE.to_owned()], to)
}
