//! The events of one location.

use std::rc::Rc;

use crate::archive::{LocationTotals, Shared};
use crate::attributes::{AttributeValue, Attributes};
use crate::bytes::OrUndefined;
use crate::constants::OTF2_UNDEFINED_UINT64;
use crate::error::{Error, Result, not_kept};
use crate::library_writer::LibraryWriter;
use crate::record::{Record, VALUES_MAX};
use crate::refs::{
    AttributeRef, IoFileRef, IoHandleRef, IoParadigmRef, LocationRef, MetricRef, RegionRef,
};
use crate::values::{
    IoAccessMode, IoCreationFlags, IoOperationFlags, IoOperationMode, IoStatusFlags, SeekOption,
};
use crate::waiting::Waiting;

/// Bytes in the spool from which on a location may get a writer of the library: as events they are
/// about a chunk. A writer with less would not write to its file before it is closed anyway.
const BUSY_BYTES: u64 = 128 * 1024;

/// The beginning of an I/O operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoBegin {
    /// The handle that is read, written or flushed; it must be active.
    pub handle: IoHandleRef,
    /// Direction of the operation.
    pub mode: IoOperationMode,
    /// Blocking (no flag) or not.
    pub flags: IoOperationFlags,
    /// Requested bytes; `None` if that is unknown or no data is transferred.
    pub bytes_request: Option<u64>,
    /// Identifies the operation in its later events; unique among the open operations of the
    /// handle.
    pub matching_id: u64,
}

/// Writes the events of one location, in the order of their times.
///
/// Times are ticks of the archive's clock. An event whose time is earlier than that of the previous
/// event gets the previous time and is counted ([`EvtWriter::clamped`]).
///
/// Each method fails with [`Error::Abandoned`] after any failure in the archive, and otherwise with
/// errors of the library, such as a full disk.
///
/// Close a writer with [`Archive::close_event_writer`](crate::Archive::close_event_writer). One
/// that is dropped is closed, too; its failure is then returned by `Archive::finish`.
#[derive(Debug)]
pub struct EvtWriter {
    shared: Rc<Shared>,
    output: Output,
    location: LocationRef,
    first_time: Option<u64>,
    last_time: u64,
    clamped: u64,
}

/// Destination of the events.
///
/// ```text
///             much to write, and few others have        closed
///   Waiting ─────────────────────────────────► Library ────────► Closed
///      └─────────────────────────────────────────────────────────▲
///                              closed
/// ```
#[derive(Debug)]
enum Output {
    Waiting(Waiting),
    Library(LibraryWriter),
    /// Closed, or the archive has failed.
    Closed,
}

impl EvtWriter {
    /// Opens the next location of the archive.
    pub(crate) fn open(shared: &Rc<Shared>) -> Result<Self> {
        shared.archive()?;
        let id = shared.locations.borrow().len() as u64;
        shared.locations.borrow_mut().push(LocationTotals::default());
        Ok(Self {
            shared: Rc::clone(shared),
            output: Output::Waiting(Waiting::new(&mut shared.spool.borrow_mut())),
            location: LocationRef::new(id),
            first_time: None,
            last_time: 0,
            clamped: 0,
        })
    }

    pub(crate) fn belongs_to(&self, shared: &Rc<Shared>) -> bool {
        Rc::ptr_eq(&self.shared, shared)
    }

    /// Location of this writer.
    #[must_use]
    pub const fn location(&self) -> LocationRef {
        self.location
    }

    /// Number of events with a time before that of the previous event.
    #[must_use]
    pub const fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The time of the last event; 0 before the first.
    #[must_use]
    pub const fn last_time(&self) -> u64 {
        self.last_time
    }

    /// Writes the rest, closes the file and records the totals.
    pub(crate) fn close(&mut self) -> Result<u64> {
        let library = match std::mem::replace(&mut self.output, Output::Closed) {
            Output::Waiting(waiting) => self.hand_over(waiting)?,
            Output::Library(library) => library,
            Output::Closed => return Err(Error::Abandoned),
        };
        let events = library.close(&self.shared)?;
        self.book(events);
        Ok(events)
    }

    /// Keeps the totals of the location for its definition.
    fn book(&self, events: u64) {
        let mut locations = self.shared.locations.borrow_mut();
        let index = usize::try_from(self.location.id()).unwrap_or(usize::MAX);
        if let Some(totals) = locations.get_mut(index) {
            totals.events = events;
        }
        if let Some(first) = self.first_time {
            let (old_first, old_last) =
                self.shared.event_times.get().unwrap_or((first, self.last_time));
            let times = (old_first.min(first), old_last.max(self.last_time));
            self.shared.event_times.set(Some(times));
        }
    }

    /// Writes one event, with a time that does not go back.
    #[inline(always)]
    fn write(&mut self, time: u64, attributes: Attributes<'_>, record: Record<'_>) -> Result<()> {
        if self.shared.pool.is_abandoned() {
            return Err(Error::Abandoned);
        }
        let written = time.max(self.last_time);
        if let Output::Library(library) = &mut self.output {
            library.write(&self.shared, written, record, attributes)?;
        } else {
            self.wait(written, record, attributes)?;
        }
        self.clamped += u64::from(time < self.last_time);
        self.first_time.get_or_insert(written);
        self.last_time = written;
        Ok(())
    }

    /// Writes one event while the location has no writer of the library; it may get one here.
    #[inline(never)]
    fn wait(&mut self, time: u64, record: Record<'_>, attributes: Attributes<'_>) -> Result<()> {
        self.shared.attributes.check(attributes)?;
        let bytes = record.bytes_max(attributes.len());
        if matches!(&self.output, Output::Waiting(waiting) if !waiting.has_room(bytes)) {
            self.make_room(bytes)?;
        }
        match &mut self.output {
            Output::Waiting(waiting) => {
                waiting.push(time - self.last_time, record, attributes);
                Ok(())
            }
            Output::Library(library) => library.write(&self.shared, time, record, attributes),
            Output::Closed => Err(Error::Abandoned),
        }
    }

    #[cold]
    fn make_room(&mut self, bytes: usize) -> Result<()> {
        let Output::Waiting(waiting) = &mut self.output else { return Ok(()) };
        if waiting.bytes() < BUSY_BYTES || !self.shared.pool.has_writer_to_give() {
            let made = waiting.make_room(bytes, &mut self.shared.spool.borrow_mut());
            return made.map_err(|it| self.not_kept(&it));
        }
        let waiting = std::mem::take(waiting);
        self.output = Output::Closed;
        self.output = Output::Library(self.hand_over(waiting)?);
        Ok(())
    }

    /// Passes the waiting events to a writer of the library.
    fn hand_over(&self, waiting: Waiting) -> Result<LibraryWriter> {
        let shared = &*self.shared;
        let mut library = LibraryWriter::open(shared, self.location)?;
        let replayed = waiting.replay(
            &mut shared.spool.borrow_mut(),
            |time, record, attributes| library.write(shared, time, record, attributes),
            |error| self.not_kept(&error),
        );
        match replayed {
            Ok(()) => Ok(library),
            Err(error) => {
                // The archive is abandoned; the library must not have an open writer when it is
                // closed.
                let _ = library.close(shared);
                Err(error)
            }
        }
    }

    /// Ends the archive after events were lost on the way to the library.
    #[cold]
    fn not_kept(&self, error: &std::io::Error) -> Error {
        self.shared.pool.abandon();
        not_kept(format!("location {}", self.location.id()), error)
    }
}

impl Drop for EvtWriter {
    fn drop(&mut self) {
        if !matches!(self.output, Output::Closed)
            && let Err(error) = self.close()
        {
            self.shared.drop_error.borrow_mut().get_or_insert(error);
        }
    }
}

/// Converts `None` to OTF2's undefined value.
const fn or_undefined(bytes: Option<u64>) -> OrUndefined {
    match bytes {
        Some(bytes) => OrUndefined(bytes),
        None => OrUndefined(OTF2_UNDEFINED_UINT64),
    }
}

/// Defines a method per kind of event.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($argument:ident: $type:ty),*) = $kind:ident { $($field:ident: $value:expr),* };
    )*) => {
        #[expect(clippy::missing_errors_doc, reason = "the same for all, see `EvtWriter`")]
        impl EvtWriter { $(
            $(#[$doc])*
            #[inline]
            pub fn $name(
                &mut self,
                time: u64,
                $($argument: $type,)*
                attributes: &[(AttributeRef, AttributeValue)],
            ) -> Result<()> {
                self.write(time, attributes, Record::$kind { $($field: $value),* })
            }
        )* }
    };
}

events! {
    /// The thread enters a region.
    fn enter(region: RegionRef) = Enter { region: region.id() };

    /// The thread leaves the region it entered last.
    fn leave(region: RegionRef) = Leave { region: region.id() };

    /// The handle becomes active.
    fn io_create_handle(
        handle: IoHandleRef, mode: IoAccessMode, creation: IoCreationFlags, status: IoStatusFlags
    ) = IoCreateHandle { handle: handle.id(), mode: mode.0, creation: creation.0, status: status.0 };

    /// The handle is no longer active.
    fn io_destroy_handle(handle: IoHandleRef) = IoDestroyHandle { handle: handle.id() };

    /// The handle `new` becomes active and refers to the same open file as `old`.
    fn io_duplicate_handle(old: IoHandleRef, new: IoHandleRef, status: IoStatusFlags)
        = IoDuplicateHandle { old: old.id(), new: new.id(), status: status.0 };

    /// The position of the handle changes: requested offset in bytes, counted from `whence`, and
    /// the new position in bytes from the start.
    fn io_seek(handle: IoHandleRef, offset_request: i64, whence: SeekOption, offset_result: u64)
        = IoSeek {
            handle: handle.id(), request: offset_request, whence: whence.0, result: offset_result
        };

    /// The status flags of the handle change to these.
    fn io_change_status_flags(handle: IoHandleRef, status: IoStatusFlags)
        = IoChangeStatusFlags { handle: handle.id(), status: status.0 };

    /// The file was deleted.
    fn io_delete_file(paradigm: IoParadigmRef, file: IoFileRef)
        = IoDeleteFile { paradigm: paradigm.id(), file: file.id() };

    /// An operation begins.
    fn io_operation_begin(begin: &IoBegin) = IoOperationBegin {
        handle: begin.handle.id(), mode: begin.mode.0, flags: begin.flags.0,
        bytes_request: or_undefined(begin.bytes_request), matching_id: begin.matching_id
    };

    /// A non-blocking operation is in flight: the call that began it returns.
    fn io_operation_issued(handle: IoHandleRef, matching_id: u64)
        = IoOperationIssued { handle: handle.id(), matching_id: matching_id };

    /// The operation has completed; with the transferred bytes, or `None` if it failed or transfers
    /// no data.
    fn io_operation_complete(handle: IoHandleRef, bytes_result: Option<u64>, matching_id: u64)
        = IoOperationComplete {
            handle: handle.id(), bytes_result: or_undefined(bytes_result), matching_id: matching_id
        };

    /// The non-blocking operation was cancelled.
    fn io_operation_cancelled(handle: IoHandleRef, matching_id: u64)
        = IoOperationCancelled { handle: handle.id(), matching_id: matching_id };
}

impl EvtWriter {
    /// The members of a metric have these values, in the order of the metric class.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`] for more than 255 values; otherwise see [`EvtWriter`].
    pub fn metric(
        &mut self,
        time: u64,
        metric: MetricRef,
        values: &[u64],
        attributes: &[(AttributeRef, AttributeValue)],
    ) -> Result<()> {
        let (given, max) = (values.len(), VALUES_MAX);
        if given > max {
            return Err(Error::TooMany { what: "metric values", given, max });
        }
        self.write(time, attributes, Record::Metric { metric: metric.id(), values })
    }
}
