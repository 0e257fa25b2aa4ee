//! Errors of the pipeline.

use std::io;

use thiserror::Error;

use crate::capture::reader::OpenError;
use crate::event::decode::DecoderError;

/// Reasons why a log cannot be processed.
#[derive(Debug, Error)]
pub enum PipelineError<E> {
    /// The file is not a readable log.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The log has no header, without which its records have no meaning.
    #[error("the log has no readable header: its records cannot be interpreted")]
    NoHeader,
    /// The header's JSON is not what this version expects.
    #[error("the log's header is not understood: {0}")]
    Header(serde_json::Error),
    /// The formats in the header cannot be used.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// A kind of record that this version does not read.
    #[error("the log has records of a kind that this version does not read (layout {0})")]
    Layout(usize),
    /// The sink failed.
    #[error("{0}")]
    Sink(E),
    /// Reading stopped in the middle of the log.
    #[error("cannot read the log: {0}")]
    Read(io::Error),
    /// The caller stopped the run.
    #[error("interrupted")]
    Interrupted,
}

impl<E> PipelineError<E> {
    /// Returns the error for another sink; `other` makes it of an error of this one.
    pub(super) fn map_sink<F>(self, other: impl FnOnce(E) -> PipelineError<F>) -> PipelineError<F> {
        match self {
            Self::Open(error) => PipelineError::Open(error),
            Self::NoHeader => PipelineError::NoHeader,
            Self::Header(error) => PipelineError::Header(error),
            Self::Decoder(error) => PipelineError::Decoder(error),
            Self::Layout(number) => PipelineError::Layout(number),
            Self::Sink(error) => other(error),
            Self::Read(error) => PipelineError::Read(error),
            Self::Interrupted => PipelineError::Interrupted,
        }
    }
}
