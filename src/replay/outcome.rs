//! Relation of a replayed result to the captured one.

use std::fmt;

use crate::event::registers::command;
use crate::event::syscall_table::{Call, CallClass};

/// Outcome of one replayed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Same result; for descriptors, both are one.
    Same,
    /// Result depends on facts that no capture contains: the other entries of a directory.
    NotCompared,
    /// Both failed, with different errors.
    OtherError,
    /// Replayed operation failed, the captured one succeeded.
    Failed,
    /// Replayed operation succeeded, the captured one failed.
    Succeeded,
    /// Fewer bytes.
    Less,
    /// More bytes.
    More,
    /// Different number: a position or flags.
    OtherNumber,
}

impl Outcome {
    /// All outcomes, in the order of outputs.
    pub const ALL: [Self; 8] = [
        Self::Same,
        Self::NotCompared,
        Self::OtherError,
        Self::Failed,
        Self::Succeeded,
        Self::Less,
        Self::More,
        Self::OtherNumber,
    ];

    /// Returns the word for the outcome in machine-readable outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::NotCompared => "not-compared",
            Self::OtherError => "other-error",
            Self::Failed => "failed",
            Self::Succeeded => "succeeded",
            Self::Less => "less",
            Self::More => "more",
            Self::OtherNumber => "other-number",
        }
    }

    /// Returns true if the replay deviates from the capture.
    pub fn is_mismatch(self) -> bool {
        !matches!(self, Self::Same | Self::NotCompared)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "the same result",
            Self::NotCompared => {
                "not compared: listings of directories, which may have had more in them"
            }
            Self::OtherError => "failed with another error",
            Self::Failed => "failed, and had not",
            Self::Succeeded => "succeeded, and had not",
            Self::Less => "fewer bytes",
            Self::More => "more bytes",
            Self::OtherNumber => "another number",
        })
    }
}

/// Compares the results of a call. `is_descriptor`: a successful result is a descriptor.
pub fn outcome(call: &Call, is_descriptor: bool, captured: i64, replayed: i64) -> Outcome {
    match (captured < 0, replayed < 0) {
        _ if captured == replayed => Outcome::Same,
        (true, true) => Outcome::OtherError,
        (false, true) => Outcome::Failed,
        (true, false) => Outcome::Succeeded,
        (false, false) if is_descriptor => Outcome::Same,
        (false, false) => numbers(call, captured, replayed),
    }
}

/// Compares different numbers of two successful calls.
fn numbers(call: &Call, captured: i64, replayed: i64) -> Outcome {
    let is_count = call.class.moves_bytes() || call.name.starts_with("readlink");
    match call.class {
        CallClass::List => Outcome::NotCompared,
        _ if is_count && replayed < captured => Outcome::Less,
        _ if is_count => Outcome::More,
        _ => Outcome::OtherNumber,
    }
}

/// Returns true if the result of a successful call is a descriptor.
pub fn makes_descriptor(call: &Call, args: &[u64; 6]) -> bool {
    if matches!(call.class, CallClass::Open | CallClass::Dup) {
        return true;
    }
    matches!(command(call, args), Some(libc::F_DUPFD | libc::F_DUPFD_CLOEXEC))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CallId;

    #[test]
    fn results_are_compared_by_meaning() {
        let check = |name: &str, captured: i64, replayed: i64, expected: Outcome| {
            let call = CallId::by_name(name).expect(name).call();
            let is_descriptor = makes_descriptor(call, &[0; 6]);
            assert_eq!(outcome(call, is_descriptor, captured, replayed), expected, "{name}");
        };
        let enoent = -i64::from(libc::ENOENT);
        check("openat", 3, 17, Outcome::Same);
        check("openat", 3, enoent, Outcome::Failed);
        check("openat", enoent, 3, Outcome::Succeeded);
        check("openat", enoent, -i64::from(libc::EACCES), Outcome::OtherError);
        check("openat", enoent, enoent, Outcome::Same);
        check("read", 4096, 100, Outcome::Less);
        check("pread64", 0, 100, Outcome::More);
        check("write", 7, 7, Outcome::Same);
        check("readlink", 5, 6, Outcome::More);
        check("lseek", 5, 6, Outcome::OtherNumber);
        check("getdents64", 48, 72, Outcome::NotCompared);
        let mut args = [0; 6];
        let fcntl = CallId::by_name("fcntl").expect("a row").call();
        args[1] = u64::from(libc::F_GETFL.cast_unsigned());
        assert_eq!(outcome(fcntl, makes_descriptor(fcntl, &args), 2, 0), Outcome::OtherNumber);
        // The kernel does not look at the upper half of the register.
        args[1] = u64::from(libc::F_DUPFD_CLOEXEC.cast_unsigned()) | 7 << 32;
        assert_eq!(outcome(fcntl, makes_descriptor(fcntl, &args), 10, 3), Outcome::Same);
    }
}
