//! Table of asynchronous operations: the opcodes of io_uring and of `io_submit`, by number.

use std::fmt;

use super::syscall_table::Class;

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
pub struct Asked {
    /// Number of the opcode.
    pub number: u16,
    /// Kernel's name, without `IORING_OP_` or `IOCB_CMD_`.
    pub name: &'static str,
    /// Class of the system call that does the same.
    pub class: Class,
}

const fn row(number: u16, name: &'static str, class: Class) -> Asked {
    Asked { number, name, class }
}

/// Opcodes of `include/uapi/linux/io_uring.h`.
#[rustfmt::skip]
const IO_URING: &[Asked] = &[
    row(0,  "NOP",             Class::Async),
    row(1,  "READV",           Class::Read),
    row(2,  "WRITEV",          Class::Write),
    row(3,  "FSYNC",           Class::Sync),
    row(4,  "READ_FIXED",      Class::Read),
    row(5,  "WRITE_FIXED",     Class::Write),
    row(6,  "POLL_ADD",        Class::Async),
    row(7,  "POLL_REMOVE",     Class::Async),
    row(8,  "SYNC_FILE_RANGE", Class::Sync),
    row(9,  "SENDMSG",         Class::Socket),
    row(10, "RECVMSG",         Class::Socket),
    row(11, "TIMEOUT",         Class::Async),
    row(12, "TIMEOUT_REMOVE",  Class::Async),
    row(13, "ACCEPT",          Class::Make("socket:[?]")),
    row(14, "ASYNC_CANCEL",    Class::Async),
    row(15, "LINK_TIMEOUT",    Class::Async),
    row(16, "CONNECT",         Class::Socket),
    row(17, "FALLOCATE",       Class::Resize),
    row(18, "OPENAT",          Class::Open),
    row(19, "CLOSE",           Class::Close),
    row(20, "FILES_UPDATE",    Class::Async),
    row(21, "STATX",           Class::Stat),
    row(22, "READ",            Class::Read),
    row(23, "WRITE",           Class::Write),
    row(24, "FADVISE",         Class::Advise),
    row(25, "MADVISE",         Class::Map),
    row(26, "SEND",            Class::Socket),
    row(27, "RECV",            Class::Socket),
    row(28, "OPENAT2",         Class::Open),
    row(29, "EPOLL_CTL",       Class::Async),
    // The operation's own descriptor is the one to which it writes; the one from which it reads
    // comes second. This also holds for TEE.
    row(30, "SPLICE",          Class::Pipe),
    row(31, "PROVIDE_BUFFERS", Class::Async),
    row(32, "REMOVE_BUFFERS",  Class::Async),
    row(33, "TEE",             Class::Pipe),
    row(34, "SHUTDOWN",        Class::Socket),
    row(35, "RENAMEAT",        Class::Rename),
    row(36, "UNLINKAT",        Class::Remove),
    row(37, "MKDIRAT",         Class::Name),
    row(38, "SYMLINKAT",       Class::Name),
    row(39, "LINKAT",          Class::Name),
    row(40, "MSG_RING",        Class::Async),
    row(41, "FSETXATTR",       Class::Attribute),
    row(42, "SETXATTR",        Class::Attribute),
    row(43, "FGETXATTR",       Class::Stat),
    row(44, "GETXATTR",        Class::Stat),
    row(45, "SOCKET",          Class::Make("socket:[?]")),
    row(46, "URING_CMD",       Class::Ioctl),
    row(47, "SEND_ZC",         Class::Socket),
    row(48, "SENDMSG_ZC",      Class::Socket),
    row(49, "READ_MULTISHOT",  Class::Read),
    row(50, "WAITID",          Class::Async),
    row(51, "FUTEX_WAIT",      Class::Async),
    row(52, "FUTEX_WAKE",      Class::Async),
    row(53, "FUTEX_WAITV",     Class::Async),
    row(54, "FIXED_FD_INSTALL", Class::Open),
    row(55, "FTRUNCATE",       Class::Resize),
    row(56, "BIND",            Class::Socket),
    row(57, "LISTEN",          Class::Socket),
    row(58, "RECV_ZC",         Class::Socket),
    row(59, "EPOLL_WAIT",      Class::Async),
    row(60, "READV_FIXED",     Class::Read),
    row(61, "WRITEV_FIXED",    Class::Write),
    row(62, "PIPE",            Class::MakePair),
    row(63, "NOP128",          Class::Async),
    row(64, "URING_CMD128",    Class::Ioctl),
];

/// Opcodes of `include/uapi/linux/aio_abi.h`.
#[rustfmt::skip]
const AIO: &[Asked] = &[
    row(0, "PREAD",   Class::Read),
    row(1, "PWRITE",  Class::Write),
    row(2, "FSYNC",   Class::Sync),
    row(3, "FDSYNC",  Class::Sync),
    row(5, "POLL",    Class::Async),
    row(6, "NOOP",    Class::Async),
    row(7, "PREADV",  Class::Read),
    row(8, "PWRITEV", Class::Write),
];

/// Row of an opcode of a newer kernel.
static UNKNOWN: Asked = row(u16::MAX, "?", Class::Async);

impl Opcode {
    /// Returns the row of the opcode.
    pub fn asked(self) -> &'static Asked {
        let rows = match self.interface {
            Interface::IoUring => IO_URING,
            Interface::Aio => AIO,
        };
        rows.iter().find(|it| it.number == self.number).unwrap_or(&UNKNOWN)
    }

    /// Returns the class of the opcode.
    pub fn class(self) -> Class {
        self.asked().class
    }

    /// Returns true if the number is in the table.
    pub fn is_known(self) -> bool {
        self.asked().number == self.number
    }

    /// Returns true if the operation has an offset.
    pub fn has_offset(self) -> bool {
        matches!(self.class(), Class::Read | Class::Write | Class::Resize | Class::Advise)
            || matches!(self.asked().name, "SYNC_FILE_RANGE" | "SPLICE")
    }

    /// Returns true if the operation moves bytes.
    pub fn has_bytes(self) -> bool {
        matches!(self.class(), Class::Read | Class::Write | Class::Pipe)
    }
}

/// Formats the opcode as `io_uring:READ`; with the number if it is not in the table.
impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interface = self.interface.as_str();
        match self.is_known() {
            true => write!(f, "{interface}:{}", self.asked().name),
            false => write!(f, "{interface}:{}", self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_once_and_rows_are_found() {
        for rows in [IO_URING, AIO] {
            assert!(rows.is_sorted_by(|a, b| a.number < b.number));
        }
        let name = |interface, number| Opcode { interface, number }.asked().name;
        assert_eq!(name(Interface::IoUring, 22), "READ");
        assert_eq!(name(Interface::Aio, 7), "PREADV");
        assert_eq!(name(Interface::Aio, 4), "?");
        assert!(!Opcode { interface: Interface::IoUring, number: 999 }.is_known());
    }
}
