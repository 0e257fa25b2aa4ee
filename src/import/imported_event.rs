//! What a log of another tool says, in words of our own: the one thing that parsers give and the
//! writer takes.

use crate::capture::fact::NameOf;
use crate::event::FileStat;
use crate::event::block::BlockPoint;
use crate::event::syscall_table::CallId;
use crate::units::{DevId, Fd, Pid, Tid};

/// Process and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
}

impl Task {
    /// The first thread of a process.
    pub fn leader(pid: i32) -> Self {
        Self { pid: Pid(pid), tid: Tid(pid) }
    }
}

/// One thing at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedEvent {
    /// When, ns: since 1970 if the other tool has said that, else since anything.
    pub time: u64,
    /// Who.
    pub task: Task,
    /// What.
    pub what: ImportedKind,
}

/// What there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportedKind {
    /// The thread entered a call with these registers.
    Enter(CallId, [u64; 6]),
    /// It left it with this result; what its arguments pointed to, and what its new descriptor is.
    Exit(CallId, i64, Vec<Read>),
    /// This one was born by the thread, which shares with it what these `CLONE_*` bits say.
    Born(Task, u64),
    /// Its name is another one since then; with an exec or without.
    Named(Vec<u8>, bool),
    /// It has ended.
    Ended,
    /// This descriptor was open before the log tells of it: where it points, and its flags.
    Open(Fd, Vec<u8>, u32),
    /// Its process was in this directory at the start.
    Directory(Vec<u8>),
    /// The block layer spoke.
    Block(Block),
}

/// Something beside the registers of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// What it is.
    pub of: NameOf,
    /// The register's value that points to it; 0 for a link.
    pub address: u64,
    /// It.
    pub bytes: Vec<u8>,
    /// Of a link: what the file is, as far as that is known; inode 0 stands for one that is not.
    pub stat: Option<FileStat>,
}

impl Read {
    /// What an argument points to.
    pub fn memory(of: NameOf, address: u64, bytes: Vec<u8>) -> Self {
        Self { of, address, bytes, stat: None }
    }

    /// Where a new descriptor points.
    pub fn link(bytes: Vec<u8>, stat: Option<FileStat>) -> Self {
        Self { of: NameOf::Link, address: 0, bytes, stat }
    }
}

/// A hit of a block tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which one.
    pub point: BlockPoint,
    /// The device.
    pub dev: DevId,
    /// First sector, in units of 512 bytes.
    pub sector: u64,
    /// Length in such sectors; of a split the first sector behind the part in front.
    pub sectors: u64,
    /// A negative errno, or 0.
    pub error: i32,
    /// As the kernel spells it.
    pub rwbs: Vec<u8>,
    /// Of a remap: what was asked.
    pub from: Option<(DevId, u64)>,
    /// Who was running.
    pub comm: Vec<u8>,
}
