//! `iotrace-perf replay export --fio DIR`: a directory with which fio replays what was captured.
//!
//! ```text
//!   DIR/prepare.fio   makes the files as long as they have to be
//!   DIR/replay.fio    replays the logs
//!   DIR/logs/N.log    one for each thread
//!   DIR/files/PATH    the files, empty; DIR/flat/N those whose path fio cannot read
//! ```

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::convert::Converted;
use super::error::CliError;
use super::pick::Wish;
use super::replay_args::ExportArgs;
use super::{analyse, exit_lines, say};
use crate::replay::fio::{FileName, FioExport, Logs, prepare_jobs, replay_jobs};
use crate::report;
use crate::sys::files;
use crate::text::escape;

/// Where the logs are.
const LOGS: &str = "logs";

pub(super) fn run(args: &ExportArgs) -> Result<ExitCode, CliError> {
    let wish = Wish::of(&args.analyse.filter)?.on(&args.analyse);
    let print = &args.analyse.print;
    let to = analyse::output(print.to.as_deref(), !args.analyse.capture.command.is_empty())?;
    let directory = Directory::make(&args.fio)?;
    let logs = LogFiles(args.fio.join(LOGS));
    let tell = |(mut export, converted): (FioExport<LogFiles>, Converted)| {
        let failed = |source| CliError::Create { path: args.fio.clone(), source };
        export.finish().map_err(failed)?;
        if !args.flatten_names {
            refuse_odd_names(export.files())?;
        }
        write(&args.fio, &export).map_err(failed)?;
        directory.keep();
        let limit = analyse::limit(print);
        let mut report = report::replay_export::report(&export, &converted.summary, limit);
        report.notes.extend(exit_lines::notes(&converted));
        analyse::print(&report, analyse::form(print), to)?;
        say(&format!("now: cd {} && fio prepare.fio && fio replay.fio", args.fio.display()));
        Ok(())
    };
    analyse::run_with(&args.analyse, wish, || FioExport::new(logs), tell)
}

/// A directory that goes if nobody says that it is whole.
struct Directory<'a>(Option<&'a Path>);

impl<'a> Directory<'a> {
    fn make(path: &'a Path) -> Result<Self, CliError> {
        files::create_new_directory(path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => CliError::Usage(format!(
                "{} is there already and is not overwritten; choose another name with --fio, or remove it",
                path.display()
            )),
            _ => CliError::Create { path: path.to_owned(), source },
        })?;
        let made = Self(Some(path));
        fs::create_dir(path.join(LOGS))
            .map_err(|source| CliError::Create { path: path.join(LOGS), source })?;
        Ok(made)
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Directory<'_> {
    fn drop(&mut self) {
        // We have made it; whoever sees the rest of it sees that no job is in it.
        let _ = self.0.map(fs::remove_dir_all);
    }
}

/// The logs as files. They are opened for each part: there may be more threads than files may be open.
struct LogFiles(PathBuf);

impl LogFiles {
    fn path(&self, job: usize) -> PathBuf {
        self.0.join(format!("{job}.log"))
    }
}

impl Logs for LogFiles {
    fn append(&mut self, job: usize, lines: &[u8]) -> io::Result<()> {
        OpenOptions::new().append(true).create(true).open(self.path(job))?.write_all(lines)
    }

    fn remove(&mut self, job: usize) -> io::Result<()> {
        match fs::remove_file(self.path(job)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn refuse_odd_names(files: &[FileName]) -> Result<(), CliError> {
    let odd: Vec<&FileName> = files.iter().filter(|it| it.is_flat).collect();
    let Some(first) = odd.first() else { return Ok(()) };
    let mut shown = Vec::new();
    escape::shown(&mut shown, &first.path, b"");
    Err(CliError::Usage(format!(
        "fio cannot read the paths of {} files, such as {}: they are too long or have spaces, control characters, \"..\" or one of \
         ;#$:\\\"' in them, or were directories at another time; --flatten-names gives numbers to them",
        odd.len(),
        String::from_utf8_lossy(&shown)
    )))
}

/// Everything but the logs.
fn write(directory: &Path, export: &FioExport<LogFiles>) -> io::Result<()> {
    for it in export.files() {
        let path = directory.join(OsStr::from_bytes(&it.name));
        fs::create_dir_all(path.parent().unwrap_or(directory))?;
        File::create_new(path)?;
    }
    fs::write(directory.join("prepare.fio"), prepare_jobs(export.files()))?;
    fs::write(directory.join("replay.fio"), replay_jobs(export.data_jobs()))?;
    files::give_to_caller(directory)
}
