//! Output files: names and directories.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::existing_outputs::{WITH_FORCE, is_archive};
use super::message::print_line;
use crate::sys::output_dir::{NewFile, OutputDirectory, Users};
use crate::tracer::job;

/// Files of one recording or conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Output {
    /// Directory of the files.
    pub(super) directory: PathBuf,
    /// True if the directory is created for them.
    pub(super) own_directory: bool,
    /// Name of the files without an extension.
    pub(super) name: String,
    /// True if an archive is made of the log.
    pub(super) has_archive: bool,
}

/// Name of the log in a directory of its own.
pub(super) const LOG_NAME: &str = "traces.iocap";

/// Name of the link to the newest directory of a recording.
const LATEST: &str = "iotrace_latest";

/// Largest number of recordings that begin in the same second in one directory.
const SAME_SECOND_MAX: u32 = 1000;

impl Output {
    /// Parses the name of the files: `NAME.otf2`, `NAME.iocap`, or a directory.
    pub(super) fn parse(text: &OsStr) -> Result<Self, CliError> {
        Self::parse_as(text, "-o")
    }

    /// Parses the name of the files as the value of this option.
    pub(super) fn parse_as(text: &OsStr, option: &str) -> Result<Self, CliError> {
        let path = Path::new(text);
        let in_directory = || Self::in_directory(path.into());
        if text.as_bytes().ends_with(b"/") || path.is_dir() {
            return Ok(in_directory());
        }
        if path.extension().is_none() && path.exists() {
            return Err(CliError::Usage(format!(
                "{option} {}: a file has this name, and a recording needs a directory; choose another name",
                path.display()
            )));
        }
        let has_archive = match path.extension().map(OsStr::as_bytes) {
            None => return Ok(in_directory()),
            Some(b"otf2") => true,
            Some(b"iocap") => false,
            Some(form @ (b"json" | b"csv")) => {
                let form = String::from_utf8_lossy(form);
                return Err(CliError::Usage(format!(
                    "{option} {}: {} is made from a log: {option} NAME.iocap, then iotrace-perf script NAME.iocap --format {form} > {}",
                    path.display(),
                    form.to_uppercase(),
                    path.display()
                )));
            }
            Some(_) => {
                return Err(CliError::Usage(format!(
                    "{option} {0}: a recording is written to a directory, NAME.otf2, NAME.iocap, NAME.html or NAME.pftrace; a directory of that name: {option} {0}/",
                    path.display()
                )));
            }
        };
        let not_text = || CliError::Usage(format!("-o {}: the name is not UTF-8", path.display()));
        let name = path.file_stem().and_then(OsStr::to_str).ok_or_else(not_text)?;
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (directory, name) = (directory.into(), name.into());
        Ok(Self { directory, own_directory: false, name, has_archive })
    }

    fn in_directory(directory: PathBuf) -> Self {
        Self { directory, own_directory: true, name: "traces".into(), has_archive: true }
    }

    /// Files beside a log, with its name.
    pub(super) fn beside(log: &Path) -> Result<Self, CliError> {
        let name = log.file_stem().and_then(OsStr::to_str);
        let name = name.ok_or_else(|| {
            CliError::Usage("the log's name is not UTF-8: choose one with -o".into())
        })?;
        let directory =
            log.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (directory, name) = (directory.into(), name.into());
        Ok(Self { directory, own_directory: false, name, has_archive: true })
    }

    pub(super) fn log(&self) -> PathBuf {
        self.directory.join(format!("{}.iocap", self.name))
    }

    pub(super) fn archive(&self) -> PathBuf {
        self.directory.join(format!("{}.otf2", self.name))
    }

    /// Parts of an archive: anchor, definitions, directory.
    pub(super) fn archive_parts(&self) -> [PathBuf; 3] {
        let definitions = self.directory.join(format!("{}.def", self.name));
        [self.archive(), definitions, self.directory.join(&self.name)]
    }

    /// Directory of an archive until it is complete.
    pub(super) fn unfinished(&self) -> PathBuf {
        self.directory.join(format!("{}.otf2.part", self.name))
    }

    /// Opens the directory, which is created if it is for these files; refuses to overwrite any
    /// part of an archive, unless the new one replaces the old one.
    pub(super) fn open(self, users: &Users, replaces: bool) -> Result<OpenOutput, CliError> {
        let failed = |source| CliError::Create { path: self.directory.clone(), source };
        let opened = OutputDirectory::open(&self.directory, users);
        let is_missing =
            opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let (directory, made) = if is_missing && self.own_directory {
            let parent = OutputDirectory::parent_of(&self.directory, users);
            let (parent, name) = parent.map_err(failed)?;
            (parent.make_directory(&name).map_err(failed)?, Some((parent, name)))
        } else {
            (opened.map_err(failed)?, None)
        };
        let open = OpenOutput { output: self, directory, made, is_dated: false, replaces };
        open.refuse_existing()?;
        Ok(open)
    }

    /// Creates a directory whose name is the time, with a number if another recording has that
    /// name.
    pub(super) fn open_dated(users: &Users) -> Result<OpenOutput, CliError> {
        Self::open_dated_in(Path::new(""), users)
    }

    fn open_dated_in(parent: &Path, users: &Users) -> Result<OpenOutput, CliError> {
        let date = format!("iotrace_{}", date());
        let mut numbers = 1..=SAME_SECOND_MAX;
        loop {
            let number = numbers.next().unwrap_or(SAME_SECOND_MAX);
            let name = if number == 1 { date.clone() } else { format!("{date}-{number}") };
            let output = Self::in_directory(parent.join(name));
            let failed = |source| CliError::Create { path: output.directory.clone(), source };
            let (outer, name) =
                OutputDirectory::parent_of(&output.directory, users).map_err(failed)?;
            match outer.make_directory(&name) {
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && number < SAME_SECOND_MAX => {
                }
                made => {
                    let directory = made.map_err(failed)?;
                    let made = Some((outer, name));
                    return Ok(OpenOutput {
                        output,
                        directory,
                        made,
                        is_dated: true,
                        replaces: false,
                    });
                }
            }
        }
    }
}

/// Files of one recording or conversion, in an open directory.
#[derive(Debug)]
pub(super) struct OpenOutput {
    pub(super) output: Output,
    pub(super) directory: OutputDirectory,
    /// Parent and name of the directory, if it was created for the files.
    made: Option<(OutputDirectory, OsString)>,
    /// True if the name of the directory is the time.
    is_dated: bool,
    /// True if a new archive takes the name of an old one, which gets another name.
    pub(super) replaces: bool,
}

impl OpenOutput {
    /// Refuses to overwrite any part of an archive.
    pub(super) fn refuse_existing(&self) -> Result<(), CliError> {
        let parts = self.output.archive_parts();
        if self.replaces {
            return is_archive(&self.directory, &parts).map(drop);
        }
        for path in parts.into_iter().filter(|_| self.output.has_archive) {
            let found = self.directory.find(path.file_name().unwrap_or_default());
            let failed = |source| CliError::Create { path: path.clone(), source };
            if found.map_err(failed)?.is_some() {
                return Err(CliError::Exists { path, option: WITH_FORCE });
            }
        }
        Ok(())
    }

    /// Creates the log.
    pub(super) fn create_log(&self) -> Result<NewFile, CliError> {
        let path = self.output.log();
        let name = path.file_name().unwrap_or_default().to_owned();
        NewFile::create_in(self.directory.clone(), name).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => CliError::Exists { path, option: WITH_FORCE },
            _ => CliError::Create { path, source },
        })
    }

    /// Lets the link to the newest recording lead to a directory whose name is the time.
    pub(super) fn link_latest(&self) {
        let made = self.made.as_ref().filter(|_| self.is_dated);
        let linked = made.map(|(parent, name)| parent.link(OsStr::new(LATEST), name));
        if let Some(Err(error)) = linked {
            print_line(&format!("warning: no link {LATEST} to the recording: {error}"));
        }
    }

    /// Removes a directory that was created for the files, if it is empty.
    pub(super) fn discard(self) {
        if let Some((parent, name)) = self.made {
            // The directory stays if another file is in it.
            let _ = parent.remove_directory(&name);
        }
    }
}

/// Fills in `{DATE}` and the other placeholders.
pub(super) fn substitute(text: &OsStr) -> Result<OsString, CliError> {
    let Some(text) = text.to_str() else { return Ok(text.to_owned()) };
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once('{') {
        filled.push_str(before);
        let (name, behind) = tail.split_once('}').ok_or_else(|| {
            CliError::Usage(format!("a brace is not closed in the output name {text}"))
        })?;
        filled.push_str(&value(name)?);
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled.into())
}

fn value(name: &str) -> Result<String, CliError> {
    let variable = |name: &str| std::env::var(name).ok();
    let host = || crate::sys::proc::host().hostname;
    let value = match name {
        "DATE" => Some(date()),
        "HOSTNAME" => Some(host()),
        "PID" => Some(std::process::id().to_string()),
        "RANK" => job::own_rank().map(|rank| rank.to_string()),
        _ => match name.strip_prefix("ENV=") {
            Some(name) => variable(name),
            None => {
                return Err(CliError::Usage(format!(
                    "unknown {{{name}}} in the output name; there are {{DATE}} {{HOSTNAME}} {{PID}} {{RANK}} {{ENV=VAR}}"
                )));
            }
        },
    };
    // A name is one step of a path, even if a variable has slashes.
    value.map(|value| value.replace('/', "_")).ok_or_else(|| CliError::Usage(no_value(name)))
}

/// Returns the error about a placeholder without a value.
fn no_value(name: &str) -> String {
    let help = match name.strip_prefix("ENV=") {
        Some(variable) => format!("the variable {variable} is not set; set it: export {variable}=VALUE"),
        None => "no launcher of a parallel job has given one; start iotrace-perf with mpirun or srun, or use {PID}"
            .to_owned(),
    };
    format!("{{{name}}} in the output name has no value here: {help}")
}

/// Local date and time in a sortable form, without special characters of shells.
fn date() -> String {
    let now = i128::from(crate::sys::clock::realtime_ns());
    let timestamp = jiff::Timestamp::from_nanosecond(now).unwrap_or_default();
    timestamp.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d_%H-%M-%S").to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_directories() {
        let output = Output::parse(OsStr::new("trace.otf2")).expect("a name");
        assert_eq!(
            (output.log(), output.archive()),
            ("./trace.iocap".into(), "./trace.otf2".into())
        );
        let output = Output::parse(OsStr::new("/tmp/x/")).expect("a directory");
        assert_eq!(output.archive(), Path::new("/tmp/x/traces.otf2"));
        let output = Output::parse(OsStr::new("x/y.iocap")).expect("a name");
        assert_eq!((output.log(), output.has_archive), ("x/y.iocap".into(), false));
        let output = Output::parse(OsStr::new("trace")).expect("a directory");
        assert_eq!((output.log(), output.has_archive), ("trace/traces.iocap".into(), true));
        assert!(Output::parse(OsStr::new("trace.json")).is_err());
    }

    #[test]
    fn recordings_of_one_second_have_directories_of_their_own() {
        let dir = tempfile::tempdir().expect("a directory");
        let made: Vec<OpenOutput> = (0..3)
            .map(|_| Output::open_dated_in(dir.path(), &Users::none()).expect("made"))
            .collect();
        let names: BTreeSet<&PathBuf> = made.iter().map(|open| &open.output.directory).collect();
        assert!(names.len() == 3 && names.iter().all(|path| path.is_dir()), "{names:?}");
        let latest = || std::fs::read_link(dir.path().join(LATEST)).ok();
        assert_eq!(latest(), None);
        for open in made {
            open.link_latest();
            let name = open.output.directory.file_name().map(PathBuf::from);
            assert_eq!(latest(), name);
        }
    }

    #[test]
    fn braces_are_filled_in() {
        let pid = std::process::id();
        assert_eq!(
            substitute(OsStr::new("a{PID}b.otf2")).ok(),
            Some(format!("a{pid}b.otf2").into())
        );
        assert!(substitute(OsStr::new("{WHAT}")).is_err());
        assert!(substitute(OsStr::new("{PID")).is_err());
    }
}
