//! Data model: system calls, files, paths, threads and processes as the steps report them.

use std::sync::Arc;

use super::span::Span;
use crate::event::callchain::ChainId;
use crate::event::syscall_table::CallId;
use crate::event::{FileStat, OpenFlags};
use crate::units::{CpuId, Fd, KernelTime, Pid, Tid};

/// Key of one incarnation of a process: pids are reused, keys are not. Dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessKey(pub u32);

/// Key of one incarnation of a thread. Dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey(pub u32);

/// Source of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathSource {
    /// `/proc/PID/fd/N`, read at the exit of the open, in time.
    Link,
    /// File that fanotify reported as opened by the thread, where only this call can have been
    /// meant.
    Opened,
    /// Argument, read at the exit of the open, in time: as the program spelled it, not resolved.
    Argument,
    /// The kernel's own copy of the argument, recorded inside the call: as the program spelled it.
    Kernel,
    /// Argument, recorded right before the call by the thread itself: as the program spelled it.
    Uprobe,
    /// Path of the program that an exec has started, from the kernel's own tracepoint: as spelled.
    Exec,
    /// Argument as the call's tracepoint shows it: bytes that cannot be printed are dots.
    Event,
    /// Argument as the call's tracepoint shows it, cut off at its end.
    EventCut,
    /// Fixed name of the objects that such a call makes (a socket, an eventfd).
    Call,
    /// `/proc` snapshot, for files that were open before the recording.
    Snapshot,
    /// Name from the kernel, followed through renames and removals that were recorded.
    Renamed,
    /// Name that was read too late to be certain: it may be another file's.
    Unverified,
}

impl PathSource {
    /// Returns the word for the source in every output.
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

    /// Returns true if the bytes are exactly those that the program spelled.
    pub fn is_spelled(self) -> bool {
        matches!(self, Self::Argument | Self::Uprobe | Self::Kernel | Self::Exec)
    }

    /// Returns true if the path may be another file's name, or only the beginning of one.
    pub fn is_doubtful(self) -> bool {
        matches!(self, Self::Unverified | Self::EventCut)
    }
}

/// Mount namespace, by a dense number of our own: a path has one meaning only within one namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MountNamespace(pub u32);

impl MountNamespace {
    /// The tracer's namespace; also that of processes without a report of another one.
    pub const OWN: Self = Self(0);
    /// A namespace that is not known.
    pub const UNKNOWN: Self = Self(u32::MAX);

    /// Returns true if a path leads to the same file in both, as far as known.
    pub fn is(self, other: Self) -> bool {
        self == other && self != Self::UNKNOWN
    }
}

/// A path and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath {
    /// Bytes of the path; not always UTF-8. Files without a path have `pipe:[7]` and the like.
    pub bytes: Vec<u8>,
    /// Source of the path.
    pub source: PathSource,
    /// Namespace in which the path is valid.
    pub mounts: MountNamespace,
}

impl FilePath {
    /// Returns a path as the tracer sees it.
    pub fn new(bytes: impl Into<Vec<u8>>, source: PathSource) -> Self {
        Self { bytes: bytes.into(), source, mounts: MountNamespace::OWN }
    }

    /// Returns this path in other mounts.
    pub fn within(self, mounts: MountNamespace) -> Self {
        Self { mounts, ..self }
    }

    /// Returns true for the kernel's name of the file: no part of it is a symbolic link.
    pub fn is_resolved(&self) -> bool {
        use PathSource::{Link, Opened, Renamed, Snapshot};
        matches!(self.source, Link | Opened | Snapshot | Renamed)
    }
}

/// An open file that descriptors refer to. Shared by `dup` and `fork`.
#[derive(Debug)]
pub struct OpenFile {
    /// Dense number, never reused.
    pub id: u64,
    /// Name of the file, if known.
    pub path: Option<FilePath>,
    /// First name, if the file was renamed or removed since.
    pub first_path: Option<FilePath>,
    /// Path argument of its open, from the root, if it differs from the kernel's name: with a
    /// symbolic link on the way, or `..`.
    pub given: Option<Box<[u8]>>,
    /// Type and inode, if known.
    pub stat: Option<FileStat>,
    /// `O_*` flags at open (access mode included); `None`: not known.
    pub flags: Option<u32>,
    /// True if it was open before the recording saw it being opened.
    pub pre_created: bool,
}

/// Effect of a call on a descriptor of its process, in the order of the effects.
#[derive(Clone, Debug)]
pub enum FdEffect {
    /// A new descriptor for a newly opened file.
    Created {
        /// The descriptor.
        fd: Fd,
        /// The file.
        file: Arc<OpenFile>,
    },
    /// A new descriptor for a file that is open already.
    Duplicated {
        /// The existing descriptor.
        from: Fd,
        /// The new one.
        to: Fd,
        /// The file.
        file: Arc<OpenFile>,
        /// True if the new one is close-on-exec.
        cloexec: bool,
    },
    /// A descriptor was closed.
    Destroyed {
        /// The descriptor.
        fd: Fd,
        /// The file that it referred to: the number may be in use for another one already.
        file: Arc<OpenFile>,
    },
    /// The file position was set.
    Seeked {
        /// The descriptor.
        fd: Fd,
        /// The requested offset.
        request: i64,
        /// Base of the offset, `SEEK_*`.
        whence: u32,
        /// The new position, in bytes.
        result: u64,
    },
    /// `F_SETFL` or `F_SETFD`.
    StatusChanged {
        /// The descriptor.
        fd: Fd,
        /// The open file's new `O_*` flags; `None`: not known.
        flags: Option<u32>,
        /// New close-on-exec flag; `None`: unchanged.
        cloexec: Option<bool>,
    },
}

/// Path arguments of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathArguments {
    /// Path of the file that the call works on.
    pub first: Option<PathArgument>,
    /// Second path.
    pub second: Option<PathArgument>,
}

/// One path argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathArgument {
    /// The path as the program spelled it.
    pub path: FilePath,
    /// The path from the root, if its base is known; not resolved.
    pub absolute: Option<Vec<u8>>,
}

impl PathArgument {
    /// Returns the path from the root if that is known, otherwise as spelled.
    pub fn whole(&self) -> &[u8] {
        self.absolute.as_deref().unwrap_or(&self.path.bytes)
    }
}

/// One system call of one thread.
#[derive(Clone, Debug)]
pub struct SyscallOperation {
    /// Row of the table of system calls.
    pub call: CallId,
    /// Incarnation of the thread.
    pub thread: ThreadKey,
    /// Incarnation of the process.
    pub process: ProcessKey,
    /// The process (tgid).
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The CPU at entry.
    pub cpu: CpuId,
    /// Time of `sys_enter`.
    pub start: KernelTime,
    /// Time of `sys_exit`; `None` while the call is open.
    pub end: Option<KernelTime>,
    /// The six registers.
    pub args: [u64; 6],
    /// Result; `None` while the call is open or if its exit was lost.
    pub ret: Option<i64>,
    /// Descriptor that the call works on: the argument, or the new one of a successful open. The
    /// new one of a `dup` is in `target`.
    pub fd: Option<Fd>,
    /// File of `fd`.
    pub file: Option<Arc<OpenFile>>,
    /// Path arguments; none for a successful open, whose path is that of its file.
    pub named: Option<Box<PathArguments>>,
    /// Second descriptor and its file: the target of a transfer, or the new one of a `dup`.
    pub target: Option<(Fd, Arc<OpenFile>)>,
    /// Position of the first byte, in bytes; `None`: none, or not known for certain.
    pub offset: Option<u64>,
    /// Position in the target of a transfer, in bytes; `None`: none, or not known for certain.
    pub target_offset: Option<u64>,
    /// Flags of an open that are stored in memory, if the memory was read.
    pub flags_in_memory: Option<u32>,
    /// `RESOLVE_*` of `openat2`, if its `open_how` was read to its end.
    pub resolve_in_memory: Option<u64>,
    /// Requested bytes; `None` for calls that request none, and for vectors that were not read.
    pub bytes_requested: Option<u64>,
    /// Spans of the layers that were at work meanwhile, as far as recorded, in the order of their
    /// ends.
    pub spans: Vec<Span>,
    /// Call chain at the end of the call, if it was recorded.
    pub chain: Option<ChainId>,
}

impl OpenFile {
    /// Returns true if the file was made by a call that makes no files: a pipe, a socket, an
    /// eventfd.
    pub fn is_made(&self) -> bool {
        let path = self.path.as_ref();
        self.stat.is_none() && path.is_some_and(|it| it.source == PathSource::Call)
    }

    /// Returns the name before any rename that was followed.
    pub fn first_path(&self) -> Option<&FilePath> {
        let renamed = self.path.as_ref().is_some_and(|it| it.source == PathSource::Renamed);
        self.first_path.as_ref().filter(|_| renamed).or(self.path.as_ref())
    }
}

impl SyscallOperation {
    /// Returns the error number (positive), if the call failed.
    pub fn errno(&self) -> Option<i32> {
        match self.ret {
            Some(ret @ -4095..=-1) => i32::try_from(-ret).ok(),
            _ => None,
        }
    }

    /// Returns the path of the operation's file, from any source that knows it.
    pub fn path(&self) -> Option<&FilePath> {
        let named = self.named.as_ref().and_then(|it| it.first.as_ref());
        named.map(|it| &it.path).or_else(|| self.file.as_ref()?.path.as_ref())
    }

    /// Returns the `O_*` flags of its file, or of the open that failed, if they are known.
    pub fn file_flags(&self) -> Option<OpenFlags> {
        let of_call = || OpenFlags::of_call(self.call.call(), &self.args, self.flags_in_memory);
        match &self.file {
            Some(file) => file.flags.map(OpenFlags),
            None => of_call(),
        }
    }

    /// Returns the second path: the new name of a rename or link, or the contents of a new symbolic
    /// link.
    pub fn second_path(&self) -> Option<&FilePath> {
        self.named.as_ref()?.second.as_ref().map(|it| &it.path)
    }
}

/// Reason for an operation without an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unfinished {
    /// The capture ended before the exit.
    CaptureEnd,
    /// The thread died inside the call, or was replaced by an exec.
    ThreadEnd,
    /// The thread's next entry came first: the exit was lost.
    ExitLost,
}

impl Unfinished {
    /// Returns the word in outputs for programs.
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
    /// Incarnation of the thread.
    pub key: ThreadKey,
    /// Incarnation of its process.
    pub process: ProcessKey,
    /// The thread.
    pub tid: Tid,
    /// Current name.
    pub comm: Vec<u8>,
}

/// A process as the outputs show it.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    /// Incarnation of the process.
    pub key: ProcessKey,
    /// The process.
    pub pid: Pid,
    /// Process that made it, if that one is recorded.
    pub parent: Option<ProcessKey>,
    /// Current name of its first thread.
    pub comm: Vec<u8>,
    /// Real user of the process; `None`: not known.
    pub user: Option<u32>,
    /// True for a kernel thread.
    pub is_kernel: bool,
    /// Parent, as the snapshot has shown it; `None`: see `parent`, or not known.
    pub parent_pid: Option<Pid>,
    /// Path of its program, as an exec or the snapshot has shown it; `None`: not known.
    pub program: Option<Arc<[u8]>>,
    /// Arguments of its program, each with a NUL at its end; `None`: not known.
    pub command: Option<Arc<[u8]>>,
    /// Path of its control group; `None`: not known.
    pub cgroup: Option<Arc<[u8]>>,
    /// Rank in a parallel job, of its own or of the process that has made it; `None`: not known.
    pub rank: Option<u64>,
    /// Host; `None`: that of the capture.
    pub host: Option<Arc<[u8]>>,
}

impl ProcessInfo {
    /// Returns a process of which only the number is known.
    pub fn new(key: ProcessKey, pid: Pid) -> Self {
        Self {
            key,
            pid,
            parent: None,
            comm: Vec::new(),
            user: None,
            is_kernel: false,
            parent_pid: None,
            program: None,
            command: None,
            cgroup: None,
            rank: None,
            host: None,
        }
    }

    /// Returns the arguments of its program with spaces between them.
    pub fn command_line(&self) -> Option<Vec<u8>> {
        let arguments = self.command.as_ref()?;
        let end = arguments.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let spaced = |byte: &u8| if *byte == 0 { b' ' } else { *byte };
        Some(arguments.get(..end)?.iter().map(spaced).collect())
    }

    /// Takes from a parent what a fork copies.
    pub fn copy_from(&mut self, parent: &Self) {
        self.parent = Some(parent.key);
        self.parent_pid = Some(parent.pid);
        self.comm.clone_from(&parent.comm);
        self.user = parent.user;
        self.program.clone_from(&parent.program);
        self.command.clone_from(&parent.command);
        self.cgroup.clone_from(&parent.cgroup);
        self.rank = parent.rank;
    }
}
