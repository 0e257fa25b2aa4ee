//! What the kernel counts in `/proc/PID/io` for a system call, by the function that counts it.
//!
//! In: system calls that have ended. Out: how many bytes and calls the kernel has added on each side, and for how many calls that
//! cannot be known. The rules are those of `fs/read_write.c`, the same from Linux 5.10 to 7.3; `docs/accounting.md` explains the table, and
//! `tests/recording/both_sources/byte_accounting/audit.rs` makes each call and compares. io_uring and `io_submit` are not counted by any of these functions.

use std::ops::AddAssign;

use crate::event::syscall_table::Role;
use crate::operation::model::SyscallOperation;

/// Bytes and calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Bytes (`rchar`, `wchar`).
    pub bytes: u64,
    /// Calls (`syscr`, `syscw`).
    pub calls: u64,
    /// Calls that failed in a way of which it is not known whether the kernel counts them. They are not in `calls`.
    pub doubtful: u64,
}

impl AddAssign for Side {
    fn add_assign(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.calls = self.calls.saturating_add(other.calls);
        self.doubtful = self.doubtful.saturating_add(other.doubtful);
    }
}

/// Both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounted {
    /// `rchar` and `syscr`.
    pub read: Side,
    /// `wchar` and `syscw`.
    pub write: Side,
}

/// Which sides a call counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sides {
    Read,
    Write,
    Both,
}

/// When a call that failed was not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Always: the function that counts is not reached.
    Always,
    /// If the position is negative. (Of `preadv2` and `pwritev2`: and not -1.)
    Position,
    /// If the count is negative, or the end of the range (`rw_verify_area()`).
    Range,
    /// If the memory is not the program's own by its address (`access_ok()`); otherwise the copying failed, and it was counted.
    Address,
    /// If there are flags.
    Flags,
    /// Not known: checks before the counting and file systems after it give this error.
    Perhaps,
}

/// A row: what the kernel does for these calls.
struct Rule {
    calls: &'static [&'static str],
    /// Where `inc_syscr()`, `inc_syscw()`, `add_rchar()` and `add_wchar()` are called.
    #[expect(dead_code, reason = "the reader of the table needs it")]
    function: &'static str,
    sides: Sides,
    /// Failures that may come before; the first that decides counts. All others are counted.
    before: &'static [(i32, Before)],
}

/// Failures of `vfs_read()` and `vfs_write()` before they count: the file's mode, `access_ok()`, `rw_verify_area()` with the security
/// modules. A file without a read function gives `EINVAL` before, `O_DIRECT` that is not aligned after.
macro_rules! checked {
    ($($more:tt)*) => {
        &[
            (libc::EBADF, Before::Always),
            $($more)*
            (libc::EFAULT, Before::Address),
            (libc::EINVAL, Before::Range),
            (libc::EINVAL, Before::Perhaps),
            (libc::EOVERFLOW, Before::Perhaps),
            (libc::EACCES, Before::Perhaps),
            (libc::EPERM, Before::Perhaps),
        ]
    };
}

/// Failures of a call that is given a position.
const POSITIONED: &[(i32, Before)] =
    checked!((libc::ESPIPE, Before::Always), (libc::EINVAL, Before::Position),);

/// The table. Calls that are not in it count on no side: `splice`, `tee`, `vmsplice`, `getdents64`, `send*`, `recv*`, `mmap`.
#[rustfmt::skip]
const RULES: &[Rule] = &[
    Rule { calls: &["read"], function: "vfs_read", sides: Sides::Read, before: checked!() },
    Rule { calls: &["write"], function: "vfs_write", sides: Sides::Write, before: checked!() },
    Rule { calls: &["pread64"], function: "vfs_read", sides: Sides::Read, before: POSITIONED },
    Rule { calls: &["pwrite64"], function: "vfs_write", sides: Sides::Write, before: POSITIONED },
    // They count whatever comes of it, also without a descriptor.
    Rule { calls: &["readv"], function: "do_readv", sides: Sides::Read, before: &[] },
    Rule { calls: &["writev"], function: "do_writev", sides: Sides::Write, before: &[] },
    Rule { calls: &["preadv", "preadv2"], function: "do_preadv", sides: Sides::Read, before: &[(libc::EINVAL, Before::Position)] },
    Rule { calls: &["pwritev", "pwritev2"], function: "do_pwritev", sides: Sides::Write, before: &[(libc::EINVAL, Before::Position)] },
    Rule {
        calls: &["sendfile64"], function: "do_sendfile", sides: Sides::Both,
        before: &[
            (libc::EBADF, Before::Always), (libc::ESPIPE, Before::Always), (libc::EFAULT, Before::Always),
            (libc::EINVAL, Before::Range), (libc::EINVAL, Before::Perhaps), (libc::EOVERFLOW, Before::Perhaps),
            (libc::EACCES, Before::Perhaps), (libc::EPERM, Before::Perhaps),
        ],
    },
    Rule {
        calls: &["copy_file_range"], function: "vfs_copy_file_range", sides: Sides::Both,
        before: &[
            (libc::EBADF, Before::Always), (libc::ESPIPE, Before::Always), (libc::EFAULT, Before::Always),
            (libc::EXDEV, Before::Always), (libc::EISDIR, Before::Always), (libc::ETXTBSY, Before::Always),
            (libc::EOVERFLOW, Before::Always), (libc::EFBIG, Before::Always), (libc::EPERM, Before::Always),
            (libc::EACCES, Before::Always), (libc::EINVAL, Before::Flags), (libc::EINVAL, Before::Perhaps),
            (libc::EOPNOTSUPP, Before::Perhaps),
        ],
    },
];

/// Whether a call was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Counted,
    NotCounted,
    Unknown,
}

/// Programs' own memory ends there, or higher (`TASK_SIZE` of x86-64 with four levels of pages).
const USER_END: u64 = 1 << 47;

impl Before {
    fn verdict(self, operation: &SyscallOperation) -> Option<Verdict> {
        let call = operation.call.call();
        let register = |role| operation.args.get(call.arg(role)?).copied();
        let position = register(Role::Offset).map(u64::cast_signed);
        let count = register(Role::Count).map_or(0, u64::cast_signed);
        match self {
            Self::Always => Some(Verdict::NotCounted),
            Self::Position => {
                let lowest = if call.arg(Role::RwFlags).is_some() { -1 } else { 0 };
                position.is_some_and(|it| it < lowest).then_some(Verdict::NotCounted)
            }
            Self::Range => {
                let is_wrong = count < 0 || position.unwrap_or(0).checked_add(count).is_none();
                is_wrong.then_some(Verdict::NotCounted)
            }
            Self::Address => {
                let place = call.arg(Role::Count)?.checked_sub(1)?;
                let start = *operation.args.get(place)?;
                let end = start.checked_add(count.cast_unsigned());
                Some(match end {
                    Some(end) if end <= USER_END => Verdict::Counted,
                    Some(end) if end <= i64::MAX.cast_unsigned() => Verdict::Unknown,
                    _ => Verdict::NotCounted,
                })
            }
            Self::Flags => {
                let flags = operation.args.last().map_or(0, |it| it & 0xffff_ffff);
                (flags != 0).then_some(Verdict::NotCounted)
            }
            Self::Perhaps => Some(Verdict::Unknown),
        }
    }
}

impl Rule {
    fn verdict(&self, operation: &SyscallOperation) -> Verdict {
        // Nothing to copy: it returns before it counts.
        if operation.ret == Some(0) && self.sides == Sides::Both && self.calls != ["sendfile64"] {
            return Verdict::NotCounted;
        }
        let errno = operation.errno();
        let mut before = self.before.iter().filter(|it| errno == Some(it.0));
        before.find_map(|it| it.1.verdict(operation)).unwrap_or(Verdict::Counted)
    }
}

/// What the kernel has added for a call that has ended.
pub fn of(operation: &SyscallOperation) -> Accounted {
    let name = operation.call.call().name;
    let mut accounted = Accounted::default();
    let Some(rule) = RULES.iter().find(|it| it.calls.contains(&name)) else { return accounted };
    let bytes = operation.ret.and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
    let side = match rule.verdict(operation) {
        Verdict::Counted => Side { bytes, calls: 1, doubtful: 0 },
        Verdict::NotCounted => Side::default(),
        Verdict::Unknown => Side { bytes: 0, calls: 0, doubtful: 1 },
    };
    if matches!(rule.sides, Sides::Read | Sides::Both) {
        accounted.read = side;
    }
    if matches!(rule.sides, Sides::Write | Sides::Both) {
        accounted.write = side;
    }
    accounted
}

#[cfg(test)]
mod tests;
