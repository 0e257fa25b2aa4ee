//! Record + format → event: what a tracepoint hit means, in the kernel's words.
//!
//! In: the payload of a tracepoint, whichever source wrapped it, and the `format` text that describes it.
//! Out: an [`Event`], or the reason why there is none. Nothing here knows rings, files or the order of things.

pub mod async_table;
pub mod block;
pub mod block_shape;
pub mod chain;
pub mod decode;
pub mod fault;
pub mod file_io;
pub mod fs;
pub mod layer;
pub mod probed;
pub mod strings;
mod syscall_rows;
pub mod syscall_table;
pub mod task;
pub mod uring;

use crate::units::{CpuId, DevId, Fd, KernelTime, Pid, Tid};

/// One decoded hit: when, where, who, what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by the kernel's clock.
    pub time: KernelTime,
    /// The CPU whose ring held it.
    pub cpu: CpuId,
    /// The process of the task that was running (not always the one it concerns: interrupts).
    pub pid: Pid,
    /// The task that was running.
    pub tid: Tid,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A thread entered a system call of the table.
    SysEnter(SysEnter),
    /// A thread left a system call of the table.
    SysExit(SysExit),
    /// The block layer spoke.
    Block(block::BlockEvent),
    /// io_uring spoke.
    Uring(uring::UringEvent),
    /// A file system began the I/O of the thread that is running.
    FileIo(file_io::FileIo),
    /// A stretch of time inside a call began or ended.
    Layer(layer::LayerEvent),
    /// A file system said where contents of files lie.
    Fs(fs::FsEvent),
    /// A program touched what was not in memory.
    Fault(fault::FaultEvent),
    /// A task was born, renamed, or died.
    Task(task::TaskEvent),
    /// The kernel dropped this many records of this ring before this point.
    Lost(u64),
    /// No hit, but a fact that has its place in time: a snapshot saw this descriptor.
    SeenFd(Box<SeenFd>),
    /// The same: devices with file systems that are mounted, and how many bytes blocks have in their events.
    FileSystems(Box<[(DevId, Option<u64>)]>),
    /// The same: what file systems said before of where files lie, in records that were left out.
    Places(Box<[fs::Extent]>),
    /// Something was seen inside a system call: by a probe of ours, or by a tracepoint that tells of a step of it.
    Probed(Box<Probed>),
    /// No hit: a chain of functions, before the first hit that came through them.
    Chain(Box<chain::CallChain>),
}

/// What was seen inside a system call of the thread, or right before it: at the moment of its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// The kernel has copied a path out of the program's memory.
    Path {
        /// Where it stood there; `None`: this kernel does not say.
        address: Option<u64>,
        /// The path, without its NUL; `None`: it could not be copied.
        bytes: Option<Vec<u8>>,
    },
    /// The program is about to hand over a path: its next call is given it if that has this address.
    Given {
        /// Where the path stands in the program's memory.
        address: u64,
        /// The path, without its NUL; `None`: it could not be read, or is too long.
        bytes: Option<Vec<u8>>,
    },
    /// A descriptor was given a file.
    File {
        /// The descriptor.
        fd: Fd,
        /// What the file is.
        stat: FileStat,
    },
    /// The process has become the program of this path (`sched:sched_process_exec`): the one that `execve` was given. Of
    /// `execveat` with a directory `/dev/fd/N/PATH`, or `/dev/fd/N` if it was given no more (`alloc_bprm()` in `fs/exec.c`).
    Program(Vec<u8>),
    /// A wait has taken a child that had ended (`sys_exit_wait4`, `sys_exit_waitid`): this one; `None`: which one stands in memory
    /// (`waitid`).
    Waited(Option<Pid>),
    /// A signal whose default action may write a core dump ends the process (`signal:signal_deliver`).
    CoreSignal,
}

/// `sys_enter`: the call and its six argument registers as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysEnter {
    /// The row of the table.
    pub call: syscall_table::CallId,
    /// The registers; those that the call does not use hold anything.
    pub args: [u64; 6],
}

/// `sys_exit`: the call and what it returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysExit {
    /// The row of the table.
    pub call: syscall_table::CallId,
    /// The result; -4095 to -1 is a negative errno.
    pub ret: i64,
    /// What was read beside the call while it was still inside the kernel, if anything was.
    pub names: Option<Box<ReadNames>>,
    /// Through which functions of the program the thread came there, if that was recorded.
    pub chain: Option<chain::ChainId>,
}

/// The names that were read for one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadNames {
    /// The path that the program passed.
    pub argument: Option<Name>,
    /// The second path that it passed.
    pub second: Option<Name>,
    /// Where these two are from.
    pub from: [StringFrom; 2],
    /// What other arguments point to, by their addresses.
    pub memory: Vec<(u64, Name)>,
    /// What the two descriptors of a pair are that was made, if that was looked at.
    pub pair: Vec<(crate::units::Fd, Name, Option<FileStat>)>,
    /// Where `/proc/PID/fd/N` pointed.
    pub link: Option<Name>,
    /// What fanotify said was opened, if that was this call's.
    pub opened: Option<Name>,
    /// What it was, read with the link, in time, or seen by a probe.
    pub stat: Option<FileStat>,
    /// Clock after the last of the reads.
    pub read: KernelTime,
}

/// Where the string of an argument is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StringFrom {
    /// Copied by the system call's own tracepoint, which cuts off what is long and shows a dot for what it cannot print.
    /// This one ends like those that were cut.
    EventCut,
    /// The same, and whole.
    Event,
    /// Read from the program's memory, beside the call.
    #[default]
    Memory,
    /// Recorded from the program's memory by the thread itself, right before the call.
    Uprobe,
    /// The path of the new program, as the kernel tells it when an exec has succeeded.
    Exec,
    /// The kernel's own copy, which it worked with.
    Kernel,
}

/// A name and how far it can be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The bytes as the kernel has them; not always UTF-8.
    pub bytes: Vec<u8>,
    /// True if it was read before anything could have changed it.
    pub verified: bool,
}

/// What a file is (`statx(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileStat {
    /// `st_mode`: type and permissions.
    pub mode: u32,
    /// The device that it lies on.
    pub dev: DevId,
    /// Its inode number.
    pub ino: u64,
    /// Its size when it was looked at, in bytes.
    pub size: u64,
}

impl FileStat {
    /// True if a position in it means something: a regular file or a block device.
    pub fn has_position(&self) -> bool {
        matches!(self.mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK)
    }

    /// Which file it is among all; `None`: it is not known, as of files that another tool's log tells of. No file has inode 0.
    pub fn inode(&self) -> Option<(DevId, u64)> {
        (self.ino != 0).then_some((self.dev, self.ino))
    }

    /// True for what bytes or names are kept in: a regular file, a block device, a directory, a symbolic link.
    pub fn is_file(&self) -> bool {
        self.has_position() || matches!(self.mode & libc::S_IFMT, libc::S_IFDIR | libc::S_IFLNK)
    }

    /// True for a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }
}

/// A descriptor as a snapshot saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenFd {
    /// Clock before.
    pub begin: KernelTime,
    /// The process.
    pub pid: Pid,
    /// The descriptor.
    pub fd: Fd,
    /// `O_*` flags.
    pub flags: u32,
    /// Position, bytes; `None`: not to be relied on.
    pub position: Option<u64>,
    /// Others may move it.
    pub shared: bool,
    /// What it is.
    pub stat: Option<FileStat>,
    /// Where it points.
    pub link: Vec<u8>,
}
