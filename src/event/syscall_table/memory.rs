//! Memory arguments: details of a call beyond its registers.

use super::call::Call;
use super::role::Role;
use crate::event::registers::low_half;

/// Bytes of a `struct iovec` on a 64-bit machine.
pub const IOVEC_BYTES: u64 = 16;

/// Maximum number of buffers of one call (`UIO_MAXIOV`).
const IOVECS_MAX: u64 = 1024;

/// Bytes of a `struct iocb` (`include/uapi/linux/aio_abi.h`).
pub const IOCB_BYTES: usize = 64;

/// Bytes of a `struct io_event`.
pub const IO_EVENT_BYTES: usize = 32;

/// Maximum number of operations that are read of one call. No queue in use has more; of the
/// operations beyond it nothing is known.
const IOCBS_MAX: u64 = 4096;

/// Operation `IORING_REGISTER_FILES` (`include/uapi/linux/io_uring.h`).
const IORING_REGISTER_FILES: u32 = 2;

/// Maximum number of descriptors that are read of one call; only for a single registered file is it
/// known which one an operation uses.
const REGISTERED_MAX: u64 = 1024;

/// Memory argument of a call, and its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentMemory {
    /// Plain memory of this many bytes.
    Bytes(usize),
    /// Array of this many pointers to a `struct iocb`. For each the reader stores the pointer, the
    /// structure, and 8 bytes with the sum of its buffers' lengths (of a vectored one; all ones if
    /// that is unknown).
    Iocbs(usize),
}

/// Bytes in a fact for each `struct iocb`.
pub const IOCB_READ_BYTES: usize = 8 + IOCB_BYTES + 8;

impl ArgumentMemory {
    fn of(bytes: u64, count: u64) -> Self {
        Self::Bytes(usize::try_from(bytes * count).unwrap_or(0))
    }
}

impl Call {
    /// Returns the memory with details of a call beyond its registers: address and layout.
    pub fn memory(&self, args: &[u64; 6], ret: i64) -> impl Iterator<Item = (u64, ArgumentMemory)> {
        let buffers = self.arg(Role::BufferCount).and_then(|it| args.get(it)).copied();
        let done = u64::try_from(ret).unwrap_or(0);
        let files = self.registered_files(args).unwrap_or(0);
        self.args.into_iter().zip(*args).filter_map(move |(role, address)| {
            let memory = match role {
                Role::Buffers => {
                    ArgumentMemory::of(IOVEC_BYTES, buffers.unwrap_or(0).min(IOVECS_MAX))
                }
                Role::OffsetPtr | Role::OffsetPtr2 | Role::Pair => ArgumentMemory::Bytes(8),
                Role::How => ArgumentMemory::Bytes(24),
                Role::IoEvents => ArgumentMemory::of(IO_EVENT_BYTES as u64, done.min(IOCBS_MAX)),
                Role::Registered => ArgumentMemory::of(4, files.min(REGISTERED_MAX)),
                Role::Iocbs => ArgumentMemory::Iocbs(usize::try_from(done.min(IOCBS_MAX)).ok()?),
                _ => return None,
            };
            let is_there = !matches!(memory, ArgumentMemory::Bytes(0) | ArgumentMemory::Iocbs(0));
            (address != 0 && is_there).then_some((address, memory))
        })
    }

    /// Returns the number of descriptors that `io_uring_register` registers as the ring's files;
    /// `None` if it does another operation.
    pub fn registered_files(&self, args: &[u64; 6]) -> Option<u64> {
        let of = |role| args.get(self.arg(role)?).copied();
        let is_meant = low_half(of(Role::RegisterOp)?) == IORING_REGISTER_FILES;
        of(Role::RegisterCount).filter(|_| is_meant).map(|count| low_half(count).into())
    }

    /// Returns true if there may be such memory.
    pub fn has_memory(&self) -> bool {
        let roles = [Role::Buffers, Role::OffsetPtr, Role::OffsetPtr2, Role::How, Role::Pair];
        self.args.iter().any(|it| roles.contains(it))
    }

    /// Returns true if its effect is unknown without its memory, which is therefore always read.
    pub fn is_list(&self) -> bool {
        self.args.iter().any(|it| matches!(it, Role::Iocbs | Role::IoEvents | Role::Registered))
    }
}
