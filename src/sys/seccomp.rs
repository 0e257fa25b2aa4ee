//! Seccomp filter of a helper (seccomp(2)): it leaves only the system calls for reading open files
//! and answering.
//!
//! Malicious input may take the helper's parsers over. Then the code can do no more than this; all
//! other calls are refused with `EPERM`.

use std::collections::BTreeMap;
use std::io;

use nix::errno::Errno;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Calls that are allowed with any arguments.
const ALLOWED: &[libc::c_long] = &[
    // Reading open files.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_lseek,
    #[cfg(not(target_arch = "loongarch64"))]
    libc::SYS_fstat,
    #[cfg(not(target_arch = "loongarch64"))]
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_readlinkat,
    libc::SYS_close,
    // Writing the answer.
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_ppoll,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // The runtime, and its end.
    libc::SYS_clock_gettime,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // The older names of some of them, which some C libraries use.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// Flags of `open(2)` that permit changes.
const CHANGES: libc::c_int =
    libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;

/// Refuses all other system calls, for this thread and the threads that it starts. The process must
/// have no way to new privileges (`PR_SET_NO_NEW_PRIVS`). Where the kernel has no such filters, or
/// there is none for the processor, nothing changes.
///
/// # Errors
///
/// Those of `prctl(2)`.
pub(super) fn keep_reading_calls() -> io::Result<()> {
    let Ok(machine) = std::env::consts::ARCH.try_into() else { return Ok(()) };
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter =
        rules().and_then(|it| SeccompFilter::new(it, refused, SeccompAction::Allow, machine));
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(io::Error::other)?;
    match seccompiler::apply_filter(&program) {
        Err(Error::Prctl(error) | Error::Seccomp(error)) if is_not_there(&error) => Ok(()),
        applied => applied.map_err(io::Error::other),
    }
}

fn is_not_there(error: &io::Error) -> bool {
    [Errno::EINVAL, Errno::ENOSYS].iter().any(|it| error.raw_os_error() == Some(*it as i32))
}

/// Rules by system call; a call without rules is allowed with any arguments.
fn rules() -> Result<BTreeMap<libc::c_long, Vec<SeccompRule>>, BackendError> {
    let reads = |flags| condition(flags, Dword, MaskedEq(u64::from(CHANGES.unsigned_abs())), 0);
    let mut rules: BTreeMap<_, _> = ALLOWED.iter().map(|it| (*it, Vec::new())).collect();
    rules.insert(libc::SYS_openat, reads(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, reads(1)?);
    // Only a connected socket: no other destination.
    rules.insert(libc::SYS_sendto, condition(4, Qword, Eq, 0)?);
    rules.insert(libc::SYS_recvfrom, condition(4, Qword, Eq, 0)?);
    // `abort()`: no other process, either.
    rules.insert(libc::SYS_tgkill, condition(0, Dword, Eq, std::process::id().into())?);
    // `abort()` elsewhere than in glibc: it signals the first thread, the only one.
    rules.insert(libc::SYS_tkill, condition(0, Dword, Eq, std::process::id().into())?);
    Ok(rules)
}

fn condition(
    argument: u8,
    length: seccompiler::SeccompCmpArgLen,
    compare: seccompiler::SeccompCmpOp,
    value: u64,
) -> Result<Vec<SeccompRule>, BackendError> {
    let condition = SeccompCondition::new(argument, length, compare, value)?;
    Ok(vec![SeccompRule::new(vec![condition])?])
}
