//! Magic numbers, versions and kinds of frames of a plan.

use super::limits::{FILES_BYTES_MAX, INDEX_BYTES_MAX, OPERATIONS_BYTES_MAX};

/// First bytes of the file.
pub const FILE_MAGIC: [u8; 8] = *b"IOTRPLN\n";
/// Last bytes of a complete file.
pub const END_MAGIC: [u8; 8] = *b"IOTRIDX\n";
/// First bytes of a frame.
pub const FRAME_MAGIC: [u8; 4] = *b"IOPF";
/// Version that this code writes.
pub const VERSION: u16 = 5;
/// Oldest version that this code reads.
pub const OLDEST_VERSION: u16 = 4;
/// Bytes before the first frame.
pub const FILE_HEADER_BYTES: u64 = 16;
/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = 24;

pub(super) const KIND_OPERATIONS: u32 = 1;
pub(super) const KIND_FILES: u32 = 2;
pub(super) const KIND_INDEX: u32 = 3;
pub(super) const KIND_NAMES: u32 = 4;

/// Returns the limit of a payload, stored or decoded, for a kind of frame. A reader allocates no
/// more than this, whatever a file contains.
pub(super) const fn payload_bytes_max(kind: u32) -> u32 {
    match kind {
        KIND_OPERATIONS => OPERATIONS_BYTES_MAX,
        KIND_INDEX => INDEX_BYTES_MAX,
        _ => FILES_BYTES_MAX,
    }
}
