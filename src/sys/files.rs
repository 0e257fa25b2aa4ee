//! Files by descriptor: reopening, creation without a name, metadata.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::sys::statfs::{self, FsType, fstatfs};
use nix::unistd::Whence;

use super::fs_identity::FsIdentity;
use crate::event::FileStat;
use crate::units::DevId;

/// A path that leads to an open file, even after a rename.
pub fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Opens the same file again for reading from its beginning, independent of the position and access
/// mode of `file`.
///
/// # Errors
///
/// Those of `open(2)`.
pub fn reopen(file: &File) -> io::Result<File> {
    File::open(path_of(file))
}

/// Frees the space of a part of a file (`FALLOC_FL_PUNCH_HOLE`); the file keeps its length.
///
/// # Errors
///
/// Those of `fallocate(2)`; `EOPNOTSUPP` if the file system cannot.
pub fn give_back(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    use nix::fcntl::{FallocateFlags, fallocate};
    let number = |it: u64| i64::try_from(it).map_err(io::Error::other);
    let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(file, flags, number(offset)?, number(bytes)?).map_err(io::Error::from)
}

/// Opens an existing file with these `O_*` flags, at this position in bytes; it is neither created
/// nor truncated.
///
/// # Errors
///
/// Those of `open(2)` and `lseek(2)`.
pub fn open_as(path: &Path, flags: u32, offset: u64) -> io::Result<OwnedFd> {
    let changes = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_TRUNC | OFlag::O_TMPFILE;
    let flags = OFlag::from_bits_truncate(flags.cast_signed()) - changes;
    let fd = nix::fcntl::open(path, flags, Mode::empty())?;
    if offset > 0 {
        let offset = i64::try_from(offset).map_err(io::Error::other)?;
        nix::unistd::lseek(&fd, offset, Whence::SeekSet)?;
    }
    Ok(fd)
}

/// Creates a file without a name (`O_TMPFILE`) for reading and writing: it is removed with its last
/// descriptor.
///
/// # Errors
///
/// Those of `open(2)`; `EOPNOTSUPP` if the file system has no such files.
pub fn create_unnamed(directory: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(directory)
}

/// Creates a file in memory, which has no name.
///
/// # Errors
///
/// Those of `memfd_create(2)`.
pub fn create_in_memory(name: &CStr) -> io::Result<File> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    Ok(memfd_create(name, MFdFlags::MFD_CLOEXEC)?.into())
}

/// Clears the umask: files made from now on have exactly the permissions given at their creation.
pub fn give_all_permissions() {
    nix::sys::stat::umask(Mode::empty());
}

/// Free bytes of the directory's file system for unprivileged users.
///
/// # Errors
///
/// Those of `statvfs(3)`.
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    let found = nix::sys::statvfs::statvfs(directory)?;
    Ok(found.blocks_available().saturating_mul(found.fragment_size()))
}

/// True if the file belongs to this process's user, or to the user who called `sudo`.
pub fn is_own(metadata: &fs::Metadata) -> bool {
    metadata.uid() == nix::unistd::geteuid().as_raw()
        || FsIdentity::sudo_caller().is_some_and(|user| user.user() == metadata.uid())
}

/// Makes files created from now on private: a trace of the whole machine has data of all users. The
/// traced program was started before and keeps its own mask.
pub fn keep_private() {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
}

/// Device and inode of an open file: its identity, independent of its name.
///
/// # Errors
///
/// Those of `fstat(2)`.
pub fn identity(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// File systems whose files are made by the kernel: an open or a read may have side effects,
/// although they seem to be regular files.
const OF_KERNEL: [FsType; 8] = [
    statfs::PROC_SUPER_MAGIC,
    statfs::SYSFS_MAGIC,
    statfs::DEBUGFS_MAGIC,
    statfs::TRACEFS_MAGIC,
    statfs::SECURITYFS_MAGIC,
    statfs::CGROUP_SUPER_MAGIC,
    statfs::CGROUP2_SUPER_MAGIC,
    statfs::BPF_FS_MAGIC,
];

/// True if the file belongs to one of these file systems; `file` may be an `O_PATH` descriptor.
///
/// # Errors
///
/// The file system does not respond.
pub fn is_of_kernel(file: impl AsFd) -> nix::Result<bool> {
    Ok(OF_KERNEL.contains(&fstatfs(file)?.filesystem_type()))
}

/// Metadata of the file that `path` leads to, without a query to a file server for data that is not
/// at hand.
pub fn stat_behind(path: &str) -> Option<FileStat> {
    stat_and_mount_behind(OsStr::new(path)).map(|it| it.0)
}

/// Metadata as [`stat_behind`] returns it, and the number of the mount that `path` leads through
/// (as in `/proc/PID/mountinfo`), from Linux 5.8 on.
pub fn stat_and_mount_behind(path: &OsStr) -> Option<(FileStat, Option<u64>)> {
    let path = CString::new(path.as_bytes()).ok()?;
    statx(libc::AT_FDCWD, &path, 0)
}

/// Metadata of an open file, and the number of the mount that it was opened through, from Linux 5.8
/// on.
pub fn stat_and_mount_of(file: BorrowedFd<'_>) -> Option<(FileStat, Option<u64>)> {
    statx(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH)
}

fn statx(directory: RawFd, path: &CStr, flags: libc::c_int) -> Option<(FileStat, Option<u64>)> {
    let mask = libc::STATX_TYPE
        | libc::STATX_MODE
        | libc::STATX_INO
        | libc::STATX_SIZE
        | libc::STATX_MNT_ID;
    // SAFETY: an all-zero statx is a valid value of it.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with NUL; `found` is exclusively ours and as large as the kernel's
    // struct.
    let code = unsafe {
        let flags = flags | libc::AT_STATX_DONT_SYNC;
        libc::statx(directory, path.as_ptr(), flags, mask, &raw mut found)
    };
    let stat = FileStat {
        mode: u32::from(found.stx_mode),
        dev: DevId::new(found.stx_dev_major, found.stx_dev_minor),
        ino: found.stx_ino,
        size: found.stx_size,
    };
    let mount = (found.stx_mask & libc::STATX_MNT_ID != 0).then_some(found.stx_mnt_id);
    (code == 0).then_some((stat, mount))
}
