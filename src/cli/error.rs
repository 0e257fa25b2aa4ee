//! Errors of the command line, and their exit codes.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use super::exit_code::FAILURE;
use super::{file_kind, program_error};
use crate::capture::reader::OpenError;
use crate::pipeline::PipelineError;
use crate::sys::error_text::plain;
use crate::tracer::error::TracerError;

/// Errors of the command line. Messages print them after "error: ".
#[derive(Debug, Error)]
pub(super) enum CliError {
    #[error(transparent)]
    Tracer(#[from] TracerError),
    #[error("{}", not_opened(path, source))]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot read {path}: {message}")]
    Log { path: PathBuf, message: String },
    #[error(
        "{path} is there already and is not overwritten; choose another name with {option}, or remove it"
    )]
    Exists { path: PathBuf, option: &'static str },
    #[error("{}", not_created(path, source))]
    Create { path: PathBuf, source: io::Error },
    #[error("{text}")]
    Program { text: String, is_missing: bool },
    #[error(
        "cannot write the archive {path}: {message}; the capture log stays as it is; try again with: iotrace-perf convert {log} -o DIR/"
    )]
    Archive { path: PathBuf, log: PathBuf, message: String },
    #[error("cannot write the archive {path}: {message}; the recordings stay as they are")]
    MergedArchive { path: PathBuf, message: String },
    #[error("cannot {0}; without -o NAME.otf2 the log is recorded")]
    NoArchives(#[source] otf2_sys::Error),
    #[error("{0}")]
    Usage(String),
    #[error("cannot write the output: {}", plain(.0))]
    Output(io::Error),
    #[error("broken pipe")]
    BrokenPipe,
    #[error("interrupted")]
    Interrupted,
}

impl CliError {
    /// 126 and 127 for a program that could not be run, as shells have it.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Program { is_missing: true, .. } => 127,
            Self::Program { .. } => 126,
            _ => FAILURE,
        }
    }

    /// Returns the error of a recording, which may have a duration; that of a program has its
    /// cause.
    pub(super) fn of_recording(error: TracerError, duration: Option<Duration>) -> Self {
        match error {
            TracerError::Program { program, source } => Self::Program {
                text: program_error::explain(&program, &source)
                    + &program_error::unit_hint(&program, &source, duration),
                is_missing: source.kind() == io::ErrorKind::NotFound,
            },
            other => other.into(),
        }
    }

    /// An error of printing; a closed pipe is not one.
    pub(super) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::BrokenPipe
        } else {
            Self::Output(error)
        }
    }

    /// Returns the error of a file that was opened by another path than the one that messages show.
    pub(super) fn shown_as(self, path: &Path, shown: &Path) -> Self {
        match self {
            Self::Open { source, .. } => Self::Open { path: shown.into(), source },
            Self::Log { message, .. } => Self::Log { path: shown.into(), message },
            Self::Usage(text) => {
                Self::Usage(text.replace(&*path.to_string_lossy(), &shown.to_string_lossy()))
            }
            other => other,
        }
    }

    /// An error of reading the log at `path`; the caller handles errors of the sink.
    pub(super) fn pipeline<E: std::fmt::Display>(
        path: &std::path::Path,
        error: &PipelineError<E>,
    ) -> Self {
        if matches!(error, PipelineError::Interrupted) {
            return Self::Interrupted;
        }
        if matches!(error, PipelineError::Open(OpenError::NotALog) | PipelineError::NoHeader)
            && let Some(text) = file_kind::no_log(path)
        {
            return Self::Usage(text);
        }
        Self::Log { path: path.into(), message: error.to_string() }
    }
}

/// Explains a file that could not be opened.
fn not_opened(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no file {shown}"),
        io::ErrorKind::IsADirectory => format!("{shown} is a directory, not a file"),
        _ => format!("cannot open {shown}: {}", plain(error)),
    }
}

/// Explains a file or directory that could not be created.
fn not_created(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let why = plain(error);
    if error.kind() == io::ErrorKind::PermissionDenied {
        return format!("cannot make {shown}: {why}; choose another place{}", by_option(path));
    }
    if error.kind() == io::ErrorKind::NotADirectory {
        let file = path.ancestors().find(|above| above.is_file()).unwrap_or(path);
        let file = file.display();
        return format!("cannot make {shown}: {file} is a file; choose another place with -o");
    }
    if error.kind() != io::ErrorKind::NotFound {
        return format!("cannot make {shown}: {why}");
    }
    if !path.is_absolute() && std::env::current_dir().is_err() {
        return format!(
            "cannot make {shown}: the current directory was deleted; change to another one: cd"
        );
    }
    match parent.filter(|parent| !parent.exists()) {
        Some(parent) if is_temporary(parent) => format!(
            "there is no directory {}, which TMPDIR names; set TMPDIR to another one",
            parent.display()
        ),
        Some(parent) => {
            let parent = parent.display();
            format!("cannot make {shown}: there is no directory {parent}; try: mkdir -p {parent}")
        }
        // Such file systems have no files of users.
        None if ["/proc", "/sys"].iter().any(|root| path.starts_with(root)) => {
            format!(
                "cannot make files in {shown}: the kernel makes the files there; choose another place with -o"
            )
        }
        // The directory of new files.
        None => format!(
            "cannot make files in {shown}: there is no such directory; try: mkdir -p {shown}"
        ),
    }
}

/// Returns the option that chooses the place of a recording, for the files of one.
fn by_option(path: &Path) -> &'static str {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_recording =
        name.starts_with("iotrace_") || name.ends_with(".iocap") || name.ends_with(".otf2");
    if is_recording { " with -o DIR/" } else { "" }
}

/// True for the directory that `TMPDIR` names.
fn is_temporary(directory: &Path) -> bool {
    std::env::var_os("TMPDIR").is_some_and(|named| Path::new(&named) == directory)
}
