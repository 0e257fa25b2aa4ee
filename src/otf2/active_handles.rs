//! Active handles of a process, and the events that create and destroy them.
//!
//! ```text
//!              created, duplicated            destroyed
//!   (nothing) ────────────────────► bound ─────────────────► (nothing)
//!       │                             ▲
//!           └── used without a recorded open: PRE_CREATED, active from the start;
//!               if that very handle was destroyed before, created now
//! ```
//!
//! A handle is destroyed after the asynchronous operations on it: if its descriptor is closed
//! before they end, the handle stays active, and its slot taken, until the last of them has ended.

use otf2_sys::{EvtWriter, IoAccessMode, IoCreationFlags, IoHandleRef, IoStatusFlags};
use rustc_hash::{FxHashMap, FxHashSet};

use super::definitions::registry::Definitions;
use super::error::OtfError;
use super::files::Certainty;
use super::flags;
use super::handles::{HandleKey, HandleSlots};
use crate::operation::model::OpenFile;
use crate::units::Fd;

/// Writer, time and definitions of events about handles.
#[derive(Debug)]
pub(super) struct HandleEventOutput<'a> {
    pub(super) time: u64,
    pub(super) writer: &'a mut EvtWriter,
    pub(super) definitions: &'a mut Definitions,
}

/// Handle and file of a descriptor.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// Identity from [`OpenFile::id`].
    file: u64,
    /// Certainty of the file's name when the handle was chosen.
    certainty: Option<Certainty>,
    handle: IoHandleRef,
    definition: HandleKey,
    cloexec: bool,
}

impl Bound {
    fn is_pre_created(&self) -> bool {
        self.definition.pre_created.is_some()
    }
}

/// The descriptors of one process.
#[derive(Debug, Default)]
pub(super) struct Activity {
    bound: FxHashMap<i32, Bound>,
    slots: HandleSlots,
    /// Handles with the flag `PRE_CREATED` that were destroyed, and so are not active any more.
    used_up: FxHashSet<IoHandleRef>,
    /// Files whose descriptor was seen in use for another one before their `close` ended.
    superseded: Vec<u64>,
    /// Matching ids of asynchronous operations that have begun and not ended, by their handle.
    under_way: FxHashMap<IoHandleRef, Vec<u64>>,
    /// Handles without a descriptor that are active until such operations have ended.
    closing: FxHashMap<IoHandleRef, Bound>,
}

impl Activity {
    /// True if no handle is known to be active.
    pub(super) fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }

    /// Active handle of a descriptor that is used.
    #[inline]
    pub(super) fn used(
        &mut self,
        fd: Fd,
        file: &OpenFile,
        out: &mut HandleEventOutput<'_>,
    ) -> Result<IoHandleRef, OtfError> {
        if let Some(bound) = self.bound.get(&fd.0)
            && bound.file == file.id
            && bound.certainty == Certainty::of(file)
        {
            return Ok(bound.handle);
        }
        self.bind_unseen(fd, file, out)
    }

    /// Binds a descriptor without a recorded open, or whose file has another name than before:
    /// named by a snapshot, or doubtful since records were lost.
    #[cold]
    fn bind_unseen(
        &mut self,
        fd: Fd,
        file: &OpenFile,
        out: &mut HandleEventOutput<'_>,
    ) -> Result<IoHandleRef, OtfError> {
        if let Some(old) = self.bound.remove(&fd.0) {
            // The same open file under another name: it was not closed. A handle stays active if it
            // was active from the start.
            if old.file != file.id || !old.is_pre_created() {
                self.destroy(old, out)?;
            } else {
                self.slots.give_back(old.definition);
            }
        }
        // Close-on-exec belongs to the descriptor, and is known only from a snapshot.
        let known = if file.pre_created { file.flags } else { flags::without_cloexec(file.flags) };
        let (mode, status) = (flags::access_mode(known), flags::status(known));
        let (mut definition, mut handle) = self.choose(fd, file, Some((mode, status)), out)?;
        if self.used_up.contains(&handle) {
            self.slots.give_back(definition);
            (definition, handle) = self.choose(fd, file, None, out)?;
            out.writer.io_create_handle(
                out.time,
                handle,
                mode,
                IoCreationFlags::NONE,
                status,
                &[],
            )?;
        }
        let cloexec = status.contains(IoStatusFlags::CLOSE_ON_EXEC);
        self.bind(fd, file, definition, handle, cloexec);
        Ok(handle)
    }

    /// Chooses a handle that is not active in this process.
    fn choose(
        &mut self,
        fd: Fd,
        file: &OpenFile,
        pre_created: Option<(IoAccessMode, IoStatusFlags)>,
        out: &mut HandleEventOutput<'_>,
    ) -> Result<(HandleKey, IoHandleRef), OtfError> {
        let definition = self.slots.take(out.definitions.descriptor(fd, file, pre_created)?);
        Ok((definition, out.definitions.handles.handle(definition)?))
    }

    fn bind(
        &mut self,
        fd: Fd,
        file: &OpenFile,
        definition: HandleKey,
        handle: IoHandleRef,
        cloexec: bool,
    ) {
        let certainty = Certainty::of(file);
        self.bound.insert(fd.0, Bound { file: file.id, certainty, handle, definition, cloexec });
    }

    /// Records the begin of an asynchronous operation on the handle.
    pub(super) fn operation_begun(&mut self, handle: IoHandleRef, id: u64) {
        self.under_way.entry(handle).or_default().push(id);
    }

    /// True if this operation has not ended.
    pub(super) fn is_under_way(&self, handle: IoHandleRef, id: u64) -> bool {
        self.under_way.get(&handle).is_some_and(|under_way| under_way.contains(&id))
    }

    /// Records the end of an asynchronous operation. Destroys the handle if only such operations
    /// kept it active.
    pub(super) fn operation_ended(
        &mut self,
        handle: IoHandleRef,
        id: u64,
        out: &mut HandleEventOutput<'_>,
    ) -> Result<(), OtfError> {
        let Some(ids) = self.under_way.get_mut(&handle) else { return Ok(()) };
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            self.under_way.remove(&handle);
            if let Some(bound) = self.closing.remove(&handle) {
                self.destroy(bound, out)?;
            }
        }
        Ok(())
    }

    fn destroy(&mut self, bound: Bound, out: &mut HandleEventOutput<'_>) -> Result<(), OtfError> {
        if self.under_way.contains_key(&bound.handle) {
            self.closing.insert(bound.handle, bound);
            return Ok(());
        }
        self.slots.give_back(bound.definition);
        if bound.is_pre_created() {
            self.used_up.insert(bound.handle);
        }
        Ok(out.writer.io_destroy_handle(out.time, bound.handle, &[])?)
    }

    /// Destroys the handle of a reused descriptor, whose close has not ended or was not recorded.
    fn make_room(&mut self, fd: Fd, out: &mut HandleEventOutput<'_>) -> Result<(), OtfError> {
        let Some(old) = self.bound.remove(&fd.0) else { return Ok(()) };
        self.superseded.push(old.file);
        self.destroy(old, out)
    }

    /// Records a successful open. Unknown flags (`openat2`) become read-write.
    pub(super) fn created(
        &mut self,
        fd: Fd,
        file: &OpenFile,
        out: &mut HandleEventOutput<'_>,
    ) -> Result<(), OtfError> {
        self.make_room(fd, out)?;
        let (definition, handle) = self.choose(fd, file, None, out)?;
        let (mode, creation) = (flags::access_mode(file.flags), flags::creation(file.flags));
        let status = flags::status(file.flags);
        out.writer.io_create_handle(out.time, handle, mode, creation, status, &[])?;
        let cloexec = status.contains(IoStatusFlags::CLOSE_ON_EXEC);
        self.bind(fd, file, definition, handle, cloexec);
        Ok(())
    }

    /// Records a successful `dup`.
    pub(super) fn duplicated(
        &mut self,
        from: Fd,
        to: Fd,
        file: &OpenFile,
        cloexec: bool,
        out: &mut HandleEventOutput<'_>,
    ) -> Result<(), OtfError> {
        let old = self.used(from, file, out)?;
        self.make_room(to, out)?;
        let (definition, new) = self.choose(to, file, None, out)?;
        let status =
            flags::with_cloexec(flags::status(flags::without_cloexec(file.flags)), cloexec);
        out.writer.io_duplicate_handle(out.time, old, new, status, &[])?;
        self.bind(to, file, definition, new, cloexec);
        Ok(())
    }

    /// Records a close.
    pub(super) fn destroyed(
        &mut self,
        fd: Fd,
        file: &OpenFile,
        out: &mut HandleEventOutput<'_>,
    ) -> Result<(), OtfError> {
        if let Some(place) = self.superseded.iter().position(|&superseded| superseded == file.id) {
            self.superseded.swap_remove(place);
            return Ok(());
        }
        if self.bound.get(&fd.0).is_some_and(|bound| bound.file != file.id) {
            return Ok(());
        }
        // A close is the first use of many inherited descriptors.
        self.used(fd, file, out)?;
        self.bound.remove(&fd.0).map_or(Ok(()), |bound| self.destroy(bound, out))
    }

    /// Destroys the handles of descriptors that were closed without a call. Descriptors without a
    /// use have none.
    pub(super) fn closed(
        &mut self,
        fds: &[Fd],
        out: &mut HandleEventOutput<'_>,
    ) -> Result<(), OtfError> {
        for fd in fds {
            if let Some(bound) = self.bound.remove(&fd.0) {
                self.destroy(bound, out)?;
            }
        }
        Ok(())
    }

    /// Records `F_SETFL` or `F_SETFD`.
    pub(super) fn status_changed(
        &mut self,
        fd: Fd,
        file: &OpenFile,
        now: Option<u32>,
        cloexec: Option<bool>,
        out: &mut HandleEventOutput<'_>,
    ) -> Result<(), OtfError> {
        let handle = self.used(fd, file, out)?;
        let Some(bound) = self.bound.get_mut(&fd.0) else { return Ok(()) };
        bound.cloexec = cloexec.unwrap_or(bound.cloexec);
        let status = flags::with_cloexec(flags::status(flags::without_cloexec(now)), bound.cloexec);
        Ok(out.writer.io_change_status_flags(out.time, handle, status, &[])?)
    }

    /// Removes a handle after `EBADF`: the number is not a descriptor.
    pub(super) fn refused(&mut self, fd: Fd, file: &OpenFile) {
        if self.bound.get(&fd.0).is_some_and(|bound| {
            bound.file == file.id && bound.is_pre_created() && bound.certainty.is_none()
        }) {
            self.bound.remove(&fd.0).inspect(|bound| self.slots.give_back(bound.definition));
        }
    }

    /// Forgets these descriptors, as no events of them follow. (Handles stay used up, and slots
    /// taken, for later threads.)
    pub(super) fn forget(&mut self) {
        self.bound.clear();
        self.superseded.clear();
    }
}
