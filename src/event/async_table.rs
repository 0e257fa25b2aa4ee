//! Table of asynchronous operations: the opcodes of io_uring and of `io_submit`, by number.

use std::fmt;

use super::syscall_table::CallClass;

/// Interface through which a program requests asynchronous I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interface {
    /// Interface `io_uring`.
    IoUring,
    /// Interface `io_submit(2)`.
    Aio,
}

impl Interface {
    /// Returns the word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Aio => "aio",
        }
    }

    /// Returns its opcodes.
    fn rows(self) -> &'static [AsyncRequestKind] {
        match self {
            Self::IoUring => IO_URING,
            Self::Aio => AIO,
        }
    }
}

/// Opcode of an asynchronous operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opcode {
    /// Interface of the opcode.
    pub interface: Interface,
    /// Number of the opcode: `IORING_OP_*` or `IOCB_CMD_*`.
    pub number: u16,
}

/// Row of the table.
#[derive(Debug)]
pub struct AsyncRequestKind {
    /// Number of the opcode.
    pub number: u16,
    /// Kernel's name, without `IORING_OP_` or `IOCB_CMD_`.
    pub name: &'static str,
    /// Class of the system call that does the same.
    pub class: CallClass,
}

const fn row(number: u16, name: &'static str, class: CallClass) -> AsyncRequestKind {
    AsyncRequestKind { number, name, class }
}

/// Opcodes of `include/uapi/linux/io_uring.h`.
#[rustfmt::skip]
const IO_URING: &[AsyncRequestKind] = &[
    row(0,  "NOP",             CallClass::Async),
    row(1,  "READV",           CallClass::Read),
    row(2,  "WRITEV",          CallClass::Write),
    row(3,  "FSYNC",           CallClass::Sync),
    row(4,  "READ_FIXED",      CallClass::Read),
    row(5,  "WRITE_FIXED",     CallClass::Write),
    row(6,  "POLL_ADD",        CallClass::Async),
    row(7,  "POLL_REMOVE",     CallClass::Async),
    row(8,  "SYNC_FILE_RANGE", CallClass::Sync),
    row(9,  "SENDMSG",         CallClass::Socket),
    row(10, "RECVMSG",         CallClass::Socket),
    row(11, "TIMEOUT",         CallClass::Async),
    row(12, "TIMEOUT_REMOVE",  CallClass::Async),
    row(13, "ACCEPT",          CallClass::Make("socket:[?]")),
    row(14, "ASYNC_CANCEL",    CallClass::Async),
    row(15, "LINK_TIMEOUT",    CallClass::Async),
    row(16, "CONNECT",         CallClass::Socket),
    row(17, "FALLOCATE",       CallClass::Resize),
    row(18, "OPENAT",          CallClass::Open),
    row(19, "CLOSE",           CallClass::Close),
    row(20, "FILES_UPDATE",    CallClass::Async),
    row(21, "STATX",           CallClass::Stat),
    row(22, "READ",            CallClass::Read),
    row(23, "WRITE",           CallClass::Write),
    row(24, "FADVISE",         CallClass::Advise),
    row(25, "MADVISE",         CallClass::Map),
    row(26, "SEND",            CallClass::Socket),
    row(27, "RECV",            CallClass::Socket),
    row(28, "OPENAT2",         CallClass::Open),
    row(29, "EPOLL_CTL",       CallClass::Async),
    // The operation's own descriptor is the one to which it writes; the one from which it reads
    // comes second. This also holds for TEE.
    row(30, "SPLICE",          CallClass::Pipe),
    row(31, "PROVIDE_BUFFERS", CallClass::Async),
    row(32, "REMOVE_BUFFERS",  CallClass::Async),
    row(33, "TEE",             CallClass::Pipe),
    row(34, "SHUTDOWN",        CallClass::Socket),
    row(35, "RENAMEAT",        CallClass::Rename),
    row(36, "UNLINKAT",        CallClass::Remove),
    row(37, "MKDIRAT",         CallClass::Name),
    row(38, "SYMLINKAT",       CallClass::Name),
    row(39, "LINKAT",          CallClass::Name),
    row(40, "MSG_RING",        CallClass::Async),
    row(41, "FSETXATTR",       CallClass::Attribute),
    row(42, "SETXATTR",        CallClass::Attribute),
    row(43, "FGETXATTR",       CallClass::Stat),
    row(44, "GETXATTR",        CallClass::Stat),
    row(45, "SOCKET",          CallClass::Make("socket:[?]")),
    row(46, "URING_CMD",       CallClass::Ioctl),
    row(47, "SEND_ZC",         CallClass::Socket),
    row(48, "SENDMSG_ZC",      CallClass::Socket),
    row(49, "READ_MULTISHOT",  CallClass::Read),
    row(50, "WAITID",          CallClass::Async),
    row(51, "FUTEX_WAIT",      CallClass::Async),
    row(52, "FUTEX_WAKE",      CallClass::Async),
    row(53, "FUTEX_WAITV",     CallClass::Async),
    row(54, "FIXED_FD_INSTALL", CallClass::Open),
    row(55, "FTRUNCATE",       CallClass::Resize),
    row(56, "BIND",            CallClass::Socket),
    row(57, "LISTEN",          CallClass::Socket),
    row(58, "RECV_ZC",         CallClass::Socket),
    row(59, "EPOLL_WAIT",      CallClass::Async),
    row(60, "READV_FIXED",     CallClass::Read),
    row(61, "WRITEV_FIXED",    CallClass::Write),
    row(62, "PIPE",            CallClass::MakePair),
    row(63, "NOP128",          CallClass::Async),
    row(64, "URING_CMD128",    CallClass::Ioctl),
];

/// Opcodes of `include/uapi/linux/aio_abi.h`.
#[rustfmt::skip]
const AIO: &[AsyncRequestKind] = &[
    row(0, "PREAD",   CallClass::Read),
    row(1, "PWRITE",  CallClass::Write),
    row(2, "FSYNC",   CallClass::Sync),
    row(3, "FDSYNC",  CallClass::Sync),
    row(5, "POLL",    CallClass::Async),
    row(6, "NOOP",    CallClass::Async),
    row(7, "PREADV",  CallClass::Read),
    row(8, "PWRITEV", CallClass::Write),
];

/// Row of an opcode of a newer kernel.
static UNKNOWN: AsyncRequestKind = row(u16::MAX, "?", CallClass::Async);

impl Opcode {
    /// Returns the opcode with this name in outputs, as `io_uring:READ`, if it is in the table.
    pub fn by_name(name: &str) -> Option<Self> {
        let (prefix, name) = name.split_once(':')?;
        let mut all = [Interface::IoUring, Interface::Aio].into_iter();
        let interface = all.find(|interface| interface.as_str() == prefix)?;
        let number = interface.rows().iter().find(|row| row.name == name)?.number;
        Some(Self { interface, number })
    }

    /// Returns the row of the opcode.
    pub fn request_kind(self) -> &'static AsyncRequestKind {
        self.interface.rows().iter().find(|it| it.number == self.number).unwrap_or(&UNKNOWN)
    }

    /// Returns the class of the opcode.
    pub fn class(self) -> CallClass {
        self.request_kind().class
    }

    /// Returns true if the number is in the table.
    pub fn is_known(self) -> bool {
        self.request_kind().number == self.number
    }

    /// Returns true if the operation has an offset.
    pub fn has_offset(self) -> bool {
        matches!(
            self.class(),
            CallClass::Read | CallClass::Write | CallClass::Resize | CallClass::Advise
        ) || matches!(self.request_kind().name, "SYNC_FILE_RANGE" | "SPLICE")
    }

    /// Returns true if the operation moves bytes.
    pub fn has_bytes(self) -> bool {
        matches!(self.class(), CallClass::Read | CallClass::Write | CallClass::Pipe)
    }
}

/// Formats the opcode as `io_uring:READ`; with the number if it is not in the table.
impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interface = self.interface.as_str();
        match self.is_known() {
            true => write!(f, "{interface}:{}", self.request_kind().name),
            false => write!(f, "{interface}:{}", self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_rows_are_found() {
        for rows in [IO_URING, AIO] {
            assert!(rows.is_sorted_by(|a, b| a.number < b.number));
        }
        let name = |interface, number| Opcode { interface, number }.request_kind().name;
        assert_eq!(name(Interface::IoUring, 22), "READ");
        assert_eq!(name(Interface::Aio, 7), "PREADV");
        assert_eq!(name(Interface::Aio, 4), "?");
        assert!(!Opcode { interface: Interface::IoUring, number: 999 }.is_known());
        let read = Opcode { interface: Interface::IoUring, number: 22 };
        assert_eq!(Opcode::by_name(&read.to_string()), Some(read));
        assert_eq!(["read", "aio:READ", "uring:READ"].map(Opcode::by_name), [None; 3]);
    }
}
