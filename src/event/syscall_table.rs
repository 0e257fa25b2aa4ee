//! Table of system calls. The rest of the tracer derives everything from its rows: the tracepoints
//! to open, the meanings of the arguments, the effects on descriptors, and the OTF2 records. A new
//! system call is a new row.

mod new_descriptors;

use std::mem::discriminant;

pub use super::syscall_rows::CALLS;

/// Row number in [`CALLS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u16);

/// Meaning of one argument register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Value that is not interpreted (buffers, user pointers to structures).
    Opaque,
    /// Descriptor on which the call works.
    Fd,
    /// Second descriptor: the target of a transfer, the requested number of `dup2`.
    Fd2,
    /// Directory descriptor or `AT_FDCWD`.
    DirFd,
    /// Pointer to the path of the file on which the call works.
    Path,
    /// Second directory descriptor, that of [`Role::Path2`].
    DirFd2,
    /// Pointer to a second path: the new name of `rename` and `link`, the contents of `symlink`.
    Path2,
    /// Number of requested bytes.
    Count,
    /// New length of the file in bytes.
    Length,
    /// File position in bytes.
    Offset,
    /// Pointer to the file position of [`Role::Fd`]; null for the descriptor's own position.
    OffsetPtr,
    /// Pointer to the file position of [`Role::Fd2`]; null for the descriptor's own position.
    OffsetPtr2,
    /// Flags `RWF_*` of `preadv2` and `pwritev2`.
    RwFlags,
    /// Flags `O_*` of an open.
    OpenFlags,
    /// Flags `MFD_*` of `memfd_create`.
    MemoryFlags,
    /// Flag `O_CLOEXEC` of `dup3`.
    DupFlags,
    /// Flags of a call that makes descriptors: with this bit an exec closes them.
    Cloexec(u32),
    /// Condition for making a descriptor: this register, masked by the first number, is the second.
    MakesIf(u32, u32),
    /// Command number below 64: only those whose bits are set here make a descriptor.
    MakesBy(u64),
    /// Origin of a seek: `SEEK_*`.
    Whence,
    /// Command `F_*` of `fcntl`.
    Command,
    /// Argument of that command.
    CommandArg,
    /// Pointer to the buffers of a vectored call, each two `long`s: address and length (`struct
    /// iovec`).
    Buffers,
    /// Pointer to a `struct open_how`, which begins with the flags of an open, 8 bytes.
    How,
    /// Pointer to the memory in which the call stores two descriptors.
    Pair,
    /// Pointer to pointers to the operations of `io_submit`, as many as it returns.
    Iocbs,
    /// Pointer to the memory for the results of such operations, as many as the call returns.
    IoEvents,
    /// Operation `IORING_REGISTER_*` of `io_uring_register`.
    RegisterOp,
    /// Pointer to the registered objects.
    Registered,
    /// Number of registered objects.
    RegisterCount,
    /// Number of buffers of a vectored call.
    BufferCount,
    /// Last descriptor of `close_range`.
    LastFd,
    /// Flags `CLOSE_RANGE_*`.
    RangeFlags,
    /// Flags `AT_*` of `unlinkat`.
    RemoveFlags,
    /// Flags `RENAME_*` of `renameat2`.
    RenameFlags,
    /// Flags `MS_*` of `mount`.
    MountFlags,
    /// Descriptor number of another process, for whose open file the call makes a descriptor.
    TakenFd,
    /// Flags `CLONE_*` of `unshare`, or of the namespaces that `setns` joins.
    CloneFlags,
    /// Address in the memory of the process.
    Address,
    /// Earlier length of a mapping in bytes.
    OldCount,
    /// Flags `MAP_*` or `MREMAP_*`.
    MapFlags,
    /// Pointer to a message (`struct user_msghdr`), which may carry descriptors.
    Message,
    /// Pointer to several messages (`struct mmsghdr`).
    Messages,
}

impl Role {
    /// Returns true for an address that has no meaning by itself, and for flags that are not shown.
    pub fn is_pointer(self) -> bool {
        use Role::{
            Buffers, Cloexec, CloneFlags, How, IoEvents, Iocbs, MakesBy, MakesIf, MapFlags,
            Message, Messages, OffsetPtr, OffsetPtr2, Opaque, Pair, Registered,
        };
        matches!(self, Opaque | OffsetPtr | OffsetPtr2 | Buffers | How | Pair)
            || matches!(self, Iocbs | IoEvents | Registered | Message | Messages | MapFlags)
            || matches!(self, Cloexec(_) | MakesIf(..) | MakesBy(_) | CloneFlags)
            || matches!(self, Self::MountFlags | Self::RemoveFlags | Self::TakenFd)
    }
}

/// Class of a call, which determines the descriptor model and the OTF2 record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallClass {
    /// Creates a descriptor for a file.
    Open,
    /// Closes a descriptor.
    Close,
    /// Closes a range of descriptors.
    CloseRange,
    /// Moves bytes from a file.
    Read,
    /// Moves bytes to a file.
    Write,
    /// Moves the file position.
    Seek,
    /// Creates a second descriptor for an open file.
    Dup,
    /// Queries or changes properties of a descriptor.
    Control,
    /// Writes cached data to the device.
    Sync,
    /// Moves bytes from one descriptor to another inside the kernel.
    Transfer,
    /// Moves bytes into or between pipes inside the kernel.
    Pipe,
    /// Creates a descriptor for an object without a path; the value is its name in `/proc/PID/fd`,
    /// as far as that is always the same.
    Make(&'static str),
    /// Creates two descriptors and stores them in memory.
    MakePair,
    /// Creates files.
    Name,
    /// Gives files other names.
    Rename,
    /// Removes files.
    Remove,
    /// Changes the length or the allocated space of a file.
    Resize,
    /// Changes the directory at which relative paths begin.
    Place,
    /// Changes the directory at which absolute paths begin.
    Root,
    /// Changes the targets of paths, for all processes with the same mounts.
    Mount,
    /// Leaves objects shared with other threads (descriptors, directories, mounts), or joins
    /// others.
    Unshare,
    /// Queries a file.
    Stat,
    /// Changes the attributes of a file.
    Attribute,
    /// Lists a directory.
    List,
    /// Announces future accesses.
    Advise,
    /// Locks a file.
    Lock,
    /// Requests a specific operation of a device or file system.
    Ioctl,
    /// Maps files into memory.
    Map,
    /// Requests asynchronous I/O.
    Async,
    /// Sends or receives data.
    Socket,
    /// Creates processes and programs.
    Process,
    /// Changes the user of a process.
    User,
}

/// Groups ([`CallClass::group`]) that are recorded by default; `-e %GROUP` selects others.
pub const DEFAULT_GROUPS: &[&str] = &["data", "desc", "sync", "name", "async", "user"];

/// Groups with descriptions of their calls.
pub const GROUPS: &[(&str, &str)] = &[
    ("data", "moves bytes of files and pipes"),
    ("desc", "creates, copies, moves and closes descriptors"),
    ("sync", "writes cached data to the device"),
    ("name", "creates, removes, renames and resizes files; changes the roots and targets of paths"),
    ("stat", "queries files, lists directories"),
    (
        "attr",
        "changes attributes of files: mode, owner, times, extended attributes, locks; advice; ioctl",
    ),
    ("map", "maps files into memory"),
    ("async", "requests asynchronous I/O"),
    ("socket", "sends and receives data"),
    ("process", "creates processes and programs"),
    ("user", "changes the user of a process"),
];

impl CallClass {
    /// Returns true if the call changes the set of descriptors.
    pub fn changes_descriptors(self) -> bool {
        use CallClass::{Close, CloseRange, Dup, Make, MakePair, Open};
        matches!(self, Open | Close | CloseRange | Dup | Make(_) | MakePair)
    }

    /// Returns true if results are bytes that were moved between memory and a file, or between
    /// files.
    pub fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Transfer)
    }

    /// Returns the group of the class, one of [`GROUPS`].
    pub fn group(self) -> &'static str {
        match self {
            Self::Read | Self::Write | Self::Transfer | Self::Pipe => "data",
            Self::Open
            | Self::Close
            | Self::CloseRange
            | Self::Seek
            | Self::Dup
            | Self::Control
            | Self::Make(_)
            | Self::MakePair => "desc",
            Self::Sync => "sync",
            Self::Name
            | Self::Rename
            | Self::Remove
            | Self::Resize
            | Self::Place
            | Self::Root
            | Self::Mount
            | Self::Unshare => "name",
            Self::Stat | Self::List => "stat",
            Self::Attribute | Self::Advise | Self::Lock | Self::Ioctl => "attr",
            Self::Map => "map",
            Self::Async => "async",
            Self::Socket => "socket",
            Self::Process => "process",
            Self::User => "user",
        }
    }
}

/// System call of the table.
#[derive(Debug)]
pub struct Call {
    /// Kernel's name: its tracepoint is `sys_enter_NAME`.
    pub name: &'static str,
    /// Number on x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`).
    pub x86_64: u32,
    /// Number on aarch64 and all machines with `include/uapi/asm-generic/unistd.h`; `None` if it
    /// does not exist there.
    pub generic: Option<u32>,
    /// Class of the call.
    pub class: CallClass,
    /// Meanings of its registers.
    pub args: [Role; 6],
    /// True if an exec closes its new descriptors, whatever the flags are.
    pub always_cloexec: bool,
    /// True if a name or memory can be read during the call or seen inside it.
    pub is_read_beside: bool,
    /// True if it has more than one descriptor and one path, or if its details are in memory.
    pub has_more: bool,
}

/// Creates a row.
pub(super) const fn row(
    name: &'static str,
    x86_64: u32,
    generic: Option<u32>,
    class: CallClass,
    args: [Role; 6],
) -> Call {
    let is_read_beside = matches!(class, CallClass::Open) || has_pointers(&args);
    let has_more = has_more(&args);
    Call { name, x86_64, generic, class, args, always_cloexec: false, is_read_beside, has_more }
}

/// Returns true if a role belongs to a second file or a directory, or points to details of the
/// first file.
const fn has_more(args: &[Role; 6]) -> bool {
    use Role::{Buffers, DirFd, DirFd2, Fd2, OffsetPtr, OffsetPtr2, Pair, Path2};
    let mut left: &[Role] = args;
    while let [role, rest @ ..] = left {
        let is_second = matches!(role, Fd2 | DirFd | DirFd2 | Path2);
        if is_second || matches!(role, Buffers | OffsetPtr | OffsetPtr2 | Pair) {
            return true;
        }
        left = rest;
    }
    false
}

/// Returns true if a role points to details of the call.
const fn has_pointers(args: &[Role; 6]) -> bool {
    use Role::{
        Buffers, How, IoEvents, Iocbs, Message, Messages, OffsetPtr, OffsetPtr2, Pair, Path,
        Registered,
    };
    let mut left: &[Role] = args;
    while let [role, rest @ ..] = left {
        let is_of_call = matches!(role, Path | Buffers | OffsetPtr | OffsetPtr2 | How | Pair);
        let is_of_others = matches!(role, Iocbs | IoEvents | Registered | Message | Messages);
        if is_of_call || is_of_others {
            return true;
        }
        left = rest;
    }
    false
}

/// Flag with which most calls that make descriptors have an exec close them: `SOCK_CLOEXEC`,
/// `EFD_CLOEXEC` and many others are the same number.
pub(super) const O_CLOEXEC: u32 = libc::O_CLOEXEC.cast_unsigned();

impl Call {
    /// Returns the row of a call whose descriptors the kernel always marks as close-on-exec.
    pub(super) const fn closed_by_exec(self) -> Self {
        Self { always_cloexec: true, ..self }
    }
}

impl CallId {
    /// Returns the row.
    pub fn call(self) -> &'static Call {
        static UNKNOWN: Call =
            row("unknown", u32::MAX, None, CallClass::Control, [Role::Opaque; 6]);
        CALLS.get(usize::from(self.0)).unwrap_or(&UNKNOWN)
    }

    /// Returns all rows.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..).map(Self).take(CALLS.len())
    }

    /// Returns the row of this name: the tracepoint's.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|it| it.call().name == name)
    }

    /// Returns the row of a name that users know: the tracepoint's, or the C library's (`stat`,
    /// `sendfile`).
    pub fn by_common_name(name: &str) -> Option<Self> {
        let names = [name.to_owned(), format!("new{name}"), format!("{name}64")];
        names.iter().find_map(|it| Self::by_name(it))
    }

    /// Returns true if a call that was entered as this one may end as that one. On x86 a program
    /// begins as if by `execve`, also after `execveat` (`set_personality_64bit()` in
    /// `arch/x86/kernel/process_64.c`).
    pub fn ends_as(self, exit: Self) -> bool {
        self == exit || self.call().is_exec() && exit.call().is_exec()
    }

    /// Returns the calls that are recorded by default.
    pub fn default_set() -> impl Iterator<Item = Self> {
        Self::all().filter(|it| DEFAULT_GROUPS.contains(&it.call().class.group()))
    }
}

/// Bytes of a `struct iovec` on a 64-bit machine.
pub const IOVEC_BYTES: u64 = 16;

/// Maximum number of buffers of one call (`UIO_MAXIOV`).
const IOVECS_MAX: u64 = 1024;

/// Bytes of a `struct iocb` (`include/uapi/linux/aio_abi.h`).
pub const IOCB_BYTES: usize = 64;

/// Bytes of a `struct io_event`.
pub const IO_EVENT_BYTES: usize = 32;

/// Maximum number of operations that are read of one call. No queue in use has more; of the
/// operations beyond it nothing is known.
const IOCBS_MAX: u64 = 4096;

/// Operation `IORING_REGISTER_FILES` (`include/uapi/linux/io_uring.h`).
const IORING_REGISTER_FILES: u64 = 2;

/// Maximum number of descriptors that are read of one call; only for a single registered file is it
/// known which one an operation uses.
const REGISTERED_MAX: u64 = 1024;

/// Memory argument of a call, and its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentMemory {
    /// Plain memory of this many bytes.
    Bytes(usize),
    /// Array of this many pointers to a `struct iocb`. For each the reader stores the pointer, the
    /// structure, and 8 bytes with the sum of its buffers' lengths (of a vectored one; all ones if
    /// that is unknown).
    Iocbs(usize),
}

/// Bytes in a fact for each `struct iocb`.
pub const IOCB_READ_BYTES: usize = 8 + IOCB_BYTES + 8;

impl ArgumentMemory {
    fn of(bytes: u64, count: u64) -> Self {
        Self::Bytes(usize::try_from(bytes * count).unwrap_or(0))
    }
}

impl Call {
    /// Returns the number on a machine of this kind (`uname -m`); `None` if it has no such call or
    /// the kind is unknown.
    pub fn number(&self, machine: &str) -> Option<u32> {
        match machine {
            "x86_64" => Some(self.x86_64),
            "aarch64" | "riscv64" | "loongarch64" => self.generic,
            _ => None,
        }
    }

    /// Returns true if the argument of this role is an `int` or `unsigned int` (`SYSCALL_DEFINE`),
    /// of which the kernel uses the lower 32 bits only.
    pub fn is_int(&self, role: Role) -> bool {
        use Role::{
            Command, DupFlags, LastFd, MemoryFlags, OpenFlags, RangeFlags, RegisterCount,
            RegisterOp, RenameFlags, RwFlags, Whence,
        };
        let has_int_length = self.class == CallClass::List || self.name.starts_with("readlink");
        let is_flags =
            matches!(role, OpenFlags | DupFlags | MemoryFlags | RangeFlags | RenameFlags);
        let is_word = matches!(role, Command | LastFd | RegisterCount | RegisterOp | Whence);
        is_flags || is_word || role == RwFlags || role == Role::Count && has_int_length
    }

    /// Returns the register with this role, whatever its numbers: called several times for each
    /// call.
    #[inline]
    pub fn arg(&self, role: Role) -> Option<usize> {
        self.args.iter().position(|it| discriminant(it) == discriminant(&role))
    }

    /// Returns true if that register is the address of memory whose length is in the next register.
    pub fn is_buffer(&self, register: usize) -> bool {
        let is_address = self.args.get(register) == Some(&Role::Opaque);
        let has_length = self.args.get(register + 1) == Some(&Role::Count);
        let moves = matches!(
            self.class,
            CallClass::Read | CallClass::Write | CallClass::List | CallClass::Stat
        );
        is_address && has_length && moves
    }

    /// Returns true if the call names a file by a path.
    pub fn has_path(&self) -> bool {
        self.arg(Role::Path).is_some()
    }

    /// Returns true if it maps a file into memory.
    pub fn maps(&self) -> bool {
        self.class == CallClass::Map && self.arg(Role::Fd).is_some()
    }

    /// Returns true if it removes the mapping at an address without a new one.
    pub fn unmaps(&self) -> bool {
        self.name == "munmap"
    }

    /// Returns true if it changes mappings.
    pub fn changes_mappings(&self) -> bool {
        self.class == CallClass::Map
            && (self.maps() || self.unmaps() || self.arg(Role::OldCount).is_some())
    }

    /// Returns true if it starts another program in its process.
    pub fn is_exec(&self) -> bool {
        matches!(self.name, "execve" | "execveat")
    }

    /// Returns true if it changes or removes names of files.
    pub fn changes_names(&self) -> bool {
        matches!(self.class, CallClass::Rename | CallClass::Remove)
    }

    /// Returns true if the files and names of opens cannot be attributed to calls unless all of
    /// these calls are recorded.
    pub fn bears_on_opens(&self) -> bool {
        self.opens_files() || self.changes_names()
    }

    /// Returns true if its result is the bytes that it moved: of files, or of pipes and sockets.
    /// (For `sendmmsg` and `recvmmsg` it is messages.)
    pub fn returns_bytes(&self) -> bool {
        let of_socket = matches!(self.name, "sendto" | "sendmsg" | "recvfrom" | "recvmsg");
        self.class.moves_bytes() || self.class == CallClass::Pipe || of_socket
    }

    /// Returns whether the bytes of its result come from its file, and whether they go to one.
    pub fn ways(&self) -> [bool; 2] {
        match self.class {
            CallClass::Read => [true, false],
            CallClass::Write => [false, true],
            CallClass::Transfer => [true, true],
            CallClass::Pipe => [self.name == "tee", self.name == "vmsplice"],
            CallClass::Socket => [self.name.starts_with("recv"), self.name.starts_with("send")],
            _ => [false, false],
        }
    }

    /// Returns true if its second path is the content of a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.arg(Role::Path2) == Some(0)
    }

    /// Returns the addresses of the call's path arguments: that of its file, and the second one.
    pub fn paths(&self, args: &[u64; 6]) -> [Option<u64>; 2] {
        [Role::Path, Role::Path2].map(|it| args.get(self.arg(it)?).copied())
    }

    /// Returns the memory with details of a call beyond its registers: address and layout.
    pub fn memory(&self, args: &[u64; 6], ret: i64) -> impl Iterator<Item = (u64, ArgumentMemory)> {
        let buffers = self.arg(Role::BufferCount).and_then(|it| args.get(it)).copied();
        let done = u64::try_from(ret).unwrap_or(0);
        let files = self.registered_files(args).unwrap_or(0);
        self.args.into_iter().zip(*args).filter_map(move |(role, address)| {
            let memory = match role {
                Role::Buffers => {
                    ArgumentMemory::of(IOVEC_BYTES, buffers.unwrap_or(0).min(IOVECS_MAX))
                }
                Role::OffsetPtr | Role::OffsetPtr2 | Role::Pair => ArgumentMemory::Bytes(8),
                Role::How => ArgumentMemory::Bytes(24),
                Role::IoEvents => ArgumentMemory::of(IO_EVENT_BYTES as u64, done.min(IOCBS_MAX)),
                Role::Registered => ArgumentMemory::of(4, files.min(REGISTERED_MAX)),
                Role::Iocbs => ArgumentMemory::Iocbs(usize::try_from(done.min(IOCBS_MAX)).ok()?),
                _ => return None,
            };
            let is_there = !matches!(memory, ArgumentMemory::Bytes(0) | ArgumentMemory::Iocbs(0));
            (address != 0 && is_there).then_some((address, memory))
        })
    }

    /// Returns the number of descriptors that `io_uring_register` registers as the ring's files;
    /// `None` if it does another operation.
    pub fn registered_files(&self, args: &[u64; 6]) -> Option<u64> {
        let of = |role| args.get(self.arg(role)?).copied();
        let is_meant = of(Role::RegisterOp)? & 0xffff_ffff == IORING_REGISTER_FILES;
        of(Role::RegisterCount).filter(|_| is_meant).map(|it| it & 0xffff_ffff)
    }

    /// Returns true if there may be such memory.
    pub fn has_memory(&self) -> bool {
        let roles = [Role::Buffers, Role::OffsetPtr, Role::OffsetPtr2, Role::How, Role::Pair];
        self.args.iter().any(|it| roles.contains(it))
    }

    /// Returns true if the data that it receives may carry descriptors.
    pub fn receives_descriptors(&self) -> bool {
        self.arg(Role::Message).or(self.arg(Role::Messages)).is_some()
    }

    /// Returns true if a name can be read during the call: its tracepoints go to the names ring. At
    /// the exit of an exec the memory of its path is gone.
    pub fn has_names(&self) -> bool {
        let is_there = self.has_path() && self.class != CallClass::Process;
        is_there || self.class == CallClass::Open || self.receives_descriptors()
    }

    /// Returns true if it opens a file, unless its flags request only a reference (`O_PATH`).
    pub fn opens_files(&self) -> bool {
        let takes_flags = self.arg(Role::OpenFlags).or(self.arg(Role::How)).is_some();
        // `open_tree` and `memfd_create` have flags of their own, `creat` has none.
        let is_creat = self.arg(Role::DirFd).or(self.arg(Role::MemoryFlags)).is_none();
        self.class == CallClass::Open && (takes_flags || is_creat)
    }

    /// Returns true if its effect is unknown without its memory, which is therefore always read.
    pub fn is_list(&self) -> bool {
        self.args.iter().any(|it| matches!(it, Role::Iocbs | Role::IoEvents | Role::Registered))
    }

    /// Returns true if the operations that `io_submit` started in a context have no results after
    /// it: the kernel waits for all of them, and discards the results (`exit_aio()` and
    /// `SYSCALL_DEFINE1(io_destroy)` in `fs/aio.c`).
    pub fn ends_context(&self) -> bool {
        self.name == "io_destroy"
    }

    /// Returns true if the end of the call has further effects than those on its descriptors.
    pub fn has_consequences(&self) -> bool {
        let is_of_names =
            self.changes_names() || matches!(self.class, CallClass::Mount | CallClass::User);
        let takes = self.arg(Role::TakenFd).is_some();
        is_of_names || self.is_list() || self.ends_context() || takes
    }
}

#[cfg(test)]
mod tests;
