//! Ended operation, as all folds see it: a system call or an asynchronous operation.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use crate::event::async_table::Opcode;
use crate::event::syscall_table::{CallClass, CallId};
use crate::operation::Step;
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::io_class::IoClass;
use crate::operation::model::{
    FilePath, MountNamespace, OpenFile, PathArgument, ProcessKey, SyscallOperation, ThreadKey,
};
use crate::units::{DevId, KernelTime, Pid, Tid};

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// A system call.
    Call(CallId),
    /// An asynchronous operation.
    Async(Opcode),
}

impl OpKind {
    /// Returns the kind with this name in outputs, if there is one.
    pub fn by_name(name: &str) -> Option<Self> {
        let call = CallId::by_name(name).map(Self::Call);
        call.or_else(|| Opcode::by_name(name).map(Self::Async))
    }

    /// Returns the class of the system call, or of the one that does the same.
    pub fn class(self) -> CallClass {
        match self {
            Self::Call(call) => call.call().class,
            Self::Async(opcode) => opcode.class(),
        }
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => f.write_str(call.call().name),
            Self::Async(opcode) => opcode.fmt(f),
        }
    }
}

/// Name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedPath<'a> {
    /// Path from the root, where that is known.
    pub path: &'a [u8],
    /// Mounts in which the path is valid.
    pub mounts: MountNamespace,
    /// True if the name may belong to another file.
    pub is_doubtful: bool,
}

impl<'a> NamedPath<'a> {
    /// Returns the name that a path denotes.
    pub fn of(path: &'a FilePath) -> Self {
        Self { path: &path.bytes, mounts: path.mounts, is_doubtful: path.source.is_doubtful() }
    }

    /// Returns the name of a path argument of a call.
    pub fn given(given: &'a PathArgument) -> Self {
        NamedPath { path: given.whole(), ..NamedPath::of(&given.path) }
    }
}

/// Operation that has ended.
#[derive(Clone, Debug)]
pub struct CompletedOp<'a> {
    /// Kind of the operation.
    pub what: OpKind,
    /// Class of such operations.
    pub class: CallClass,
    /// Class of I/O: file I/O or another.
    pub io: IoClass,
    /// Incarnation of the thread.
    pub thread: ThreadKey,
    /// Incarnation of the process.
    pub process: ProcessKey,
    /// Process number.
    pub pid: Pid,
    /// Thread number.
    pub tid: Tid,
    /// Time of its beginning.
    pub start: KernelTime,
    /// Time of its end.
    pub end: KernelTime,
    /// Error number (positive), if it failed.
    pub errno: Option<i32>,
    /// Bytes that it moved; 0 if it moves none.
    pub bytes: u64,
    /// Position of its first byte, in bytes, if it is known.
    pub offset: Option<u64>,
    /// Open file on which it works.
    pub file: Option<&'a Arc<OpenFile>>,
    /// Name of the file on which it works; for a transfer, of the file that it reads.
    pub name: Option<NamedPath<'a>>,
    /// Name of the file that a transfer writes.
    pub target: Option<NamedPath<'a>>,
    /// Position of the first byte in the file that a transfer writes.
    pub target_offset: Option<u64>,
}

impl<'a> CompletedOp<'a> {
    /// Returns the operation that this step ends.
    pub fn of(step: &'a Step<'_>) -> Option<Self> {
        match step {
            Step::SyscallEnded(operation, _) => Some(Self::call(operation)),
            Step::AsyncEnded(operation, _) => Some(Self::asynchronous(operation)),
            _ => None,
        }
    }

    /// Returns the operation for which this is the last step, ended or not.
    pub fn last_of(step: &'a Step<'_>) -> Option<Self> {
        match step {
            Step::SyscallUnfinished(operation, _) => Some(Self::call(operation)),
            Step::AsyncUnfinished(operation, _) => Some(Self::asynchronous(operation)),
            _ => Self::of(step),
        }
    }

    fn call(operation: &'a SyscallOperation) -> Self {
        let class = operation.call.call().class;
        let moves = operation.call.call().returns_bytes();
        let given = operation.named.as_ref().and_then(|it| it.first.as_ref());
        let given = given.map(NamedPath::given);
        let target = operation.target.as_ref().filter(|_| class == CallClass::Transfer);
        Self {
            what: OpKind::Call(operation.call),
            class,
            io: operation.io_class(),
            thread: operation.thread,
            process: operation.process,
            pid: operation.pid,
            tid: operation.tid,
            start: operation.start,
            end: operation.end.unwrap_or(operation.start),
            errno: operation.errno(),
            bytes: operation
                .ret
                .filter(|_| moves)
                .and_then(|it| u64::try_from(it).ok())
                .unwrap_or(0),
            offset: operation.offset,
            file: operation.file.as_ref(),
            name: given.or_else(|| operation.file.as_ref()?.path.as_ref().map(NamedPath::of)),
            target: target.and_then(|it| it.1.path.as_ref().map(NamedPath::of)),
            target_offset: operation.target_offset,
        }
    }

    /// Returns an asynchronous operation that has ended.
    pub fn asynchronous(operation: &'a AsyncOperation) -> Self {
        Self {
            what: OpKind::Async(operation.opcode),
            class: operation.opcode.class(),
            io: operation.io_class(),
            thread: operation.thread,
            process: operation.process,
            pid: operation.pid,
            tid: operation.tid,
            start: operation.start,
            end: operation.end.unwrap_or(operation.start),
            errno: operation.errno(),
            bytes: operation.bytes().unwrap_or(0),
            offset: operation.offset,
            file: operation.file.as_ref(),
            name: operation.file.as_ref().and_then(|it| it.path.as_ref().map(NamedPath::of)),
            target: None,
            target_offset: None,
        }
    }

    /// Returns the file whose name the operation has; `None`: its name is another one, or unknown.
    pub fn file_of_name(&self) -> Option<&'a Arc<OpenFile>> {
        let path = self.file?.path.as_ref()?;
        self.file.filter(|_| self.name.is_some_and(|name| ptr::eq(name.path, &*path.bytes)))
    }

    /// Returns the device number of the file with its name, if that is known.
    pub fn dev_of_name(&self) -> Option<DevId> {
        let has_opened = self.class == CallClass::Open && self.errno.is_none();
        let file = if has_opened { self.file } else { self.file_of_name() };
        file.and_then(|file| file.stat.as_ref()).map(|stat| stat.dev)
    }

    /// Returns true if it works on a file whose name is unknown.
    pub fn is_nameless(&self) -> bool {
        let has_path = matches!(self.what, OpKind::Call(call) if call.call().has_path());
        // An invalid descriptor is not a file without a name.
        let has_file = self.file.is_some() && self.errno != Some(libc::EBADF);
        self.name.is_none() && (has_file || has_path)
    }

    /// Returns the bytes read from and written to the file with its name: a transfer writes another
    /// file.
    pub fn sides(&self) -> [u64; 2] {
        if self.class == CallClass::Transfer { [self.bytes, 0] } else { self.moved() }
    }

    /// Returns the duration in ns.
    pub fn ns(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Returns the bytes that it read from, and those that it wrote to a file, pipe or socket.
    pub fn moved(&self) -> [u64; 2] {
        self.ways().map(|is_way| if is_way { self.bytes } else { 0 })
    }

    /// Returns whether it reads, and whether it writes.
    pub fn ways(&self) -> [bool; 2] {
        match (self.what, self.class) {
            (OpKind::Call(call), _) => call.call().ways(),
            (OpKind::Async(_), CallClass::Read) => [true, false],
            (OpKind::Async(_), CallClass::Write) => [false, true],
            (OpKind::Async(_), class) => [class == CallClass::Transfer; 2],
        }
    }
}
