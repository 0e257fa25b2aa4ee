//! `iotrace-perf watch FILE…`: accesses to these files, and the device I/O that they cause.

use std::process::ExitCode;

use super::analyse::private_log;
use super::args::WatchArgs;
use super::control::{Control, print_doubts};
use super::error::CliError;
use super::recording;
use super::report_output::output;
use super::target::{self, TargetWords};

pub(super) fn run(mut args: WatchArgs) -> Result<ExitCode, CliError> {
    recording::refuse_stacks(&args.capture)?;
    let has_program = !args.capture.command.is_empty();
    // All processes.
    args.capture.all_cpus |= !args.capture.has_target();
    args.capture = target::resolved(&args.capture, TargetWords::NONE)?;
    let control = Control::new(&args.control)?.watching(&args.files, args.max_events)?;
    let to = output(args.to.as_deref(), has_program)?.into_writer();
    let control = control.printing(to, !has_program);
    let ended = control.ended();
    let (log, place) = private_log()?;
    let mut controlled = None;
    let start = |path: &std::path::Path| {
        // The program has been forked by now: before that, there must be one thread.
        controlled = Some(control.start(path, Some(log.try_clone()?))?);
        log.try_clone()
    };
    let mut recorded = recording::capture(&args.capture, |_| Ok(place), start);
    ended.set();
    if let (Ok(recorded), Some(it)) = (&mut recorded, &controlled) {
        it.wait_with(recorded, &ended);
    }
    let followed =
        controlled.map(|controlled| controlled.finish(recorded.as_ref().ok())).transpose();
    let mut recorded = recorded?;
    print_doubts(recorded.check(followed).flatten().flatten().as_ref());
    recorded.end()
}
