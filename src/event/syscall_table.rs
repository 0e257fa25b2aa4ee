//! The one table of system calls. A row says everything that the rest of the tracer derives: which tracepoints are
//! opened, what the arguments mean, what the call does to descriptors, and how it looks in OTF2. A new system call is
//! a new row.

mod new_descriptors;

use std::mem::discriminant;

pub use super::syscall_rows::CALLS;

/// Row number in [`CALLS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u16);

/// What one argument register means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing that is looked at (buffers, user pointers to structures).
    Opaque,
    /// The descriptor that the call works on.
    Fd,
    /// A second descriptor: the target of a transfer, the number wanted of `dup2`.
    Fd2,
    /// A directory descriptor or `AT_FDCWD`.
    DirFd,
    /// Pointer to a path: that of the file that the call works on.
    Path,
    /// A second directory descriptor, that of [`Role::Path2`].
    DirFd2,
    /// Pointer to a second path: the new name of `rename` and `link`, the contents of `symlink`.
    Path2,
    /// Bytes asked for.
    Count,
    /// Bytes that the file is to be long.
    Length,
    /// File position, in bytes.
    Offset,
    /// Pointer to the file position of [`Role::Fd`]; null: its own.
    OffsetPtr,
    /// Pointer to the file position of [`Role::Fd2`]; null: its own.
    OffsetPtr2,
    /// `RWF_*` flags of `preadv2` and `pwritev2`.
    RwFlags,
    /// `O_*` flags of an open.
    OpenFlags,
    /// `MFD_*` of `memfd_create`.
    MemoryFlags,
    /// `O_CLOEXEC` of `dup3`.
    DupFlags,
    /// Flags of a call that makes descriptors: with this bit they are closed by an exec.
    Cloexec(u32),
    /// A descriptor is made only if this register, masked by the first number, is the second.
    MakesIf(u32, u32),
    /// What to do, below 64: a descriptor is made only by those whose bits are set here.
    MakesBy(u64),
    /// `SEEK_*`.
    Whence,
    /// `F_*` of `fcntl`.
    Command,
    /// The argument of that command.
    CommandArg,
    /// Pointer to the buffers of a vectored call, each two `long`s: address and length (`struct iovec`).
    Buffers,
    /// Pointer to a `struct open_how`, which begins with the flags of an open, 8 bytes.
    How,
    /// Pointer to where the call puts two descriptors.
    Pair,
    /// Pointer to pointers to what `io_submit` is to do, as many as it returns.
    Iocbs,
    /// Pointer to where the results of such operations are put, as many as the call returns.
    IoEvents,
    /// `IORING_REGISTER_*` of `io_uring_register`.
    RegisterOp,
    /// Pointer to what is registered.
    Registered,
    /// How many are registered.
    RegisterCount,
    /// Number of buffers of a vectored call.
    BufferCount,
    /// Last descriptor of `close_range`.
    LastFd,
    /// `CLOSE_RANGE_*`.
    RangeFlags,
    /// `AT_*` of `unlinkat`.
    RemoveFlags,
    /// `RENAME_*`.
    RenameFlags,
    /// `MS_*` of `mount`.
    MountFlags,
    /// The number of a descriptor of another process, of whose open file the call makes one.
    TakenFd,
    /// `CLONE_*` of `unshare`, or of what `setns` is to join.
    CloneFlags,
    /// Address in the memory of the process.
    Address,
    /// Bytes that a mapping had before.
    OldCount,
    /// `MAP_*` or `MREMAP_*`.
    MapFlags,
    /// Pointer to a message (`struct user_msghdr`), in which descriptors may come.
    Message,
    /// Pointer to several of them (`struct mmsghdr`).
    Messages,
}

impl Role {
    /// True for an address that says nothing by itself, and for flags that are not shown.
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

/// What the call does; decides the descriptor model and the OTF2 record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Makes a descriptor for a file.
    Open,
    /// Ends a descriptor.
    Close,
    /// Ends a range of descriptors.
    CloseRange,
    /// Moves bytes from a file.
    Read,
    /// Moves bytes to a file.
    Write,
    /// Moves the file position.
    Seek,
    /// Makes a second descriptor for an open file.
    Dup,
    /// Asks or changes things of a descriptor.
    Control,
    /// Writes out what is cached.
    Sync,
    /// Moves bytes from one descriptor to another inside the kernel.
    Transfer,
    /// Moves bytes into or between pipes inside the kernel.
    Pipe,
    /// Makes a descriptor for something without a path; what `/proc/PID/fd` calls it, as far as that is always the same.
    Make(&'static str),
    /// Makes two descriptors and tells them in memory.
    MakePair,
    /// Makes files.
    Name,
    /// Gives files other names.
    Rename,
    /// Removes files.
    Remove,
    /// Changes how long a file is or what space it has.
    Resize,
    /// Changes where relative paths begin.
    Place,
    /// Changes where absolute paths begin.
    Root,
    /// Changes what paths lead to, for everybody with the same mounts.
    Mount,
    /// Leaves what is shared with other threads: descriptors, directories, mounts; or joins others.
    Unshare,
    /// Asks about a file.
    Stat,
    /// Changes what is known about a file.
    Attribute,
    /// Lists a directory.
    List,
    /// Tells what will be needed.
    Advise,
    /// Locks a file.
    Lock,
    /// Asks a device or file system for something of its own.
    Ioctl,
    /// Maps files into memory.
    Map,
    /// Asks for I/O that happens later.
    Async,
    /// Sends or receives.
    Socket,
    /// Makes processes and programs.
    Process,
    /// Changes whose a process is.
    User,
}

/// What `-e %GROUP` stands for, besides [`Class::group`]s.
pub const DEFAULT_GROUPS: &[&str] = &["data", "desc", "sync", "name", "async", "user"];

/// The groups and what is in them.
pub const GROUPS: &[(&str, &str)] = &[
    ("data", "moves bytes of files and pipes"),
    ("desc", "makes, copies, moves and ends descriptors"),
    ("sync", "writes out what is cached"),
    ("name", "makes, removes, renames and resizes files; changes where paths begin and lead"),
    ("stat", "asks about files, lists directories"),
    (
        "attr",
        "changes what is known about files: mode, owner, times, extended attributes, locks; advice; ioctl",
    ),
    ("map", "maps files into memory"),
    ("async", "asks for I/O that happens later"),
    ("socket", "sends and receives"),
    ("process", "makes processes and programs"),
    ("user", "changes whose a process is"),
];

impl Class {
    /// True if descriptors are not the same after it.
    pub fn changes_descriptors(self) -> bool {
        use Class::{Close, CloseRange, Dup, Make, MakePair, Open};
        matches!(self, Open | Close | CloseRange | Dup | Make(_) | MakePair)
    }

    /// True if results are bytes that were moved between memory and a file, or between files.
    pub fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Transfer)
    }

    /// The group that it belongs to, one of [`GROUPS`].
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

/// One system call.
#[derive(Debug)]
pub struct Call {
    /// The kernel's name: `sys_enter_NAME` is its tracepoint.
    pub name: &'static str,
    /// Number on x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`).
    pub x86_64: u32,
    /// Number on aarch64 and all that use `include/uapi/asm-generic/unistd.h`; `None`: it is not there.
    pub generic: Option<u32>,
    /// What it does.
    pub class: Class,
    /// What its registers mean.
    pub args: [Role; 6],
    /// What it makes is closed by an exec whatever its flags are.
    pub always_cloexec: bool,
    /// Something can be read beside the call or seen inside it.
    pub is_read_beside: bool,
    /// It has more than one descriptor and one path, or what is told of it stands in memory.
    pub has_more: bool,
}

/// A row.
pub(super) const fn row(
    name: &'static str,
    x86_64: u32,
    generic: Option<u32>,
    class: Class,
    args: [Role; 6],
) -> Call {
    let is_read_beside = matches!(class, Class::Open) || has_pointers(&args);
    let has_more = has_more(&args);
    Call { name, x86_64, generic, class, args, always_cloexec: false, is_read_beside, has_more }
}

/// True if one of them is of a second file, or of a directory, or points to what tells of the first.
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

/// True if one of them points to what tells more of the call.
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

/// The flag by which most calls that make descriptors have them closed by an exec: `SOCK_CLOEXEC`, `EFD_CLOEXEC` and many
/// others are the same number.
pub(super) const O_CLOEXEC: u32 = libc::O_CLOEXEC.cast_unsigned();

impl Call {
    /// The row of a call whose descriptors the kernel always marks as close-on-exec.
    pub(super) const fn closed_by_exec(self) -> Self {
        Self { always_cloexec: true, ..self }
    }
}

impl CallId {
    /// The row.
    pub fn call(self) -> &'static Call {
        static UNKNOWN: Call = row("unknown", u32::MAX, None, Class::Control, [Role::Opaque; 6]);
        CALLS.get(usize::from(self.0)).unwrap_or(&UNKNOWN)
    }

    /// All rows.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..).map(Self).take(CALLS.len())
    }

    /// The row of this name: the tracepoint's.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|it| it.call().name == name)
    }

    /// The row that somebody means by this name: the tracepoint's, or the C library's (`stat`, `sendfile`).
    pub fn by_common_name(name: &str) -> Option<Self> {
        let names = [name.to_owned(), format!("new{name}"), format!("{name}64")];
        names.iter().find_map(|it| Self::by_name(it))
    }

    /// True if a call that was entered as this one may end as that one. On x86 a program begins as if by `execve`, also after
    /// `execveat` (`set_personality_64bit()` in `arch/x86/kernel/process_64.c`).
    pub fn ends_as(self, exit: Self) -> bool {
        self == exit || self.call().is_exec() && exit.call().is_exec()
    }

    /// Those that are recorded if nothing else is asked for.
    pub fn default_set() -> impl Iterator<Item = Self> {
        Self::all().filter(|it| DEFAULT_GROUPS.contains(&it.call().class.group()))
    }
}

/// Bytes of a `struct iovec` on a 64-bit machine.
pub const IOVEC_BYTES: u64 = 16;

/// Buffers of one call at most (`UIO_MAXIOV`).
const IOVECS_MAX: u64 = 1024;

/// Bytes of a `struct iocb` (`include/uapi/linux/aio_abi.h`).
pub const IOCB_BYTES: usize = 64;

/// Bytes of a `struct io_event`.
pub const IO_EVENT_BYTES: usize = 32;

/// Operations that are read of one call. More are in no queue that anybody makes; of what is beyond it nothing is known.
const IOCBS_MAX: u64 = 4096;

/// `include/uapi/linux/io_uring.h`.
const IORING_REGISTER_FILES: u64 = 2;

/// Descriptors that are read of one call; only where there is a single file is it known which one an operation uses.
const REGISTERED_MAX: u64 = 1024;

/// Memory that a call was given, and how it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// So many bytes.
    Bytes(usize),
    /// So many pointers to a `struct iocb`. What is read of each: the pointer, the structure, and 8 bytes with the sum of its
    /// buffers' lengths (of a vectored one; all ones if that is not known).
    Iocbs(usize),
}

/// Bytes that stand in a fact for each `struct iocb`.
pub const IOCB_READ_BYTES: usize = 8 + IOCB_BYTES + 8;

impl Memory {
    fn of(bytes: u64, count: u64) -> Self {
        Self::Bytes(usize::try_from(bytes * count).unwrap_or(0))
    }
}

impl Call {
    /// The number on a machine of this kind (`uname -m`); `None` if it has no such call or the kind is unknown.
    pub fn number(&self, machine: &str) -> Option<u32> {
        match machine {
            "x86_64" => Some(self.x86_64),
            "aarch64" | "riscv64" | "loongarch64" => self.generic,
            _ => None,
        }
    }

    /// True if the argument of this role is an `int` or `unsigned int` (`SYSCALL_DEFINE`): the kernel looks at the lower 32 bits only.
    pub fn is_int(&self, role: Role) -> bool {
        use Role::{
            Command, DupFlags, LastFd, MemoryFlags, OpenFlags, RangeFlags, RegisterCount,
            RegisterOp, RenameFlags, RwFlags, Whence,
        };
        let has_int_length = self.class == Class::List || self.name.starts_with("readlink");
        let is_flags =
            matches!(role, OpenFlags | DupFlags | MemoryFlags | RangeFlags | RenameFlags);
        let is_word = matches!(role, Command | LastFd | RegisterCount | RegisterOp | Whence);
        is_flags || is_word || role == RwFlags || role == Role::Count && has_int_length
    }

    /// The register that has this role, whatever the numbers in it: asked several times of each call.
    #[inline]
    pub fn arg(&self, role: Role) -> Option<usize> {
        self.args.iter().position(|it| discriminant(it) == discriminant(&role))
    }

    /// True if that register is the address of memory whose length stands in the register behind it.
    pub fn is_buffer(&self, register: usize) -> bool {
        let is_address = self.args.get(register) == Some(&Role::Opaque);
        let has_length = self.args.get(register + 1) == Some(&Role::Count);
        let moves = matches!(self.class, Class::Read | Class::Write | Class::List | Class::Stat);
        is_address && has_length && moves
    }

    /// True if the call names a file by a path.
    pub fn has_path(&self) -> bool {
        self.arg(Role::Path).is_some()
    }

    /// True if it shows a file in memory.
    pub fn maps(&self) -> bool {
        self.class == Class::Map && self.arg(Role::Fd).is_some()
    }

    /// True if it takes away what is at an address, and puts nothing there.
    pub fn unmaps(&self) -> bool {
        self.name == "munmap"
    }

    /// True if mappings are others behind it.
    pub fn changes_mappings(&self) -> bool {
        self.class == Class::Map
            && (self.maps() || self.unmaps() || self.arg(Role::OldCount).is_some())
    }

    /// True if it makes another program of its process.
    pub fn is_exec(&self) -> bool {
        matches!(self.name, "execve" | "execveat")
    }

    /// True if files have other names behind it, or none.
    pub fn changes_names(&self) -> bool {
        matches!(self.class, Class::Rename | Class::Remove)
    }

    /// True if nobody can tell which call opened what, or what that was called, who does not see all of these.
    pub fn bears_on_opens(&self) -> bool {
        self.opens_files() || self.changes_names()
    }

    /// True if its result is bytes that it moved: of files, or of pipes and sockets. (Of `sendmmsg` and `recvmmsg` it is messages.)
    pub fn returns_bytes(&self) -> bool {
        let of_socket = matches!(self.name, "sendto" | "sendmsg" | "recvfrom" | "recvmsg");
        self.class.moves_bytes() || self.class == Class::Pipe || of_socket
    }

    /// True if the bytes of its result come from its file, true if they go to one.
    pub fn ways(&self) -> [bool; 2] {
        match self.class {
            Class::Read => [true, false],
            Class::Write => [false, true],
            Class::Transfer => [true, true],
            Class::Pipe => [self.name == "tee", self.name == "vmsplice"],
            Class::Socket => [self.name.starts_with("recv"), self.name.starts_with("send")],
            _ => [false, false],
        }
    }

    /// True if its second path is what a symbolic link is to contain.
    pub fn is_symlink(&self) -> bool {
        self.arg(Role::Path2) == Some(0)
    }

    /// Where the paths stand that the call is given: that of its file, and the second one.
    pub fn paths(&self, args: &[u64; 6]) -> [Option<u64>; 2] {
        [Role::Path, Role::Path2].map(|it| args.get(self.arg(it)?).copied())
    }

    /// The memory that tells more of a call than its registers, where it stands and what it is.
    pub fn memory(&self, args: &[u64; 6], ret: i64) -> impl Iterator<Item = (u64, Memory)> {
        let buffers = self.arg(Role::BufferCount).and_then(|it| args.get(it)).copied();
        let done = u64::try_from(ret).unwrap_or(0);
        let files = self.registered_files(args).unwrap_or(0);
        self.args.into_iter().zip(*args).filter_map(move |(role, address)| {
            let memory = match role {
                Role::Buffers => Memory::of(IOVEC_BYTES, buffers.unwrap_or(0).min(IOVECS_MAX)),
                Role::OffsetPtr | Role::OffsetPtr2 | Role::Pair => Memory::Bytes(8),
                Role::How => Memory::Bytes(24),
                Role::IoEvents => Memory::of(IO_EVENT_BYTES as u64, done.min(IOCBS_MAX)),
                Role::Registered => Memory::of(4, files.min(REGISTERED_MAX)),
                Role::Iocbs => Memory::Iocbs(usize::try_from(done.min(IOCBS_MAX)).ok()?),
                _ => return None,
            };
            let is_there = !matches!(memory, Memory::Bytes(0) | Memory::Iocbs(0));
            (address != 0 && is_there).then_some((address, memory))
        })
    }

    /// How many descriptors `io_uring_register` was given as the ring's files; `None`: it does something else.
    pub fn registered_files(&self, args: &[u64; 6]) -> Option<u64> {
        let of = |role| args.get(self.arg(role)?).copied();
        let is_meant = of(Role::RegisterOp)? & 0xffff_ffff == IORING_REGISTER_FILES;
        of(Role::RegisterCount).filter(|_| is_meant).map(|it| it & 0xffff_ffff)
    }

    /// True if there may be such memory.
    pub fn has_memory(&self) -> bool {
        let roles = [Role::Buffers, Role::OffsetPtr, Role::OffsetPtr2, Role::How, Role::Pair];
        self.args.iter().any(|it| roles.contains(it))
    }

    /// True if descriptors may come with what it receives.
    pub fn receives_descriptors(&self) -> bool {
        self.arg(Role::Message).or(self.arg(Role::Messages)).is_some()
    }

    /// True if there is a name to be read beside the call: its tracepoints go to the names ring. At the exit of an exec the
    /// memory that its path stood in is gone.
    pub fn has_names(&self) -> bool {
        let is_there = self.has_path() && self.class != Class::Process;
        is_there || self.class == Class::Open || self.receives_descriptors()
    }

    /// True if it opens a file, unless its flags say that it only names it (`O_PATH`).
    pub fn opens_files(&self) -> bool {
        let takes_flags = self.arg(Role::OpenFlags).or(self.arg(Role::How)).is_some();
        // `open_tree` and `memfd_create` have flags of their own, `creat` none.
        let is_creat = self.arg(Role::DirFd).or(self.arg(Role::MemoryFlags)).is_none();
        self.class == Class::Open && (takes_flags || is_creat)
    }

    /// True if nothing is known of what it does without what stands in memory: that is always read.
    pub fn is_list(&self) -> bool {
        self.args.iter().any(|it| matches!(it, Role::Iocbs | Role::IoEvents | Role::Registered))
    }

    /// True if what `io_submit` was asked of in a context has no result behind it: the kernel waits for all of it, and
    /// takes the results away (`exit_aio()` and `SYSCALL_DEFINE1(io_destroy)` in `fs/aio.c`).
    pub fn ends_context(&self) -> bool {
        self.name == "io_destroy"
    }

    /// True if the end of the call says more than what it did to its descriptors.
    pub fn has_consequences(&self) -> bool {
        let is_of_names = self.changes_names() || matches!(self.class, Class::Mount | Class::User);
        let takes = self.arg(Role::TakenFd).is_some();
        is_of_names || self.is_list() || self.ends_context() || takes
    }
}

#[cfg(test)]
mod tests;
