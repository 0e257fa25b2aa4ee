//! Tool-independent event that all import parsers produce, and that the log's writer takes.

use crate::capture::fact::NameOf;
use crate::event::FileStat;
use crate::event::block::BlockPoint;
use crate::event::syscall_table::CallId;
use crate::units::{DevId, Fd, Pid, Tid};

/// A thread and its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImportedTask {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
}

impl ImportedTask {
    /// The first thread of a process.
    pub fn leader(pid: i32) -> Self {
        Self { pid: Pid(pid), tid: Tid(pid) }
    }
}

/// One event at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedEvent {
    /// Time in ns: since 1970 if the log has such times, else since an unknown moment.
    pub time: u64,
    /// Thread of the event.
    pub task: ImportedTask,
    /// Kind of the event.
    pub what: ImportedKind,
}

/// Kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportedKind {
    /// The thread entered a call with these registers.
    Enter(CallId, [u64; 6]),
    /// The thread left the call with this result; with the memory of its arguments, and the link of
    /// a new descriptor.
    Exit(CallId, i64, Vec<MemoryRead>),
    /// The thread started this one, and shares with it what these `CLONE_*` bits state.
    Born(ImportedTask, u64),
    /// The name of the thread changed; with an exec or without.
    Named(Vec<u8>, bool),
    /// The thread ended.
    Ended,
    /// A descriptor was open before its first use in the log: target of its link, and its flags.
    Open(Fd, Vec<u8>, u32),
    /// The process of the thread had this working directory at the start.
    Directory(Vec<u8>),
    /// The block layer processed a request or bio.
    Block(Block),
    /// The other tool lost this number of records before this one.
    Lost(u64),
    /// The name of a device. It has no time, and precedes the first event of the device.
    Disk(DevId, Vec<u8>),
}

/// Data of a call that is not in its registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRead {
    /// Kind of the data.
    pub of: NameOf,
    /// Value of the register that points to the data; 0 for a link.
    pub address: u64,
    /// Bytes of the data.
    pub bytes: Vec<u8>,
    /// Metadata of a link's file, as far as it is known; inode 0 means an unknown one.
    pub stat: Option<FileStat>,
}

impl MemoryRead {
    /// Memory to which an argument points.
    pub fn memory(of: NameOf, address: u64, bytes: Vec<u8>) -> Self {
        Self { of, address, bytes, stat: None }
    }

    /// Link of a new descriptor.
    pub fn link(bytes: Vec<u8>, stat: Option<FileStat>) -> Self {
        Self { of: NameOf::Link, address: 0, bytes, stat }
    }
}

/// Event of a block tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The tracepoint.
    pub point: BlockPoint,
    /// The device.
    pub dev: DevId,
    /// First sector, in units of 512 bytes.
    pub sector: u64,
    /// Length in such sectors; for a split the first sector after the front part.
    pub sectors: u64,
    /// A negative errno, or 0.
    pub error: i32,
    /// Letters of the operation, as the kernel spells them.
    pub rwbs: Vec<u8>,
    /// Device and sector before a remap.
    pub from: Option<(DevId, u64)>,
    /// Name of the running thread.
    pub comm: Vec<u8>,
}
