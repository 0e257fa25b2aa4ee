//! Names: strace's and the kernel's.

use iotrace_perf::event::syscall_table::CALLS;
use nix::errno::Errno;

/// The kernel's name of a call (`sys_enter_NAME`), from strace's.
pub(crate) fn kernel_name(strace_name: &str) -> &str {
    match strace_name {
        "sendfile" => "sendfile64",
        "stat" => "newstat",
        "lstat" => "newlstat",
        "fstat" => "newfstat",
        "uname" => "newuname",
        "umount2" => "umount",
        other => numbered(other).unwrap_or(other),
    }
}

/// A call that is newer than strace: `syscall_0x1c4`.
fn numbered(strace_name: &str) -> Option<&'static str> {
    let number = u32::from_str_radix(strace_name.strip_prefix("syscall_0x")?, 16).ok()?;
    let machine = std::env::consts::ARCH;
    CALLS.iter().find(|it| it.number(machine) == Some(number)).map(|it| it.name)
}

/// Index of the argument that is the (first) path of a call.
pub(super) fn path_argument(strace_name: &str) -> Option<usize> {
    match strace_name {
        "symlink" => Some(1),
        "mount" => Some(1),
        "symlinkat" => Some(2),
        "open" | "creat" | "stat" | "lstat" | "access" | "unlink" | "rmdir" | "mkdir"
        | "rename" | "link" | "readlink" | "chdir" | "chroot" | "truncate" | "chmod" | "chown"
        | "lchown" | "statfs" | "execve" | "mknod" | "utime" | "utimes" | "getxattr"
        | "lgetxattr" | "setxattr" | "lsetxattr" | "listxattr" | "llistxattr" | "removexattr"
        | "lremovexattr" | "acct" | "swapon" | "swapoff" | "umount2" | "pivot_root" => Some(0),
        "openat" | "openat2" | "newfstatat" | "statx" | "faccessat" | "faccessat2" | "unlinkat"
        | "mkdirat" | "mknodat" | "renameat" | "renameat2" | "linkat" | "readlinkat"
        | "fchmodat" | "fchmodat2" | "fchownat" | "utimensat" | "futimesat" | "execveat"
        | "name_to_handle_at" | "open_tree" | "setxattrat" | "getxattrat" | "listxattrat"
        | "removexattrat" | "move_mount" | "fspick" => Some(1),
        _ => None,
    }
}

/// The number of an error by its name, also of the kernel's own that no program ever sees; a number
/// without a name is written as `E999`.
pub(crate) fn errno_number(name: &str) -> Option<i32> {
    match name {
        "ERESTARTSYS" => return Some(512),
        "ERESTARTNOINTR" => return Some(513),
        "ERESTARTNOHAND" => return Some(514),
        "ERESTART_RESTARTBLOCK" => return Some(516),
        "EWOULDBLOCK" => return errno_number("EAGAIN"),
        "ENOTSUP" => return errno_number("EOPNOTSUPP"),
        _ => {}
    }
    if let Ok(number) = name.trim_start_matches('E').parse() {
        return Some(number);
    }
    // The highest number of include/uapi/asm-generic/errno.h is 133.
    (1..=133).find(|&number| format!("{:?}", Errno::from_raw(number)) == name)
}
