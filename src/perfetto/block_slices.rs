//! Block requests: slices on lanes of their device, with the times in the queue and at the device
//! inside, and counters of each device.

use std::io;

use rustc_hash::FxHashMap;

use super::device_tracks::DeviceTracks;
use super::packets::{FlowId, FlowSide, PacketWriter, TrackId};
use super::task_tracks::TaskTracks;
use super::words::{ArgumentName, EventCategory};
use crate::anomaly::Link;
use crate::capture::header::Disk;
use crate::event::block::RequestOp;
use crate::operation::attribution::{BlockContents, Piece};
use crate::operation::block::{BlockRequest, BlockStep, FlushRole, RequestEnd, RequestId};
use crate::operation::disk;
use crate::operation::model::{ThreadInfo, ThreadKey};
use crate::text::errno::ErrnoName;
use crate::units::{DevId, KernelTime};

/// Request that has begun.
#[derive(Clone, Copy, Debug, Default)]
struct RequestInFlight {
    at_driver: bool,
    /// True if a flow leads to it from the call that has queued it.
    is_linked: bool,
}

/// All devices, and their requests in flight.
#[derive(Debug)]
pub(super) struct BlockSlices {
    names: FxHashMap<DevId, String>,
    devices: FxHashMap<DevId, DeviceTracks>,
    flights: FxHashMap<RequestId, RequestInFlight>,
}

/// Returns the flow from the call that has queued a request.
fn flow(id: RequestId) -> FlowId {
    FlowId((id.0 + 1) << 1)
}

impl BlockSlices {
    /// Takes the names of devices.
    pub(super) fn new(disks: &[Disk]) -> Self {
        let names = disk::names(disks).into_iter().collect();
        Self { names, devices: FxHashMap::default(), flights: FxHashMap::default() }
    }

    /// Processes one step of a request.
    pub(super) fn step<W: io::Write>(
        &mut self,
        time: KernelTime,
        step: &BlockStep<'_>,
        thread: Option<&ThreadInfo>,
        pieces: &[Piece],
        tasks: &mut TaskTracks,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        match step {
            BlockStep::Queued(request) => {
                let thread = thread.map(|thread| thread.key);
                self.queued(time, request, thread, tasks, out)
            }
            BlockStep::Issued(request) => self.moved(time, request, true, out),
            BlockStep::Requeued(request) => self.moved(time, request, false, out),
            BlockStep::Progressed(request) if request.data_completed.is_some() => {
                self.moved(time, request, false, out)
            }
            BlockStep::Ended(request) => self.ended(time, request, thread, pieces, out),
            BlockStep::Merged(_)
            | BlockStep::Inserted(_)
            | BlockStep::Progressed(_)
            | BlockStep::Anomaly(_) => Ok(()),
        }
    }

    fn queued<W: io::Write>(
        &mut self,
        time: KernelTime,
        request: &BlockRequest,
        thread: Option<ThreadKey>,
        tasks: &mut TaskTracks,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        let begin = request.begin().unwrap_or(time);
        let is_linked =
            thread.is_some_and(|key| tasks.request_queued(key, begin, flow(request.id)));
        self.flights.insert(request.id, RequestInFlight { at_driver: false, is_linked });
        self.device(request.dev, out)?.queued(time, out)
    }

    /// Moves a request to the driver, or back.
    fn moved<W: io::Write>(
        &mut self,
        time: KernelTime,
        request: &BlockRequest,
        to_driver: bool,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        let Some(flight) = self.flights.get_mut(&request.id) else { return Ok(()) };
        let was = std::mem::replace(&mut flight.at_driver, to_driver);
        match self.devices.get_mut(&request.dev) {
            Some(device) if was != to_driver => device.moved(time, to_driver, out),
            _ => Ok(()),
        }
    }

    fn ended<W: io::Write>(
        &mut self,
        time: KernelTime,
        request: &BlockRequest,
        thread: Option<&ThreadInfo>,
        pieces: &[Piece],
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        let flight = self.flights.remove(&request.id).unwrap_or_default();
        let start = request.begin().unwrap_or(time).min(time);
        let end = request.completed.unwrap_or(time).max(start);
        let device = self.device(request.dev, out)?;
        let track = device.lane(start, end, out)?;
        out.begin_slice(track, EventCategory::Block, request.op.as_str());
        if flight.is_linked {
            out.flow(FlowSide::End, flow(request.id));
        }
        self.arguments(request, thread, out);
        self.piece_arguments(pieces, out);
        out.end_event(start)?;
        parts(request, track, start, end, out)?;
        out.end_slice(track, end)?;
        self.device(request.dev, out)?.ended(time, request, flight.at_driver, out)
    }

    /// Returns the tracks of a device, which are described first.
    fn device<W: io::Write>(
        &mut self,
        dev: DevId,
        out: &mut PacketWriter<W>,
    ) -> io::Result<&mut DeviceTracks> {
        let name = match self.devices.contains_key(&dev) {
            true => None,
            false => Some(DeviceTracks::new(&self.name(dev), out)?),
        };
        match name {
            Some(device) => Ok(self.devices.entry(dev).or_insert(device)),
            None => self.devices.get_mut(&dev).ok_or_else(|| io::Error::other("no such device")),
        }
    }

    /// Returns the name of a device: `sda`, or `dev 8:0` if the capture does not know it.
    fn name(&self, dev: DevId) -> String {
        match self.names.get(&dev) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("dev {dev}"),
        }
    }

    fn arguments<W: io::Write>(
        &self,
        request: &BlockRequest,
        thread: Option<&ThreadInfo>,
        out: &mut PacketWriter<W>,
    ) {
        out.word(ArgumentName::Device, Some(&self.name(request.dev)));
        out.unsigned(ArgumentName::Request, Some(request.id.0));
        out.unsigned(ArgumentName::Sector, Some(request.sector));
        out.unsigned(ArgumentName::Bytes, Some(request.bytes()));
        out.unsigned(ArgumentName::BytesDone, Some(request.bytes_done));
        if let Some(submitter) = request.submitter {
            out.signed(ArgumentName::Pid, Some(submitter.pid.0.into()));
            out.signed(ArgumentName::Tid, Some(submitter.tid.0.into()));
        }
        out.text(ArgumentName::Comm, thread.map(|thread| thread.comm.as_slice()));
        out.word(ArgumentName::Rwbs, Some(&request.rwbs.to_string()));
        out.word(ArgumentName::Flush, flush(request.flush));
        out.unsigned(ArgumentName::Merges, Some(request.merges.into()).filter(|count| *count > 0));
        let requeues = Some(request.requeues.into()).filter(|count| *count > 0);
        out.unsigned(ArgumentName::Requeues, requeues);
        if let Some(error) = request.error {
            out.word(ArgumentName::Errno, Some(&ErrnoName(error).to_string()));
        }
        let ending = match request.ending {
            Some(RequestEnd::Completed) => "completed",
            Some(RequestEnd::Absorbed { .. }) => "absorbed",
            Some(RequestEnd::Unfinished(_)) | None => "unfinished",
        };
        out.word(ArgumentName::Ending, Some(ending));
        if let Some(RequestEnd::Absorbed { into: Some(into), .. }) = request.ending {
            out.unsigned(ArgumentName::Into, Some(into.0));
        }
    }

    /// Adds the attribution of a request: in full for its first piece.
    fn piece_arguments<W: io::Write>(&self, pieces: &[Piece], out: &mut PacketWriter<W>) {
        let Some(first) = pieces.first() else { return };
        out.word(ArgumentName::Contents, Some(first.contents.as_str()));
        out.word(ArgumentName::Link, Some(first.contents.link().as_str()));
        if let BlockContents::File { key, offset, file, .. } = &first.contents {
            match file.as_ref().and_then(|file| file.path.as_ref()) {
                Some(path) => out.path(Some(path)),
                None => out.unsigned(ArgumentName::Inode, Some(key.1)),
            }
            out.unsigned(ArgumentName::Offset, *offset);
        }
        out.word(ArgumentName::Program, first.program().map(Link::as_str));
        if let Some(writer) = first.writers.first() {
            out.signed(ArgumentName::Writer, Some(writer.pid.0.into()));
            out.text(ArgumentName::WriterComm, Some(&writer.comm));
        }
        let count = Some(pieces.len() as u64).filter(|count| *count > 1);
        out.unsigned(ArgumentName::Pieces, count);
    }
}

fn flush(role: FlushRole) -> Option<&'static str> {
    match role {
        FlushRole::None => None,
        FlushRole::Sequence => Some("sequence"),
        FlushRole::Demand => Some("demand"),
        FlushRole::Device { .. } => Some("device"),
    }
}

/// Writes the times of a request in the queue, until its first issue, and at the device, from the
/// last issue on.
fn parts<W: io::Write>(
    request: &BlockRequest,
    track: TrackId,
    start: KernelTime,
    end: KernelTime,
    out: &mut PacketWriter<W>,
) -> io::Result<()> {
    let issued = request.issued.map(|issued| issued.clamp(start, end));
    let queue = (start, issued.unwrap_or(end));
    // A bio of a device without a queue is at the device for all its time.
    if issued.is_some() || request.op == RequestOp::Flush || request.queued.is_some() {
        out.begin_slice(track, EventCategory::BlockPart, "queue");
        out.end_event(queue.0)?;
        out.end_slice(track, queue.1)?;
    }
    if let Some(first) = issued {
        let last = request.reissued.map_or(first, |again| again.clamp(first, end));
        let done = request.data_completed.map_or(end, |done| done.clamp(last, end));
        out.begin_slice(track, EventCategory::BlockPart, "device");
        out.end_event(last)?;
        out.end_slice(track, done)?;
    }
    Ok(())
}
