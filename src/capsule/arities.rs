//! Arities of system calls: the registers beyond them hold remains of the program.

use crate::event::syscall_table::{CALLS, Call};

/// Calls by their number of arguments (`SYSCALL_DEFINE`), those with none first.
#[rustfmt::skip]
const BY_ARITY: [&[&str]; 7] = [
    &[
        "fork", "inotify_init", "sync", "vfork",
    ],
    &[
        "chdir", "chroot", "close", "dup", "epoll_create", "epoll_create1", "eventfd",
        "fchdir", "fdatasync", "fsync", "inotify_init1", "io_destroy", "memfd_secret",
        "pipe", "rmdir", "setuid", "syncfs", "unlink", "unshare", "userfaultfd",
    ],
    &[
        "access", "chmod", "clone3", "creat", "dup2", "eventfd2", "fanotify_init",
        "fchmod", "flock", "fremovexattr", "fsopen", "fstatfs", "ftruncate", "io_setup",
        "io_uring_setup", "link", "lremovexattr", "memfd_create", "mkdir", "munmap",
        "newfstat", "newlstat", "newstat", "pidfd_open", "pipe2", "pivot_root",
        "removexattr", "rename", "setns", "setreuid", "statfs", "symlink",
        "timerfd_create", "truncate", "umount", "utime", "utimes",
    ],
    &[
        "accept", "bpf", "chown", "close_range", "connect", "dup3", "execve", "faccessat",
        "fchmodat", "fchown", "fcntl", "flistxattr", "fsmount", "fspick", "futimesat",
        "getdents", "getdents64", "io_cancel", "io_submit", "ioctl",
        "landlock_create_ruleset", "lchown", "listxattr", "llistxattr", "lseek",
        "madvise", "mkdirat", "mknod", "msync", "open", "open_by_handle_at", "open_tree",
        "pidfd_getfd", "read", "readahead", "readlink", "readv", "recvmsg", "seccomp",
        "sendmsg", "setresuid", "signalfd", "socket", "symlinkat", "unlinkat", "write",
        "writev",
    ],
    &[
        "accept4", "faccessat2", "fadvise64", "fallocate", "fchmodat2", "fgetxattr",
        "getxattr", "io_uring_register", "lgetxattr", "mknodat", "mq_open", "newfstatat",
        "openat", "openat2", "pread64", "pwrite64", "readlinkat", "removexattrat",
        "renameat", "sendfile64", "sendmmsg", "signalfd4", "socketpair",
        "sync_file_range", "tee", "utimensat", "vmsplice",
    ],
    &[
        "clone", "execveat", "fchownat", "fsetxattr", "io_getevents", "linkat",
        "listxattrat", "lsetxattr", "mount", "move_mount", "mremap", "open_tree_attr",
        "perf_event_open", "preadv", "pwritev", "recvmmsg", "renameat2", "setxattr",
        "statx",
    ],
    &[
        "copy_file_range", "getxattrat", "io_pgetevents", "io_uring_enter", "mmap",
        "preadv2", "pwritev2", "recvfrom", "sendto", "setxattrat", "splice",
    ],
];

/// Commands of `fcntl` without an argument: `F_GETFD`, `F_GETFL`, `F_GETOWN`, `F_GETSIG`,
/// `F_GETLEASE`, `F_GETPIPE_SZ`, `F_GET_SEALS`.
const COMMANDS_ALONE: [u64; 7] = [1, 3, 9, 11, 1025, 1032, 1034];

/// Returns the call of a number on a machine of this kind.
pub(super) fn call(machine: &str, number: u64) -> Option<&'static Call> {
    let number = u32::try_from(number).ok()?;
    CALLS.iter().find(|call| call.number(machine) == Some(number))
}

/// Returns the number of arguments that a call uses; 0 for an unknown one.
pub(super) fn used(call: &Call, args: [u64; 6]) -> usize {
    let [_, second, third, ..] = args;
    let creates = |flags: u64| {
        let creating = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY).cast_unsigned();
        flags & u64::from(creating) != 0
    };
    match call.name {
        "fcntl" if COMMANDS_ALONE.contains(&(second & u64::from(u32::MAX))) => 2,
        "open" if !creates(second) => 2,
        "openat" if !creates(third) => 3,
        name => BY_ARITY.iter().position(|names| names.contains(&name)).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::Role;

    #[test]
    fn each_call_has_one_arity_that_spans_its_roles() {
        for call in CALLS {
            let rows = BY_ARITY.iter().filter(|names| names.contains(&call.name)).count();
            assert_eq!(rows, 1, "{}", call.name);
            let last = call.args.iter().rposition(|role| *role != Role::Opaque);
            let all = [0, u64::MAX, u64::MAX, 0, 0, 0];
            let spanned = last.map_or(0, |last| last + 1);
            assert!(used(call, all) >= spanned, "{}: {spanned}", call.name);
        }
    }

    #[test]
    fn arguments_that_a_command_does_not_take_are_unused() {
        let fcntl = call("x86_64", 72).expect("fcntl");
        assert_eq!([used(fcntl, [3, 3, 9, 0, 0, 0]), used(fcntl, [3, 4, 9, 0, 0, 0])], [2, 3]);
        let openat = call("aarch64", 56).expect("openat");
        let flags = [0, libc::O_CREAT, libc::O_TMPFILE, libc::O_DIRECTORY];
        let used =
            flags.map(|flags| used(openat, [0, 0, u64::from(flags.cast_unsigned()), 7, 7, 7]));
        assert_eq!(used, [3, 4, 4, 3]);
        assert!(call("x86_64", 99_999).is_none() && call("other", 0).is_none());
    }
}
