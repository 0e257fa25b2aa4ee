//! `iotrace-perf replay export --fio DIR`: a directory with which fio replays captured I/O.
//!
//! ```text
//!   DIR/prepare.fio   makes the files with their lengths
//!   DIR/replay.fio    replays the logs
//!   DIR/logs/N.log    one for each thread
//!   DIR/files/PATH    the files, empty; DIR/flat/N files with paths that fio cannot read
//! ```

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use super::super::converted::Converted;
use super::super::error::CliError;
use super::super::filter_args::FilterSpec;
use super::super::message::print_line;
use super::super::{analyse, report_output, summary_lines};
use super::args::ExportArgs;
use crate::replay::fio::{FileName, FioExport, Logs, prepare_jobs, replay_jobs};
use crate::report;
use crate::sys::output_dir::{OutputDirectory, Users};
use crate::text::escape;
use crate::text::quantity::counted;

/// Name of the directory of the logs.
const LOGS: &str = "logs";

pub(super) fn run(args: &ExportArgs) -> Result<ExitCode, CliError> {
    let wish = FilterSpec::of(&args.analyse.filter)?.on(&args.analyse);
    let print = &args.analyse.print;
    let to = report_output::output(print.to.as_deref(), !args.analyse.capture.command.is_empty())?;
    let directory = ExportDirectory::make(&args.fio)?;
    let failed = |source| CliError::Create { path: args.fio.clone(), source };
    let logs = directory.made.make_directory(OsStr::new(LOGS)).map_err(failed)?;
    let logs = LogFiles(logs);
    let finish = |(mut export, converted): (FioExport<LogFiles>, Converted)| {
        export.finish().map_err(failed)?;
        if !args.flatten_names {
            refuse_odd_names(export.files())?;
        }
        write(&directory.made, &export).map_err(failed)?;
        directory.keep();
        let limit = analyse::limit(print);
        let mut report = report::replay_export::report(&export, &converted.summary, limit);
        summary_lines::add_to(&mut report, &converted);
        analyse::print(report, print, to)?;
        print_line(&format!("now: cd {} && fio prepare.fio && fio replay.fio", args.fio.display()));
        Ok(())
    };
    analyse::run_with(&args.analyse, wish, |_| FioExport::new(logs), finish)
}

/// A directory that the drop removes, unless it is kept.
struct ExportDirectory {
    made: OutputDirectory,
    parent: OutputDirectory,
    name: OsString,
    is_kept: bool,
}

impl ExportDirectory {
    fn make(path: &Path) -> Result<Self, CliError> {
        let make = || {
            let (parent, name) = OutputDirectory::parent_of(path, &Users::caller())?;
            Ok((parent.make_directory(&name)?, parent, name))
        };
        let (made, parent, name) = make().map_err(|source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => CliError::Usage(format!(
                "{} is there already and is not overwritten; choose another name with --fio, or remove it",
                path.display()
            )),
            _ => CliError::Create { path: path.to_owned(), source },
        })?;
        Ok(Self { made, parent, name, is_kept: false })
    }

    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for ExportDirectory {
    fn drop(&mut self) {
        if !self.is_kept {
            // A part that cannot be removed has no job in it.
            let _ = self.parent.remove(&self.name);
        }
    }
}

/// Logs as files. They are opened for each part: there may be more threads than open files are
/// allowed.
struct LogFiles(OutputDirectory);

impl LogFiles {
    fn name(job: usize) -> OsString {
        format!("{job}.log").into()
    }
}

impl Logs for LogFiles {
    fn append(&mut self, job: usize, lines: &[u8]) -> io::Result<()> {
        self.0.append(&Self::name(job))?.write_all(lines)
    }

    fn remove(&mut self, job: usize) -> io::Result<()> {
        match self.0.remove(&Self::name(job)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn refuse_odd_names(files: &[FileName]) -> Result<(), CliError> {
    let odd: Vec<&FileName> = files.iter().filter(|file| file.is_flat).collect();
    let Some(first) = odd.first() else { return Ok(()) };
    let mut shown = Vec::new();
    escape::shown(&mut shown, &first.path, b"");
    Err(CliError::Usage(format!(
        "fio cannot read the paths of {}, such as {}: they are too long or have spaces, control characters, \"..\" or one of \
         ;#$:\\\"' in them, or were directories at another time; --flatten-names gives numbers to them",
        counted(odd.len() as u64, "file"),
        String::from_utf8_lossy(&shown)
    )))
}

/// Writes all files except for the logs.
fn write(directory: &OutputDirectory, export: &FioExport<LogFiles>) -> io::Result<()> {
    for it in export.files() {
        directory.make_below(Path::new(OsStr::from_bytes(&it.name)))?;
    }
    let write = |name: &str, text: &[u8]| directory.create(OsStr::new(name))?.write_all(text);
    write("prepare.fio", prepare_jobs(export.files()).as_ref())?;
    write("replay.fio", replay_jobs(export.data_jobs()).as_ref())
}
