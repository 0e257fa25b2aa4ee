//! Output files: names and directories.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::CliError;
use crate::sys::output_dir::{NewFile, OutputDirectory, Users};

/// Files of one recording or conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Output {
    /// Directory of the files.
    pub(super) directory: PathBuf,
    /// True if the directory is created for them.
    pub(super) own_directory: bool,
    /// Name of the files without an extension.
    pub(super) name: String,
}

impl Output {
    /// Parses `NAME.otf2`, or `DIR/` for `DIR/traces.otf2`.
    pub(super) fn parse(text: &OsStr) -> Result<Self, CliError> {
        let path = Path::new(text);
        if text.as_bytes().ends_with(b"/") {
            return Ok(Self { directory: path.into(), own_directory: true, name: "traces".into() });
        }
        let usage = || {
            CliError::Usage(format!(
                "-o takes NAME.otf2 or a directory with a slash at its end, not {}; try: -o {}/",
                path.display(),
                path.display()
            ))
        };
        let name = path.file_stem().and_then(OsStr::to_str).ok_or_else(usage)?;
        if path.extension() != Some(OsStr::new("otf2")) {
            return Err(usage());
        }
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Self { directory: directory.into(), own_directory: false, name: name.into() })
    }

    /// Files beside a log, with its name.
    pub(super) fn beside(log: &Path) -> Result<Self, CliError> {
        let name = log.file_stem().and_then(OsStr::to_str);
        let name = name.ok_or_else(|| {
            CliError::Usage("the log's name is not UTF-8: choose one with -o".into())
        })?;
        let directory =
            log.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Self { directory: directory.into(), own_directory: false, name: name.into() })
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
    /// part of an archive.
    pub(super) fn open(self, users: &Users) -> Result<OpenOutput, CliError> {
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
        let open = OpenOutput { output: self, directory, made };
        open.refuse_existing()?;
        Ok(open)
    }
}

/// Files of one recording or conversion, in an open directory.
#[derive(Debug)]
pub(super) struct OpenOutput {
    pub(super) output: Output,
    pub(super) directory: OutputDirectory,
    /// Parent and name of the directory, if it was created for the files.
    made: Option<(OutputDirectory, OsString)>,
}

impl OpenOutput {
    /// Refuses to overwrite any part of an archive.
    pub(super) fn refuse_existing(&self) -> Result<(), CliError> {
        for path in self.output.archive_parts() {
            let found = self.directory.find(path.file_name().unwrap_or_default());
            let failed = |source| CliError::Create { path: path.clone(), source };
            if found.map_err(failed)?.is_some() {
                return Err(CliError::Exists { path });
            }
        }
        Ok(())
    }

    /// Creates the log.
    pub(super) fn create_log(&self) -> Result<NewFile, CliError> {
        let path = self.output.log();
        let name = path.file_name().unwrap_or_default().to_owned();
        NewFile::create_in(self.directory.clone(), name).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => CliError::Exists { path },
            _ => CliError::Create { path, source },
        })
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
        "RANK" => ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"]
            .iter()
            .find_map(|name| variable(name)),
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
    value
        .map(|value| value.replace('/', "_"))
        .ok_or_else(|| CliError::Usage(format!("{{{name}}} in the output name has no value here")))
}

/// Local date and time in a sortable form, without special characters of shells.
fn date() -> String {
    let now = i128::from(crate::sys::clock::realtime_ns());
    let timestamp = jiff::Timestamp::from_nanosecond(now).unwrap_or_default();
    timestamp.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d_%H-%M-%S").to_string()
}

#[cfg(test)]
mod tests {
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
        assert!(Output::parse(OsStr::new("trace")).is_err());
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
