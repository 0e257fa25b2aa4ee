//! The events of one location.

use std::ptr::NonNull;
use std::rc::Rc;

use crate::archive::{LocationTotals, Shared};
use crate::attributes::AttributeValue;
use crate::constants::{OTF2_SUCCESS, OTF2_TYPE_UINT64, OTF2_UNDEFINED_UINT64};
use crate::error::{Error, Result, checked, checked_pointer, failure, no_space};
use crate::ffi::{
    OTF2_Archive_CloseEvtWriter, OTF2_Archive_GetEvtWriter, OTF2_AttributeList, OTF2_ErrorCode,
    OTF2_EvtWriter, OTF2_EvtWriter_Enter, OTF2_EvtWriter_GetNumberOfEvents,
    OTF2_EvtWriter_IoChangeStatusFlags, OTF2_EvtWriter_IoCreateHandle, OTF2_EvtWriter_IoDeleteFile,
    OTF2_EvtWriter_IoDestroyHandle, OTF2_EvtWriter_IoDuplicateHandle,
    OTF2_EvtWriter_IoOperationBegin, OTF2_EvtWriter_IoOperationCancelled,
    OTF2_EvtWriter_IoOperationComplete, OTF2_EvtWriter_IoOperationIssued, OTF2_EvtWriter_IoSeek,
    OTF2_EvtWriter_Leave, OTF2_EvtWriter_Metric, OTF2_MetricValue,
};
use crate::refs::{
    AttributeRef, IoFileRef, IoHandleRef, IoParadigmRef, LocationRef, MetricRef, RegionRef,
};
use crate::values::{
    IoAccessMode, IoCreationFlags, IoOperationFlags, IoOperationMode, IoStatusFlags, SeekOption,
};

/// Additional values of an event; an empty slice costs nothing.
type Attributes<'a> = &'a [(AttributeRef, AttributeValue)];

/// The types of the values of a metric event, as many as there can be.
static METRIC_TYPES: [u8; u8::MAX as usize] = [OTF2_TYPE_UINT64; u8::MAX as usize];

// A slice of u64 is handed to C as an array of the union.
const _: () = assert!(size_of::<OTF2_MetricValue>() == size_of::<u64>());
const _: () = assert!(align_of::<OTF2_MetricValue>() == align_of::<u64>());

/// The beginning of an I/O operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoBegin {
    /// The handle that is read, written or flushed; it must be active.
    pub handle: IoHandleRef,
    /// The direction.
    pub mode: IoOperationMode,
    /// Blocking (no flag) or not.
    pub flags: IoOperationFlags,
    /// Bytes asked for; `None` if that is unknown or no data is transferred.
    pub bytes_request: Option<u64>,
    /// Names the operation in its later events; unique among the open operations of the handle.
    pub matching_id: u64,
}

/// Writes the events of one location, in the order of their times.
///
/// Times are ticks of the archive's clock. An event whose time lies before the one of the event
/// before it gets the time of that event and is counted ([`EvtWriter::clamped`]).
///
/// Each method fails with [`Error::Abandoned`] after any failure in the archive, and otherwise with
/// what the library reports, such as a full disk.
///
/// Close a writer with [`Archive::close_event_writer`](crate::Archive::close_event_writer). One
/// that is dropped is closed, too; its failure is then returned by `Archive::finish`.
#[derive(Debug)]
pub struct EvtWriter {
    shared: Rc<Shared>,
    /// Empty after `close`.
    raw: Option<NonNull<OTF2_EvtWriter>>,
    location: LocationRef,
    first_time: Option<u64>,
    last_time: u64,
    clamped: u64,
}

impl EvtWriter {
    /// Opens the next location of the archive.
    pub(crate) fn open(shared: &Rc<Shared>) -> Result<Self> {
        let archive = shared.archive()?;
        let id = shared.locations.borrow().len() as u64;
        let raw = checked_pointer(
            "create",
            || format!("location {id}"),
            || {
                // SAFETY: the archive is open, has its callbacks, and its event files are open. The
                // id is new, so the library makes a writer that nothing else uses.
                unsafe { OTF2_Archive_GetEvtWriter(archive, id) }
            },
        )?;
        shared.locations.borrow_mut().push(LocationTotals::default());
        Ok(Self {
            shared: Rc::clone(shared),
            raw: Some(raw),
            location: LocationRef::new(id),
            first_time: None,
            last_time: 0,
            clamped: 0,
        })
    }

    pub(crate) fn belongs_to(&self, shared: &Rc<Shared>) -> bool {
        Rc::ptr_eq(&self.shared, shared)
    }

    /// The location that this writer writes.
    #[must_use]
    pub const fn location(&self) -> LocationRef {
        self.location
    }

    /// How many events had a time before the one of the event before them.
    #[must_use]
    pub const fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The time of the last event; 0 before the first.
    #[must_use]
    pub const fn last_time(&self) -> u64 {
        self.last_time
    }

    /// Writes the rest, closes the file and books the totals.
    pub(crate) fn close(&mut self) -> Result<u64> {
        let Some(raw) = self.raw.take() else { return Err(Error::Abandoned) };
        let Some(archive) = self.shared.archive_for_closing() else { return Err(Error::Abandoned) };
        let abandoned = self.shared.pool.is_abandoned();
        let object = || format!("location {}", self.location.id());
        let mut events = 0;
        let counted = checked("count the events of", object, || {
            // SAFETY: the writer is open; the count is written to a local variable.
            unsafe { OTF2_EvtWriter_GetNumberOfEvents(raw.as_ptr(), &raw mut events) }
        });
        let closed = checked("write the events of", object, || {
            // SAFETY: the writer is open, of this archive, and taken out of `self`: closed once.
            unsafe { OTF2_Archive_CloseEvtWriter(archive, raw.as_ptr()) }
        });
        if abandoned {
            return Err(Error::Abandoned);
        }
        if let Some(error) = self.shared.pool.take_no_space() {
            return Err(no_space(object(), &error));
        }
        counted.and(closed).inspect_err(|_| self.shared.pool.fail())?;
        self.book(events);
        Ok(events)
    }

    /// Keeps what the definitions will say about the location.
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

    /// Runs the call that writes one event, with a time that does not go back.
    #[inline]
    fn write(
        &mut self,
        time: u64,
        attributes: Attributes<'_>,
        call: impl FnOnce(*mut OTF2_EvtWriter, *mut OTF2_AttributeList, u64) -> OTF2_ErrorCode,
    ) -> Result<()> {
        let Some(raw) = self.raw.filter(|_| !self.shared.pool.is_abandoned()) else {
            return Err(Error::Abandoned);
        };
        let list = self.shared.attributes.fill(attributes)?;
        let written = time.max(self.last_time);
        let code = call(raw.as_ptr(), list, written);
        if code != OTF2_SUCCESS {
            return Err(self.failed(code));
        }
        self.clamped += u64::from(time < self.last_time);
        self.first_time.get_or_insert(written);
        self.last_time = written;
        Ok(())
    }

    /// Ends the archive after an event could not be written.
    #[cold]
    fn failed(&self, code: OTF2_ErrorCode) -> Error {
        self.shared.pool.fail();
        self.shared.attributes.clear();
        failure("write an event of", format!("location {}", self.location.id()), code)
    }
}

impl Drop for EvtWriter {
    fn drop(&mut self) {
        if self.raw.is_some()
            && let Err(error) = self.close()
        {
            self.shared.drop_error.borrow_mut().get_or_insert(error);
        }
    }
}

/// `None` as OTF2 writes it.
const fn or_undefined(bytes: Option<u64>) -> u64 {
    match bytes {
        Some(bytes) => bytes,
        None => OTF2_UNDEFINED_UINT64,
    }
}

/// A method per kind of event. In each of them:
///
/// SAFETY: `write` passes the open writer of this location, a list that is null or filled for this
/// event, and a time that does not go back; the other arguments are numbers to the library.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($argument:ident: $type:ty),*) = $function:ident($($value:expr),*);
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
                self.write(time, attributes, |writer, list, time| {
                    // SAFETY: see the comment on this macro.
                    unsafe { $function(writer, list, time, $($value),*) }
                })
            }
        )* }
    };
}

events! {
    /// The thread enters a region.
    fn enter(region: RegionRef) = OTF2_EvtWriter_Enter(region.id());

    /// The thread leaves the region it entered last.
    fn leave(region: RegionRef) = OTF2_EvtWriter_Leave(region.id());

    /// The handle becomes active.
    fn io_create_handle(
        handle: IoHandleRef, mode: IoAccessMode, creation: IoCreationFlags, status: IoStatusFlags
    ) = OTF2_EvtWriter_IoCreateHandle(handle.id(), mode.0, creation.0, status.0);

    /// The handle is no longer active.
    fn io_destroy_handle(handle: IoHandleRef) = OTF2_EvtWriter_IoDestroyHandle(handle.id());

    /// `new` becomes active and stands for the same open file as `old`.
    fn io_duplicate_handle(old: IoHandleRef, new: IoHandleRef, status: IoStatusFlags)
        = OTF2_EvtWriter_IoDuplicateHandle(old.id(), new.id(), status.0);

    /// The position of the handle changes: bytes asked for, counted from `whence`, and the new
    /// position in bytes from the start.
    fn io_seek(handle: IoHandleRef, offset_request: i64, whence: SeekOption, offset_result: u64)
        = OTF2_EvtWriter_IoSeek(handle.id(), offset_request, whence.0, offset_result);

    /// The status flags of the handle are these from now on.
    fn io_change_status_flags(handle: IoHandleRef, status: IoStatusFlags)
        = OTF2_EvtWriter_IoChangeStatusFlags(handle.id(), status.0);

    /// The file was deleted.
    fn io_delete_file(paradigm: IoParadigmRef, file: IoFileRef)
        = OTF2_EvtWriter_IoDeleteFile(paradigm.id(), file.id());

    /// An operation begins.
    fn io_operation_begin(begin: &IoBegin) = OTF2_EvtWriter_IoOperationBegin(
        begin.handle.id(), begin.mode.0, begin.flags.0, or_undefined(begin.bytes_request),
        begin.matching_id
    );

    /// A non-blocking operation is on its way: the call that began it returns.
    fn io_operation_issued(handle: IoHandleRef, matching_id: u64)
        = OTF2_EvtWriter_IoOperationIssued(handle.id(), matching_id);

    /// The operation is done; bytes transferred, or `None` if it failed or transfers no data.
    fn io_operation_complete(handle: IoHandleRef, bytes_result: Option<u64>, matching_id: u64)
        = OTF2_EvtWriter_IoOperationComplete(handle.id(), or_undefined(bytes_result), matching_id);

    /// The non-blocking operation was cancelled.
    fn io_operation_cancelled(handle: IoHandleRef, matching_id: u64)
        = OTF2_EvtWriter_IoOperationCancelled(handle.id(), matching_id);
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
        let max = METRIC_TYPES.len();
        let too_many = Error::TooMany { what: "metric values", given: values.len(), max };
        let count = u8::try_from(values.len()).map_err(|_| too_many)?;
        self.write(time, attributes, |writer, list, time| {
            let types = METRIC_TYPES.as_ptr();
            let values = values.as_ptr().cast();
            // SAFETY: as for the other events; `types` and `values` have at least `count` elements,
            // and a u64 is a valid element of the union (same size and alignment, see above).
            unsafe { OTF2_EvtWriter_Metric(writer, list, time, metric.id(), count, types, values) }
        })
    }
}
