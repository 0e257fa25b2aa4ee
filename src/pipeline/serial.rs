//! Serial pipeline: both stages in the thread of the caller.

use std::io;

use super::decode_stage::DecodeStage;
use super::erased_sink::{ErasedSink, SinkFailed, with_erased};
use super::error::PipelineError;
use super::summary::Summary;
use super::track_stage::TrackStage;
use crate::capture::header::Header;
use crate::capture::reader::Item;
use crate::operation::Sink;
use crate::units::KernelTime;

/// Processes the rest of a log. Each round calls `go_on`, which returns false to stop.
///
/// # Errors
///
/// [`PipelineError`]; the sink has got no further step then.
pub fn run<S: Sink>(
    mut items: impl Iterator<Item = io::Result<Item>>,
    header: Header,
    sink: &mut S,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Summary, PipelineError<S::Error>> {
    with_erased(sink, |sink| in_one(&mut items, header, KernelTime::MAX, sink, go_on))
}

/// Processes a log up to a time.
pub(super) fn in_one(
    items: &mut dyn Iterator<Item = io::Result<Item>>,
    header: Header,
    until: KernelTime,
    sink: &mut ErasedSink<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Summary, PipelineError<SinkFailed>> {
    let mut back = TrackStage::new(&header, sink, go_on);
    let mut front = DecodeStage::new(header)?.until(until);
    front.read(items, &mut back)?;
    back.finish(front.into_summary())
}
