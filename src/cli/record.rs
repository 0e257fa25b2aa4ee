//! `iotrace-perf [record] … -- COMMAND`.

use std::cell::OnceCell;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use super::args::RecordArgs;
use super::control::Control;
use super::convert;
use super::converted::LogPaths;
use super::ending;
use super::error::CliError;
use super::flight;
use super::message::{be_quiet, print_line};
use super::output::{OpenOutput, Output};
use super::outputs::{OpenFurther, Outputs};
use super::per_node::{self, NodePart};
use super::recording::{LogPlace, Recorded, capture_node};
use super::replaced_outputs::ReplacedOutputs;
use super::second_signal;
use super::target::{self, TargetWords};
use crate::sys::files;
use crate::sys::output_dir::{NewFile, Users};
use crate::tracer::error::TracerError;

/// Records, makes the archive, and ends as the program did.
pub(super) fn run(args: &RecordArgs) -> Result<ExitCode, CliError> {
    if args.flight.is_wanted() {
        return flight::run(args);
    }
    if args.messages.quiet {
        be_quiet();
    }
    // Before the ranks of a node meet: each of them reports an error of usage.
    Outputs::parse(&args.output)?;
    record(args, per_node::part(args)?)
}

/// Records to these outputs, the ranks of a node together.
fn record(args: &RecordArgs, part: NodePart) -> Result<ExitCode, CliError> {
    let NodePart { output, ranks } = part;
    let outputs = Outputs::parse(&output)?;
    if outputs.names_archive() && !args.no_archive {
        otf2_sys::library().map_err(CliError::NoArchives)?;
    }
    let made: OnceCell<MadeFiles> = OnceCell::new();
    let place = |users: &Users| {
        let new = MadeFiles::make(outputs, users, args.force)?;
        let (path, shown) = (files::path_of(new.log.file()), new.output.output.log());
        let _ = made.set(new);
        Ok(LogPlace { path, shown: shown.display().to_string() })
    };
    let control = args.control.as_deref().map(Control::new).transpose()?;
    let ended = control.as_ref().map(Control::ended).unwrap_or_default();
    let mut controlled = None;
    let create = |path: &Path| {
        controlled = control.map(|control| control.start(path, None)).transpose()?;
        made.get().ok_or(io::ErrorKind::NotFound)?.log.file().try_clone()
    };
    let mut target = target::resolved(&args.capture, TargetWords::of_record(args))?;
    target.target.max_operations = target.target.max_operations.or(args.target.max_events);
    target.max_log = target.max_log.or(args.target.max_size);
    let mut recorded = capture_node(&target, ranks, place, create);
    ended.set();
    if let (Ok(recorded), Some(it)) = (&mut recorded, &controlled) {
        it.wait_with(recorded, &ended);
    }
    // Doubts are reported once, at the end.
    let followed =
        controlled.map(|controlled| controlled.finish(recorded.as_ref().ok())).transpose();
    let made = made.into_inner();
    let mut recorded = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            if let Some(MadeFiles { output, mut log, further, replaced }) = made {
                drop(further);
                // The records so far are kept.
                if matches!(&error, CliError::Tracer(TracerError::LogThread)) {
                    log.keep();
                }
                let is_kept = matches!(&error, CliError::Tracer(TracerError::LogThread));
                drop(log);
                output.discard();
                if is_kept { replaced.tell() } else { replaced.restore() }
            }
            return Err(error);
        }
    };
    recorded.check(followed);
    let Some(MadeFiles { output, mut log, further, replaced }) = made else {
        return recorded.end();
    };
    replaced.tell();
    log.keep();
    output.link_latest();
    second_signal::note_log(&output.output.log().display().to_string());
    report(args, &output, further, recorded)
}

/// Files of a recording that is being made.
struct MadeFiles {
    output: OpenOutput,
    log: NewFile,
    further: Vec<OpenFurther>,
    /// Earlier outputs of these names, which were renamed.
    replaced: ReplacedOutputs,
}

impl MadeFiles {
    /// Creates the log, and begins the further files: no file of their names may exist, unless
    /// they are replaced.
    fn make(outputs: Outputs, users: &Users, replaces: bool) -> Result<Self, CliError> {
        let mut replaced = ReplacedOutputs::default();
        let room = match &outputs.main {
            Some(output) if replaces => replaced.replace(output, users),
            _ => Ok(()),
        };
        let made = room.and_then(|()| Self::create(outputs, users, replaces));
        match made {
            Ok((output, log, further)) => Ok(Self { output, log, further, replaced }),
            Err(error) => {
                replaced.restore();
                Err(error)
            }
        }
    }

    fn create(
        outputs: Outputs,
        users: &Users,
        replaces: bool,
    ) -> Result<(OpenOutput, NewFile, Vec<OpenFurther>), CliError> {
        let Outputs { main, further } = outputs;
        let output = match main {
            Some(output) => output.open(users, false)?,
            None => Output::open_dated(users)?,
        };
        // A further file may be in the directory that was made for the log.
        let made = OpenFurther::open_all(further, users, replaces)
            .and_then(|further| Ok((output.create_log()?, further)));
        match made {
            Ok((log, further)) => Ok((output, log, further)),
            Err(error) => {
                output.discard();
                Err(error)
            }
        }
    }
}

/// Makes the archive and further files after the recording, and reports on all.
fn report(
    args: &RecordArgs,
    output: &OpenOutput,
    further: Vec<OpenFurther>,
    mut recorded: Recorded,
) -> Result<ExitCode, CliError> {
    let is_wanted = output.output.has_archive && !args.no_archive;
    let library = if is_wanted { otf2_sys::library().map(|_| ()) } else { Ok(()) };
    if let Err(error) = &library {
        print_line(&format!("no OTF2 archive: cannot {error}"));
    }
    let archive = Some(output).filter(|_| is_wanted && library.is_ok());
    let (path, shown) = (recorded.log.clone(), recorded.shown.clone());
    let is_kept = recorded.outcome.sync_error.is_none();
    let log = LogPaths { path: &path, shown: &shown, is_kept };
    let if_interrupted = format!(
        "no archive was made; the log is complete; try again: iotrace-perf convert {}",
        shown.display()
    );
    let convert = |_: &Path, go_on: &mut dyn FnMut() -> bool| convert::convert(log, archive, go_on);
    let converted = recorded.work(convert, &if_interrupted);
    if recorded.is_interrupted() && !further.is_empty() {
        print_line("the further outputs were not made");
    }
    // An end by a signal below would leave the unfinished ones.
    for output in further {
        let line = (!recorded.is_interrupted()).then(|| output.make(log, &mut recorded));
        line.flatten().iter().for_each(|line| print_line(line));
    }
    if let Some(converted) = converted {
        let output = archive.map(|archive| &archive.output);
        ending::print(log, output, &converted, args.messages.verbose);
    }
    recorded.end()
}
