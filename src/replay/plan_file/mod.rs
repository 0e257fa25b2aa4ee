//! The plan of a replay as a file (`.ioplan`), version 5. All integers of the layout are little-endian; the same capture gives the same
//! bytes.
//!
//! Version 1 had no implicit operations: descriptors that went with their processes stayed open. Version 2 had no asynchronous ones.
//! Version 3 did not say for which kind of machine its registers are, nor where files have holes and links lead, nor what of a part of a replay
//! is before what. Version 4 had no transfers without a target ([`Operation::target`]) and no implicit `fcntl`; it is read as this one.
//!
//! ```text
//! offset  bytes
//!      0      8  magic "IOTRPLN\n"
//!      8      2  version: a reader refuses one that it does not know
//!     10      6  reserved, 0
//!     16         frames, one behind the other
//!    end     16  offset of the INDEX frame (8), magic "IOTRIDX\n": a plan without them was not written to its end
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
//! Payloads are [`postcard`] of the shapes here: OPERATIONS are those of one worker, at most [`OPERATIONS_MAX`] in a frame, so that each
//! worker reads what is its own; FILES what has to be there before; NAMES paths of files, by the numbers that operations have; INDEX the
//! rest and where the frames of each worker are. How much each may have says `limits.rs`.

mod beside;
mod fingerprint;
mod limits;
mod reader;
mod writer;

pub use beside::{Beside, IntoWriter};
pub use fingerprint::Fingerprint;
pub use limits::{
    CALLS_MAX, FILES_BYTES_MAX, FILES_MAX, GIVEN_MAX, INDEX_BYTES_MAX, OPERATIONS_BYTES,
    OPERATIONS_BYTES_MAX, OPERATIONS_MAX, PARTS_MAX, WORKERS_MAX,
};
pub use reader::{PlanError, PlanReader};
pub use writer::{PlanWriter, finish};

use serde::{Deserialize, Serialize};

use super::hole_map::Part;

/// First bytes of the file.
pub const FILE_MAGIC: [u8; 8] = *b"IOTRPLN\n";
/// Last bytes of a whole file.
pub const END_MAGIC: [u8; 8] = *b"IOTRIDX\n";
/// First bytes of a frame.
pub const FRAME_MAGIC: [u8; 4] = *b"IOPF";
/// Version that this code writes.
pub const VERSION: u16 = 5;
/// The oldest version that it reads.
pub const OLDEST_VERSION: u16 = 4;
/// Bytes before the first frame.
pub const FILE_HEADER_BYTES: u64 = 16;
/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = 24;

const KIND_OPERATIONS: u32 = 1;
const KIND_FILES: u32 = 2;
const KIND_INDEX: u32 = 3;
const KIND_NAMES: u32 = 4;

/// The longest payload of a kind of frame, stored or decoded: a reader allocates no more, whatever a file says.
const fn payload_bytes_max(kind: u32) -> u32 {
    match kind {
        KIND_OPERATIONS => OPERATIONS_BYTES_MAX,
        KIND_INDEX => INDEX_BYTES_MAX,
        _ => FILES_BYTES_MAX,
    }
}

/// What is in a FILES frame.
#[derive(Debug, Serialize, Deserialize)]
struct Files(#[serde(deserialize_with = "limits::at_most::<_, _, FILES_MAX>")] Vec<FileBefore>);

/// What is in a NAMES frame.
#[derive(Debug, Serialize, Deserialize)]
struct Names(#[serde(deserialize_with = "limits::at_most::<_, _, FILES_MAX>")] Vec<(u32, Vec<u8>)>);

/// An operation, as [`super::planned_op::PlannedOp`]; what is the same as before in most of them is a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation<'a> {
    /// Index into [`Index::calls`].
    pub call: u16,
    /// The registers as they were; of pointers only whether they were any (1), as far as they are known to be pointers. Descriptors mean
    /// nothing any more.
    pub args: [u64; 6],
    /// The first descriptor.
    pub handle: Option<u32>,
    /// The second one. A transfer without one that succeeded goes to a sink: the replay does not have its target.
    pub target: Option<u32>,
    /// The one that it makes.
    pub makes: Option<u32>,
    /// The file that it is about: NAMES has its path.
    pub file: Option<u32>,
    /// A path, from the root.
    #[serde(borrow)]
    pub path: Option<&'a [u8]>,
    /// The second one.
    #[serde(borrow)]
    pub second_path: Option<&'a [u8]>,
    /// `O_*` that stand in memory.
    pub flags: Option<u32>,
    /// Position in the file, in bytes, if it does not stand in a register.
    pub offset: Option<u64>,
    /// The same of the second file.
    pub target_offset: Option<u64>,
    /// Bytes asked for, of buffers whose lengths stand in memory.
    pub bytes: Option<u64>,
    /// What it returned.
    pub ret: i64,
    /// ns since the end of the worker's operation before that was not implicit; the first one's since that of the capture.
    pub gap: u64,
    /// ns that it took.
    pub took: u64,
    /// How many ends of all operations are between that of the worker's operation before and this one's.
    pub others: u64,
    /// ns from its end to the latest end of all operations that are before it in the plan, or 0: whom it waits for is among these.
    pub behind: u64,
    /// A close that leaves the handle to others.
    pub keeps_handle: bool,
    /// No call did it that is done again: it is not counted, nor compared. Closes, unlocks (`LOCK_UN`), seeks and flags of descriptors
    /// (`F_SETFD`) only.
    pub implicit: bool,
    /// Whom it waits for: worker, and which of its operations.
    pub before: Vec<(u32, u32)>,
}

/// Something that has to be there before the first operation. Directories stand before what is in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBefore {
    /// From the root.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: FileKind,
    /// Bytes of a file, or of what a link contains.
    pub size: u64,
    /// Permissions, if something has shown them.
    pub mode: Option<u32>,
    /// A directory that something else is in.
    pub has_more: bool,
    /// The place in this list of the file that this is a second name of.
    pub same_as: Option<u32>,
    /// Where a file has data and where holes, as far as known, in order.
    #[serde(deserialize_with = "limits::at_most::<_, _, PARTS_MAX>")]
    pub parts: Vec<Part>,
    /// What a link contains, if it is known where it led.
    pub text: Option<Vec<u8>>,
}

impl FileBefore {
    /// Something of which nothing is known but what it is.
    pub fn new(path: &[u8], kind: FileKind) -> Self {
        let (path, parts) = (path.to_vec(), Vec::new());
        let (size, mode, has_more, same_as, text) = Default::default();
        Self { path, kind, size, mode, has_more, same_as, parts, text }
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
}

/// A thread of the replay: one of the original, or a lane of one, which does its asynchronous operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPlan {
    /// Its process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// Its name when it was first seen.
    pub comm: Vec<u8>,
    /// Which of the thread's lanes it is, from 0; `None`: the thread itself.
    pub lane: Option<u32>,
    /// Whom its first operation waits for: worker, and which of its operations.
    pub before: Option<(u32, u32)>,
    /// Some of its operations are waited for by others.
    pub is_waited_for: bool,
    /// How many operations it has, without implicit ones.
    pub operations: u32,
    /// Where its frames are, in bytes from the beginning of the file, in order.
    pub frames: Vec<u64>,
}

/// A descriptor that is open before the first operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenPlan {
    /// Its handle.
    pub handle: u32,
    /// Its path, from the root.
    pub path: Vec<u8>,
    /// Its `O_*` flags, if they are known.
    pub flags: Option<u32>,
    /// Where it stands, in bytes.
    pub offset: u64,
}

/// A call that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPlan {
    /// The name of its tracepoint.
    pub name: String,
    /// What the program did instead: an asynchronous operation (`aio:PREAD`).
    pub asynchronous: Option<String>,
}

impl CallPlan {
    /// What the program did.
    pub fn told(&self) -> &str {
        self.asynchronous.as_ref().unwrap_or(&self.name)
    }
}

/// Operations that are not done again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftPlan {
    /// [`super::replayability::Reason::as_str`].
    pub reason: String,
    /// The call, or the asynchronous operation.
    pub call: String,
    /// How many.
    pub count: u64,
}

/// Everything but operations and files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// The kind of machine that registers, flags and error numbers are of (`uname -m`).
    pub machine: String,
    /// The calls that are done.
    #[serde(deserialize_with = "limits::at_most::<_, _, CALLS_MAX>")]
    pub calls: Vec<CallPlan>,
    /// Those who do them.
    #[serde(deserialize_with = "limits::at_most::<_, _, WORKERS_MAX>")]
    pub workers: Vec<WorkerPlan>,
    /// What is open before.
    #[serde(deserialize_with = "limits::at_most::<_, _, GIVEN_MAX>")]
    pub given: Vec<GivenPlan>,
    /// What is not done, in the order of reasons and calls.
    #[serde(deserialize_with = "limits::at_most::<_, _, CALLS_MAX>")]
    pub left: Vec<LeftPlan>,
    /// Operations that are in what is done again.
    pub followed: u64,
    /// Operations that found something else than those before them had left.
    pub unexplained: u64,
    /// Descriptors that are open at once at most.
    pub handles: u32,
    /// From the beginning of the first operation to the end of the last one, ns.
    pub span: u64,
    /// Bytes that are read and written.
    pub bytes: [u64; 2],
    /// The longest write and the longest read, in bytes.
    pub longest: [u64; 2],
    /// Where the FILES frame is, in bytes from the beginning of the file.
    pub files_at: u64,
    /// Where the NAMES frame is.
    pub names_at: u64,
}

impl Index {
    /// All names in it that are ours.
    fn words(&self) -> impl Iterator<Item = &str> {
        let calls = self.calls.iter().map(|it| it.name.as_str());
        let others = self.calls.iter().filter_map(|it| it.asynchronous.as_deref());
        let left = self.left.iter().flat_map(|it| [it.reason.as_str(), it.call.as_str()]);
        calls.chain(others).chain(left).chain([self.machine.as_str()])
    }
}

#[cfg(test)]
mod tests;
