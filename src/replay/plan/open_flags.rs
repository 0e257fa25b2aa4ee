//! Flags of calls that open files.

use crate::event::OpenFlags;
use crate::event::syscall_table::Call;
use crate::operation::model::SyscallOperation;

/// Returns the flags of an open, also of `creat`, which has none.
pub(super) fn open_flags(operation: &SyscallOperation) -> OpenFlags {
    flags_of(operation.call.call(), &operation.args, operation.flags_in_memory)
}

/// Returns the flags of an open with these registers; `in_memory`: flags that it has in memory.
/// Unknown flags are none.
pub(super) fn flags_of(call: &Call, args: &[u64; 6], in_memory: Option<u32>) -> OpenFlags {
    OpenFlags::of_call(call, args, in_memory).unwrap_or_default()
}
