//! Tests of the rows against the C library's headers.

use super::*;

/// Calls for which the library has no constants yet.
const NOT_IN_LIBC: [&str; 6] =
    ["io_pgetevents", "setxattrat", "getxattrat", "listxattrat", "removexattrat", "open_tree_attr"];

/// Constants of the C library.
const NUMBERS: &[(&str, libc::c_long)] = &[
    ("read", libc::SYS_read),
    ("write", libc::SYS_write),
    ("close", libc::SYS_close),
    ("newfstat", libc::SYS_fstat),
    ("lseek", libc::SYS_lseek),
    ("mmap", libc::SYS_mmap),
    ("munmap", libc::SYS_munmap),
    ("ioctl", libc::SYS_ioctl),
    ("pread64", libc::SYS_pread64),
    ("pwrite64", libc::SYS_pwrite64),
    ("readv", libc::SYS_readv),
    ("writev", libc::SYS_writev),
    ("mremap", libc::SYS_mremap),
    ("msync", libc::SYS_msync),
    ("madvise", libc::SYS_madvise),
    ("dup", libc::SYS_dup),
    ("sendfile64", libc::SYS_sendfile),
    ("socket", libc::SYS_socket),
    ("connect", libc::SYS_connect),
    ("accept", libc::SYS_accept),
    ("sendto", libc::SYS_sendto),
    ("recvfrom", libc::SYS_recvfrom),
    ("sendmsg", libc::SYS_sendmsg),
    ("recvmsg", libc::SYS_recvmsg),
    ("socketpair", libc::SYS_socketpair),
    ("bpf", libc::SYS_bpf),
    ("seccomp", libc::SYS_seccomp),
    ("fspick", libc::SYS_fspick),
    ("pivot_root", libc::SYS_pivot_root),
    ("mount", libc::SYS_mount),
    ("umount", libc::SYS_umount2),
    ("setns", libc::SYS_setns),
    ("move_mount", libc::SYS_move_mount),
    ("clone", libc::SYS_clone),
    ("execve", libc::SYS_execve),
    ("fcntl", libc::SYS_fcntl),
    ("flock", libc::SYS_flock),
    ("fsync", libc::SYS_fsync),
    ("fdatasync", libc::SYS_fdatasync),
    ("truncate", libc::SYS_truncate),
    ("ftruncate", libc::SYS_ftruncate),
    ("chdir", libc::SYS_chdir),
    ("fchdir", libc::SYS_fchdir),
    ("fchmod", libc::SYS_fchmod),
    ("fchown", libc::SYS_fchown),
    ("statfs", libc::SYS_statfs),
    ("fstatfs", libc::SYS_fstatfs),
    ("chroot", libc::SYS_chroot),
    ("setreuid", libc::SYS_setreuid),
    ("setresuid", libc::SYS_setresuid),
    ("setuid", libc::SYS_setuid),
    ("sync", libc::SYS_sync),
    ("readahead", libc::SYS_readahead),
    ("setxattr", libc::SYS_setxattr),
    ("lsetxattr", libc::SYS_lsetxattr),
    ("fsetxattr", libc::SYS_fsetxattr),
    ("getxattr", libc::SYS_getxattr),
    ("lgetxattr", libc::SYS_lgetxattr),
    ("fgetxattr", libc::SYS_fgetxattr),
    ("listxattr", libc::SYS_listxattr),
    ("llistxattr", libc::SYS_llistxattr),
    ("flistxattr", libc::SYS_flistxattr),
    ("removexattr", libc::SYS_removexattr),
    ("lremovexattr", libc::SYS_lremovexattr),
    ("fremovexattr", libc::SYS_fremovexattr),
    ("io_setup", libc::SYS_io_setup),
    ("io_destroy", libc::SYS_io_destroy),
    ("io_getevents", libc::SYS_io_getevents),
    ("io_submit", libc::SYS_io_submit),
    ("io_cancel", libc::SYS_io_cancel),
    ("getdents64", libc::SYS_getdents64),
    ("fadvise64", libc::SYS_fadvise64),
    ("mq_open", libc::SYS_mq_open),
    ("openat", libc::SYS_openat),
    ("mkdirat", libc::SYS_mkdirat),
    ("mknodat", libc::SYS_mknodat),
    ("fchownat", libc::SYS_fchownat),
    ("newfstatat", libc::SYS_newfstatat),
    ("unlinkat", libc::SYS_unlinkat),
    ("renameat", libc::SYS_renameat),
    ("linkat", libc::SYS_linkat),
    ("symlinkat", libc::SYS_symlinkat),
    ("readlinkat", libc::SYS_readlinkat),
    ("fchmodat", libc::SYS_fchmodat),
    ("faccessat", libc::SYS_faccessat),
    ("unshare", libc::SYS_unshare),
    ("splice", libc::SYS_splice),
    ("tee", libc::SYS_tee),
    ("sync_file_range", libc::SYS_sync_file_range),
    ("vmsplice", libc::SYS_vmsplice),
    ("utimensat", libc::SYS_utimensat),
    ("timerfd_create", libc::SYS_timerfd_create),
    ("fallocate", libc::SYS_fallocate),
    ("accept4", libc::SYS_accept4),
    ("signalfd4", libc::SYS_signalfd4),
    ("eventfd2", libc::SYS_eventfd2),
    ("epoll_create1", libc::SYS_epoll_create1),
    ("dup3", libc::SYS_dup3),
    ("pipe2", libc::SYS_pipe2),
    ("inotify_init1", libc::SYS_inotify_init1),
    ("preadv", libc::SYS_preadv),
    ("pwritev", libc::SYS_pwritev),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("recvmmsg", libc::SYS_recvmmsg),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("syncfs", libc::SYS_syncfs),
    ("sendmmsg", libc::SYS_sendmmsg),
    ("renameat2", libc::SYS_renameat2),
    ("memfd_create", libc::SYS_memfd_create),
    ("execveat", libc::SYS_execveat),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("copy_file_range", libc::SYS_copy_file_range),
    ("preadv2", libc::SYS_preadv2),
    ("pwritev2", libc::SYS_pwritev2),
    ("statx", libc::SYS_statx),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("open_tree", libc::SYS_open_tree),
    ("fsopen", libc::SYS_fsopen),
    ("fsmount", libc::SYS_fsmount),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("clone3", libc::SYS_clone3),
    ("close_range", libc::SYS_close_range),
    ("openat2", libc::SYS_openat2),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("faccessat2", libc::SYS_faccessat2),
    ("landlock_create_ruleset", libc::SYS_landlock_create_ruleset),
    ("memfd_secret", libc::SYS_memfd_secret),
    ("fchmodat2", libc::SYS_fchmodat2),
    #[cfg(target_arch = "x86_64")]
    ("open", libc::SYS_open),
    #[cfg(target_arch = "x86_64")]
    ("newstat", libc::SYS_stat),
    #[cfg(target_arch = "x86_64")]
    ("newlstat", libc::SYS_lstat),
    #[cfg(target_arch = "x86_64")]
    ("access", libc::SYS_access),
    #[cfg(target_arch = "x86_64")]
    ("pipe", libc::SYS_pipe),
    #[cfg(target_arch = "x86_64")]
    ("dup2", libc::SYS_dup2),
    #[cfg(target_arch = "x86_64")]
    ("fork", libc::SYS_fork),
    #[cfg(target_arch = "x86_64")]
    ("vfork", libc::SYS_vfork),
    #[cfg(target_arch = "x86_64")]
    ("getdents", libc::SYS_getdents),
    #[cfg(target_arch = "x86_64")]
    ("rename", libc::SYS_rename),
    #[cfg(target_arch = "x86_64")]
    ("mkdir", libc::SYS_mkdir),
    #[cfg(target_arch = "x86_64")]
    ("rmdir", libc::SYS_rmdir),
    #[cfg(target_arch = "x86_64")]
    ("creat", libc::SYS_creat),
    #[cfg(target_arch = "x86_64")]
    ("link", libc::SYS_link),
    #[cfg(target_arch = "x86_64")]
    ("unlink", libc::SYS_unlink),
    #[cfg(target_arch = "x86_64")]
    ("symlink", libc::SYS_symlink),
    #[cfg(target_arch = "x86_64")]
    ("readlink", libc::SYS_readlink),
    #[cfg(target_arch = "x86_64")]
    ("chmod", libc::SYS_chmod),
    #[cfg(target_arch = "x86_64")]
    ("chown", libc::SYS_chown),
    #[cfg(target_arch = "x86_64")]
    ("lchown", libc::SYS_lchown),
    #[cfg(target_arch = "x86_64")]
    ("utime", libc::SYS_utime),
    #[cfg(target_arch = "x86_64")]
    ("mknod", libc::SYS_mknod),
    #[cfg(target_arch = "x86_64")]
    ("epoll_create", libc::SYS_epoll_create),
    #[cfg(target_arch = "x86_64")]
    ("utimes", libc::SYS_utimes),
    #[cfg(target_arch = "x86_64")]
    ("inotify_init", libc::SYS_inotify_init),
    #[cfg(target_arch = "x86_64")]
    ("futimesat", libc::SYS_futimesat),
    #[cfg(target_arch = "x86_64")]
    ("signalfd", libc::SYS_signalfd),
    #[cfg(target_arch = "x86_64")]
    ("eventfd", libc::SYS_eventfd),
];

#[test]
fn numbers_are_those_of_the_headers() {
    for &(name, number) in NUMBERS {
        let call = CallId::by_name(name).expect(name).call();
        assert_eq!(call.number(std::env::consts::ARCH).map(i64::from), Some(number), "{name}");
    }
    #[cfg(target_arch = "x86_64")]
    assert_eq!(NUMBERS.len() + NOT_IN_LIBC.len(), CALLS.len(), "a row is not checked");
}

#[test]
fn rows_are_in_the_order_of_their_numbers() {
    assert!(CALLS.is_sorted_by_key(|it| it.x86_64));
    let mut generic: Vec<u32> = CALLS.iter().filter_map(|it| it.generic).collect();
    generic.sort_unstable();
    assert!(generic.windows(2).all(|it| it[0] < it[1]), "a number occurs twice");
}

#[test]
fn every_group_has_calls_and_every_call_a_group() {
    let groups: Vec<&str> = GROUPS.iter().map(|it| it.0).collect();
    assert!(CALLS.iter().all(|it| groups.contains(&it.class.group())));
    for group in groups {
        assert!(CALLS.iter().any(|it| it.class.group() == group), "{group}");
    }
}

#[test]
fn call_is_found_by_its_common_name() {
    let name = |it: &str| CallId::by_common_name(it).map(|it| it.call().name);
    assert_eq!(name("stat"), Some("newstat"));
    assert_eq!(name("sendfile"), Some("sendfile64"));
    assert_eq!(name("pread64"), Some("pread64"));
    assert_eq!(name("pread"), Some("pread64"));
    assert_eq!(name("nosuchcall"), None);
}

#[test]
fn data_read_with_a_call_follows_from_its_row() {
    for call in CALLS {
        let is_read = call.has_path() || call.has_names() || call.has_memory() || call.is_list();
        assert_eq!(call.is_read_beside, is_read, "{}", call.name);
    }
}
