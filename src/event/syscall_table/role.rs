//! Meanings of argument registers.

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
