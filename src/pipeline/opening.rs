//! Begin of a log: its header.

use std::io::Read;

use super::error::PipelineError;
use crate::capture::format::FrameKind;
use crate::capture::header::Header;
use crate::capture::reader::{Item, Reader, json};

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
