//! Rows of the table, and the properties that follow from their classes and roles.

use std::mem::discriminant;

use super::class::CallClass;
use super::role::Role;

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
pub(in crate::event) const fn row(
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
pub(in crate::event) const O_CLOEXEC: u32 = libc::O_CLOEXEC.cast_unsigned();

impl Call {
    /// Returns the row of a call whose descriptors the kernel always marks as close-on-exec.
    pub(in crate::event) const fn closed_by_exec(self) -> Self {
        Self { always_cloexec: true, ..self }
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
