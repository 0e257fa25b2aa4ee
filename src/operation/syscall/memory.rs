//! Memory that the arguments of a call point to.

use crate::event::Name;
use crate::event::registers::{fd_pair, is_position};
use crate::event::syscall_table::{IOVEC_BYTES, Role};
use crate::operation::model::SyscallOperation;
use crate::units::Fd;

/// Decodes the memory that the arguments point to, where it was read in time: lengths of buffers,
/// positions, flags. Returns the two descriptors that a call has made.
pub(super) fn look_behind(
    operation: &mut SyscallOperation,
    memory: &[(u64, Name)],
) -> Option<[Fd; 2]> {
    let mut pair = None;
    if memory.is_empty() {
        return pair;
    }
    let call = operation.call.call();
    // The kernel has advanced the position by the bytes that it has moved.
    let moved = operation.ret.and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
    let before = |it: u64| Some(it).filter(is_position).and_then(|it| it.checked_sub(moved));
    for (role, address) in call.args.into_iter().zip(operation.args) {
        let read = memory.iter().find(|it| it.0 == address && it.1.verified);
        let Some(bytes) = read.map(|it| it.1.bytes.as_slice()) else { continue };
        let number = || bytes.first_chunk().map(|it| u64::from_le_bytes(*it));
        match role {
            Role::Buffers => operation.bytes_requested = Some(sum_of_buffers(bytes)),
            Role::OffsetPtr => operation.offset = number().and_then(before),
            Role::OffsetPtr2 => operation.target_offset = number().and_then(before),
            Role::How => {
                operation.flags_in_memory = number().and_then(|it| u32::try_from(it).ok());
                operation.resolve_in_memory = word(bytes, 2);
            }
            Role::Pair => {
                pair = number().map(fd_pair);
            }
            _ => {}
        }
    }
    pair
}

/// Returns an eight-byte number at an index.
fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let word = bytes.chunks_exact(size_of::<u64>()).nth(index)?;
    word.first_chunk().map(|it| u64::from_le_bytes(*it))
}

/// Returns the sum of the lengths of all buffers of a vector.
fn sum_of_buffers(vector: &[u8]) -> u64 {
    let length = |it: &[u8]| it.last_chunk().map_or(0, |it| u64::from_le_bytes(*it));
    let bytes = usize::try_from(IOVEC_BYTES).unwrap_or(usize::MAX);
    vector.chunks_exact(bytes).fold(0, |sum, it| sum.saturating_add(length(it)))
}
