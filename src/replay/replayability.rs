//! Which calls are done again, and which are not, and why.

use std::fmt;

use crate::event::syscall_table::{Call, Class, Role};

/// Why an operation is not done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SkipReason {
    /// Nobody saw how it ended.
    NoResult,
    /// The name of its file is not known, or not certain.
    NoName,
    /// Its path begins at a directory that is not known.
    NoDirectory,
    /// From the root its path is longer than any that a call can be given.
    TooLong,
    /// It is not known what its descriptor was for.
    NoFile,
    /// Its file is a pipe, a socket, a device, or something without a name.
    NotAFile,
    /// Its file is of `/proc`, `/sys` or `/dev`.
    Kernel,
    /// It makes a pipe, a socket or the like, or works on nothing else.
    Channel,
    /// It is asynchronous, and not all that it asks for is known, or no call does it.
    Asynchronous,
    /// Its descriptor was closed while it was under way.
    Closed,
    /// It is about memory: what is mapped, and what of it is touched.
    Memory,
    /// It changes the owner of a file.
    Owner,
    /// It is about extended attributes.
    Attributes,
    /// It asks a device or a file system for something of its own.
    Ioctl,
    /// It found a file locked, and nobody knows by whom and until when.
    Lock,
    /// It locks parts of a file for its process, and a replay is one process.
    ProcessLock,
    /// It locks parts of a file, and which they are stands in memory.
    RangeLock,
    /// A signal ended it while it waited.
    Interrupted,
    /// It writes out everything that any program has written.
    Machine,
    /// It changes what paths lead to.
    Mounts,
    /// It makes a device.
    Device,
    /// It needs something that nobody who was captured has made, or a call that is not done again.
    Stranger,
    /// It was refused for want of rights: those of the replay are others.
    Rights,
    /// It failed as two file systems were concerned: the replay has one, if nobody asks for more.
    FileSystems,
    /// It failed for want of room, memory or descriptors, by a signal, or as a file was in use.
    Circumstances,
    /// Where in a file it is, or how it opens one, stands in memory, and was not read.
    Unread,
    /// `openat2` was refused because of its `open_how`: the replay makes one of its own.
    OpenHow,
    /// Direct I/O was refused as its buffer may have lain in the wrong place.
    BufferAddress,
    /// It is about a flag of a descriptor that several processes have, each with a flag of its own: the replay has one.
    SharedFlags,
    /// Nothing is known of how it is done again.
    Other,
}

impl SkipReason {
    /// The word for it in outputs for programs.
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
            Self::Stranger => "made-by-others",
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
            Self::NoResult => "nobody saw how they ended",
            Self::NoName => "the name of the file is not known, or not certain",
            Self::NoDirectory => "the path begins at a directory that is not known",
            Self::TooLong => "from the root the path is longer than any that a call can be given",
            Self::NoFile => "it is not known what the descriptor was for",
            Self::NotAFile => "on a pipe, a socket, a device or something without a name",
            Self::Kernel => "on files of /proc, /sys and /dev",
            Self::Channel => "of pipes, sockets and the like",
            Self::Asynchronous => {
                "asynchronous: where in the file, or what, is not known, or no call does it"
            }
            Self::Closed => "asynchronous, and the descriptor was closed meanwhile",
            Self::Memory => "of mapped memory",
            Self::Owner => "change an owner",
            Self::Attributes => "of extended attributes",
            Self::Ioctl => "ioctl",
            Self::Lock => "found a file locked, and nobody knows by whom and until when",
            Self::ProcessLock => {
                "lock parts of files for their process, and a replay is one process"
            }
            Self::RangeLock => "lock parts of files, and the capture does not know which",
            Self::Interrupted => "were ended by a signal while they waited",
            Self::Machine => "write out what any program has written",
            Self::Mounts => "change what paths lead to",
            Self::Device => "make devices",
            Self::Stranger => "on what others made meanwhile, or a call that is not done again",
            Self::Rights => "refused for want of rights, of which the replay has others",
            Self::FileSystems => {
                "failed between two file systems: the replay has one (but see --map)"
            }
            Self::Circumstances => {
                "failed for want of room, memory or descriptors, by a signal, or on a file in use"
            }
            Self::Unread => {
                "where in the file they are, or how they open it, was not read: record with --args exact"
            }
            Self::OpenHow => "openat2 that was refused, or may have been, because of its open_how",
            Self::BufferAddress => {
                "direct I/O that was refused: where the buffers lay in memory is not captured"
            }
            Self::SharedFlags => {
                "about the close-on-exec flag of a descriptor that several processes had"
            }
            Self::Other => "of a kind that is not known",
        })
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It is done again.
    Done,
    /// What it does is in what is done again: where paths begin, whose descriptors are whose.
    Followed,
    /// It is not, for this reason.
    Left(SkipReason),
}

/// What becomes of such a call with these registers.
pub fn treatment(call: &Call, args: &[u64; 6]) -> Treatment {
    use Class as C;
    use Treatment::{Done, Followed, Left};
    match call.class {
        C::Open if call.arg(Role::Path).is_some() && call.arg(Role::Cloexec(0)).is_none() => Done,
        C::Open if call.arg(Role::MemoryFlags).is_some() => Left(SkipReason::Memory),
        C::Open => Left(SkipReason::Mounts),
        C::Close | C::Read | C::Write | C::Seek | C::Dup => Done,
        C::CloseRange | C::Place | C::Process | C::User => Followed,
        C::Control => control(call, args),
        C::Sync if call.arg(Role::Fd).is_some() => Done,
        C::Sync if call.arg(Role::Address).is_some() => Left(SkipReason::Memory),
        C::Sync => Left(SkipReason::Machine),
        // From a file to something else it is done as a `sendfile` (`planner/sinks.rs`).
        C::Transfer if call.name == "splice" => Left(SkipReason::Channel),
        C::Transfer => Done,
        C::Pipe | C::Make(_) | C::MakePair | C::Socket => Left(SkipReason::Channel),
        C::Name if call.name.starts_with("mknod") => node(call, args),
        C::Name | C::Rename | C::Remove | C::Resize | C::List | C::Advise => Done,
        C::Lock => Done,
        C::Root | C::Mount | C::Unshare => Left(SkipReason::Mounts),
        C::Stat | C::Attribute if call.name.contains("xattr") => Left(SkipReason::Attributes),
        C::Attribute if call.name.contains("chown") => Left(SkipReason::Owner),
        C::Stat | C::Attribute => Done,
        C::Ioctl => Left(SkipReason::Ioctl),
        C::Map => Left(SkipReason::Memory),
        C::Async => Left(SkipReason::Asynchronous),
    }
}

/// Why a call that failed in this way is not done again: what it met with in the capture is not made in the replay. It changed nothing.
pub fn excuse(call: &Call, errno: i32) -> Option<SkipReason> {
    match errno {
        libc::EACCES | libc::EPERM => Some(SkipReason::Rights),
        libc::EXDEV => Some(SkipReason::FileSystems),
        // A pipe that nobody reads, a device that is not there.
        libc::ENXIO if call.class == Class::Open => Some(SkipReason::NotAFile),
        // Who waited for a lock is told apart.
        libc::EINTR if call.class == Class::Lock => None,
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EROFS | libc::ENOMEM => {
            Some(SkipReason::Circumstances)
        }
        libc::EMFILE | libc::ENFILE | libc::EINTR | libc::ETXTBSY | libc::EBUSY | libc::EIO => {
            Some(SkipReason::Circumstances)
        }
        _ => None,
    }
}

/// `fcntl`: commands that are numbers only.
fn control(call: &Call, args: &[u64; 6]) -> Treatment {
    let command = call.arg(Role::Command).and_then(|it| i32::try_from(args[it]).ok());
    match command {
        Some(libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => Treatment::Done,
        Some(libc::F_GETFD | libc::F_SETFD | libc::F_GETFL | libc::F_SETFL) => Treatment::Done,
        Some(libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW) => {
            Treatment::Left(SkipReason::ProcessLock)
        }
        Some(libc::F_OFD_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW) => {
            Treatment::Left(SkipReason::RangeLock)
        }
        _ => Treatment::Left(SkipReason::Other),
    }
}

/// `mknod`: files and pipes only, never a device.
fn node(call: &Call, args: &[u64; 6]) -> Treatment {
    let mode = call.arg(Role::Path).and_then(|it| args.get(it + 1)).copied().unwrap_or(0);
    match u32::try_from(mode).map(|it| it & libc::S_IFMT) {
        Ok(0 | libc::S_IFREG | libc::S_IFIFO) => Treatment::Done,
        _ => Treatment::Left(SkipReason::Device),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CALLS;

    #[test]
    fn what_can_leave_the_sandbox_is_left() {
        for name in ["chroot", "pivot_root", "mount", "umount", "unshare", "setns", "move_mount"] {
            let call = CALLS.iter().find(|it| it.name == name).expect(name);
            assert_eq!(treatment(call, &[0; 6]), Treatment::Left(SkipReason::Mounts), "{name}");
        }
        for name in ["mknod", "mknodat"] {
            let call = CALLS.iter().find(|it| it.name == name).expect(name);
            let made = |mode: u32| {
                let mut args = [0; 6];
                args[call.arg(Role::Path).expect("it has one") + 1] = mode.into();
                treatment(call, &args)
            };
            assert_eq!(made(libc::S_IFREG | 0o644), Treatment::Done);
            assert_eq!(made(libc::S_IFCHR | 0o666), Treatment::Left(SkipReason::Device));
            assert_eq!(made(libc::S_IFBLK | 0o666), Treatment::Left(SkipReason::Device));
        }
    }

    /// Fails if a call gets a meaning that nobody has thought of.
    #[test]
    fn every_call_is_done_followed_or_left() {
        let names = |wanted: Treatment| -> Vec<&str> {
            let of = CALLS.iter().filter(|it| treatment(it, &[0; 6]) == wanted);
            of.map(|it| it.name).collect()
        };
        expect_test::expect!["read write open close newstat newfstat newlstat lseek pread64 pwrite64 readv writev access dup dup2 sendfile64 fcntl flock fsync fdatasync truncate ftruncate getdents rename mkdir rmdir creat link unlink symlink readlink chmod fchmod utime mknod statfs fstatfs readahead getdents64 fadvise64 utimes openat mkdirat mknodat futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat sync_file_range utimensat fallocate dup3 preadv pwritev syncfs renameat2 copy_file_range preadv2 pwritev2 statx openat2 faccessat2 fchmodat2"].assert_eq(&names(Treatment::Done).join(" "));
        expect_test::expect!["clone fork vfork execve chdir fchdir setuid setreuid setresuid execveat clone3 close_range"].assert_eq(&names(Treatment::Followed).join(" "));
    }
}
