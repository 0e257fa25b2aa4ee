//! The one table of system calls. A row says everything that the rest of the tracer derives: which tracepoints are
//! opened, what the arguments mean, what the call does to descriptors, and how it looks in OTF2. A new system call is
//! a new row.

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
    /// `O_CLOEXEC` of `dup3`.
    DupFlags,
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
}

impl Role {
    /// True for an address that says nothing by itself.
    pub fn is_pointer(self) -> bool {
        use Role::{
            Buffers, How, IoEvents, Iocbs, OffsetPtr, OffsetPtr2, Opaque, Pair, Registered,
        };
        matches!(
            self,
            Opaque | OffsetPtr | OffsetPtr2 | Buffers | How | Pair | Iocbs | IoEvents | Registered
        )
    }
}

/// What the call does; decides the descriptor model and the OTF2 record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Makes a descriptor for a path.
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
    /// Makes or renames files.
    Name,
    /// Removes files.
    Remove,
    /// Changes how long a file is or what space it has.
    Resize,
    /// Changes where relative paths begin.
    Place,
    /// Changes where absolute paths begin.
    Root,
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
}

/// What `-e %GROUP` stands for, besides [`Class::group`]s.
pub const DEFAULT_GROUPS: &[&str] = &["data", "desc", "sync", "name", "async"];

/// The groups and what is in them.
pub const GROUPS: &[(&str, &str)] = &[
    ("data", "moves bytes of files and pipes"),
    ("desc", "makes, copies, moves and ends descriptors"),
    ("sync", "writes out what is cached"),
    ("name", "makes, removes, renames and resizes files; changes where paths begin"),
    ("stat", "asks about files, lists directories"),
    (
        "attr",
        "changes what is known about files: mode, owner, times, extended attributes, locks; advice; ioctl",
    ),
    ("map", "maps files into memory"),
    ("async", "asks for I/O that happens later"),
    ("socket", "sends and receives"),
    ("process", "makes processes and programs"),
];

impl Class {
    /// True if descriptors are not the same after it.
    pub fn changes_descriptors(self) -> bool {
        use Class::{Close, CloseRange, Dup, Make, MakePair, Open};
        matches!(self, Open | Close | CloseRange | Dup | Make(_) | MakePair)
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
            Self::Name | Self::Remove | Self::Resize | Self::Place | Self::Root => "name",
            Self::Stat | Self::List => "stat",
            Self::Attribute | Self::Advise | Self::Lock | Self::Ioctl => "attr",
            Self::Map => "map",
            Self::Async => "async",
            Self::Socket => "socket",
            Self::Process => "process",
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
}

/// A row.
pub(super) const fn row(
    name: &'static str,
    x86_64: u32,
    generic: Option<u32>,
    class: Class,
    args: [Role; 6],
) -> Call {
    Call { name, x86_64, generic, class, args }
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

    /// The register that has this role.
    pub fn arg(&self, role: Role) -> Option<usize> {
        self.args.iter().position(|&it| it == role)
    }

    /// True if the call names a file by a path.
    pub fn has_path(&self) -> bool {
        self.arg(Role::Path).is_some()
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

    /// True if there is a name to be read beside the call: its tracepoints go to the names ring. At the exit of an exec the
    /// memory that its path stood in is gone.
    pub fn has_names(&self) -> bool {
        self.has_path() && self.class != Class::Process || self.class == Class::Open
    }

    /// True if nothing is known of what it does without what stands in memory: that is always read.
    pub fn is_list(&self) -> bool {
        self.args.iter().any(|it| matches!(it, Role::Iocbs | Role::IoEvents | Role::Registered))
    }

    /// True if something can be read beside the call or seen inside it.
    pub fn is_read_beside(&self) -> bool {
        self.has_path() || self.has_names() || self.has_memory() || self.is_list()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library has no constants for these yet.
    const NOT_IN_LIBC: [&str; 5] =
        ["io_pgetevents", "setxattrat", "getxattrat", "listxattrat", "removexattrat"];

    /// The C library's constants.
    const NUMBERS: &[(&str, libc::c_long)] = &[
        ("read", libc::SYS_read),
        ("write", libc::SYS_write),
        ("close", libc::SYS_close),
        ("newfstat", libc::SYS_fstat),
        ("lseek", libc::SYS_lseek),
        ("mmap", libc::SYS_mmap),
        ("munmap", libc::SYS_munmap),
        ("ioctl", libc::SYS_ioctl),
        ("pread64", libc::SYS_pread64),
        ("pwrite64", libc::SYS_pwrite64),
        ("readv", libc::SYS_readv),
        ("writev", libc::SYS_writev),
        ("mremap", libc::SYS_mremap),
        ("msync", libc::SYS_msync),
        ("madvise", libc::SYS_madvise),
        ("dup", libc::SYS_dup),
        ("sendfile64", libc::SYS_sendfile),
        ("socket", libc::SYS_socket),
        ("connect", libc::SYS_connect),
        ("accept", libc::SYS_accept),
        ("sendto", libc::SYS_sendto),
        ("recvfrom", libc::SYS_recvfrom),
        ("sendmsg", libc::SYS_sendmsg),
        ("recvmsg", libc::SYS_recvmsg),
        ("socketpair", libc::SYS_socketpair),
        ("clone", libc::SYS_clone),
        ("execve", libc::SYS_execve),
        ("fcntl", libc::SYS_fcntl),
        ("flock", libc::SYS_flock),
        ("fsync", libc::SYS_fsync),
        ("fdatasync", libc::SYS_fdatasync),
        ("truncate", libc::SYS_truncate),
        ("ftruncate", libc::SYS_ftruncate),
        ("chdir", libc::SYS_chdir),
        ("fchdir", libc::SYS_fchdir),
        ("fchmod", libc::SYS_fchmod),
        ("fchown", libc::SYS_fchown),
        ("statfs", libc::SYS_statfs),
        ("fstatfs", libc::SYS_fstatfs),
        ("chroot", libc::SYS_chroot),
        ("sync", libc::SYS_sync),
        ("readahead", libc::SYS_readahead),
        ("setxattr", libc::SYS_setxattr),
        ("lsetxattr", libc::SYS_lsetxattr),
        ("fsetxattr", libc::SYS_fsetxattr),
        ("getxattr", libc::SYS_getxattr),
        ("lgetxattr", libc::SYS_lgetxattr),
        ("fgetxattr", libc::SYS_fgetxattr),
        ("listxattr", libc::SYS_listxattr),
        ("llistxattr", libc::SYS_llistxattr),
        ("flistxattr", libc::SYS_flistxattr),
        ("removexattr", libc::SYS_removexattr),
        ("lremovexattr", libc::SYS_lremovexattr),
        ("fremovexattr", libc::SYS_fremovexattr),
        ("io_setup", libc::SYS_io_setup),
        ("io_destroy", libc::SYS_io_destroy),
        ("io_getevents", libc::SYS_io_getevents),
        ("io_submit", libc::SYS_io_submit),
        ("io_cancel", libc::SYS_io_cancel),
        ("getdents64", libc::SYS_getdents64),
        ("fadvise64", libc::SYS_fadvise64),
        ("mq_open", libc::SYS_mq_open),
        ("openat", libc::SYS_openat),
        ("mkdirat", libc::SYS_mkdirat),
        ("mknodat", libc::SYS_mknodat),
        ("fchownat", libc::SYS_fchownat),
        ("newfstatat", libc::SYS_newfstatat),
        ("unlinkat", libc::SYS_unlinkat),
        ("renameat", libc::SYS_renameat),
        ("linkat", libc::SYS_linkat),
        ("symlinkat", libc::SYS_symlinkat),
        ("readlinkat", libc::SYS_readlinkat),
        ("fchmodat", libc::SYS_fchmodat),
        ("faccessat", libc::SYS_faccessat),
        ("unshare", libc::SYS_unshare),
        ("splice", libc::SYS_splice),
        ("tee", libc::SYS_tee),
        ("sync_file_range", libc::SYS_sync_file_range),
        ("vmsplice", libc::SYS_vmsplice),
        ("utimensat", libc::SYS_utimensat),
        ("timerfd_create", libc::SYS_timerfd_create),
        ("fallocate", libc::SYS_fallocate),
        ("accept4", libc::SYS_accept4),
        ("signalfd4", libc::SYS_signalfd4),
        ("eventfd2", libc::SYS_eventfd2),
        ("epoll_create1", libc::SYS_epoll_create1),
        ("dup3", libc::SYS_dup3),
        ("pipe2", libc::SYS_pipe2),
        ("inotify_init1", libc::SYS_inotify_init1),
        ("preadv", libc::SYS_preadv),
        ("pwritev", libc::SYS_pwritev),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("recvmmsg", libc::SYS_recvmmsg),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("syncfs", libc::SYS_syncfs),
        ("sendmmsg", libc::SYS_sendmmsg),
        ("renameat2", libc::SYS_renameat2),
        ("memfd_create", libc::SYS_memfd_create),
        ("execveat", libc::SYS_execveat),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("copy_file_range", libc::SYS_copy_file_range),
        ("preadv2", libc::SYS_preadv2),
        ("pwritev2", libc::SYS_pwritev2),
        ("statx", libc::SYS_statx),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("io_uring_enter", libc::SYS_io_uring_enter),
        ("io_uring_register", libc::SYS_io_uring_register),
        ("open_tree", libc::SYS_open_tree),
        ("fsopen", libc::SYS_fsopen),
        ("fsmount", libc::SYS_fsmount),
        ("pidfd_open", libc::SYS_pidfd_open),
        ("clone3", libc::SYS_clone3),
        ("close_range", libc::SYS_close_range),
        ("openat2", libc::SYS_openat2),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("faccessat2", libc::SYS_faccessat2),
        ("landlock_create_ruleset", libc::SYS_landlock_create_ruleset),
        ("memfd_secret", libc::SYS_memfd_secret),
        ("fchmodat2", libc::SYS_fchmodat2),
        #[cfg(target_arch = "x86_64")]
        ("open", libc::SYS_open),
        #[cfg(target_arch = "x86_64")]
        ("newstat", libc::SYS_stat),
        #[cfg(target_arch = "x86_64")]
        ("newlstat", libc::SYS_lstat),
        #[cfg(target_arch = "x86_64")]
        ("access", libc::SYS_access),
        #[cfg(target_arch = "x86_64")]
        ("pipe", libc::SYS_pipe),
        #[cfg(target_arch = "x86_64")]
        ("dup2", libc::SYS_dup2),
        #[cfg(target_arch = "x86_64")]
        ("fork", libc::SYS_fork),
        #[cfg(target_arch = "x86_64")]
        ("vfork", libc::SYS_vfork),
        #[cfg(target_arch = "x86_64")]
        ("getdents", libc::SYS_getdents),
        #[cfg(target_arch = "x86_64")]
        ("rename", libc::SYS_rename),
        #[cfg(target_arch = "x86_64")]
        ("mkdir", libc::SYS_mkdir),
        #[cfg(target_arch = "x86_64")]
        ("rmdir", libc::SYS_rmdir),
        #[cfg(target_arch = "x86_64")]
        ("creat", libc::SYS_creat),
        #[cfg(target_arch = "x86_64")]
        ("link", libc::SYS_link),
        #[cfg(target_arch = "x86_64")]
        ("unlink", libc::SYS_unlink),
        #[cfg(target_arch = "x86_64")]
        ("symlink", libc::SYS_symlink),
        #[cfg(target_arch = "x86_64")]
        ("readlink", libc::SYS_readlink),
        #[cfg(target_arch = "x86_64")]
        ("chmod", libc::SYS_chmod),
        #[cfg(target_arch = "x86_64")]
        ("chown", libc::SYS_chown),
        #[cfg(target_arch = "x86_64")]
        ("lchown", libc::SYS_lchown),
        #[cfg(target_arch = "x86_64")]
        ("utime", libc::SYS_utime),
        #[cfg(target_arch = "x86_64")]
        ("mknod", libc::SYS_mknod),
        #[cfg(target_arch = "x86_64")]
        ("epoll_create", libc::SYS_epoll_create),
        #[cfg(target_arch = "x86_64")]
        ("utimes", libc::SYS_utimes),
        #[cfg(target_arch = "x86_64")]
        ("inotify_init", libc::SYS_inotify_init),
        #[cfg(target_arch = "x86_64")]
        ("futimesat", libc::SYS_futimesat),
        #[cfg(target_arch = "x86_64")]
        ("signalfd", libc::SYS_signalfd),
        #[cfg(target_arch = "x86_64")]
        ("eventfd", libc::SYS_eventfd),
    ];

    #[test]
    fn numbers_are_those_of_the_headers() {
        for &(name, number) in NUMBERS {
            let call = CallId::by_name(name).expect(name).call();
            assert_eq!(call.number(std::env::consts::ARCH).map(i64::from), Some(number), "{name}");
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(NUMBERS.len() + NOT_IN_LIBC.len(), CALLS.len(), "a row is not checked");
    }

    #[test]
    fn rows_are_in_the_order_of_their_numbers() {
        assert!(CALLS.is_sorted_by_key(|it| it.x86_64));
        let mut generic: Vec<u32> = CALLS.iter().filter_map(|it| it.generic).collect();
        generic.sort_unstable();
        assert!(generic.windows(2).all(|it| it[0] < it[1]), "a number stands twice");
    }

    #[test]
    fn every_group_has_calls_and_every_call_a_group() {
        let groups: Vec<&str> = GROUPS.iter().map(|it| it.0).collect();
        assert!(CALLS.iter().all(|it| groups.contains(&it.class.group())));
        for group in groups {
            assert!(CALLS.iter().any(|it| it.class.group() == group), "{group}");
        }
    }

    #[test]
    fn a_call_is_found_by_the_name_that_people_know() {
        let name = |it: &str| CallId::by_common_name(it).map(|it| it.call().name);
        assert_eq!(name("stat"), Some("newstat"));
        assert_eq!(name("sendfile"), Some("sendfile64"));
        assert_eq!(name("pread64"), Some("pread64"));
        assert_eq!(name("pread"), Some("pread64"));
        assert_eq!(name("nosuchcall"), None);
    }
}
