//! Asynchronous operations: slices on lanes of their ring or context.

use std::io;

use rustc_hash::{FxHashMap, FxHashSet};

use super::lanes::TrackLanes;
use super::packets::{FlowId, FlowSide, PacketWriter, TrackId};
use super::task_tracks::{TaskTracks, process_track};
use super::words::{ArgumentName, EventCategory};
use crate::event::async_table::Interface;
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::operation::model::ProcessKey;
use crate::text::errno::ErrnoName;
use crate::units::KernelTime;

/// Key of a ring or context within its process.
type RingKey = (Interface, u64);

/// A ring, or a context of `io_submit`.
#[derive(Debug, Default)]
struct RingTracks {
    lanes: TrackLanes,
    /// Number of the ring among those of its process, from 1.
    number: usize,
}

/// Limit on rings of one process; beyond it their lanes are not used again.
const RINGS_MAX: usize = 1 << 12;

/// Rings of a process.
#[derive(Debug, Default)]
struct ProcessRings {
    rings: FxHashMap<RingKey, RingTracks>,
    /// Number of rings so far.
    seen: usize,
}

/// Rings of all processes that have not ended, and operations in flight.
#[derive(Debug, Default)]
pub(super) struct AsyncSlices {
    processes: FxHashMap<ProcessKey, ProcessRings>,
    /// Operations in flight to which a flow leads.
    linked: FxHashSet<u64>,
}

/// Returns the flow from the call in which the kernel took an operation.
fn flow(operation: &AsyncOperation) -> FlowId {
    FlowId((operation.id + 1) << 1 | 1)
}

impl AsyncSlices {
    /// Takes note of the begin of an operation.
    pub(super) fn begun(&mut self, operation: &AsyncOperation, tasks: &mut TaskTracks) {
        if tasks.operation_taken(operation.thread, operation.start, flow(operation)) {
            self.linked.insert(operation.id);
        }
    }

    /// Writes an operation that ends at `time`.
    pub(super) fn write<W: io::Write>(
        &mut self,
        operation: &AsyncOperation,
        unfinished: Option<NoResult>,
        time: KernelTime,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        let end = operation.end.unwrap_or(time).max(operation.start);
        let track = self.lane(operation, end, out)?;
        let kind = operation.opcode.request_kind();
        out.begin_slice(track, EventCategory::Async, kind.name);
        out.word(ArgumentName::Interface, Some(operation.opcode.interface.as_str()));
        if !operation.opcode.is_known() {
            out.unsigned(ArgumentName::Opcode, Some(operation.opcode.number.into()));
        }
        out.signed(ArgumentName::Tid, Some(operation.tid.0.into()));
        out.signed(ArgumentName::Fd, operation.fd.map(|fd| fd.0.into()));
        out.path(operation.file.as_ref().and_then(|file| file.path.as_ref()));
        out.unsigned(ArgumentName::Offset, operation.offset);
        out.unsigned(ArgumentName::BytesRequested, operation.bytes_requested);
        out.signed(ArgumentName::Result, operation.result);
        out.unsigned(ArgumentName::Bytes, operation.bytes());
        if let Some(errno) = operation.errno() {
            out.word(ArgumentName::Errno, Some(&ErrnoName(errno).to_string()));
        }
        if let Some((fd, file)) = &operation.target {
            out.signed(ArgumentName::Fd2, Some(fd.0.into()));
            out.text(ArgumentName::Path2, file.path.as_ref().map(|path| path.bytes.as_slice()));
        }
        out.address(ArgumentName::UserData, Some(operation.user_data));
        out.word(ArgumentName::File, operation.fixed_file.then_some("registered"));
        out.word(ArgumentName::DoneBy, operation.by_worker.then_some("worker"));
        out.word(ArgumentName::Unfinished, unfinished.map(NoResult::as_str));
        if self.linked.remove(&operation.id) {
            out.flow(FlowSide::End, flow(operation));
        }
        out.end_event(operation.start)?;
        out.end_slice(track, end)
    }

    fn lane<W: io::Write>(
        &mut self,
        operation: &AsyncOperation,
        end: KernelTime,
        out: &mut PacketWriter<W>,
    ) -> io::Result<TrackId> {
        let process = self.processes.entry(operation.process).or_default();
        let interface = operation.opcode.interface;
        let key = (interface, operation.ring);
        if process.rings.len() >= RINGS_MAX && !process.rings.contains_key(&key) {
            process.rings.clear();
        }
        let ring = process.rings.entry(key).or_insert_with(|| {
            process.seen += 1;
            RingTracks { number: process.seen, ..RingTracks::default() }
        });
        if let Some(free) = ring.lanes.take(operation.start, end) {
            return Ok(free);
        }
        let id = out.new_track();
        let name = match interface {
            Interface::IoUring => format!("io_uring ring {}", ring.number),
            Interface::Aio => format!("libaio context {}", ring.number),
        };
        out.describe(id, Some(process_track(operation.process)), name.as_bytes(), |_| ())?;
        ring.lanes.add(id, end);
        Ok(id)
    }

    /// Forgets the rings of a process.
    pub(super) fn process_ended(&mut self, key: ProcessKey) {
        self.processes.remove(&key);
    }
}
