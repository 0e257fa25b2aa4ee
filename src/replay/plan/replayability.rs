//! Replayability of calls: which are replayed, which are not, and why.

use std::fmt;

use crate::event::registers::command;
use crate::event::syscall_table::{Call, CallClass, Role};

/// Reason why an operation is not replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SkipReason {
    /// Result was not captured.
    NoResult,
    /// Name of the file is unknown or uncertain.
    NoName,
    /// Path is relative to an unknown directory.
    NoDirectory,
    /// Path from the root is longer than a call accepts.
    TooLong,
    /// Target of the descriptor is unknown.
    NoFile,
    /// File is a pipe, a socket, a device, or has no name.
    NotAFile,
    /// File is in `/proc`, `/sys` or `/dev`.
    Kernel,
    /// Operation creates a pipe, a socket or the like, or works on nothing else.
    Channel,
    /// Asynchronous operation that is not fully known, or that no call can execute.
    Asynchronous,
    /// Descriptor was closed while the operation was in flight.
    Closed,
    /// Operation concerns memory: mappings, and pages that are touched.
    Memory,
    /// Operation changes the owner of a file.
    Owner,
    /// Operation concerns extended attributes.
    Attributes,
    /// `ioctl` that is specific to a device or a file system.
    Ioctl,
    /// Operation found a file locked; holder and duration are unknown.
    Lock,
    /// Lock of a file range that belongs to the process, and a replay is one process.
    ProcessLock,
    /// Lock of a file range that is passed in memory.
    RangeLock,
    /// Operation was interrupted by a signal while it waited.
    Interrupted,
    /// Operation writes out the data of all programs.
    Machine,
    /// Operation changes what paths lead to.
    Mounts,
    /// Operation creates a device.
    Device,
    /// Operation needs something created outside the capture, or by a call that is not replayed.
    CreatedExternally,
    /// Operation was refused for lack of rights, which differ in the replay.
    Rights,
    /// Operation failed because it concerns two file systems: the replay has one by default.
    FileSystems,
    /// Operation failed for lack of room, memory or descriptors, because of a signal, or because a
    /// file was in use.
    Circumstances,
    /// Offset or open flags are passed in memory and were not read.
    Unread,
    /// `openat2` was refused because of its `open_how`, which the replay does not reproduce.
    OpenHow,
    /// Direct I/O was refused, possibly because of the address of its buffer.
    BufferAddress,
    /// Operation concerns a flag of a descriptor that several processes have, each with a flag of
    /// its own; the replay has one.
    SharedFlags,
    /// Replay does not support the operation.
    Other,
}

impl SkipReason {
    /// Returns the word for the reason in machine-readable outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoResult => "no-result",
            Self::NoName => "name-unknown",
            Self::NoDirectory => "directory-unknown",
            Self::TooLong => "path-too-long",
            Self::NoFile => "descriptor-unknown",
            Self::NotAFile => "not-a-file",
            Self::Kernel => "kernel-file",
            Self::Channel => "channel",
            Self::Asynchronous => "asynchronous",
            Self::Closed => "descriptor-closed",
            Self::Memory => "memory",
            Self::Owner => "owner",
            Self::Attributes => "extended-attributes",
            Self::Ioctl => "ioctl",
            Self::Lock => "lock-unexplained",
            Self::ProcessLock => "process-lock",
            Self::RangeLock => "range-lock",
            Self::Interrupted => "interrupted",
            Self::Machine => "whole-machine",
            Self::Mounts => "mounts",
            Self::Device => "makes-a-device",
            Self::CreatedExternally => "made-by-others",
            Self::Rights => "rights",
            Self::FileSystems => "file-systems",
            Self::Circumstances => "circumstances",
            Self::Unread => "argument-unread",
            Self::OpenHow => "open-how",
            Self::BufferAddress => "buffer-address",
            Self::SharedFlags => "descriptor-shared",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoResult => "their result is unknown",
            Self::NoName => "the name of the file is unknown, or uncertain",
            Self::NoDirectory => "the path begins at an unknown directory",
            Self::TooLong => "from the root the path is longer than a call accepts",
            Self::NoFile => "the file of the descriptor is unknown",
            Self::NotAFile => "on a pipe, a socket, a device or something without a name",
            Self::Kernel => "on files of /proc, /sys and /dev",
            Self::Channel => "of pipes, sockets and the like",
            Self::Asynchronous => {
                "asynchronous: the offset in the file or the operation is unknown, or no call executes it"
            }
            Self::Closed => "asynchronous, and the descriptor was closed meanwhile",
            Self::Memory => "on memory mappings",
            Self::Owner => "change an owner",
            Self::Attributes => "of extended attributes",
            Self::Ioctl => "ioctl",
            Self::Lock => "found a file locked; the holder of the lock is unknown",
            Self::ProcessLock => {
                "lock parts of files for their process, and a replay is one process"
            }
            Self::RangeLock => "lock parts of files, and the parts are unknown",
            Self::Interrupted => "were ended by a signal while they waited",
            Self::Machine => "write out the data of all programs",
            Self::Mounts => "change what paths lead to",
            Self::Device => "make devices",
            Self::CreatedExternally => {
                "need files that others made meanwhile, or a call that is not replayed"
            }
            Self::Rights => "refused for lack of rights, which differ in the replay",
            Self::FileSystems => {
                "failed between two file systems: the replay has one (but see --map)"
            }
            Self::Circumstances => {
                "failed for lack of room, memory or descriptors, by a signal, or on a file in use"
            }
            Self::Unread => {
                "their offset in the file, or how they open it, was not read: record with --args exact"
            }
            Self::OpenHow => "openat2 that was refused, or may have been, because of its open_how",
            Self::BufferAddress => {
                "direct I/O that was refused: the addresses of its buffers are not captured"
            }
            Self::SharedFlags => {
                "on the close-on-exec flag of a descriptor that several processes had"
            }
            Self::Other => "of an unknown kind",
        })
    }
}

/// Treatment of a call in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Replayed as a call.
    Done,
    /// Followed: the effect is contained in replayed calls, such as the directory that paths begin
    /// at, or the owner of a descriptor.
    ModelOnly,
    /// Skipped, for this reason.
    Skipped(SkipReason),
}

/// Returns the treatment of a call with these registers.
pub fn treatment(call: &Call, args: &[u64; 6]) -> Treatment {
    use CallClass as C;
    use Treatment::{Done, ModelOnly, Skipped};
    match call.class {
        C::Open if call.arg(Role::Path).is_some() && call.arg(Role::Cloexec(0)).is_none() => Done,
        C::Open if call.arg(Role::MemoryFlags).is_some() => Skipped(SkipReason::Memory),
        C::Open => Skipped(SkipReason::Mounts),
        C::Close | C::Read | C::Write | C::Seek | C::Dup => Done,
        C::CloseRange | C::Place | C::Process | C::User => ModelOnly,
        C::Control => control(call, args),
        C::Sync if call.arg(Role::Fd).is_some() => Done,
        C::Sync if call.arg(Role::Address).is_some() => Skipped(SkipReason::Memory),
        C::Sync => Skipped(SkipReason::Machine),
        // A transfer from a file to something else is replayed as a `sendfile`
        // (`planner/sinks.rs`).
        C::Transfer if call.name == "splice" => Skipped(SkipReason::Channel),
        C::Transfer => Done,
        C::Pipe | C::Make(_) | C::MakePair | C::Socket => Skipped(SkipReason::Channel),
        C::Name if call.name.starts_with("mknod") => node(call, args),
        C::Name | C::Rename | C::Remove | C::Resize | C::List | C::Advise => Done,
        C::Lock => Done,
        C::Root | C::Mount | C::Unshare => Skipped(SkipReason::Mounts),
        C::Stat | C::Attribute if call.name.contains("xattr") => Skipped(SkipReason::Attributes),
        C::Attribute if call.name.contains("chown") => Skipped(SkipReason::Owner),
        C::Stat | C::Attribute => Done,
        C::Ioctl => Skipped(SkipReason::Ioctl),
        C::Map => Skipped(SkipReason::Memory),
        C::Async => Skipped(SkipReason::Asynchronous),
    }
}

/// Returns the reason why a call that failed with this error is not replayed: the replay does not
/// reproduce its cause. Such a call changed nothing.
pub fn environment_failure(call: &Call, errno: i32) -> Option<SkipReason> {
    match errno {
        libc::EACCES | libc::EPERM => Some(SkipReason::Rights),
        libc::EXDEV => Some(SkipReason::FileSystems),
        // A FIFO without a reader, or a device that does not exist.
        libc::ENXIO if call.class == CallClass::Open => Some(SkipReason::NotAFile),
        // Calls that waited for a lock are treated separately.
        libc::EINTR if call.class == CallClass::Lock => None,
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EROFS | libc::ENOMEM => {
            Some(SkipReason::Circumstances)
        }
        libc::EMFILE | libc::ENFILE | libc::EINTR | libc::ETXTBSY | libc::EBUSY | libc::EIO => {
            Some(SkipReason::Circumstances)
        }
        _ => None,
    }
}

/// Returns the treatment of an `fcntl`: commands without memory arguments are replayed.
fn control(call: &Call, args: &[u64; 6]) -> Treatment {
    match command(call, args) {
        Some(libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => Treatment::Done,
        Some(libc::F_GETFD | libc::F_SETFD | libc::F_GETFL | libc::F_SETFL) => Treatment::Done,
        Some(libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW) => {
            Treatment::Skipped(SkipReason::ProcessLock)
        }
        Some(libc::F_OFD_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW) => {
            Treatment::Skipped(SkipReason::RangeLock)
        }
        _ => Treatment::Skipped(SkipReason::Other),
    }
}

/// Returns the treatment of a `mknod`: files and FIFOs only, never devices.
fn node(call: &Call, args: &[u64; 6]) -> Treatment {
    let mode = call.arg(Role::Path).and_then(|it| args.get(it + 1)).copied().unwrap_or(0);
    match u32::try_from(mode).map(|it| it & libc::S_IFMT) {
        Ok(0 | libc::S_IFREG | libc::S_IFIFO) => Treatment::Done,
        _ => Treatment::Skipped(SkipReason::Device),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CALLS;

    #[test]
    fn calls_that_leave_the_sandbox_are_left_out() {
        for name in ["chroot", "pivot_root", "mount", "umount", "unshare", "setns", "move_mount"] {
            let call = CALLS.iter().find(|it| it.name == name).expect(name);
            assert_eq!(treatment(call, &[0; 6]), Treatment::Skipped(SkipReason::Mounts), "{name}");
        }
        for name in ["mknod", "mknodat"] {
            let call = CALLS.iter().find(|it| it.name == name).expect(name);
            let made = |mode: u32| {
                let mut args = [0; 6];
                args[call.arg(Role::Path).expect("it has one") + 1] = mode.into();
                treatment(call, &args)
            };
            assert_eq!(made(libc::S_IFREG | 0o644), Treatment::Done);
            assert_eq!(made(libc::S_IFCHR | 0o666), Treatment::Skipped(SkipReason::Device));
            assert_eq!(made(libc::S_IFBLK | 0o666), Treatment::Skipped(SkipReason::Device));
        }
    }

    /// Fails if a call gets a treatment by accident.
    #[test]
    fn every_call_is_done_followed_or_left() {
        let names = |wanted: Treatment| -> Vec<&str> {
            let of = CALLS.iter().filter(|it| treatment(it, &[0; 6]) == wanted);
            of.map(|it| it.name).collect()
        };
        expect_test::expect!["read write open close newstat newfstat newlstat lseek pread64 pwrite64 readv writev access dup dup2 sendfile64 fcntl flock fsync fdatasync truncate ftruncate getdents rename mkdir rmdir creat link unlink symlink readlink chmod fchmod utime mknod statfs fstatfs readahead getdents64 fadvise64 utimes openat mkdirat mknodat futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat sync_file_range utimensat fallocate dup3 preadv pwritev syncfs renameat2 copy_file_range preadv2 pwritev2 statx openat2 faccessat2 fchmodat2"].assert_eq(&names(Treatment::Done).join(" "));
        expect_test::expect!["clone fork vfork execve chdir fchdir setuid setreuid setresuid execveat clone3 close_range"].assert_eq(&names(Treatment::ModelOnly).join(" "));
    }
}
