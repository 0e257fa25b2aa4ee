//! Argument registers of system calls, as the kernel interprets them.

use crate::event::syscall_table::{Call, Role};
use crate::units::Fd;

/// Returns the register of this role, as a descriptor.
pub(super) fn fd_of(call: &Call, role: Role, args: &[u64; 6]) -> Option<Fd> {
    Some(as_fd(*args.get(call.arg(role)?)?))
}

/// Returns the descriptor that a call is to work on.
pub(super) fn asked_fd(call: &Call, args: &[u64; 6]) -> Option<Fd> {
    fd_of(call, Role::Fd, args).or_else(|| call.changed_fd(args).map(as_fd))
}

/// Returns the descriptor in a register: the kernel uses the lower 32 bits only.
fn as_fd(register: u64) -> Fd {
    let [a, b, c, d, ..] = register.to_le_bytes();
    Fd(i32::from_le_bytes([a, b, c, d]))
}

/// Returns false for a negative number (`loff_t`).
#[expect(clippy::trivially_copy_pass_by_ref, reason = "a filter of options")]
pub(super) fn is_position(number: &u64) -> bool {
    i64::try_from(*number).is_ok()
}

/// Returns the argument of this role, as the kernel interprets it: only the lower half of the
/// register for an `int`.
pub(super) fn register(call: &Call, role: Role, args: &[u64; 6]) -> Option<u64> {
    let register = args.get(call.arg(role)?).copied()?;
    Some(if call.is_int(role) { register & 0xffff_ffff } else { register })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CallId;

    #[test]
    fn an_int_is_the_lower_half_of_its_register() {
        let check = |name: &str, role, register: u64, expected: u64| {
            let call = CallId::by_name(name).expect(name).call();
            let mut args = [0; 6];
            args[call.arg(role).expect("it has one")] = register;
            assert_eq!(super::register(call, role, &args), Some(expected), "{name} {role:?}");
        };
        let upper = 0x1122_3344_0000_0000;
        check("getdents64", Role::Count, upper | 2048, 2048);
        check("readlinkat", Role::Count, upper | 64, 64);
        check("lseek", Role::Whence, upper | 2, 2);
        check("openat", Role::OpenFlags, upper | 1, 1);
        check("read", Role::Count, upper | 8, upper | 8);
        check("pread64", Role::Offset, upper | 8, upper | 8);
        assert_eq!([is_position(&0), is_position(&(u64::MAX - 4))], [true, false]);
    }
}
