//! The library's writer of one location.

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

/// Open until it is closed: the library's writer stays with the archive if this is only dropped.
///
/// All methods must get the archive that opened it.
#[derive(Debug)]
pub(crate) struct LibraryWriter {
    raw: NonNull<OTF2_EvtWriter>,
    location: LocationRef,
}

impl LibraryWriter {
    /// Opens it; once only for each location, or the library would begin its file anew.
    pub(crate) fn open(shared: &Shared, location: LocationRef) -> Result<Self> {
        let archive = shared.archive()?;
        let raw = checked_pointer(
            "create",
            || format!("location {}", location.id()),
            || {
                // SAFETY: the archive is open, has its callbacks, and its event files are open. The id is new to the
                // library, so it makes a writer that nothing else uses.
                unsafe { OTF2_Archive_GetEvtWriter(archive, location.id()) }
            },
        )
        // The location's events are lost.
        .inspect_err(|_| shared.pool.fail())?;
        Ok(Self { raw, location })
    }

    /// Writes an event, whose time must not lie before that of the one before it.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        shared: &Shared,
        time: u64,
        record: Record<'_>,
        attributes: Attributes<'_>,
    ) -> Result<()> {
        let list = shared.attributes.fill(attributes)?;
        // SAFETY: the writer is open, for `close` takes `self`, and the archive is, while anybody has `shared`. The list
        // is null or filled for this event.
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

    /// Writes the rest and closes the file. Returns how many events the location has.
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
            // SAFETY: the writer is open and of this archive; `self` is gone after, so it is closed once.
            unsafe { OTF2_Archive_CloseEvtWriter(archive, self.raw.as_ptr()) }
        });
        if abandoned {
            return Err(Error::Abandoned);
        }
        counted.and(closed).inspect_err(|_| shared.pool.fail())?;
        Ok(events)
    }
}
