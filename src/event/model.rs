//! Types of events.

use super::block::BlockEvent;
use super::callchain::{CallChain, ChainId};
use super::fault::FaultEvent;
use super::file_io::FileIo;
use super::fs::{Extent, FsEvent};
use super::identity::SeenIdentity;
use super::layer::LayerEvent;
use super::syscall_table::CallId;
use super::task::TaskEvent;
use super::uring::UringEvent;
use crate::units::{CpuId, DevId, Fd, KernelTime, Pid, Tid};

/// Decoded event: its time, CPU, task and content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time by the kernel's clock.
    pub time: KernelTime,
    /// CPU whose ring held the event.
    pub cpu: CpuId,
    /// Process of the task that was running (not always the task concerned: interrupts).
    pub pid: Pid,
    /// Task that was running.
    pub tid: Tid,
    /// Content of the event.
    pub kind: EventKind,
}

/// Content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A thread entered a system call of the table.
    SysEnter(SysEnter),
    /// A thread left a system call of the table.
    SysExit(SysExit),
    /// An event of the block layer.
    Block(BlockEvent),
    /// An event of io_uring.
    Uring(UringEvent),
    /// A file system began the I/O of the running thread.
    FileIo(FileIo),
    /// A span of time inside a call began or ended.
    Layer(LayerEvent),
    /// A file system reported the extents of files.
    Fs(FsEvent),
    /// A program accessed memory that was not present.
    Fault(FaultEvent),
    /// A task was created or renamed, or ended.
    Task(TaskEvent),
    /// The kernel dropped this many records of this ring before this point.
    Lost(u64),
    /// Fact with a place in time, without a sample: a snapshot saw this descriptor.
    SeenFd(Box<SeenFd>),
    /// Fact without a sample: devices with mounted file systems, and the bytes of a block in their
    /// events.
    FileSystems(Box<[(DevId, Option<u64>)]>),
    /// Fact without a sample: extents that file systems reported earlier, in records that were left
    /// out.
    Places(Box<[Extent]>),
    /// Fact without a sample: part of the identity of a process.
    Identity(Box<SeenIdentity>),
    /// Observation inside a system call: by one of the tracer's probes, or by a tracepoint of one
    /// of its steps.
    Probed(Box<ProbeObservation>),
    /// Fact without a sample: a call chain, before the first event that has it.
    Chain(Box<CallChain>),
}

/// Observation inside a system call of the thread, or right before it: at the moment of its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeObservation {
    /// The kernel has copied a path from the program's memory.
    Path {
        /// Address in that memory; `None` if this kernel does not report it.
        address: Option<u64>,
        /// Path, without its NUL; `None` if it could not be copied.
        bytes: Option<Vec<u8>>,
    },
    /// The program is about to pass a path: its next call uses it if its argument has this address.
    Given {
        /// Address of the path in the program's memory.
        address: u64,
        /// Path, without its NUL; `None` if it could not be read, or is too long.
        bytes: Option<Vec<u8>>,
    },
    /// The program is about to call `io_submit` with a list.
    Submitted {
        /// Address of the list in the program's memory.
        address: u64,
        /// Index of the first operation in `bytes`: a long list is recorded in parts.
        first: usize,
        /// Operations of the list, as [`super::syscall_table::ArgumentMemory::Iocbs`]. Operations
        /// that the call does not have are without meaning.
        bytes: Vec<u8>,
    },
    /// The program's `io_getevents` or `io_pgetevents` has returned.
    Completed {
        /// Address of the list of results in the program's memory.
        address: u64,
        /// Returned number of results.
        count: i64,
        /// Index of the first result in `bytes`: a long list is recorded in parts.
        first: usize,
        /// `struct io_event` of the list, as far as they could be read. Those that the call did not
        /// fill are without meaning.
        bytes: Vec<u8>,
    },
    /// A descriptor was bound to a file.
    File {
        /// Descriptor number.
        fd: Fd,
        /// Status of the file.
        stat: FileStat,
    },
    /// The process runs the program of this path now (`sched:sched_process_exec`): the argument of
    /// `execve`. For `execveat` with a directory it is `/dev/fd/N/PATH`, or `/dev/fd/N` without a
    /// path (`alloc_bprm()` in `fs/exec.c`).
    Program(Vec<u8>),
    /// A wait has taken this child, which had ended (`sys_exit_wait4`, `sys_exit_waitid`); `None`
    /// if the number of the child is in memory (`waitid`).
    Waited(Option<Pid>),
    /// A signal whose default action may write a core dump ends the process
    /// (`signal:signal_deliver`).
    CoreSignal,
}

/// `sys_enter`: the call and its six argument registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysEnter {
    /// Row of the table.
    pub call: CallId,
    /// Argument registers; those that the call does not use have any value.
    pub args: [u64; 6],
}

/// `sys_exit`: the call and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysExit {
    /// Row of the table.
    pub call: CallId,
    /// Result; -4095 to -1 is a negative errno.
    pub ret: i64,
    /// Names that were read while the call was still inside the kernel, if there are any.
    pub names: Option<Box<ReadNames>>,
    /// Call chain of the program's functions, if it was recorded.
    pub chain: Option<ChainId>,
}

/// Names that were read for one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadNames {
    /// Path argument of the call.
    pub argument: Option<Name>,
    /// Second path argument of the call.
    pub second: Option<Name>,
    /// Sources of these two.
    pub from: [StringFrom; 2],
    /// Bytes to which other arguments point, by their addresses.
    pub memory: Vec<(u64, Name)>,
    /// List of asynchronous operations or results that a probe recorded in the thread itself: the
    /// first ones, by the address of the argument.
    pub list: Option<(u64, Vec<u8>)>,
    /// Targets of the two descriptors of a new pair, if they were read.
    pub pair: Vec<(Fd, Name, Option<FileStat>)>,
    /// Target of `/proc/PID/fd/N`.
    pub link: Option<Name>,
    /// File that fanotify reported as opened, if the open was this call's.
    pub opened: Option<Name>,
    /// True if the report was certainly of this call. Its name is verified only if, besides, no
    /// file was renamed before the name was read.
    pub is_opened_here: bool,
    /// Status of the file, read with the link, in time, or seen by a probe.
    pub stat: Option<FileStat>,
    /// True if the status is that of a file that fanotify reported by a handle: it is the file of
    /// the call unless the thread is in another mount namespace.
    pub stat_is_by_handle: bool,
    /// Clock after the last read.
    pub read: KernelTime,
}

/// Source of an argument's string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StringFrom {
    /// Copy by the system call's own tracepoint, which cuts off long strings and shows a dot for
    /// bytes that it cannot print. This string ends like those that were cut off.
    EventCut,
    /// Copy by the system call's own tracepoint, whole.
    Event,
    /// Bytes read from the program's memory by a tracer thread during the call.
    #[default]
    Memory,
    /// Bytes recorded from the program's memory by the thread itself, right before the call.
    Uprobe,
    /// Path of the new program, as the kernel reports it after a successful exec.
    Exec,
    /// Kernel's own copy, which it used.
    Kernel,
}

/// Name, and whether it is certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Bytes as the kernel has them; not always UTF-8.
    pub bytes: Vec<u8>,
    /// True if the name was read before it could have been changed.
    pub verified: bool,
}

/// Status of a file (`statx(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileStat {
    /// `st_mode`: type and permissions.
    pub mode: u32,
    /// Device of the file.
    pub dev: DevId,
    /// Inode number of the file.
    pub ino: u64,
    /// Size at the time of the read, in bytes.
    pub size: u64,
}

impl FileStat {
    /// Returns true if a position in the file has a meaning: for a regular file or a block device.
    pub fn has_position(&self) -> bool {
        matches!(self.mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK)
    }

    /// Returns the identity of the file; `None` if it is unknown, as for files in another tool's
    /// log. No file has inode 0.
    pub fn inode(&self) -> Option<(DevId, u64)> {
        (self.ino != 0).then_some((self.dev, self.ino))
    }

    /// Returns true for files that hold bytes or names: a regular file, a block device, a
    /// directory, a symbolic link.
    pub fn is_file(&self) -> bool {
        self.has_position() || matches!(self.mode & libc::S_IFMT, libc::S_IFDIR | libc::S_IFLNK)
    }

    /// Returns true for a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }
}

/// Descriptor as a snapshot saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenFd {
    /// Clock before the read.
    pub begin: KernelTime,
    /// Process of the descriptor.
    pub pid: Pid,
    /// Descriptor number.
    pub fd: Fd,
    /// Open flags (`O_*`).
    pub flags: u32,
    /// Position in bytes; `None` if it is unreliable.
    pub position: Option<u64>,
    /// True if other processes may move the position.
    pub shared: bool,
    /// Status of the file.
    pub stat: Option<FileStat>,
    /// Target of the descriptor's link.
    pub link: Vec<u8>,
}
