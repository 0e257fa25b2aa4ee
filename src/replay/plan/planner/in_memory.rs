//! Arguments in memory that decide the result of a call: they must have been read, or be the same
//! in the replay.

use crate::event::OpenFlags;
use crate::event::syscall_table::{CallClass, Role};
use crate::operation::model::SyscallOperation;
use crate::replay::plan::replayability::SkipReason;

/// Minimum alignment of direct I/O, in bytes: no device has smaller sectors.
const SECTOR_BYTES: u64 = 512;

/// Checks that a file offset in memory has been read: without it, the call would begin at the
/// file's position.
fn check_offsets(operation: &SyscallOperation) -> Result<(), SkipReason> {
    let call = operation.call.call();
    let is_given = |role| call.arg(role).is_some_and(|register| operation.args[register] != 0);
    let is_unread = is_given(Role::OffsetPtr) && operation.offset.is_none()
        || is_given(Role::OffsetPtr2) && operation.target_offset.is_none();
    if is_unread { Err(SkipReason::Unread) } else { Ok(()) }
}

/// Checks that the `open_how` of an `openat2` has been read, and that the call was not refused for
/// something that the replay does not request: an `open_how` with another length, bits that the
/// kernel does not know, a mode without a file to be made, or restrictions of path resolution
/// (openat2(2)).
pub(super) fn check_open_how(operation: &SyscallOperation) -> Result<(), SkipReason> {
    if operation.call.call().arg(Role::How).is_none() {
        return Ok(());
    }
    let resolve = operation.resolve_in_memory;
    if operation.flags_in_memory.is_none() && resolve.is_none() {
        return Err(SkipReason::Unread);
    }
    let may_be_resolve = match operation.errno() {
        None => return Ok(()),
        Some(libc::EINVAL | libc::E2BIG) => return Err(SkipReason::OpenHow),
        // A link; another mount or a directory above the base; or a name that is not in memory.
        Some(libc::ELOOP | libc::EXDEV | libc::EAGAIN) => true,
        Some(_) => resolve.is_some_and(|resolve| resolve & libc::RESOLVE_IN_ROOT != 0),
    };
    match resolve {
        _ if !may_be_resolve => Ok(()),
        None => Err(SkipReason::Unread),
        Some(0) => Ok(()),
        Some(_) => Err(SkipReason::OpenHow),
    }
}

/// Checks that the addresses of buffers did not cause a refusal. Direct I/O is refused with
/// `EINVAL` if its buffers, the file offset or the length are not aligned. Addresses of buffers are
/// not captured, and buffers of a replay are aligned. So the replay repeats a refusal only if the
/// offset or the length explains it.
pub(super) fn check_buffers(operation: &SyscallOperation) -> Result<(), SkipReason> {
    let call = operation.call.call();
    let flags = operation.file.as_ref().and_then(|file| file.flags);
    let is_direct = flags.is_some_and(|flags| OpenFlags(flags).is_direct());
    let is_refused = operation.errno() == Some(libc::EINVAL);
    if !is_direct || !is_refused || !matches!(call.class, CallClass::Read | CallClass::Write) {
        return Ok(());
    }
    let is_odd = |value: u64| !value.is_multiple_of(SECTOR_BYTES);
    // Buffers of a vector may be odd each although their total is even.
    let explains = [operation.offset, operation.bytes_requested].into_iter().flatten().any(is_odd);
    if explains { Ok(()) } else { Err(SkipReason::BufferAddress) }
}

/// Checks that arguments in memory are known or do not matter. The flags of an open are checked
/// separately ([`check_open_how`]).
pub(super) fn check_memory_arguments(operation: &SyscallOperation) -> Result<(), SkipReason> {
    check_offsets(operation)?;
    check_buffers(operation)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{TestCall, call, file};
    use super::*;
    use crate::operation::model::OpenFile;
    use crate::units::KernelTime;

    fn refusal(name: &str, args: [u64; 6], errno: i32) -> Box<SyscallOperation> {
        let refused = TestCall::new(name, args, -i64::from(errno));
        call(refused, 1, 7, KernelTime(1), KernelTime(2))
    }

    /// Checks a read that was refused, of a file with these flags.
    fn refused(flags: i32, [offset, bytes]: [u64; 2]) -> Result<(), SkipReason> {
        let flags = Some(flags.cast_unsigned());
        let mut read = refusal("pread64", [3, 1, bytes, offset, 0, 0], libc::EINVAL);
        let OpenFile { id, path, .. } = Arc::into_inner(file(7)).expect("ours alone");
        let (first_path, given, stat) = Default::default();
        let file = OpenFile { id, path, first_path, given, stat, flags, pre_created: false };
        read.file = Some(Arc::new(file));
        (read.offset, read.bytes_requested) = (Some(offset), Some(bytes));
        check_memory_arguments(&read)
    }

    /// Fails if a refusal is skipped that the replay would repeat, or the other way round.
    #[test]
    fn memory_calls_differ_only_in_the_buffer() {
        assert_eq!(refused(libc::O_DIRECT, [4096, 4096]), Err(SkipReason::BufferAddress));
        assert_eq!(refused(libc::O_DIRECT, [4096, 100]), Ok(()));
        assert_eq!(refused(libc::O_DIRECT, [7, 4096]), Ok(()));
        assert_eq!(refused(0, [4096, 4096]), Ok(()));
    }

    #[test]
    fn open_how_is_treated_by_its_content() {
        let check = |errno: i32, flags, resolve, expected| {
            let mut open = refusal("openat2", [0, 1, 1, 24, 0, 0], errno);
            (open.flags_in_memory, open.resolve_in_memory) = (flags, resolve);
            assert_eq!(check_open_how(&open), expected, "{errno} {flags:?} {resolve:?}");
        };
        check(libc::ENOENT, None, None, Err(SkipReason::Unread));
        check(libc::ENOENT, Some(0), Some(libc::RESOLVE_IN_ROOT), Err(SkipReason::OpenHow));
        check(libc::ENOENT, Some(0), Some(1), Ok(()));
        check(libc::EXDEV, Some(0), Some(1), Err(SkipReason::OpenHow));
        check(libc::ELOOP, Some(0), Some(0), Ok(()));
        check(libc::ELOOP, Some(0), None, Err(SkipReason::Unread));
        // Flags with bits that do not fit.
        check(libc::EINVAL, None, Some(0), Err(SkipReason::OpenHow));
    }
}
