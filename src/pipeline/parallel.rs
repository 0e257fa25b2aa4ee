//! Choice of the number of threads.

use std::io;
use std::thread::available_parallelism;

use super::erased_sink::with_erased;
use super::error::PipelineError;
use super::serial::in_one;
use super::sink_stage::in_three;
use super::summary::Summary;
use super::threaded::in_two;
use crate::capture::header::Header;
use crate::capture::reader::Item;
use crate::operation::Sink;
use crate::units::KernelTime;

/// Processes the rest of a log as [`super::run`] does, in as many threads as there are CPUs, up to
/// three (and those that unpack payloads). A costly sink has three with two CPUs, too: the page of
/// a report took a fifth less time. Steps come later than their items are taken, so it is for logs
/// that do not grow.
///
/// # Errors
///
/// Errors of [`super::run`].
pub fn run_threaded<S: Sink>(
    items: impl Iterator<Item = io::Result<Item>> + Send,
    header: Header,
    sink: &mut S,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Summary, PipelineError<S::Error>> {
    run_until(items, header, KernelTime::MAX, sink, go_on)
}

/// Processes a log as [`run_threaded`] does, up to a time: the rest of the log is not read
/// ([`Summary::read_until`]). The sink gets all steps up to this time and some of the later ones.
/// Operations that are open then are not finished, whatever the rest of the log says.
///
/// # Errors
///
/// Errors of [`super::run`].
pub fn run_until<S: Sink>(
    mut items: impl Iterator<Item = io::Result<Item>> + Send,
    header: Header,
    until: KernelTime,
    sink: &mut S,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Summary, PipelineError<S::Error>> {
    let summary = with_erased(sink, |sink| match available_parallelism().map_or(1, usize::from) {
        1 => in_one(&mut items, header, until, sink, go_on),
        2 if !sink.is_costly() => in_two(&mut items, header, until, sink, go_on),
        _ => in_three(&mut items, header, until, sink, go_on),
    })?;
    if summary.is_damaged() {
        sink.damaged();
    }
    Ok(summary)
}
