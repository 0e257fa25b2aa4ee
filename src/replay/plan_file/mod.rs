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
mod limits;
mod reader;
mod threaded_writer;
mod writer;

pub use fingerprint::Fingerprint;
pub use limits::{
    CALLS_MAX, FILES_BYTES_MAX, FILES_MAX, GIVEN_MAX, INDEX_BYTES_MAX, OPERATIONS_BYTES,
    OPERATIONS_BYTES_MAX, OPERATIONS_MAX, PARTS_MAX, WORKERS_MAX,
};
pub use reader::{PlanError, PlanReader};
pub use threaded_writer::{IntoWriter, ThreadedWriter};
pub use writer::{PlanWriter, finish};

use serde::{Deserialize, Serialize};

use super::hole_map::KnownRegion;
use crate::units::Nanos;

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

const KIND_OPERATIONS: u32 = 1;
const KIND_FILES: u32 = 2;
const KIND_INDEX: u32 = 3;
const KIND_NAMES: u32 = 4;

/// Returns the limit of a payload, stored or decoded, for a kind of frame. A reader allocates no
/// more than this, whatever a file contains.
const fn payload_bytes_max(kind: u32) -> u32 {
    match kind {
        KIND_OPERATIONS => OPERATIONS_BYTES_MAX,
        KIND_INDEX => INDEX_BYTES_MAX,
        _ => FILES_BYTES_MAX,
    }
}

/// Payload of a FILES frame.
#[derive(Debug, Serialize, Deserialize)]
struct FilesFrame(
    #[serde(deserialize_with = "limits::at_most::<_, _, FILES_MAX>")] Vec<FileBefore>,
);

/// Payload of a NAMES frame.
#[derive(Debug, Serialize, Deserialize)]
struct NamesFrame(
    #[serde(deserialize_with = "limits::at_most::<_, _, FILES_MAX>")] Vec<(u32, Vec<u8>)>,
);

/// Operation, like [`super::planned_op::PlannedOp`]; values that are mostly equal or close to those
/// of the previous operation are stored as differences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation<'a> {
    /// Index into [`Index::calls`].
    pub call: u16,
    /// Captured registers. Known pointers are reduced to 1, or 0 for null. Descriptors have no
    /// meaning.
    pub args: [u64; 6],
    /// First descriptor.
    pub handle: Option<u32>,
    /// Second descriptor. A successful transfer without one writes to a sink, because the replay
    /// does not have its target.
    pub target: Option<u32>,
    /// Handle that the operation creates.
    pub makes: Option<u32>,
    /// File that the operation concerns, whose path is in NAMES.
    pub file: Option<u32>,
    /// Path from the root.
    #[serde(borrow)]
    pub path: Option<&'a [u8]>,
    /// Second path from the root.
    #[serde(borrow)]
    pub second_path: Option<&'a [u8]>,
    /// `O_*` flags that are passed in memory.
    pub flags: Option<u32>,
    /// Position in the file in bytes, if it is not passed in a register.
    pub offset: Option<u64>,
    /// Position in the second file in bytes, if it is not passed in a register.
    pub target_offset: Option<u64>,
    /// Requested bytes, if the lengths of the buffers are passed in memory.
    pub bytes: Option<u64>,
    /// Captured result.
    pub ret: i64,
    /// Time since the end of the worker's previous explicit operation. For the worker's first
    /// one, since the plan's first operation.
    pub gap: Nanos,
    /// Duration of the operation.
    pub took: Nanos,
    /// Number of ends of all operations between the end of the worker's previous operation and this
    /// one's.
    pub others: u64,
    /// Time from its end to the latest end among all operations before it in the plan, or 0.
    /// Its dependencies are among these operations.
    pub behind: Nanos,
    /// Close that leaves the handle to other references.
    pub keeps_handle: bool,
    /// Implicit operation: no replayed call caused it, so it is neither counted nor compared. Only
    /// closes, unlocks (`LOCK_UN`), seeks and descriptor flags (`F_SETFD`).
    pub implicit: bool,
    /// Operations that this one waits for: worker, and index among that worker's operations.
    pub before: Vec<(u32, u32)>,
}

/// Initial file: must exist before the first operation. Directories precede their entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBefore {
    /// Path from the root.
    pub path: Vec<u8>,
    /// Type of the file.
    pub kind: FileKind,
    /// Size of a file, or length of a link's target, in bytes.
    pub size: u64,
    /// Permissions, if known.
    pub mode: Option<u32>,
    /// True for a directory that contains more than the plan lists.
    pub has_more: bool,
    /// Index in this list of the file that this is a second name of.
    pub same_as: Option<u32>,
    /// Data and holes of a file, as far as known, in order.
    #[serde(deserialize_with = "limits::at_most::<_, _, PARTS_MAX>")]
    pub parts: Vec<KnownRegion>,
    /// Target of a link, if it is known where the link led.
    pub text: Option<Vec<u8>>,
}

impl FileBefore {
    /// Creates an entry of which only path and type are known.
    pub fn new(path: &[u8], kind: FileKind) -> Self {
        let (path, parts) = (path.to_vec(), Vec::new());
        let (size, mode, has_more, same_as, text) = Default::default();
        Self { path, kind, size, mode, has_more, same_as, parts, text }
    }
}

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
}

/// Worker of the replay: a captured thread, or a lane that executes asynchronous operations of a
/// captured thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPlan {
    /// Captured process ID.
    pub pid: i32,
    /// Captured thread ID.
    pub tid: i32,
    /// Name of the thread when it was first seen.
    pub comm: Vec<u8>,
    /// Index among the thread's lanes; `None`: the thread itself.
    pub lane: Option<u32>,
    /// Operation that the first one waits for: worker, and index among that worker's operations.
    pub before: Option<(u32, u32)>,
    /// True if other workers wait for some of its operations.
    pub is_waited_for: bool,
    /// Number of explicit operations.
    pub operations: u32,
    /// Offsets of its frames in the file, in bytes, in order.
    pub frames: Vec<u64>,
}

/// Descriptor that is open before the first operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenPlan {
    /// Handle of the descriptor.
    pub handle: u32,
    /// Path from the root.
    pub path: Vec<u8>,
    /// `O_*` flags, if known.
    pub flags: Option<u32>,
    /// Position in bytes.
    pub offset: u64,
}

/// Call that the replay makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPlan {
    /// Name of its tracepoint.
    pub name: String,
    /// Captured asynchronous operation that the call replaces (`aio:PREAD`).
    pub asynchronous: Option<String>,
}

impl CallPlan {
    /// Returns the name of the captured call or asynchronous operation.
    pub fn told(&self) -> &str {
        self.asynchronous.as_ref().unwrap_or(&self.name)
    }
}

/// Operations that are not replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftPlan {
    /// Word for the reason: [`super::replayability::SkipReason::as_str`].
    pub reason: String,
    /// Call or asynchronous operation.
    pub call: String,
    /// Number of operations.
    pub count: u64,
}

/// Everything except operations and files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Kind of machine that registers, flags and error numbers belong to (`uname -m`).
    pub machine: String,
    /// Calls that the replay makes.
    #[serde(deserialize_with = "limits::at_most::<_, _, CALLS_MAX>")]
    pub calls: Vec<CallPlan>,
    /// Workers that execute the operations.
    #[serde(deserialize_with = "limits::at_most::<_, _, WORKERS_MAX>")]
    pub workers: Vec<WorkerPlan>,
    /// Descriptors open before the first operation.
    #[serde(deserialize_with = "limits::at_most::<_, _, GIVEN_MAX>")]
    pub given: Vec<GivenPlan>,
    /// Operations that are not replayed, in the order of reasons and calls.
    #[serde(deserialize_with = "limits::at_most::<_, _, CALLS_MAX>")]
    pub left: Vec<LeftPlan>,
    /// Operations whose effect is contained in replayed ones.
    pub followed: u64,
    /// Operations that found a state other than the one left by the operations before them.
    pub unexplained: u64,
    /// Highest number of descriptors open at one time.
    pub handles: u32,
    /// Time from the begin of the first operation to the end of the last one.
    pub span: Nanos,
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Lengths of the longest write and of the longest read, in bytes.
    pub longest: [u64; 2],
    /// Offset of the FILES frame in the file, in bytes.
    pub files_at: u64,
    /// Offset of the NAMES frame in the file, in bytes.
    pub names_at: u64,
}

impl Index {
    /// Returns all names in the index that come from a fixed set of words.
    fn words(&self) -> impl Iterator<Item = &str> {
        let calls = self.calls.iter().map(|it| it.name.as_str());
        let others = self.calls.iter().filter_map(|it| it.asynchronous.as_deref());
        let left = self.left.iter().flat_map(|it| [it.reason.as_str(), it.call.as_str()]);
        calls.chain(others).chain(left).chain([self.machine.as_str()])
    }
}

#[cfg(test)]
mod tests;
