//! What the replay is to do: one operation, and what has to be there before the first one.

use super::dependencies::{OpId, Worker};
use super::handles::Handle;
use super::namespace::FileId;
use crate::analysis::done::What;
use crate::event::async_table::Opcode;
use crate::event::syscall_table::{CallId, Class};

/// An operation as it is to be done again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedOp {
    /// Whose, and the how manieth.
    pub at: OpId,
    /// The call.
    pub call: CallId,
    /// It was asked for asynchronously: this, instead of the call.
    pub asynchronous: Option<Opcode>,
    /// Its registers as they were. Descriptors and pointers among them mean nothing any more.
    pub args: [u64; 6],
    /// What the first descriptor is; `None`: none, or none that was open.
    pub handle: Option<Handle>,
    /// The second one; of a transfer that succeeded, `None` is one that the replay does not have, and whatever it gets is forgotten.
    pub target: Option<Handle>,
    /// The handle that it makes.
    pub makes: Option<Handle>,
    /// The file that it works on by a descriptor, or that it opens.
    pub file: Option<FileId>,
    /// The path, from the root of the replay.
    pub path: Option<Vec<u8>>,
    /// The second one; of a symbolic link what it contains.
    pub second_path: Option<Vec<u8>>,
    /// Flags of an open that do not stand in a register.
    pub flags: Option<u32>,
    /// Where the first file's bytes are that stand at a pointer, in bytes.
    pub offset: Option<u64>,
    /// The same of the second one.
    pub target_offset: Option<u64>,
    /// Bytes asked for that do not stand in a register.
    pub bytes: Option<u64>,
    /// What it returned.
    pub ret: i64,
    /// When it began, in ns since the first operation.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// A close of a handle that has other references: it stays, and a copy of it is closed.
    pub keeps_handle: bool,
    /// No call did it that is done again: nobody counts or compares it. It takes no time, and begins behind the worker's operation before
    /// if its time is earlier.
    pub implicit: bool,
    /// Whom it waits for.
    pub before: Vec<OpId>,
}

impl PlannedOp {
    /// What the program did.
    pub fn what(&self) -> What {
        self.asynchronous.map_or(What::Call(self.call), What::Async)
    }

    /// Bytes that it has read and written.
    pub fn moved(&self) -> [u64; 2] {
        let bytes = u64::try_from(self.ret).unwrap_or(0);
        match self.call.call().class {
            Class::Read => [bytes, 0],
            Class::Write => [0, bytes],
            // What is not in the replay gets nothing.
            Class::Transfer => [bytes, if self.target.is_some() { bytes } else { 0 }],
            _ => [0, 0],
        }
    }
}

/// A descriptor that is open before the first operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InheritedFd {
    /// Its handle.
    pub handle: Handle,
    /// Its path.
    pub path: Vec<u8>,
    /// The file there.
    pub file: Option<FileId>,
    /// Its `O_*` flags, if they are known.
    pub flags: Option<u32>,
    /// Where it stands, in bytes.
    pub offset: u64,
}

/// A thread of the replay: one of the original, or a lane of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Its number in the replay.
    pub worker: Worker,
    /// Its process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// Its name when it was first seen.
    pub comm: Vec<u8>,
    /// Whom its first operation waits for, besides what that needs itself.
    pub before: Vec<OpId>,
    /// It does asynchronous operations of that thread: the how manieth of those that do, from 0.
    pub lane: Option<u32>,
}
