//! What an operation is, and the steps in which operations are told.

use std::rc::Rc;

use super::spans::Span;
use crate::event::FileStat;
use crate::event::chain::ChainId;
use crate::event::syscall_table::CallId;
use crate::units::{CpuId, Fd, KernelTime, Pid, Tid};

/// One incarnation of a process: pids are used again, these numbers are not. Dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessKey(pub u32);

/// One incarnation of a thread. Dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey(pub u32);

/// How a path came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathSource {
    /// `/proc/PID/fd/N` read at the exit of the open, in time.
    Link,
    /// What fanotify said that the thread opened, where only this call can have been meant.
    Opened,
    /// The argument read at the exit of the open, in time: as the program spelled it, not resolved.
    Argument,
    /// The kernel's own copy of the argument, recorded inside the call: as the program spelled it.
    Kernel,
    /// The argument, recorded right before the call by the thread itself: as the program spelled it.
    Uprobe,
    /// The path of the program that an exec has made of its process, as the kernel's own tracepoint tells it: as spelled.
    Exec,
    /// The argument as the call's tracepoint shows it: bytes that cannot be printed are dots.
    Event,
    /// The same, and what is missing behind it was cut off.
    EventCut,
    /// What is made by such a call always has this name (a socket, an eventfd).
    Call,
    /// A `/proc` snapshot, for what was open before the recording.
    Snapshot,
    /// One of those that the kernel told, followed through renames and removals that were recorded.
    Renamed,
    /// Read too late to be sure: may be another file's name.
    Unverified,
}

impl PathSource {
    /// The word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Link => "fd-link",
            Self::Opened => "fanotify",
            Self::Argument => "argument",
            Self::Kernel => "kernel-string",
            Self::Uprobe => "uprobe-string",
            Self::Exec => "exec-event",
            Self::Event => "event-string",
            Self::EventCut => "event-string-cut",
            Self::Call => "call",
            Self::Snapshot => "snapshot",
            Self::Renamed => "renamed",
            Self::Unverified => "unverified",
        }
    }

    /// It is what the program spelled, to the byte.
    pub fn is_spelled(self) -> bool {
        matches!(self, Self::Argument | Self::Uprobe | Self::Kernel | Self::Exec)
    }

    /// It may be another file's name, or only the beginning of one.
    pub fn is_doubtful(self) -> bool {
        matches!(self, Self::Unverified | Self::EventCut)
    }
}

/// A mount namespace, by a dense number of our own: what a path leads to is the same only within one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mounts(pub u32);

impl Mounts {
    /// The tracer's, and that of everybody of whom nothing else was told.
    pub const OWN: Self = Self(0);
    /// It is not known which.
    pub const UNKNOWN: Self = Self(u32::MAX);

    /// True if a path leads to the same in both, as far as known.
    pub fn is(self, other: Self) -> bool {
        self == other && self != Self::UNKNOWN
    }
}

/// A path and where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath {
    /// The bytes; not always UTF-8, and `pipe:[7]` and the like for what has no path.
    pub bytes: Vec<u8>,
    /// How it is known.
    pub source: PathSource,
    /// Whose path it is.
    pub mounts: Mounts,
}

impl FilePath {
    /// A path as the tracer sees it.
    pub fn new(bytes: impl Into<Vec<u8>>, source: PathSource) -> Self {
        Self { bytes: bytes.into(), source, mounts: Mounts::OWN }
    }

    /// The same in other mounts.
    pub fn within(self, mounts: Mounts) -> Self {
        Self { mounts, ..self }
    }

    /// True for what the kernel calls the file: no part of it is a symbolic link.
    pub fn is_resolved(&self) -> bool {
        use PathSource::{Link, Opened, Renamed, Snapshot};
        matches!(self.source, Link | Opened | Snapshot | Renamed)
    }
}

/// An open file as a descriptor sees it. Shared by `dup` and `fork`.
#[derive(Debug)]
pub struct OpenFile {
    /// Dense number, never used again.
    pub id: u64,
    /// Its name, if known.
    pub path: Option<FilePath>,
    /// The name that it had at first, if it has got another one by a rename or has been removed.
    pub first_path: Option<FilePath>,
    /// What its open was given, from the root, where the kernel calls the file something else: a symbolic link is on the way, or `..`.
    pub given: Option<Box<[u8]>>,
    /// What it is, if known.
    pub stat: Option<FileStat>,
    /// `O_*` flags at open (access mode included); `None`: not known.
    pub flags: Option<u32>,
    /// True if it was there before the recording saw it made.
    pub pre_created: bool,
}

/// What a call did to a descriptor of its process, in the order it happened.
#[derive(Clone, Debug)]
pub enum FdEffect {
    /// A new descriptor for a newly opened file.
    Created {
        /// The descriptor.
        fd: Fd,
        /// The file.
        file: Rc<OpenFile>,
    },
    /// A new descriptor for a file that is open already.
    Duplicated {
        /// The descriptor that was there.
        from: Fd,
        /// The new one.
        to: Fd,
        /// The file.
        file: Rc<OpenFile>,
        /// True if the new one is close-on-exec.
        cloexec: bool,
    },
    /// The descriptor is gone.
    Destroyed {
        /// The descriptor.
        fd: Fd,
        /// The file it was for: the number may be in use for another one already.
        file: Rc<OpenFile>,
    },
    /// The file position was set.
    Seeked {
        /// The descriptor.
        fd: Fd,
        /// The offset as asked for.
        request: i64,
        /// `SEEK_*`.
        whence: u32,
        /// The new position, in bytes.
        result: u64,
    },
    /// `F_SETFL` or `F_SETFD`.
    StatusChanged {
        /// The descriptor.
        fd: Fd,
        /// The open file's `O_*` flags now; `None`: not known.
        flags: Option<u32>,
        /// Close-on-exec now; `None`: as before.
        cloexec: Option<bool>,
    },
}

/// Paths that a call was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// That of the file that it works on.
    pub first: Option<Given>,
    /// The other one.
    pub second: Option<Given>,
}

/// A path that a call was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// As the program spelled it.
    pub path: FilePath,
    /// From the root, if it is known where it begins; not resolved.
    pub absolute: Option<Vec<u8>>,
}

impl Given {
    /// From the root if that is known, else as spelled.
    pub fn whole(&self) -> &[u8] {
        self.absolute.as_deref().unwrap_or(&self.path.bytes)
    }
}

/// One system call of one thread.
#[derive(Clone, Debug)]
pub struct SyscallOperation {
    /// The row of the table.
    pub call: CallId,
    /// The thread's incarnation.
    pub thread: ThreadKey,
    /// The process's incarnation.
    pub process: ProcessKey,
    /// The process (tgid).
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The CPU at entry.
    pub cpu: CpuId,
    /// Time of `sys_enter`.
    pub start: KernelTime,
    /// Time of `sys_exit`; `None` while it is open.
    pub end: Option<KernelTime>,
    /// The six registers.
    pub args: [u64; 6],
    /// The result; `None` while it is open or if its exit was lost.
    pub ret: Option<i64>,
    /// The descriptor worked on: the argument, or for an open that succeeded the new one. The new one of a `dup` is in
    /// `target`.
    pub fd: Option<Fd>,
    /// The file behind `fd`.
    pub file: Option<Rc<OpenFile>>,
    /// The paths that it was given; none for an open that succeeded, whose path is that of its file.
    pub named: Option<Box<Named>>,
    /// The second descriptor and its file: the target of a transfer, or what a `dup` made.
    pub target: Option<(Fd, Rc<OpenFile>)>,
    /// Position of the first byte, in bytes; `None`: none, or not known for certain.
    pub offset: Option<u64>,
    /// The same of the target of a transfer.
    pub target_offset: Option<u64>,
    /// Flags of an open that stand in memory, if that was read.
    pub flags_in_memory: Option<u32>,
    /// `RESOLVE_*` of `openat2`, if its `open_how` was read to its end.
    pub resolve_in_memory: Option<u64>,
    /// Bytes asked for; `None` for calls that ask for none and for vectors that were not read.
    pub bytes_requested: Option<u64>,
    /// What was at work meanwhile, as far as it was recorded, in the order of its ends.
    pub spans: Vec<Span>,
    /// Through which functions of the program its thread came to its end, if that was recorded.
    pub chain: Option<ChainId>,
}

impl OpenFile {
    /// True if it was made by a call that makes no files: a pipe, a socket, an eventfd.
    pub fn is_made(&self) -> bool {
        let path = self.path.as_ref();
        self.stat.is_none() && path.is_some_and(|it| it.source == PathSource::Call)
    }

    /// The name that it had before it was followed to another one.
    pub fn first_path(&self) -> Option<&FilePath> {
        let renamed = self.path.as_ref().is_some_and(|it| it.source == PathSource::Renamed);
        self.first_path.as_ref().filter(|_| renamed).or(self.path.as_ref())
    }
}

impl SyscallOperation {
    /// The error number (positive), if the call failed.
    pub fn errno(&self) -> Option<i32> {
        match self.ret {
            Some(ret @ -4095..=-1) => i32::try_from(-ret).ok(),
            _ => None,
        }
    }

    /// The path of the operation's file, from wherever it is known.
    pub fn path(&self) -> Option<&FilePath> {
        let named = self.named.as_ref().and_then(|it| it.first.as_ref());
        named.map(|it| &it.path).or_else(|| self.file.as_ref()?.path.as_ref())
    }

    /// The second path: the new name of a rename or link, what a symbolic link is to contain.
    pub fn second_path(&self) -> Option<&FilePath> {
        self.named.as_ref()?.second.as_ref().map(|it| &it.path)
    }
}

/// Why an operation ended without its exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unfinished {
    /// The capture ended first.
    CaptureEnd,
    /// The thread died or was replaced by an exec inside it.
    ThreadEnd,
    /// The thread's next entry came first: the exit was lost.
    ExitLost,
}

impl Unfinished {
    /// The word for it in outputs for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CaptureEnd => "capture-end",
            Self::ThreadEnd => "thread-end",
            Self::ExitLost => "exit-lost",
        }
    }
}

/// A thread as the outputs show it.
#[derive(Clone, Debug)]
pub struct ThreadInfo {
    /// Its incarnation.
    pub key: ThreadKey,
    /// Its process's incarnation.
    pub process: ProcessKey,
    /// The thread.
    pub tid: Tid,
    /// Its name now.
    pub comm: Vec<u8>,
}

/// A process as the outputs show it.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    /// Its incarnation.
    pub key: ProcessKey,
    /// The process.
    pub pid: Pid,
    /// The process that made it, if it is one of those recorded.
    pub parent: Option<ProcessKey>,
    /// Name of its first thread now.
    pub comm: Vec<u8>,
    /// Whose it is: its real user; `None`: not known.
    pub user: Option<u32>,
}
