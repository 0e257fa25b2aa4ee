//! `O_*` flags of calls that open files.

use crate::event::syscall_table::{Call, Role};
use crate::operation::model::SyscallOperation;

/// Returns the `O_*` flags of an open, also of `creat`, which is given none.
pub fn open_flags(operation: &SyscallOperation) -> u32 {
    flags_of(operation.call.call(), &operation.args, operation.flags_in_memory)
}

/// Returns the `O_*` flags of a call with these registers; `in_memory`: flags that it has in
/// memory.
pub fn flags_of(call: &Call, args: &[u64; 6], in_memory: Option<u32>) -> u32 {
    match call.arg(Role::OpenFlags).map(|register| args[register]) {
        // The kernel reads 32 bits.
        Some(flags) => u32::try_from(flags & u64::from(u32::MAX)).unwrap_or(0),
        None if call.name == "creat" => {
            (libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY).cast_unsigned()
        }
        None => in_memory.unwrap_or(0),
    }
}
