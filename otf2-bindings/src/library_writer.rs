//! Writer of the library for one location.

use std::ptr::NonNull;

use crate::archive::Shared;
use crate::attributes::Attributes;
use crate::constants::OTF2_SUCCESS;
use crate::error::{Error, Result, checked, checked_pointer, failure};
use crate::ffi::{
    OTF2_Archive_CloseEvtWriter, OTF2_Archive_GetEvtWriter, OTF2_ErrorCode, OTF2_EvtWriter,
    OTF2_EvtWriter_GetNumberOfEvents,
};
use crate::record::Record;
use crate::refs::LocationRef;

/// Open writer of the library: if this value is only dropped, the writer stays with the archive.
///
/// All methods must get the archive that opened the writer.
#[derive(Debug)]
pub(crate) struct LibraryWriter {
    raw: NonNull<OTF2_EvtWriter>,
    location: LocationRef,
}

impl LibraryWriter {
    /// Opens the writer; only once for each location, or the library would overwrite its file.
    pub(crate) fn open(shared: &Shared, location: LocationRef) -> Result<Self> {
        let archive = shared.archive()?;
        let raw = checked_pointer(
            "create",
            || format!("location {}", location.id()),
            || {
                // SAFETY: the archive is open, has its callbacks, and its event files are open. The
                // id is new to the library, so it makes a writer that no other code uses.
                unsafe { OTF2_Archive_GetEvtWriter(archive, location.id()) }
            },
        )
        // The location's events are lost.
        .inspect_err(|_| shared.pool.fail())?;
        Ok(Self { raw, location })
    }

    /// Writes an event, whose time must not be before that of the previous one.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        shared: &Shared,
        time: u64,
        record: Record<'_>,
        attributes: Attributes<'_>,
    ) -> Result<()> {
        let list = shared.attributes.fill(attributes)?;
        // SAFETY: the writer is open, for `close` takes `self`, and the archive is open as long as
        // `shared` exists. The list is null or filled for this event.
        let code = unsafe { record.call(self.raw.as_ptr(), list, time) };
        if code == OTF2_SUCCESS { Ok(()) } else { Err(self.failed(shared, code)) }
    }

    /// Ends the archive after an event could not be written.
    #[cold]
    fn failed(&self, shared: &Shared, code: OTF2_ErrorCode) -> Error {
        shared.pool.fail();
        shared.attributes.clear();
        failure("write an event of", format!("location {}", self.location.id()), code)
    }

    /// Writes the rest and closes the file. Returns the number of the location's events.
    pub(crate) fn close(self, shared: &Shared) -> Result<u64> {
        let Some(archive) = shared.archive_for_closing() else { return Err(Error::Abandoned) };
        let abandoned = shared.pool.is_abandoned();
        let object = || format!("location {}", self.location.id());
        let mut events = 0;
        let counted = checked("count the events of", object, || {
            // SAFETY: the writer is open; the count is written to a local variable.
            unsafe { OTF2_EvtWriter_GetNumberOfEvents(self.raw.as_ptr(), &raw mut events) }
        });
        let closed = checked("write the events of", object, || {
            // SAFETY: the writer is open and of this archive; `self` is consumed, so it is closed
            // once.
            unsafe { OTF2_Archive_CloseEvtWriter(archive, self.raw.as_ptr()) }
        });
        if abandoned {
            return Err(Error::Abandoned);
        }
        counted.and(closed).inspect_err(|_| shared.pool.fail())?;
        Ok(events)
    }
}
