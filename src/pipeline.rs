//! Processes a capture log into a sink: reads, merges, decodes, names and pairs its records.
//!
//! The stages are the same for every sink. Memory is bounded by two rounds of records, not by the
//! length of the capture.

mod chains;
mod decode_stage;
mod decoding;
mod error;
mod frame_records;
mod others;
mod pid_reuse;
mod recorded;
mod stage_message;
mod summary;
mod threaded;
mod track_stage;

use std::io::{self, Read};

use decode_stage::DecodeStage;
pub use error::PipelineError;
pub use others::OtherRequests;
pub use summary::Summary;
pub use threaded::{run_in_two_threads, run_threaded};
use track_stage::TrackStage;

use crate::capture::format::FrameKind;
use crate::capture::header::Header;
use crate::capture::reader::{Item, Reader, json};
use crate::operation::Sink;

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

/// Processes the rest of a log. Each round calls `go_on`, which returns false to stop.
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
