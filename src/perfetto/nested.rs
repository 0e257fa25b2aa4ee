//! Spans of one thread as nested slices.

use std::cmp::Reverse;
use std::io;

use super::packets::{PacketWriter, TrackId};
use super::words::{ArgumentName, EventCategory};
use crate::operation::span::Span;
use crate::units::KernelTime;

/// Period in which slices must be: that of a call, or the time between two calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlicePeriod {
    /// Earliest begin.
    pub(super) start: KernelTime,
    /// Latest end.
    pub(super) end: KernelTime,
}

/// Writes spans in any order. A span that reaches beyond the one that it began in, or beyond the
/// period, is cut there, and its recorded duration is an argument.
pub(super) fn write_spans<W: io::Write>(
    spans: &mut [Span],
    period: SlicePeriod,
    track: TrackId,
    out: &mut PacketWriter<W>,
) -> io::Result<()> {
    spans.sort_by_key(|span| (span.begin, Reverse(span.end)));
    let mut open: Vec<KernelTime> = Vec::new();
    for span in spans.iter() {
        let begin = span.begin.clamp(period.start, period.end);
        while let Some(end) = open.pop_if(|end| *end <= begin) {
            out.end_slice(track, end)?;
        }
        let latest = open.last().copied().unwrap_or(period.end);
        let end = span.end.clamp(begin, latest.max(begin));
        out.begin_slice(track, EventCategory::Layer, span.what);
        out.word(ArgumentName::Layer, Some(span.layer.as_str()));
        if (begin, end) != (span.begin, span.end) {
            out.unsigned(ArgumentName::DurationNs, Some(span.ns()));
        }
        out.end_event(begin)?;
        open.push(end);
    }
    while let Some(end) = open.pop() {
        out.end_slice(track, end)?;
    }
    Ok(())
}
