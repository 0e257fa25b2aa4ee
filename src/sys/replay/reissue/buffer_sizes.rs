//! Lengths of buffers, and their limits.

/// Memory for the structures that the kernel returns: the largest has 256 bytes (`struct statx`).
pub(super) const SCRATCH_BYTES: u64 = 4096;

/// Limit on the bytes that one call moves (`MAX_RW_COUNT` in `include/linux/fs.h`).
pub const BUFFER_BYTES_MAX: u64 = 0x7fff_f000;

/// The longest buffers of a replay, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// Longest buffer that a call writes from.
    pub from: u64,
    /// Longest buffer that a call reads into.
    pub into: u64,
}

impl BufferSizes {
    /// Limits the lengths to what the kernel moves in one call. `into` has at least the size of the
    /// structures that the kernel returns.
    pub fn new(from: u64, into: u64) -> Self {
        Self {
            from: from.clamp(1, BUFFER_BYTES_MAX),
            into: into.clamp(SCRATCH_BYTES, BUFFER_BYTES_MAX),
        }
    }
}
