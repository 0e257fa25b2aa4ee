//! System calls and page faults: slices and instants on the tracks of threads.
//!
//! A call is written when it ends, its begin included: only then are its file, its result and the
//! block requests that it caused known. Readers sort packets by time.

use std::io;

use super::nested::{SlicePeriod, write_spans};
use super::packets::{FlowSide, PacketWriter};
use super::task_tracks::{CallFacts, TaskTracks, thread_track};
use super::words::{ArgumentName, EventCategory};
use crate::event::layer::Layer;
use crate::operation::fault::Fault;
use crate::operation::model::{FilePath, SyscallOperation, Unfinished};
use crate::operation::span::Span;
use crate::text::errno::ErrnoName;
use crate::units::KernelTime;

/// Writes a call that ends at `time`.
#[inline]
pub(super) fn write_call<W: io::Write>(
    operation: &SyscallOperation,
    unfinished: Option<Unfinished>,
    time: KernelTime,
    tasks: &mut TaskTracks,
    out: &mut PacketWriter<W>,
) -> io::Result<()> {
    let track = thread_track(operation.thread);
    let end = operation.end.unwrap_or(time);
    let ended = tasks.call_ended(operation.thread, end);
    // Calls of imported logs may overlap.
    let period = SlicePeriod {
        start: operation.start.max(ended.earliest),
        end: end.max(operation.start.max(ended.earliest)),
    };
    out.begin_slice(track, EventCategory::Syscall, operation.call.call().name);
    arguments(operation, unfinished, &ended, out);
    if (period.start, period.end) != (operation.start, end) {
        let duration = end.since(operation.start).map(|duration| duration.0);
        out.unsigned(ArgumentName::StartNs, Some(operation.start.0));
        out.unsigned(ArgumentName::DurationNs, duration);
    }
    for flow in ended.flows {
        out.flow(FlowSide::Begin, *flow);
    }
    out.end_event(period.start)?;
    if !operation.spans.is_empty() {
        // Requests have tracks of their own.
        let is_inside = |span: &&Span| !matches!(span.layer, Layer::Queue | Layer::Device);
        let mut spans: Vec<Span> = operation.spans.iter().filter(is_inside).copied().collect();
        write_spans(&mut spans, period, track, out)?;
    }
    out.end_slice(track, period.end)
}

#[inline]
fn arguments<W: io::Write>(
    operation: &SyscallOperation,
    unfinished: Option<Unfinished>,
    ended: &CallFacts<'_>,
    out: &mut PacketWriter<W>,
) {
    let is_over = unfinished.is_none();
    out.signed(ArgumentName::Fd, operation.fd.map(|fd| fd.0.into()));
    out.path(operation.path());
    out.unsigned(ArgumentName::Offset, operation.offset);
    out.unsigned(ArgumentName::BytesRequested, operation.bytes_requested);
    let result = operation.ret.filter(|_| is_over);
    out.signed(ArgumentName::Result, result);
    if operation.call.call().returns_bytes() {
        let bytes = result.and_then(|result| u64::try_from(result).ok());
        out.unsigned(ArgumentName::Bytes, bytes);
    }
    if let Some(errno) = operation.errno().filter(|_| is_over) {
        out.word(ArgumentName::Errno, Some(&ErrnoName(errno).to_string()));
    }
    if operation.named.is_some() || operation.target.is_some() {
        further_files(operation, out);
    }
    out.unsigned(ArgumentName::Requests, Some(ended.requests).filter(|requests| *requests > 0));
    out.word(ArgumentName::Unfinished, unfinished.map(Unfinished::as_str));
}

fn further_files<W: io::Write>(operation: &SyscallOperation, out: &mut PacketWriter<W>) {
    let first = operation.named.as_ref().and_then(|named| named.first.as_ref());
    out.text(ArgumentName::PathAbsolute, first.and_then(|path| path.absolute.as_deref()));
    let target = operation.target.as_ref();
    out.signed(ArgumentName::Fd2, target.map(|(fd, _)| fd.0.into()));
    let of_target = || target.and_then(|(_, file)| file.path.as_ref());
    let second: Option<&FilePath> = operation.second_path().or_else(of_target);
    out.text(ArgumentName::Path2, second.map(|path| path.bytes.as_slice()));
    out.unsigned(ArgumentName::Offset2, operation.target_offset);
}

/// Writes a fault. Its end is not recorded.
pub(super) fn write_fault<W: io::Write>(
    fault: &Fault,
    out: &mut PacketWriter<W>,
) -> io::Result<()> {
    out.begin_instant(thread_track(fault.thread), EventCategory::Fault, "page fault");
    out.path(fault.file.path.as_ref());
    out.unsigned(ArgumentName::Offset, Some(fault.offset));
    out.word(ArgumentName::Access, fault.access());
    out.address(ArgumentName::Address, fault.address);
    out.end_event(fault.time)
}
