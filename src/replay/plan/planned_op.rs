//! Elements of a plan: operations, initially open descriptors, workers.

use super::dependencies::{OpId, Worker};
use super::handles::Handle;
use super::namespace::FileId;
use crate::analysis::completed_op::OpKind;
use crate::event::async_table::Opcode;
use crate::event::syscall_table::{CallClass, CallId};
use crate::units::ReplayTime;

/// Operation that the replay executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedOp {
    /// Worker that executes the operation, and its index among that worker's operations.
    pub at: OpId,
    /// Call that is made.
    pub call: CallId,
    /// Captured asynchronous operation that the call replaces.
    pub asynchronous: Option<Opcode>,
    /// Captured registers. Descriptors and pointers among them have no meaning.
    pub args: [u64; 6],
    /// Handle of the first descriptor; `None`: there is none, or none that was open.
    pub handle: Option<Handle>,
    /// Handle of the second descriptor. A successful transfer without one has a target that the
    /// replay lacks: its bytes are discarded.
    pub target: Option<Handle>,
    /// Handle that the operation creates.
    pub makes: Option<Handle>,
    /// File that the operation works on by a descriptor, or opens.
    pub file: Option<FileId>,
    /// Path, from the root of the replay.
    pub path: Option<Vec<u8>>,
    /// Second path; for a symbolic link its target.
    pub second_path: Option<Vec<u8>>,
    /// Flags of an open that are passed in memory.
    pub flags: Option<u32>,
    /// Offset in the first file in bytes, if it is passed in memory.
    pub offset: Option<u64>,
    /// Offset in the second file in bytes, if it is passed in memory.
    pub target_offset: Option<u64>,
    /// Requested bytes, if they are passed in memory.
    pub bytes: Option<u64>,
    /// Captured result.
    pub ret: i64,
    /// Begin in the capture.
    pub start: ReplayTime,
    /// End in the capture.
    pub end: ReplayTime,
    /// Close of a handle that has other references: the handle stays open, and a copy of it is
    /// closed.
    pub keeps_handle: bool,
    /// Implicit operation: no replayed call caused it, so it is neither counted nor compared. It
    /// takes no time, and follows the worker's previous operation even if its own time is earlier.
    pub implicit: bool,
    /// Operations that this one waits for.
    pub before: Vec<OpId>,
}

impl PlannedOp {
    /// Returns the captured call or asynchronous operation.
    pub fn kind(&self) -> OpKind {
        self.asynchronous.map_or(OpKind::Call(self.call), OpKind::Async)
    }

    /// Returns the bytes read and written.
    pub fn moved(&self) -> [u64; 2] {
        let bytes = u64::try_from(self.ret).unwrap_or(0);
        match self.call.call().class {
            CallClass::Read => [bytes, 0],
            CallClass::Write => [0, bytes],
            // A target that is not in the replay receives no bytes.
            CallClass::Transfer => [bytes, if self.target.is_some() { bytes } else { 0 }],
            _ => [0, 0],
        }
    }
}

/// Descriptor that is open before the first operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InheritedFd {
    /// Handle of the descriptor.
    pub handle: Handle,
    /// Path of the file.
    pub path: Vec<u8>,
    /// File that is open.
    pub file: Option<FileId>,
    /// `O_*` flags, if known.
    pub flags: Option<u32>,
    /// Position in bytes.
    pub offset: u64,
}

/// Worker of the replay: a captured thread, or a lane of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Number of the worker.
    pub worker: Worker,
    /// Captured process ID.
    pub pid: i32,
    /// Captured thread ID.
    pub tid: i32,
    /// Name of the thread when it was first seen.
    pub comm: Vec<u8>,
    /// Operations that the first one waits for, besides its own dependencies.
    pub before: Vec<OpId>,
    /// Index among the thread's lanes, from 0, if the worker is a lane that executes asynchronous
    /// operations.
    pub lane: Option<u32>,
}
