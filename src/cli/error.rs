//! Errors of the command line, and their exit codes.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::exit_code::FAILURE;
use crate::pipeline::PipelineError;
use crate::tracer::error::TracerError;

/// Errors of the command line. Messages print them after "error: ".
#[derive(Debug, Error)]
pub(super) enum CliError {
    #[error(transparent)]
    Tracer(#[from] TracerError),
    #[error("cannot open {path}: {source}")]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot read {path}: {message}")]
    Log { path: PathBuf, message: String },
    #[error(
        "{path} is there already and is not overwritten; choose another name with -o, or remove it"
    )]
    Exists { path: PathBuf },
    #[error("cannot make {path}: {source}")]
    Create { path: PathBuf, source: io::Error },
    #[error(
        "cannot write the archive {path}: {message}; the capture log stays as it is; try again with: iotrace-perf convert {log} -o DIR/"
    )]
    Archive { path: PathBuf, log: PathBuf, message: String },
    #[error("{0}")]
    Usage(String),
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    #[error("broken pipe")]
    BrokenPipe,
    #[error("interrupted")]
    Interrupted,
}

impl CliError {
    /// 126 and 127 for a program that could not be run, as shells have it.
    pub(super) fn exit_code(&self) -> u8 {
        if let Self::Tracer(TracerError::Program { source, .. }) = self {
            return if source.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
        }
        FAILURE
    }

    /// An error of printing; a closed pipe is not one.
    pub(super) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::BrokenPipe
        } else {
            Self::Output(error)
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
        Self::Log { path: path.into(), message: error.to_string() }
    }
}
