//! Real users of processes, by the calls that change them (`setuid(2)`, `setreuid(2)`,
//! `setresuid(2)`). A program that runs as its owner (`S_ISUID`) does not change the real user.

use super::model::SyscallOperation;
use crate::event::registers::low_half;

/// Value for "unchanged" (`(uid_t) -1`).
const UNCHANGED: u32 = u32::MAX;

/// Returns the real user after this call; `before` is the one of its process before.
pub(super) fn after(operation: &SyscallOperation, before: Option<u32>) -> Option<u32> {
    let [value, ..] = operation.args;
    let value = Some(low_half(value)).filter(|_| operation.ret == Some(0));
    value.map_or(before, |it| user_after(operation.call.call().name, it, before))
}

/// Returns the real user after a call that succeeded.
fn user_after(call: &str, value: u32, before: Option<u32>) -> Option<u32> {
    match call {
        // A privileged process changes all its users, others only the effective one. No event
        // reports which of the two applies to a process that is not root's and acts as root.
        "setuid" => match before {
            Some(0) => Some(value),
            _ => before.filter(|it| *it == value),
        },
        _ if value == UNCHANGED => before,
        _ => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_may_become_any_user() {
        assert_eq!(user_after("setuid", 7, Some(0)), Some(7));
        assert_eq!(user_after("setreuid", 7, Some(0)), Some(7));
        assert_eq!(user_after("setresuid", 7, Some(0)), Some(7));
    }

    #[test]
    fn uncertain_user_is_unknown() {
        assert_eq!(user_after("setuid", 7, Some(7)), Some(7));
        assert_eq!(user_after("setuid", 0, Some(7)), None);
        assert_eq!(user_after("setuid", 7, None), None);
        assert_eq!(user_after("setresuid", 7, None), Some(7));
    }

    #[test]
    fn effective_user_may_change_alone() {
        assert_eq!(user_after("setreuid", UNCHANGED, Some(7)), Some(7));
        assert_eq!(user_after("setresuid", UNCHANGED, None), None);
    }
}
