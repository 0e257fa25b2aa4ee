//! Replay plan as a file (`.ioplan`), version 5. All integers of the layout are little-endian; the
//! same capture gives the same bytes.
//!
//! Earlier versions:
//!
//! - Version 1 had no implicit operations: descriptors that were closed with their processes stayed
//!   open.
//! - Version 2 had no asynchronous operations.
//! - Version 3 lacked the kind of machine that registers belong to, holes of files, targets of
//!   links, and the order of operations in a window ([`Operation::behind`]).
//! - Version 4 had no transfers without a target ([`Operation::target`]) and no implicit `fcntl`.
//!   It is read like version 5.
//!
//! ```text
//! offset  bytes
//!      0      8  magic "IOTRPLN\n"
//!      8      2  version: readers refuse unknown ones
//!     10      6  reserved, 0
//!     16         frames, one after the other
//!    end     16  offset of the INDEX frame (8), magic "IOTRIDX\n"; missing in an unfinished plan
//! ```
//!
//! # A frame
//!
//! ```text
//! offset  bytes
//!      0      4  magic "IOPF"
//!      4      4  kind: 1 OPERATIONS, 2 FILES, 3 INDEX, 4 NAMES
//!      8      4  bytes of the payload as stored: one zstd frame
//!     12      4  bytes of the payload decoded
//!     16      4  CRC-32 (IEEE) of the stored payload
//!     20      4  CRC-32 (IEEE) of the 20 bytes before
//!     24         the payload
//! ```
//!
//! Payloads are the types of this module, encoded with [`postcard`]:
//!
//! - OPERATIONS: operations of one worker, at most [`OPERATIONS_MAX`] per frame, so that each
//!   worker reads only its own;
//! - FILES: the initial files;
//! - NAMES: paths of files, by the numbers that operations refer to;
//! - INDEX: everything else, with the offsets of each worker's frames.
//!
//! Their size limits are in `limits.rs`.

mod fingerprint;
mod finish;
mod format;
mod index;
mod initial_files;
mod limits;
mod operation;
mod reader;
mod threaded_writer;
mod writer;

pub use fingerprint::Fingerprint;
pub use finish::finish;
pub use format::{
    END_MAGIC, FILE_HEADER_BYTES, FILE_MAGIC, FRAME_HEADER_BYTES, FRAME_MAGIC, OLDEST_VERSION,
    VERSION,
};
pub use index::{CallPlan, Index, InheritedFdPlan, SkippedOps, WorkerPlan};
pub use initial_files::{FileBefore, FileKind};
pub use limits::{
    CALLS_MAX, FILES_BYTES_MAX, FILES_MAX, GIVEN_MAX, INDEX_BYTES_MAX, OPERATIONS_BYTES,
    OPERATIONS_BYTES_MAX, OPERATIONS_MAX, PARTS_MAX, WORKERS_MAX,
};
pub use operation::Operation;
pub use reader::{PlanError, PlanReader};
pub use threaded_writer::{IntoWriter, ThreadedWriter};
pub use writer::PlanWriter;

#[cfg(test)]
mod tests;
