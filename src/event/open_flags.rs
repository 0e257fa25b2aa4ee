//! Open flags (`O_*`), with this machine's constants.
//!
//! Some of the kernel's constants have several bits and contain others: `O_TMPFILE` contains
//! `O_DIRECTORY`, `O_SYNC` contains `O_DSYNC`. A flag is set if all of its bits are.

use super::registers::{argument, low_half};
use super::syscall_table::call::Call;
use super::syscall_table::role::Role;

/// Flags of an open, or of an open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags(pub u32);

/// Accesses that an open file permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// Reads only (`O_RDONLY`).
    Read,
    /// Writes only (`O_WRONLY`).
    Write,
    /// Reads and writes (`O_RDWR`).
    ReadWrite,
    /// Neither reads nor writes, but `ioctl` (3, open(2)).
    Neither,
}

/// Bits of the access mode (`include/uapi/asm-generic/fcntl.h`): a number, not flags. musl's
/// `O_ACCMODE` has `O_PATH` in it, too.
const ACCESS_MODE: u32 = (libc::O_WRONLY | libc::O_RDWR).cast_unsigned();

/// Flags that `F_SETFL` changes; the access mode and the creation flags stay (open(2)).
const SETTABLE: u32 =
    (libc::O_APPEND | libc::O_ASYNC | libc::O_DIRECT | libc::O_NOATIME | libc::O_NONBLOCK)
        .cast_unsigned();

impl OpenFlags {
    /// Returns the flags of a call that opens a file by its registers, also of `creat`, which has
    /// none; `in_memory`: flags of `openat2`, if its memory was read.
    pub fn of_call(call: &Call, args: &[u64; 6], in_memory: Option<u32>) -> Option<Self> {
        let creat = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        match argument(call, Role::OpenFlags, args) {
            Some(flags) => Some(Self(low_half(flags))),
            None if call.name == "creat" => Some(Self(creat.cast_unsigned())),
            None => in_memory.map(Self),
        }
    }

    /// Returns the flags of the file that `memfd_create` makes; `None` for other calls.
    pub fn of_memory_file(call: &Call, args: &[u64; 6]) -> Option<Self> {
        let flags = argument(call, Role::MemoryFlags, args)?;
        let cloexec = if flags & u64::from(libc::MFD_CLOEXEC) == 0 { 0 } else { libc::O_CLOEXEC };
        Some(Self((libc::O_RDWR | cloexec).cast_unsigned()))
    }

    /// Returns true if all bits of a constant (`O_*`) are set.
    pub const fn has(self, constant: i32) -> bool {
        self.0 & constant.cast_unsigned() == constant.cast_unsigned()
    }

    /// Returns the permitted accesses.
    pub const fn access_mode(self) -> AccessMode {
        match self.0 & ACCESS_MODE {
            0 => AccessMode::Read,
            1 => AccessMode::Write,
            2 => AccessMode::ReadWrite,
            _ => AccessMode::Neither,
        }
    }

    /// Returns the flags without the access mode.
    pub const fn without_access_mode(self) -> Self {
        Self(self.0 & !ACCESS_MODE)
    }

    /// Returns true if a missing file is created (`O_CREAT`).
    pub const fn creates(self) -> bool {
        self.has(libc::O_CREAT)
    }

    /// Returns true if an existing file is an error (`O_EXCL`).
    pub const fn is_exclusive(self) -> bool {
        self.has(libc::O_EXCL)
    }

    /// Returns true if the file is emptied (`O_TRUNC`).
    pub const fn truncates(self) -> bool {
        self.has(libc::O_TRUNC)
    }

    /// Returns true if writes go to the end of the file (`O_APPEND`).
    pub const fn appends(self) -> bool {
        self.has(libc::O_APPEND)
    }

    /// Returns true if only a directory is opened (`O_DIRECTORY`; also with `O_TMPFILE`).
    pub const fn is_directory(self) -> bool {
        self.has(libc::O_DIRECTORY)
    }

    /// Returns true if the file is made without a name (`O_TMPFILE`).
    pub const fn is_unnamed(self) -> bool {
        self.has(libc::O_TMPFILE)
    }

    /// Returns true if a successful open with these flags has made its file, which is then a
    /// regular one (open(2); with `O_PATH` the flags of creation have no effect).
    pub const fn makes_regular_file(self) -> bool {
        let is_new = self.is_unnamed() || self.creates() && self.is_exclusive();
        is_new && !self.is_path_only()
    }

    /// Returns true if a symbolic link is not followed (`O_NOFOLLOW`).
    pub const fn is_nofollow(self) -> bool {
        self.has(libc::O_NOFOLLOW)
    }

    /// Returns true if the descriptor is only a reference (`O_PATH`).
    pub const fn is_path_only(self) -> bool {
        self.has(libc::O_PATH)
    }

    /// Returns true if an exec closes the descriptor (`O_CLOEXEC`).
    pub const fn is_cloexec(self) -> bool {
        self.has(libc::O_CLOEXEC)
    }

    /// Returns true if the page cache is bypassed (`O_DIRECT`).
    pub const fn is_direct(self) -> bool {
        self.has(libc::O_DIRECT)
    }

    /// Returns true if a write waits for its data on the device (`O_DSYNC`; also with `O_SYNC`).
    pub const fn syncs_data(self) -> bool {
        self.has(libc::O_DSYNC)
    }

    /// Returns true if a write waits for data and attributes on the device (`O_SYNC`).
    pub const fn syncs(self) -> bool {
        self.has(libc::O_SYNC)
    }

    /// Returns true if the open may change a file: it may write, create or truncate.
    pub const fn may_change(self) -> bool {
        !matches!(self.access_mode(), AccessMode::Read) || self.creates() || self.truncates()
    }

    /// Returns the flags without `O_CLOEXEC`, which belongs to a descriptor and not to the open
    /// file.
    pub const fn without_cloexec(self) -> Self {
        Self(self.0 & !libc::O_CLOEXEC.cast_unsigned())
    }

    /// Returns the flags without those that have an effect at the open only (`O_CREAT`, `O_TRUNC`,
    /// `O_EXCL`).
    pub const fn without_creation(self) -> Self {
        Self(self.0 & !(libc::O_CREAT | libc::O_TRUNC | libc::O_EXCL).cast_unsigned())
    }

    /// Returns the flags after `F_SETFL` with these new ones.
    pub const fn with_status_of(self, new: Self) -> Self {
        Self(self.0 & !SETTABLE | new.0 & SETTABLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CallId;

    #[track_caller]
    fn check(name: &str, args: [u64; 6], in_memory: Option<u32>, expected: Option<i32>) {
        let call = CallId::by_name(name).expect(name).call();
        let flags = OpenFlags::of_call(call, &args, in_memory);
        assert_eq!(flags.map(|flags| flags.0), expected.map(i32::cast_unsigned), "{name}");
    }

    #[test]
    fn flags_are_those_of_register_memory_or_name() {
        check("openat", [0, 0, 0x1_0000_0001, 0, 0, 0], None, Some(libc::O_WRONLY));
        check("creat", [0; 6], None, Some(libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC));
        check("openat2", [0; 6], Some(2), Some(libc::O_RDWR));
        check("openat2", [0; 6], None, None);
    }

    #[test]
    fn set_flags_keep_access_mode_and_creation_flags() {
        let old = OpenFlags((libc::O_RDWR | libc::O_CREAT | libc::O_APPEND).cast_unsigned());
        let new = OpenFlags((libc::O_WRONLY | libc::O_NONBLOCK).cast_unsigned());
        let expected = (libc::O_RDWR | libc::O_CREAT | libc::O_NONBLOCK).cast_unsigned();
        assert_eq!(old.with_status_of(new), OpenFlags(expected));
    }

    #[test]
    fn exclusive_creation_makes_a_regular_file() {
        let makes = |flags: i32| OpenFlags(flags.cast_unsigned()).makes_regular_file();
        assert!(makes(libc::O_CREAT | libc::O_EXCL) && makes(libc::O_TMPFILE | libc::O_RDWR));
        assert!(!makes(libc::O_CREAT | libc::O_TRUNC) && !makes(libc::O_EXCL));
        assert!(!makes(libc::O_DIRECTORY) && !makes(libc::O_PATH | libc::O_CREAT | libc::O_EXCL));
    }

    #[test]
    fn flag_of_several_bits_needs_all_of_them() {
        let directory = OpenFlags(libc::O_DIRECTORY.cast_unsigned());
        assert!(directory.is_directory() && !directory.is_unnamed());
        let data = OpenFlags(libc::O_DSYNC.cast_unsigned());
        assert!(data.syncs_data() && !data.syncs());
    }
}
