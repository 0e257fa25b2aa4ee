//! Kernel accounting in `/proc/PID/io` of a system call, by the function that counts it.
//!
//! Input: ended system calls. Output: the bytes and calls that the kernel added on each side, and
//! the number of calls for which that cannot be known. The rules are those of `fs/read_write.c`,
//! the same from Linux 5.10 to 7.3. `docs/accounting.md` explains the table, and
//! `tests/recording/both_sources/byte_accounting/audit.rs` makes each call and compares. None of
//! these functions counts io_uring and `io_submit`.

use std::ops::AddAssign;
use std::sync::LazyLock;

use crate::event::registers::low_half;
use crate::event::syscall_table::{CallId, Role};
use crate::operation::model::SyscallOperation;

/// Bytes and calls of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Bytes (`rchar`, `wchar`).
    pub bytes: u64,
    /// Calls (`syscr`, `syscw`).
    pub calls: u64,
    /// Failed calls for which it is unknown whether the kernel counts them. They are not in
    /// `calls`.
    pub doubtful: u64,
}

impl AddAssign for IoCounts {
    fn add_assign(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.calls = self.calls.saturating_add(other.calls);
        self.doubtful = self.doubtful.saturating_add(other.doubtful);
    }
}

/// Counters of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounted {
    /// Read side: `rchar` and `syscr`.
    pub read: IoCounts,
    /// Write side: `wchar` and `syscw`.
    pub write: IoCounts,
}

/// Sides on which the kernel counts a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountedSides {
    Read,
    Write,
    Both,
}

/// Condition under which a failed call was not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UncountedFailure {
    /// No condition: the call does not reach the function that counts.
    Always,
    /// A negative position. (For `preadv2` and `pwritev2`: and not -1.)
    Position,
    /// A negative count, or end of the range (`rw_verify_area()`).
    Range,
    /// An address of the memory that is not in the program's range (`access_ok()`). Otherwise the
    /// copy failed, and the call was counted.
    Address,
    /// Flags that are not 0.
    Flags,
    /// Unknown: checks before the counting and file systems after it give this error.
    Perhaps,
}

/// Row of the table: the kernel's accounting of these calls.
struct Rule {
    calls: &'static [&'static str],
    /// Kernel function that calls `inc_syscr()`, `inc_syscw()`, `add_rchar()` and `add_wchar()`.
    #[expect(dead_code, reason = "the reader of the table needs it")]
    function: &'static str,
    sides: CountedSides,
    /// Failures that may occur before the counting; the first that decides applies. All others are
    /// counted.
    uncounted: &'static [(i32, UncountedFailure)],
}

/// Failures of `vfs_read()` and `vfs_write()` before they count: the file's mode, `access_ok()`,
/// `rw_verify_area()` with the security modules. A file without a read function gives `EINVAL`
/// before; an unaligned `O_DIRECT` gives it after.
macro_rules! checked {
    ($($more:tt)*) => {
        &[
            (libc::EBADF, UncountedFailure::Always),
            $($more)*
            (libc::EFAULT, UncountedFailure::Address),
            (libc::EINVAL, UncountedFailure::Range),
            (libc::EINVAL, UncountedFailure::Perhaps),
            (libc::EOVERFLOW, UncountedFailure::Perhaps),
            (libc::EACCES, UncountedFailure::Perhaps),
            (libc::EPERM, UncountedFailure::Perhaps),
        ]
    };
}

/// Failures of a call with a position.
const POSITIONED: &[(i32, UncountedFailure)] =
    checked!((libc::ESPIPE, UncountedFailure::Always), (libc::EINVAL, UncountedFailure::Position),);

/// Table of the rules. Calls that are not in it count on no side: `splice`, `tee`, `vmsplice`,
/// `getdents64`, `send*`, `recv*`, `mmap`.
#[rustfmt::skip]
const RULES: &[Rule] = &[
    Rule { calls: &["read"], function: "vfs_read", sides: CountedSides::Read, uncounted: checked!() },
    Rule { calls: &["write"], function: "vfs_write", sides: CountedSides::Write, uncounted: checked!() },
    Rule { calls: &["pread64"], function: "vfs_read", sides: CountedSides::Read, uncounted: POSITIONED },
    Rule { calls: &["pwrite64"], function: "vfs_write", sides: CountedSides::Write, uncounted: POSITIONED },
    // Vectored calls count with any result, also without a descriptor.
    Rule { calls: &["readv"], function: "do_readv", sides: CountedSides::Read, uncounted: &[] },
    Rule { calls: &["writev"], function: "do_writev", sides: CountedSides::Write, uncounted: &[] },
    Rule { calls: &["preadv", "preadv2"], function: "do_preadv", sides: CountedSides::Read, uncounted: &[(libc::EINVAL, UncountedFailure::Position)] },
    Rule { calls: &["pwritev", "pwritev2"], function: "do_pwritev", sides: CountedSides::Write, uncounted: &[(libc::EINVAL, UncountedFailure::Position)] },
    Rule {
        calls: &["sendfile64"], function: "do_sendfile", sides: CountedSides::Both,
        uncounted: &[
            (libc::EBADF, UncountedFailure::Always), (libc::ESPIPE, UncountedFailure::Always), (libc::EFAULT, UncountedFailure::Always),
            (libc::EINVAL, UncountedFailure::Range), (libc::EINVAL, UncountedFailure::Perhaps), (libc::EOVERFLOW, UncountedFailure::Perhaps),
            (libc::EACCES, UncountedFailure::Perhaps), (libc::EPERM, UncountedFailure::Perhaps),
        ],
    },
    Rule {
        calls: &["copy_file_range"], function: "vfs_copy_file_range", sides: CountedSides::Both,
        uncounted: &[
            (libc::EBADF, UncountedFailure::Always), (libc::ESPIPE, UncountedFailure::Always), (libc::EFAULT, UncountedFailure::Always),
            (libc::EXDEV, UncountedFailure::Always), (libc::EISDIR, UncountedFailure::Always), (libc::ETXTBSY, UncountedFailure::Always),
            (libc::EOVERFLOW, UncountedFailure::Always), (libc::EFBIG, UncountedFailure::Always), (libc::EPERM, UncountedFailure::Always),
            (libc::EACCES, UncountedFailure::Always), (libc::EINVAL, UncountedFailure::Flags), (libc::EINVAL, UncountedFailure::Perhaps),
            (libc::EOPNOTSUPP, UncountedFailure::Perhaps),
        ],
    },
];

/// Rule of each row of the table of system calls: each call of a log is looked up.
static RULE_OF_CALL: LazyLock<Vec<Option<&'static Rule>>> = LazyLock::new(|| {
    let rule = |name| RULES.iter().find(|rule| rule.calls.contains(&name));
    CallId::all().map(|call| rule(call.call().name)).collect()
});

/// Result of the rules: whether a call was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountedState {
    Counted,
    NotCounted,
    Unknown,
}

/// End of the programs' own memory; it may be higher (`TASK_SIZE` of x86-64 with four levels of
/// pages).
const USER_END: u64 = 1 << 47;

impl UncountedFailure {
    fn verdict(self, operation: &SyscallOperation) -> Option<CountedState> {
        let call = operation.call.call();
        let register = |role| operation.args.get(call.arg(role)?).copied();
        let position = register(Role::Offset).map(u64::cast_signed);
        let count = register(Role::Count).map_or(0, u64::cast_signed);
        match self {
            Self::Always => Some(CountedState::NotCounted),
            Self::Position => {
                let lowest = if call.arg(Role::RwFlags).is_some() { -1 } else { 0 };
                position.is_some_and(|it| it < lowest).then_some(CountedState::NotCounted)
            }
            Self::Range => {
                let is_wrong = count < 0 || position.unwrap_or(0).checked_add(count).is_none();
                is_wrong.then_some(CountedState::NotCounted)
            }
            Self::Address => {
                let place = call.arg(Role::Count)?.checked_sub(1)?;
                let start = *operation.args.get(place)?;
                let end = start.checked_add(count.cast_unsigned());
                Some(match end {
                    Some(end) if end <= USER_END => CountedState::Counted,
                    Some(end) if end <= i64::MAX.cast_unsigned() => CountedState::Unknown,
                    _ => CountedState::NotCounted,
                })
            }
            Self::Flags => {
                let flags = operation.args.last().map_or(0, |register| low_half(*register));
                (flags != 0).then_some(CountedState::NotCounted)
            }
            Self::Perhaps => Some(CountedState::Unknown),
        }
    }
}

impl Rule {
    fn verdict(&self, operation: &SyscallOperation) -> CountedState {
        // A call without bytes to copy returns before it counts.
        if operation.ret == Some(0)
            && self.sides == CountedSides::Both
            && self.calls != ["sendfile64"]
        {
            return CountedState::NotCounted;
        }
        let errno = operation.errno();
        let mut uncounted = self.uncounted.iter().filter(|it| errno == Some(it.0));
        uncounted.find_map(|it| it.1.verdict(operation)).unwrap_or(CountedState::Counted)
    }
}

/// Returns the kernel's accounting of an ended call.
pub fn of(operation: &SyscallOperation) -> Accounted {
    let mut accounted = Accounted::default();
    let rule = RULE_OF_CALL.get(usize::from(operation.call.0)).copied().flatten();
    let Some(rule) = rule else { return accounted };
    let bytes = operation.ret.and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
    let side = match rule.verdict(operation) {
        CountedState::Counted => IoCounts { bytes, calls: 1, doubtful: 0 },
        CountedState::NotCounted => IoCounts::default(),
        CountedState::Unknown => IoCounts { bytes: 0, calls: 0, doubtful: 1 },
    };
    if matches!(rule.sides, CountedSides::Read | CountedSides::Both) {
        accounted.read = side;
    }
    if matches!(rule.sides, CountedSides::Write | CountedSides::Both) {
        accounted.write = side;
    }
    accounted
}

#[cfg(test)]
mod tests;
