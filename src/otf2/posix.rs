//! System calls: Enter and Leave, and between them their effects on files.

use otf2_sys::{IoBegin, IoOperationFlags, IoOperationMode};

use super::active_handles::{Activity, HandleEventOutput};
use super::attributes::AttributeList;
use super::error::OtfError;
use super::flags;
use super::handles::POSIX;
use super::matching_ids::MatchingIds;
use super::pending_operations::{BegunOperation, PendingOperations};
use super::tasks::Active;
use crate::event::syscall_table::CallClass;
use crate::operation::model::{FdEffect, MountNamespace, OpenFile, SyscallOperation};
use crate::units::Fd;

/// Effect of a call of this class on data.
pub(super) fn mode(class: CallClass) -> Option<IoOperationMode> {
    match class {
        // A transfer reads here and writes on its target.
        CallClass::Read | CallClass::Transfer => Some(IoOperationMode::READ),
        CallClass::Write => Some(IoOperationMode::WRITE),
        CallClass::Sync => Some(IoOperationMode::FLUSH),
        _ => None,
    }
}

/// Records the begin of a call.
#[inline]
pub(super) fn begin(
    operation: &SyscallOperation,
    active: &mut Active<'_>,
    out: &mut Writing<'_>,
) -> Result<(), OtfError> {
    let region = out.definitions.regions.call(operation.call);
    active.writer.enter(out.time, region, &[])?;
    *active.pending = PendingOperations::default();
    let class = operation.call.call().class;
    let (Some(mode), Some(fd), Some(file)) = (mode(class), operation.fd, &operation.file) else {
        return Ok(());
    };
    let bytes_request = if class == CallClass::Sync { None } else { operation.bytes_requested };
    let id = 2 * active.writer.location().id();
    let side = OperationSide { fd, file, mode, bytes_request, id };
    active.pending.offset_written = operation.offset.is_some();
    active.pending.main = Some(begin_on(&side, operation.offset, active, out)?);
    if class == CallClass::Transfer
        && let Some((fd, file)) = &operation.target
    {
        let id = out.slots.take();
        let side = OperationSide { fd: *fd, file, mode: IoOperationMode::WRITE, bytes_request, id };
        active.pending.target = Some(begin_on(&side, None, active, out)?);
    }
    Ok(())
}

/// Time and tables that are common to all steps at a moment.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    pub(super) time: u64,
    pub(super) definitions: &'a mut super::definitions::registry::Definitions,
    pub(super) slots: &'a mut MatchingIds,
}

/// One side of an operation.
struct OperationSide<'a> {
    fd: Fd,
    file: &'a OpenFile,
    mode: IoOperationMode,
    bytes_request: Option<u64>,
    id: u64,
}

#[inline]
fn begin_on(
    side: &OperationSide<'_>,
    offset: Option<u64>,
    active: &mut Active<'_>,
    out: &mut Writing<'_>,
) -> Result<BegunOperation, OtfError> {
    let mut handles =
        HandleEventOutput { time: out.time, writer: active.writer, definitions: out.definitions };
    let handle = active.activity.used(side.fd, side.file, &mut handles)?;
    let begin = IoBegin {
        handle,
        mode: side.mode,
        flags: IoOperationFlags::NONE,
        bytes_request: side.bytes_request,
        matching_id: side.id,
    };
    active.writer.io_operation_begin(
        out.time,
        &begin,
        AttributeList::new().offset(offset).list(),
    )?;
    Ok(BegunOperation { handle, id: side.id })
}

/// Records the end of a call: its operations, then its effects on descriptors, all before it
/// leaves.
#[inline]
pub(super) fn end(
    operation: &SyscallOperation,
    effects: &[FdEffect],
    active: &mut Active<'_>,
    out: &mut Writing<'_>,
) -> Result<(), OtfError> {
    let errno = operation.errno();
    let class = operation.call.call().class;
    let transferred = if class == CallClass::Sync {
        None
    } else {
        operation.ret.and_then(|ret| u64::try_from(ret).ok())
    };
    let offset = operation.offset.filter(|_| !active.pending.offset_written);
    let mut notes = AttributeList::new();
    notes.errno(errno);
    // The position is that of the main side.
    complete_target(transferred, &notes, active, out)?;
    notes.offset(offset);
    complete_main(transferred, &notes, active, out)?;
    for effect in effects {
        let mut handles = HandleEventOutput {
            time: out.time,
            writer: active.writer,
            definitions: out.definitions,
        };
        apply(effect, operation, active.activity, &mut handles)?;
    }
    let mut notes = AttributeList::new();
    notes.errno(errno);
    if let Some(named) = &operation.named {
        if let Some(given) = &named.first {
            notes.path(out.definitions.given_path(given.whole())?);
        }
        if let Some(given) = &named.second {
            notes.second_path(out.definitions.given_path(given.whole())?);
        }
    }
    if operation.fd.is_none()
        && let Some(path) = operation.file.as_ref().and_then(|file| file.first_path())
    {
        // The file that is mapped at an address.
        notes.path(out.definitions.given_path(&path.bytes)?).offset(operation.offset);
    }
    if errno == Some(libc::EBADF) {
        refused(operation, active.activity);
    }
    if let Some(path) = removed(operation) {
        let mounts = operation.path().map_or(MountNamespace::OWN, |path| path.mounts);
        if let Some(file) = out.definitions.removed(path, mounts)? {
            active.writer.io_delete_file(out.time, POSIX, file, &[])?;
        }
    }
    let region = out.definitions.regions.call(operation.call);
    Ok(active.writer.leave(out.time, region, notes.list())?)
}

/// Path that the call has removed, if that is certain.
fn removed(operation: &SyscallOperation) -> Option<&[u8]> {
    let has = operation.call.call().class == CallClass::Remove && operation.ret == Some(0);
    let given = operation.named.as_ref().filter(|_| has)?.first.as_ref()?;
    let is_sure = given.path.source.is_spelled();
    given.absolute.as_deref().filter(|_| is_sure)
}

/// Records a call that will not end any more.
pub(super) fn unfinished(
    operation: &SyscallOperation,
    active: &mut Active<'_>,
    out: &mut Writing<'_>,
) -> Result<(), OtfError> {
    let mut notes = AttributeList::new();
    notes.truncated();
    complete_target(None, &notes, active, out)?;
    complete_main(None, &notes, active, out)?;
    let region = out.definitions.regions.call(operation.call);
    Ok(active.writer.leave(out.time, region, notes.list())?)
}

#[inline]
fn complete_main(
    bytes: Option<u64>,
    notes: &AttributeList,
    active: &mut Active<'_>,
    out: &mut Writing<'_>,
) -> Result<(), OtfError> {
    let Some(open) = active.pending.main.take() else { return Ok(()) };
    Ok(active.writer.io_operation_complete(out.time, open.handle, bytes, open.id, notes.list())?)
}

#[inline]
fn complete_target(
    bytes: Option<u64>,
    notes: &AttributeList,
    active: &mut Active<'_>,
    out: &mut Writing<'_>,
) -> Result<(), OtfError> {
    let Some(open) = active.pending.target.take() else { return Ok(()) };
    active.writer.io_operation_complete(out.time, open.handle, bytes, open.id, notes.list())?;
    out.slots.give_back(open.id);
    Ok(())
}

fn apply(
    effect: &FdEffect,
    operation: &SyscallOperation,
    activity: &mut Activity,
    out: &mut HandleEventOutput<'_>,
) -> Result<(), OtfError> {
    match effect {
        FdEffect::Created { fd, file } => activity.created(*fd, file, out),
        FdEffect::Duplicated { from, to, file, cloexec } => {
            activity.duplicated(*from, *to, file, *cloexec, out)
        }
        FdEffect::Destroyed { fd, file } => activity.destroyed(*fd, file, out),
        FdEffect::Seeked { fd, request, whence, result } => {
            let (Some(file), Some(whence)) = (&operation.file, flags::whence(*whence)) else {
                return Ok(());
            };
            let handle = activity.used(*fd, file, out)?;
            Ok(out.writer.io_seek(out.time, handle, *request, whence, *result, &[])?)
        }
        FdEffect::StatusChanged { fd, flags, cloexec } => match &operation.file {
            Some(file) => activity.status_changed(*fd, file, *flags, *cloexec, out),
            None => Ok(()),
        },
    }
}

fn refused(operation: &SyscallOperation, activity: &mut Activity) {
    let main = operation.fd.zip(operation.file.as_ref());
    let target = operation.target.as_ref().map(|target| (target.0, &target.1));
    for (fd, file) in main.into_iter().chain(target) {
        activity.refused(fd, file);
    }
}
