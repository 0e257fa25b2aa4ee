//! Asynchronous operations: non-blocking ones on the location of the thread from which the kernel
//! took them.
//!
//! Operations begin, and are issued, when their file is known. Operations on a file that is
//! registered with a ring begin at once, on a common handle of all such files. An operation that
//! neither moves bytes nor flushes has no operation here.

use otf2_sys::{
    IoAccessMode, IoBegin, IoHandleRef, IoOperationFlags, IoOperationMode, IoStatusFlags,
};
use rustc_hash::FxHashMap;

use super::active_handles::HandleEventOutput;
use super::attributes::AttributeList;
use super::definitions::registry::Definitions;
use super::error::OtfError;
use super::handles::{HandleKey, HandleLayer, REGISTERED};
use super::posix::{self, Writing};
use super::tasks::TaskDefinitions;
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::model::FdEffect;
use crate::units::Fd;

/// Operations in flight.
#[derive(Debug, Default)]
pub(super) struct AsyncOperations {
    open: FxHashMap<u64, BegunAsync>,
}

/// An operation in flight.
#[derive(Clone, Copy, Debug)]
struct BegunAsync {
    handle: IoHandleRef,
    id: u64,
    /// True if the position was written at the beginning.
    offset_written: bool,
}

/// Number for registered files, which have no descriptor.
const NO_DESCRIPTOR: Fd = Fd(-1);

/// Kind of an operation's end.
#[derive(Clone, Copy, Debug)]
enum AsyncEnd {
    /// With a result.
    Result,
    /// Without a recorded result.
    NoResult,
}

/// Mode of a file with unknown open flags.
const READ_WRITE: (IoAccessMode, IoStatusFlags) = (IoAccessMode::READ_WRITE, IoStatusFlags::NONE);

impl AsyncOperations {
    /// Records the submission of an operation.
    pub(super) fn begun(
        &mut self,
        operation: &AsyncOperation,
        tasks: &mut TaskDefinitions,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        if !operation.fixed_file {
            return Ok(());
        }
        let handle = match operation.file.as_deref() {
            Some(file) => {
                let kind = out.definitions.descriptor(NO_DESCRIPTOR, file, Some(READ_WRITE))?;
                out.definitions.handles.handle(HandleKey { number: REGISTERED, ..kind })?
            }
            None => registered_files(out.definitions)?,
        };
        self.begin(operation, Some(handle), tasks, out)
    }

    /// Records the file of an operation.
    pub(super) fn file(
        &mut self,
        operation: &AsyncOperation,
        tasks: &mut TaskDefinitions,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        self.begin(operation, None, tasks, out)
    }

    fn begin(
        &mut self,
        operation: &AsyncOperation,
        handle: Option<IoHandleRef>,
        tasks: &mut TaskDefinitions,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        let Some(mode) = posix::mode(operation.opcode.class()) else { return Ok(()) };
        if self.open.contains_key(&operation.id) {
            return Ok(());
        }
        let word = operation_name(operation, out.definitions)?;
        let Some(active) = tasks.active(operation.thread, out.definitions)? else { return Ok(()) };
        let mut handles = HandleEventOutput {
            time: out.time,
            writer: active.writer,
            definitions: out.definitions,
        };
        let handle = match (handle, operation.fd, &operation.file) {
            (Some(handle), ..) => handle,
            (None, Some(fd), Some(file)) => active.activity.used(fd, file, &mut handles)?,
            (None, ..) => return Ok(()),
        };
        let id = out.slots.take();
        let bytes_request = operation.bytes_requested.filter(|_| mode != IoOperationMode::FLUSH);
        let flags = IoOperationFlags::NON_BLOCKING;
        let begin = IoBegin { handle, mode, flags, bytes_request, matching_id: id };
        let mut notes = AttributeList::new();
        notes.offset(operation.offset).operation(Some(word));
        active.writer.io_operation_begin(out.time, &begin, notes.list())?;
        active.writer.io_operation_issued(out.time, handle, id, &[])?;
        *active.requests += 1;
        active.activity.operation_begun(handle, id);
        let offset_written = operation.offset.is_some();
        self.open.insert(operation.id, BegunAsync { handle, id, offset_written });
        Ok(())
    }

    /// Records the end of an operation; `effects`: its effects on descriptors.
    pub(super) fn ended(
        &mut self,
        operation: &AsyncOperation,
        effects: &[FdEffect],
        tasks: &mut TaskDefinitions,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        self.end(operation, AsyncEnd::Result, tasks, out)?;
        for effect in effects {
            let FdEffect::Created { fd, file } = effect else { continue };
            let Some(active) = tasks.active(operation.thread, out.definitions)? else {
                return Ok(());
            };
            let mut handles = HandleEventOutput {
                time: out.time,
                writer: active.writer,
                definitions: out.definitions,
            };
            active.activity.created(*fd, file, &mut handles)?;
        }
        Ok(())
    }

    /// Records an operation without a result as cancelled: OTF2 has no other end for it.
    pub(super) fn unfinished(
        &mut self,
        operation: &AsyncOperation,
        tasks: &mut TaskDefinitions,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        self.end(operation, AsyncEnd::NoResult, tasks, out)
    }

    fn end(
        &mut self,
        operation: &AsyncOperation,
        end: AsyncEnd,
        tasks: &mut TaskDefinitions,
        out: &mut Writing<'_>,
    ) -> Result<(), OtfError> {
        let Some(open) = self.open.remove(&operation.id) else { return Ok(()) };
        out.slots.give_back(open.id);
        let active = tasks.active(operation.thread, out.definitions)?;
        if let Some(active) =
            active.filter(|active| active.activity.is_under_way(open.handle, open.id))
        {
            let mut notes = AttributeList::new();
            notes.offset(operation.offset.filter(|_| !open.offset_written));
            let (writer, time, BegunAsync { handle, id, .. }) = (active.writer, out.time, open);
            match end {
                AsyncEnd::Result => {
                    let bytes = operation.bytes().filter(|_| operation.errno().is_none());
                    notes.errno(operation.errno());
                    writer.io_operation_complete(time, handle, bytes, id, notes.list())?;
                }
                AsyncEnd::NoResult => {
                    notes.truncated();
                    writer.io_operation_cancelled(time, handle, id, notes.list())?;
                }
            }
            let mut handles = HandleEventOutput { time, writer, definitions: out.definitions };
            active.activity.operation_ended(handle, id, &mut handles)?;
        }
        tasks.request_ended(operation.thread, out.definitions)
    }
}

/// Common handle of all files that are registered with rings.
fn registered_files(definitions: &mut Definitions) -> Result<IoHandleRef, OtfError> {
    let name = definitions.archive.intern("io_uring: registered files")?;
    definitions.handles.handle(HandleKey {
        layer: HandleLayer::Posix,
        number: REGISTERED,
        file: None,
        name,
        pre_created: Some(READ_WRITE),
        host: definitions.host,
    })
}

/// Name such as `io_uring:READ`.
fn operation_name(
    operation: &AsyncOperation,
    definitions: &mut Definitions,
) -> Result<otf2_sys::StringRef, OtfError> {
    Ok(definitions.archive.intern(&operation.opcode.to_string())?)
}
