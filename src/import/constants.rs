//! Names and values of system call constants, as strace prints them and the kernel's headers define
//! them.

use rustc_hash::FxHashMap;

use crate::text::errno::ErrnoName;

/// Numbers of errors with names, including those that the kernel uses only internally.
const ERRNO_MAX: i32 = 530;

/// Flag for an open of a directory on x86-64, which the imported log has as its architecture; arm64
/// has another one (`O_DIRECTORY` in `arch/arm64/include/uapi/asm/fcntl.h`).
pub(super) const O_DIRECTORY: u32 = 0o200_000;

/// Constants that strace prints, with their values.
macro_rules! words {
    ($($name:ident)*) => { [$((stringify!($name), number(libc::$name as i64))),*] };
}

const fn number(value: i64) -> u64 {
    value.cast_unsigned()
}

/// Constants of the C library that are the same on each architecture and in each C library that
/// this program is built for.
#[rustfmt::skip]
#[expect(clippy::cast_possible_wrap, reason = "constants of many types, none of them as large")]
static OF_LIBC: &[(&str, u64)] = &words![
    O_RDONLY O_WRONLY O_RDWR O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_SYNC O_DSYNC O_ASYNC
    O_NOATIME O_CLOEXEC O_PATH
    AT_FDCWD AT_EMPTY_PATH AT_SYMLINK_NOFOLLOW AT_SYMLINK_FOLLOW AT_REMOVEDIR AT_NO_AUTOMOUNT AT_EACCESS
    AT_STATX_SYNC_AS_STAT AT_STATX_FORCE_SYNC AT_STATX_DONT_SYNC AT_RECURSIVE
    SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE
    F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN F_OFD_GETLK F_OFD_SETLK
    F_OFD_SETLKW F_SETLEASE F_GETLEASE F_NOTIFY F_DUPFD_CLOEXEC F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS
    FD_CLOEXEC F_OK R_OK W_OK X_OK
    S_IFREG S_IFDIR S_IFLNK S_IFCHR S_IFBLK S_IFIFO S_IFSOCK S_ISUID S_ISGID S_ISVTX
    MAP_SHARED MAP_PRIVATE MAP_SHARED_VALIDATE MAP_FIXED MAP_ANONYMOUS MAP_NORESERVE MAP_POPULATE MAP_STACK MAP_LOCKED
    MAP_NONBLOCK MAP_HUGETLB MAP_SYNC MAP_FIXED_NOREPLACE MAP_GROWSDOWN MAP_DENYWRITE MAP_EXECUTABLE
    MREMAP_MAYMOVE MREMAP_FIXED MREMAP_DONTUNMAP PROT_NONE PROT_READ PROT_WRITE PROT_EXEC
    MS_ASYNC MS_SYNC MS_INVALIDATE MADV_NORMAL MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MADV_DONTNEED MADV_FREE
    POSIX_FADV_NORMAL POSIX_FADV_RANDOM POSIX_FADV_SEQUENTIAL POSIX_FADV_WILLNEED POSIX_FADV_DONTNEED POSIX_FADV_NOREUSE
    RWF_HIPRI RWF_DSYNC RWF_SYNC RWF_NOWAIT RWF_APPEND
    RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT
    FALLOC_FL_KEEP_SIZE FALLOC_FL_PUNCH_HOLE FALLOC_FL_COLLAPSE_RANGE FALLOC_FL_ZERO_RANGE FALLOC_FL_INSERT_RANGE
    FALLOC_FL_UNSHARE_RANGE
    SYNC_FILE_RANGE_WAIT_BEFORE SYNC_FILE_RANGE_WRITE SYNC_FILE_RANGE_WAIT_AFTER
    CLOSE_RANGE_UNSHARE CLOSE_RANGE_CLOEXEC MFD_CLOEXEC MFD_ALLOW_SEALING MFD_HUGETLB
    SOCK_CLOEXEC SOCK_NONBLOCK SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_SEQPACKET
    EFD_CLOEXEC EFD_NONBLOCK EFD_SEMAPHORE EPOLL_CLOEXEC TFD_CLOEXEC TFD_NONBLOCK SFD_CLOEXEC SFD_NONBLOCK IN_CLOEXEC
    IN_NONBLOCK
    CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_PIDFD CLONE_PTRACE CLONE_VFORK CLONE_PARENT CLONE_THREAD CLONE_NEWNS
    CLONE_SYSVSEM CLONE_SETTLS CLONE_PARENT_SETTID CLONE_CHILD_CLEARTID CLONE_UNTRACED CLONE_CHILD_SETTID
    CLONE_NEWCGROUP CLONE_NEWUTS CLONE_NEWIPC CLONE_NEWUSER CLONE_NEWPID CLONE_NEWNET CLONE_IO
    LOCK_SH LOCK_EX LOCK_UN LOCK_NB
    SIGCHLD STATX_BASIC_STATS STATX_TYPE STATX_MODE STATX_NLINK STATX_UID STATX_GID STATX_ATIME STATX_MTIME STATX_CTIME
    STATX_INO STATX_SIZE STATX_BLOCKS STATX_BTIME STATX_ALL STATX_MNT_ID
    MS_RDONLY MS_NOSUID MS_NODEV MS_NOEXEC MS_REMOUNT MS_BIND MS_MOVE MS_REC MS_SILENT MS_PRIVATE MS_SLAVE MS_SHARED
    MS_RELATIME AF_UNIX AF_INET AF_INET6 AF_NETLINK SPLICE_F_MOVE SPLICE_F_NONBLOCK SPLICE_F_MORE GRND_NONBLOCK
    XATTR_CREATE XATTR_REPLACE
    RESOLVE_NO_XDEV RESOLVE_NO_MAGICLINKS RESOLVE_NO_SYMLINKS RESOLVE_BENEATH RESOLVE_IN_ROOT RESOLVE_CACHED
];

/// Constants beyond those of the C library, with their x86-64 values. arm64 has other values for
/// some (`arch/arm64/include/uapi/asm/fcntl.h`), and no other architecture has `MAP_32BIT`; musl
/// has another `O_ACCMODE`; C libraries define `O_LARGEFILE` as 0 on 64-bit machines
/// (`include/uapi/asm-generic/fcntl.h`), and strace prints a flag of `ioctl` before others
/// (`include/uapi/linux/fs.h`).
static OTHERS: &[(&str, u64)] = &[
    ("O_ACCMODE", 3),
    ("O_DIRECT", 0o40_000),
    ("O_LARGEFILE", 0o100_000),
    ("O_DIRECTORY", O_DIRECTORY as u64),
    ("O_NOFOLLOW", 0o400_000),
    ("O_TMPFILE", 0o20_000_000 | O_DIRECTORY as u64),
    ("MAP_32BIT", 0x40),
    ("FICLONE", 0x4004_9409),
    ("BTRFS_IOC_CLONE or FICLONE", 0x4004_9409),
    ("STATX_MNT_ID_UNIQUE", 0x4000),
    ("STATX_DIOALIGN", 0x2000),
    ("IORING_REGISTER_FILES", 2),
    ("NULL", 0),
];

/// Lookup of constants by name.
#[derive(Debug)]
pub(super) struct ConstantTable {
    values: FxHashMap<&'static str, u64>,
    errors: FxHashMap<String, i32>,
}

impl ConstantTable {
    pub(super) fn new() -> Self {
        let errors = (1..=ERRNO_MAX).map(|number| (ErrnoName(number).to_string(), number));
        let other_names = [
            ("EWOULDBLOCK", libc::EAGAIN),
            ("EDEADLOCK", libc::EDEADLK),
            ("EOPNOTSUPP", libc::EOPNOTSUPP),
        ];
        let other_names = other_names.map(|(name, number)| (name.to_owned(), number));
        Self {
            values: OF_LIBC.iter().chain(OTHERS).copied().collect(),
            errors: errors.chain(other_names).collect(),
        }
    }

    /// Value of a constant.
    pub(super) fn value(&self, word: &[u8]) -> Option<u64> {
        self.values.get(std::str::from_utf8(word).ok()?).copied()
    }

    /// Number of an error.
    pub(super) fn errno(&self, name: &[u8]) -> Option<i32> {
        self.errors.get(std::str::from_utf8(name).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_values_of_the_headers() {
        let words = ConstantTable::new();
        for (word, value) in [
            ("O_RDWR", 2),
            ("O_CREAT", 0o100),
            ("O_ACCMODE", 3),
            ("O_DIRECT", 0x4000),
            ("O_DIRECTORY", 0x1_0000),
            ("O_NOFOLLOW", 0x2_0000),
            ("O_TMPFILE", 0o20_200_000),
            ("MAP_32BIT", 0x40),
            ("AT_FDCWD", (-100_i64).cast_unsigned()),
            ("AT_REMOVEDIR", 0x200),
            ("F_DUPFD_CLOEXEC", 1030),
            ("CLONE_THREAD", 0x10000),
            ("O_LARGEFILE", 0o100_000),
        ] {
            assert_eq!(words.value(word.as_bytes()), Some(value), "{word}");
        }
        assert_eq!(words.value(b"O_NEVER"), None);
        assert_eq!(words.errno(b"ENOENT"), Some(2));
        assert_eq!(words.errno(b"EAGAIN"), words.errno(b"EWOULDBLOCK"));
        assert_eq!(words.errno(b"ERESTARTSYS"), Some(512));
        assert_eq!(words.errno(b"ERESTART_RESTARTBLOCK"), Some(516));
        assert_eq!(words.errno(b"EWHAT"), None);
    }
}
