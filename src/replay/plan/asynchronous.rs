//! Replay of asynchronous operations: each becomes a system call that a lane makes.
//!
//! Only operations of `io_submit` that read, write or sync are replayed. No event of io_uring shows
//! everything that an operation requests: the offset in the file (except for some direct I/O),
//! whether a sync covers the data only, and which operations wait for each other.

use super::replayability::SkipReason;
use crate::event::async_table::{Interface, Opcode};
use crate::event::syscall_table::{CallClass, CallId};
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::model::SyscallOperation;

/// Non-null address in place of the program's.
const ADDRESS: u64 = 1;

/// Returns true if an operation may be replayed, provided that all of it is known at its end.
pub(super) fn may_be_done(opcode: Opcode) -> bool {
    let is_done = matches!(opcode.class(), CallClass::Read | CallClass::Write | CallClass::Sync);
    opcode.interface == Interface::Aio && is_done
}

/// Returns true for calls that submit such operations, or wait for them: their effect is contained
/// in the operations.
pub(super) fn handles_async_operations(call: &crate::event::syscall_table::Call) -> bool {
    call.class == CallClass::Async && call.name.starts_with("io_") && !call.name.contains("uring")
}

/// Returns the call that does what an operation requested.
///
/// # Errors
///
/// [`SkipReason::Asynchronous`]: no such call exists, or a part of the operation is unknown.
pub(super) fn as_call(operation: &AsyncOperation) -> Result<SyscallOperation, SkipReason> {
    if !may_be_done(operation.opcode) {
        return Err(SkipReason::Asynchronous);
    }
    let flags = u64::from(operation.rw_flags);
    let has_flags = flags != 0;
    let name = match (operation.opcode.class(), operation.opcode.request_kind().name) {
        (CallClass::Read, _) if has_flags => "preadv2",
        (CallClass::Read, _) => "pread64",
        (CallClass::Write, _) if has_flags => "pwritev2",
        (CallClass::Write, _) => "pwrite64",
        (_, "FDSYNC") => "fdatasync",
        _ => "fsync",
    };
    let place = operation.offset.zip(operation.bytes_requested);
    let args = match (operation.opcode.has_bytes(), place) {
        (false, _) => [0; 6],
        // All buffers become one.
        (true, Some((offset, _))) if has_flags => [0, ADDRESS, 1, offset, 0, flags],
        (true, Some((offset, bytes))) => [0, ADDRESS, bytes, offset, 0, 0],
        (true, None) => return Err(SkipReason::Asynchronous),
    };
    Ok(SyscallOperation {
        call: CallId::by_name(name).ok_or(SkipReason::Asynchronous)?,
        thread: operation.thread,
        process: operation.process,
        pid: operation.pid,
        tid: operation.tid,
        cpu: operation.cpu,
        start: operation.start,
        end: operation.end,
        args,
        ret: operation.result,
        fd: operation.fd,
        file: operation.file.clone(),
        named: None,
        target: None,
        offset: operation.offset,
        target_offset: None,
        flags_in_memory: None,
        resolve_in_memory: None,
        bytes_requested: operation.bytes_requested,
        spans: Vec::new(),
        chain: None,
    })
}
