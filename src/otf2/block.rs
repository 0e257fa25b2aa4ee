//! Block requests: non-blocking operations on a location per device, and on that of the submitting
//! thread.
//!
//! ```text
//!   Queued   → Begin
//!   Issued   → Issued (the first)   the first at the driver: Enter busy
//!   Ended    → Complete             the last one there: Leave busy
//!     absorbed → Cancelled
//! ```
//!
//! A device is busy while its driver has a request. A request waits before that, between (after a
//! requeue), and, if flushes belong to it, after that.

use otf2_sys::{
    EvtWriter, IoAccessMode, IoBegin, IoHandleRef, IoOperationFlags, IoOperationMode,
    IoStatusFlags, MetricRef,
};
use rustc_hash::FxHashMap;

use super::attributes::AttributeList;
use super::definitions::registry::{Definitions, LocationOwner};
use super::error::OtfError;
use super::handles::{HandleKey, HandleLayer};
use super::posix::Writing;
use super::tasks::TaskDefinitions;
use super::text::printable;
use crate::capture::header::Disk;
use crate::event::block::RequestOp;
use crate::operation::attribution::{BlockContents, Piece};
use crate::operation::block::{BlockRequest, BlockStep, FlushRole, RequestEnd, RequestId};
use crate::operation::disk;
use crate::operation::model::{ThreadInfo, ThreadKey};
use crate::units::DevId;

/// Metric of the requests that wait and that are at the driver: valid until the next value.
pub(super) const REQUESTS: MetricRef = MetricRef::new(0);
/// Metric of the bytes read and written so far.
pub(super) const BYTES: MetricRef = MetricRef::new(1);

/// A device that has had a request.
#[derive(Debug)]
struct DeviceLocation {
    writer: EvtWriter,
    handle: IoHandleRef,
    waiting: u64,
    at_driver: u64,
    bytes_read: u64,
    bytes_written: u64,
}

/// A request that has begun.
#[derive(Clone, Copy, Debug)]
struct DeviceFlight {
    id: u64,
    /// True if the issue was written to OTF2, which accepts only one.
    issued: bool,
    at_driver: bool,
    on_thread: Option<OnThread>,
}

/// Copy of a request in flight on the location of a thread.
#[derive(Clone, Copy, Debug)]
struct OnThread {
    thread: ThreadKey,
    handle: IoHandleRef,
    id: u64,
}

/// End of an operation on a request.
#[derive(Debug)]
struct RequestOutcome {
    cancelled: bool,
    bytes: Option<u64>,
    notes: AttributeList,
}

/// All devices and their requests in flight.
#[derive(Debug)]
pub(super) struct Devices {
    names: FxHashMap<DevId, String>,
    devices: FxHashMap<DevId, DeviceLocation>,
    flights: FxHashMap<RequestId, DeviceFlight>,
    on_threads: bool,
    /// Text before the names of handles: the host, in an archive of several hosts.
    prefix: String,
}

impl Devices {
    pub(super) fn new(disks: &[Disk], on_threads: bool) -> Self {
        let names = disk::names(disks).into_iter().collect();
        let (devices, flights) = (FxHashMap::default(), FxHashMap::default());
        Self { names, devices, flights, on_threads, prefix: String::new() }
    }

    /// Sets the text before the names of handles.
    pub(super) fn with_prefix(self, prefix: String) -> Self {
        Self { prefix, ..self }
    }

    /// Name of a device: `sda`, or `dev 8:0` if the capture does not know it.
    pub(super) fn name(&self, dev: DevId) -> String {
        match self.names.get(&dev) {
            Some(name) if !name.is_empty() => printable(name.as_bytes()).into_owned(),
            _ => format!("dev {dev}"),
        }
    }

    /// Processes one step of a request.
    pub(super) fn step(
        &mut self,
        step: &BlockStep<'_>,
        thread: Option<&ThreadInfo>,
        pieces: &[Piece],
        tasks: &mut TaskDefinitions,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        match step {
            BlockStep::Queued(request) => self.begin(request, thread, tasks, out),
            BlockStep::Issued(request) => {
                self.issue(request, tasks, out)?;
                self.moves(request.id, request.dev, true, out)
            }
            BlockStep::Requeued(request) => self.moves(request.id, request.dev, false, out),
            BlockStep::Progressed(request) if request.data_completed.is_some() => {
                self.moves(request.id, request.dev, false, out)
            }
            BlockStep::Ended(request) => self.end(request, pieces, tasks, out),
            // A merge makes the request longer, so it may transfer more than its begin states. A
            // requeue is followed by another issue, of which OTF2 accepts only one.
            BlockStep::Merged(_)
            | BlockStep::Inserted(_)
            | BlockStep::Progressed(_)
            | BlockStep::Anomaly(_) => Ok(()),
        }
    }

    fn begin(
        &mut self,
        request: &BlockRequest,
        thread: Option<&ThreadInfo>,
        tasks: &mut TaskDefinitions,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        let mut notes = AttributeList::new();
        notes.sector(request.sector);
        if let Some(submitter) = request.submitter {
            notes.task(submitter.pid.0, submitter.tid.0);
        }
        if let Some(word) = operation(request) {
            notes.operation(Some(out.definitions.archive.intern(word)?));
        }
        let id = out.slots.take();
        let time = out.time;
        let device = self.device(request.dev, out.definitions)?;
        device.writer.io_operation_begin(
            time,
            &io_begin(request, device.handle, id),
            notes.list(),
        )?;
        device.waiting += 1;
        device.write_requests(time)?;
        let on_thread = match thread.filter(|_| self.on_threads) {
            Some(thread) => self.begin_on_thread(request, thread.key, &notes, tasks, out)?,
            None => None,
        };
        self.flights
            .insert(request.id, DeviceFlight { id, issued: false, at_driver: false, on_thread });
        Ok(())
    }

    fn begin_on_thread(
        &self,
        request: &BlockRequest,
        thread: ThreadKey,
        notes: &AttributeList,
        tasks: &mut TaskDefinitions,
        out: &mut Writing<'_>,
    ) -> Result<Option<OnThread>, OtfError> {
        let handle = self.handle(HandleLayer::BlockByThread, request.dev, out.definitions)?;
        let Some(active) = tasks.active(thread, out.definitions)? else { return Ok(None) };
        let id = out.slots.take();
        active.writer.io_operation_begin(out.time, &io_begin(request, handle, id), notes.list())?;
        *active.requests += 1;
        Ok(Some(OnThread { thread, handle, id }))
    }

    fn issue(
        &mut self,
        request: &BlockRequest,
        tasks: &mut TaskDefinitions,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        let Some(flight) = self.flights.get_mut(&request.id) else { return Ok(()) };
        if std::mem::replace(&mut flight.issued, true) {
            return Ok(());
        }
        if let Some(device) = self.devices.get_mut(&request.dev) {
            device.writer.io_operation_issued(out.time, device.handle, flight.id, &[])?;
        }
        if let Some(on_thread) = flight.on_thread
            && let Some(active) = tasks.active(on_thread.thread, out.definitions)?
        {
            active.writer.io_operation_issued(out.time, on_thread.handle, on_thread.id, &[])?;
        }
        Ok(())
    }

    /// Moves a request to the driver, or back.
    fn moves(
        &mut self,
        id: RequestId,
        dev: DevId,
        to_driver: bool,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        let Some(flight) = self.flights.get_mut(&id) else { return Ok(()) };
        let was = std::mem::replace(&mut flight.at_driver, to_driver);
        match self.devices.get_mut(&dev) {
            Some(device) if was != to_driver => device.moves(to_driver, out),
            _ => Ok(()),
        }
    }

    fn end(
        &mut self,
        request: &BlockRequest,
        pieces: &[Piece],
        tasks: &mut TaskDefinitions,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        // OTF2 requires an issue of every non-blocking operation before its end.
        self.issue(request, tasks, out)?;
        let Some(flight) = self.flights.remove(&request.id) else { return Ok(()) };
        let mut outcome = self.outcome(request);
        self.note_pieces(pieces, &mut outcome.notes, out.definitions)?;
        if let Some(device) = self.devices.get_mut(&request.dev) {
            finish(&mut device.writer, out.time, device.handle, flight.id, &outcome)?;
            device.ended(request, flight.at_driver, out)?;
        }
        out.slots.give_back(flight.id);
        let Some(on_thread) = flight.on_thread else { return Ok(()) };
        if let Some(active) = tasks.active(on_thread.thread, out.definitions)? {
            finish(active.writer, out.time, on_thread.handle, on_thread.id, &outcome)?;
        }
        out.slots.give_back(on_thread.id);
        tasks.request_ended(on_thread.thread, out.definitions)
    }

    /// Adds the attribution of a request: in full for its first piece.
    fn note_pieces(
        &self,
        pieces: &[Piece],
        notes: &mut AttributeList,
        definitions: &mut Definitions,
    ) -> Result<(), OtfError> {
        let Some(first) = pieces.first() else { return Ok(()) };
        let link = match &first.contents {
            BlockContents::File { key, offset, file, link } => {
                match file.as_ref().and_then(|file| file.path.as_ref()) {
                    Some(path) => {
                        notes.path(Some(definitions.archive.intern(&printable(&path.bytes))?));
                    }
                    None => {
                        notes.inode(key.1);
                    }
                }
                notes.offset(*offset);
                link.as_str()
            }
            other => other.as_str(),
        };
        let via: Vec<String> = first.levels.iter().map(|level| self.name(level.dev)).collect();
        let via = match via.as_slice() {
            [] => None,
            names => Some(definitions.archive.intern(&names.join(" <- "))?),
        };
        let link = definitions.archive.intern(link)?;
        notes.attribution(link, u32::try_from(pieces.len()).unwrap_or(u32::MAX), via);
        let program = definitions
            .archive
            .intern(first.program().map_or("none", |program| program.as_str()))?;
        notes.program(program, first.writers.first().map(|writer| writer.pid.0));
        Ok(())
    }

    fn outcome(&self, request: &BlockRequest) -> RequestOutcome {
        let mut outcome =
            RequestOutcome { cancelled: false, bytes: None, notes: AttributeList::new() };
        match request.ending {
            Some(RequestEnd::Completed) => {
                outcome.notes.errno(request.error);
                outcome.bytes = Some(request.bytes_done)
                    .filter(|_| request.error.is_none() && moves_data(request.op));
            }
            Some(RequestEnd::Absorbed { into, .. }) => {
                outcome.cancelled = true;
                outcome
                    .notes
                    .merged_into(into.and_then(|id| self.flights.get(&id)).map(|flight| flight.id));
            }
            Some(RequestEnd::Unfinished(_)) | None => {
                outcome.notes.truncated();
            }
        }
        outcome
    }

    fn device(
        &mut self,
        dev: DevId,
        definitions: &mut Definitions,
    ) -> Result<&mut DeviceLocation, OtfError> {
        if !self.devices.contains_key(&dev) {
            let handle = self.handle(HandleLayer::Block, dev, definitions)?;
            let writer = definitions.open(LocationOwner::Device(dev))?;
            let device = DeviceLocation {
                writer,
                handle,
                waiting: 0,
                at_driver: 0,
                bytes_read: 0,
                bytes_written: 0,
            };
            self.devices.insert(dev, device);
        }
        // The entry exists now; the map's entry API cannot create a value by a fallible call.
        Ok(self.devices.get_mut(&dev).expect("inserted above"))
    }

    fn handle(
        &self,
        layer: HandleLayer,
        dev: DevId,
        definitions: &mut Definitions,
    ) -> Result<IoHandleRef, OtfError> {
        let name = format!("{}{}", self.prefix, self.name(dev));
        let name = definitions.archive.intern(&name)?;
        let pre_created = Some((IoAccessMode::READ_WRITE, IoStatusFlags::NONE));
        definitions.handles.handle(HandleKey {
            layer,
            number: dev.0,
            file: None,
            name,
            pre_created,
            host: definitions.host,
        })
    }

    /// Closes the locations of all devices.
    pub(super) fn close_all(&mut self, definitions: &mut Definitions) -> Result<(), OtfError> {
        self.devices.drain().try_for_each(|(_, device)| definitions.close(device.writer))
    }
}

impl DeviceLocation {
    fn write_requests(&mut self, time: u64) -> Result<(), OtfError> {
        Ok(self.writer.metric(time, REQUESTS, &[self.waiting, self.at_driver], &[])?)
    }

    /// Counts a request that moves to the driver, or back.
    fn moves(&mut self, to_driver: bool, out: &mut Writing<'_>) -> Result<(), OtfError> {
        let (time, busy) = (out.time, out.definitions.regions.busy());
        if to_driver {
            self.waiting = self.waiting.saturating_sub(1);
            self.at_driver += 1;
            if self.at_driver == 1 {
                self.writer.enter(time, busy, &[])?;
            }
        } else {
            self.at_driver = self.at_driver.saturating_sub(1);
            self.waiting += 1;
        }
        self.write_requests(time)?;
        if self.at_driver == 0 {
            self.writer.leave(time, busy, &[])?;
        }
        Ok(())
    }

    /// Counts the end of a request.
    fn ended(
        &mut self,
        request: &BlockRequest,
        was_at_driver: bool,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        let time = out.time;
        let left = if was_at_driver { &mut self.at_driver } else { &mut self.waiting };
        *left = left.saturating_sub(1);
        self.write_requests(time)?;
        let sum = match mode(request.op) {
            IoOperationMode::READ => Some(&mut self.bytes_read),
            IoOperationMode::WRITE if is_plain(request.op) => Some(&mut self.bytes_written),
            _ => None,
        };
        if let Some(sum) = sum.filter(|_| request.error.is_none() && request.bytes_done > 0) {
            *sum += request.bytes_done;
            self.writer.metric(time, BYTES, &[self.bytes_read, self.bytes_written], &[])?;
        }
        if was_at_driver && self.at_driver == 0 {
            self.writer.leave(time, out.definitions.regions.busy(), &[])?;
        }
        Ok(())
    }
}

/// True if the request has a number of bytes: flushes, zone management and driver commands have
/// none.
fn moves_data(op: RequestOp) -> bool {
    match op {
        RequestOp::Read
        | RequestOp::Write
        | RequestOp::Discard
        | RequestOp::SecureErase
        | RequestOp::WriteZeroes
        | RequestOp::ZoneAppend => true,
        RequestOp::Flush
        | RequestOp::ZoneReset
        | RequestOp::ZoneResetAll
        | RequestOp::ZoneOpen
        | RequestOp::ZoneClose
        | RequestOp::ZoneFinish
        | RequestOp::Other => false,
    }
}

/// True if the mode describes the operation completely; an attribute names the others.
fn is_plain(op: RequestOp) -> bool {
    matches!(op, RequestOp::Read | RequestOp::Write | RequestOp::Flush | RequestOp::ZoneAppend)
}

/// Name of an operation that the mode does not describe.
fn operation(request: &BlockRequest) -> Option<&'static str> {
    match request.flush {
        FlushRole::Demand => Some("preflush"),
        _ => Some(request.op.as_str()).filter(|_| !is_plain(request.op)),
    }
}

/// Mode of an operation. OTF2 has three: all operations except for reads and flushes count as
/// writes.
fn mode(op: RequestOp) -> IoOperationMode {
    match op {
        RequestOp::Read => IoOperationMode::READ,
        RequestOp::Flush => IoOperationMode::FLUSH,
        RequestOp::Write
        | RequestOp::Discard
        | RequestOp::SecureErase
        | RequestOp::WriteZeroes
        | RequestOp::ZoneAppend
        | RequestOp::ZoneReset
        | RequestOp::ZoneResetAll
        | RequestOp::ZoneOpen
        | RequestOp::ZoneClose
        | RequestOp::ZoneFinish
        | RequestOp::Other => IoOperationMode::WRITE,
    }
}

fn io_begin(request: &BlockRequest, handle: IoHandleRef, matching_id: u64) -> IoBegin {
    let bytes_request = Some(request.bytes()).filter(|_| moves_data(request.op));
    IoBegin {
        handle,
        mode: mode(request.op),
        flags: IoOperationFlags::NON_BLOCKING,
        bytes_request,
        matching_id,
    }
}

fn finish(
    writer: &mut EvtWriter,
    time: u64,
    handle: IoHandleRef,
    id: u64,
    outcome: &RequestOutcome,
) -> Result<(), OtfError> {
    if outcome.cancelled {
        writer.io_operation_cancelled(time, handle, id, outcome.notes.list())?;
    } else {
        writer.io_operation_complete(time, handle, outcome.bytes, id, outcome.notes.list())?;
    }
    Ok(())
}
