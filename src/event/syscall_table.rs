//! The one table of system calls. A row says everything that the rest of the tracer derives: which tracepoints are
//! opened, what the arguments mean, what the call does to descriptors, and how it looks in OTF2. A new system call is
//! a new row.

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
    /// Pointer to a path.
    Path,
    /// Bytes asked for.
    Count,
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
    /// Number of buffers of a vectored call.
    BufferCount,
    /// Last descriptor of `close_range`.
    LastFd,
    /// `CLOSE_RANGE_*`.
    RangeFlags,
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

use Class as C;
use Role::{
    BufferCount, Command, CommandArg, Count, DirFd, DupFlags, Fd, Fd2, LastFd, Offset, OffsetPtr,
    OffsetPtr2, Opaque as __, OpenFlags, Path, RangeFlags, RwFlags, Whence,
};

const fn row(
    name: &'static str,
    x86_64: u32,
    generic: Option<u32>,
    class: Class,
    args: [Role; 6],
) -> Call {
    Call { name, x86_64, generic, class, args }
}

/// Every system call that is recorded.
#[rustfmt::skip]
pub const CALLS: &[Call] = &[
    row("read",            0, Some(63),  C::Read,       [Fd, __, Count, __, __, __]),
    row("write",           1, Some(64),  C::Write,      [Fd, __, Count, __, __, __]),
    row("open",            2, None,      C::Open,       [Path, OpenFlags, __, __, __, __]),
    row("close",           3, Some(57),  C::Close,      [Fd, __, __, __, __, __]),
    row("lseek",           8, Some(62),  C::Seek,       [Fd, Offset, Whence, __, __, __]),
    row("pread64",        17, Some(67),  C::Read,       [Fd, __, Count, Offset, __, __]),
    row("pwrite64",       18, Some(68),  C::Write,      [Fd, __, Count, Offset, __, __]),
    row("readv",          19, Some(65),  C::Read,       [Fd, __, BufferCount, __, __, __]),
    row("writev",         20, Some(66),  C::Write,      [Fd, __, BufferCount, __, __, __]),
    row("dup",            32, Some(23),  C::Dup,        [Fd, __, __, __, __, __]),
    row("dup2",           33, None,      C::Dup,        [Fd, Fd2, __, __, __, __]),
    row("sendfile64",     40, Some(71),  C::Transfer,   [Fd2, Fd, OffsetPtr, Count, __, __]),
    row("fcntl",          72, Some(25),  C::Control,    [Fd, Command, CommandArg, __, __, __]),
    row("fsync",          74, Some(82),  C::Sync,       [Fd, __, __, __, __, __]),
    row("fdatasync",      75, Some(83),  C::Sync,       [Fd, __, __, __, __, __]),
    row("creat",          85, None,      C::Open,       [Path, __, __, __, __, __]),
    row("openat",        257, Some(56),  C::Open,       [DirFd, Path, OpenFlags, __, __, __]),
    row("splice",        275, Some(76),  C::Transfer,   [Fd, OffsetPtr, Fd2, OffsetPtr2, Count, __]),
    row("dup3",          292, Some(24),  C::Dup,        [Fd, Fd2, DupFlags, __, __, __]),
    row("preadv",        295, Some(69),  C::Read,       [Fd, __, BufferCount, Offset, __, __]),
    row("pwritev",       296, Some(70),  C::Write,      [Fd, __, BufferCount, Offset, __, __]),
    row("copy_file_range", 326, Some(285), C::Transfer, [Fd, OffsetPtr, Fd2, OffsetPtr2, Count, __]),
    row("preadv2",       327, Some(286), C::Read,       [Fd, __, BufferCount, Offset, __, RwFlags]),
    row("pwritev2",      328, Some(287), C::Write,      [Fd, __, BufferCount, Offset, __, RwFlags]),
    row("close_range",   436, Some(436), C::CloseRange, [Fd, LastFd, RangeFlags, __, __, __]),
    row("openat2",       437, Some(437), C::Open,       [DirFd, Path, __, __, __, __]),
];

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

    /// The row of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|it| it.call().name == name)
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

    /// True if the call names a file by a path: its tracepoints go to the names ring.
    pub fn has_path(&self) -> bool {
        self.arg(Path).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_headers() {
        let table = [
            ("read", libc::SYS_read),
            ("write", libc::SYS_write),
            ("close", libc::SYS_close),
            ("lseek", libc::SYS_lseek),
            ("pread64", libc::SYS_pread64),
            ("pwrite64", libc::SYS_pwrite64),
            ("readv", libc::SYS_readv),
            ("writev", libc::SYS_writev),
            ("dup", libc::SYS_dup),
            ("sendfile64", libc::SYS_sendfile),
            ("fcntl", libc::SYS_fcntl),
            ("fsync", libc::SYS_fsync),
            ("fdatasync", libc::SYS_fdatasync),
            ("openat", libc::SYS_openat),
            ("splice", libc::SYS_splice),
            ("dup3", libc::SYS_dup3),
            ("preadv", libc::SYS_preadv),
            ("pwritev", libc::SYS_pwritev),
            ("copy_file_range", libc::SYS_copy_file_range),
            ("preadv2", libc::SYS_preadv2),
            ("pwritev2", libc::SYS_pwritev2),
            ("close_range", libc::SYS_close_range),
            ("openat2", libc::SYS_openat2),
            #[cfg(target_arch = "x86_64")]
            ("open", libc::SYS_open),
            #[cfg(target_arch = "x86_64")]
            ("creat", libc::SYS_creat),
            #[cfg(target_arch = "x86_64")]
            ("dup2", libc::SYS_dup2),
        ];
        for (name, number) in table {
            let call = CallId::by_name(name).expect(name).call();
            assert_eq!(call.number(std::env::consts::ARCH).map(i64::from), Some(number), "{name}");
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(table.len(), CALLS.len(), "a row is not checked");
    }
}
