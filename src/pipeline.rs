//! A capture log, from front to back, into a sink: read, merge, decode, name, pair.
//!
//! The same stages whatever becomes of the operations. Memory is bounded by two rounds of records, not by the length of
//! the capture.

mod chains;
mod decode_stage;
mod decoding;
mod frame_records;
mod others;
mod pid_reuse;
mod stage_message;
mod summary;
mod threaded;
mod track_stage;

use std::io::{self, Read};

use thiserror::Error;

use decode_stage::DecodeStage;
pub use others::Others;
pub use summary::Summary;
pub use threaded::{run_in_two_threads, run_threaded};
use track_stage::TrackStage;

use crate::capture::format::FrameKind;
use crate::capture::header::Header;
use crate::capture::reader::{Item, OpenError, Reader, json};
use crate::event::decode::DecoderError;
use crate::operation::Sink;

/// Why a log cannot be worked through.
#[derive(Debug, Error)]
pub enum PipelineError<E> {
    /// It cannot be read at all.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It has no header, so its records mean nothing.
    #[error("the log has no readable header: nothing can be made of its records")]
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
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Opens a log and reads its header.
///
/// # Errors
///
/// [`PipelineError`]: not a log, no header.
pub fn open<R: Read, E>(input: R) -> Result<(Reader<R>, Header), PipelineError<E>> {
    let mut reader = Reader::new(input)?;
    match reader.next_item().map_err(PipelineError::Read)? {
        Some(Item::Frame(header, payload)) => {
            match json::<Header>(&header, &payload, FrameKind::HEADER) {
                Some(Ok(header)) => Ok((reader, header)),
                Some(Err(error)) => Err(PipelineError::Header(error)),
                None => Err(PipelineError::NoHeader),
            }
        }
        _ => Err(PipelineError::NoHeader),
    }
}

/// Works through the rest of a log, whoever reads it. `go_on` is asked at each round.
///
/// # Errors
///
/// [`PipelineError`]; the sink has got no further step then.
pub fn run<S: Sink>(
    items: impl Iterator<Item = io::Result<Item>>,
    header: Header,
    sink: &mut S,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Summary, PipelineError<S::Error>> {
    let mut back = TrackStage::new(&header, sink, go_on);
    let mut front = DecodeStage::new(header)?;
    front.read(items, &mut back)?;
    back.finish(front.into_summary())
}
