//! `iotrace-perf replay run` in a directory of its own.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use super::super::error::CliError;
use super::super::message::print_line;
use super::super::{report_output, signals};
use super::args::RunArgs;
use super::common::{check_window, damaged, open, options, print_report, run_plan, usage};
use super::dirs;
use crate::replay::execute::manifest::{DirState, ReplayDir};
use crate::replay::execute::replay_dirs::ReplayDirs;
use crate::replay::execute::run::{self, Machine};
use crate::replay::execute::verify_initial_state;
use crate::replay::plan::plan_file::{FileBefore, Fingerprint};
use crate::sys::identity::{self, Identity};
use crate::sys::replay::{drop_caches, sandbox};

/// Replays a plan on the files that `replay init` made.
pub(super) fn run(args: &RunArgs, root: &Path) -> Result<ExitCode, CliError> {
    let options = options(args);
    let to = report_output::output(args.print.to.as_deref(), false)?;
    let (reader, index) = open(&args.plan)?;
    check_window(options.window, index.span)?;
    let before = reader.files(&index).map_err(|error| damaged(&args.plan, &error))?;
    let plan = reader.fingerprint(&index).map_err(|error| damaged(&args.plan, &error))?;
    dirs::check_made(&args.plan, root)?;
    let mut places = ReplayDirs::open(root).map_err(usage)?;
    let init = dirs::init_command(&args.plan, root, &places);
    places.all().try_for_each(|place| check_place(place, plan, &init))?;
    if args.drop_caches {
        drop_caches::drop_all().map_err(CliError::Usage)?;
    }
    let (directory, mounts) = (places.root().map_err(usage)?, places.mounts().map_err(usage)?);
    let user = dirs::user(&places, &args.plan, root)?;
    let notes = dirs::notes(&places, user.as_ref());
    let is_over = signals::flag().map_err(CliError::Output)?;
    let machine = Machine::new();
    if !sandbox::enter(&directory, &mounts, user.as_ref()).map_err(usage)?.is_mount {
        print_line(
            "cannot mount the replay's directory with nodev: device nodes that are placed in it can be opened",
        );
    }
    check_files(&before, &init)?;
    run::check(options.engine).map_err(usage)?;
    places.set(DirState::Running).map_err(usage)?;
    user.as_ref().map_or(Ok(()), Identity::begin).map_err(usage)?;
    let replayed = run_plan(reader, index, options, machine, &is_over);
    identity::end().map_err(usage)?;
    let printed = replayed.and_then(|replayed| print_report(args, &options, &replayed, notes, to));
    // Also after a failure: the replay may have made some files.
    let kept = places.list_what_is_there().and_then(|()| places.set(DirState::Done));
    if let Err(it) = kept {
        // The disk may be full. Files with the state of a running replay are removed without a
        // list.
        print_line(&format!(
            "the files of the replay could not be listed ({it}); purge removes all files in its directory"
        ));
    }
    printed
}

/// Refuses a directory that is not ready for this plan; `init` prepares it.
fn check_place(place: &ReplayDir, plan: Fingerprint, init: &str) -> Result<(), CliError> {
    if place.state != DirState::Ready {
        return Err(CliError::Usage(format!(
            "the replay's files are not in the state before the first operation ({}); make them again: {init}",
            place.state.as_str()
        )));
    }
    if place.tree_file().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(CliError::Usage(format!(
            "the replay's files are gone from {}: a purge was not finished; make them again: {init}",
            place.directory().display()
        )));
    }
    if place.plan == Some(plan) {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "the replay's files were made for another plan, and may differ from those of this one; make them for this one: {init}"
    )))
}

/// Refuses files that differ from those that `replay init` made.
fn check_files(before: &[FileBefore], init: &str) -> Result<(), CliError> {
    match verify_initial_state::changed(Path::new("/"), before).map_err(usage)? {
        None => Ok(()),
        Some(it) => {
            let first = if it.in_the_way > 0 { "remove what init has not made, and " } else { "" };
            Err(CliError::Usage(format!(
                "the files of the replay were changed after they were made ({it}); {first}make them again: {init}"
            )))
        }
    }
}
