//! Argument registers of system calls, as the kernel interprets them.

use super::syscall_table::call::Call;
use super::syscall_table::role::Role;
use crate::units::Fd;

/// Returns the lower half of a register: a C `unsigned int`, whatever the upper half has.
pub fn low_half(register: u64) -> u32 {
    let [a, b, c, d, ..] = register.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Returns the lower half of a register as a C `int`.
pub fn int(register: u64) -> i32 {
    low_half(register).cast_signed()
}

/// Returns the descriptor in a register: the kernel uses the lower 32 bits only.
pub fn fd(register: u64) -> Fd {
    Fd(int(register))
}

/// Returns the two descriptors that a call has stored in memory, in one word.
pub fn fd_pair(word: u64) -> [Fd; 2] {
    [fd(word), fd(word >> 32)]
}

/// Returns false for a negative number (`loff_t`).
pub fn is_position(number: &u64) -> bool {
    i64::try_from(*number).is_ok()
}

/// Returns the argument of this role, as the kernel interprets it: only the lower half of the
/// register for an `int`.
pub fn argument(call: &Call, role: Role, args: &[u64; 6]) -> Option<u64> {
    let register = args.get(call.arg(role)?).copied()?;
    Some(if call.is_int(role) { low_half(register).into() } else { register })
}

/// Returns the argument of this role, as a descriptor.
pub fn fd_argument(call: &Call, role: Role, args: &[u64; 6]) -> Option<Fd> {
    Some(fd(*args.get(call.arg(role)?)?))
}

/// Returns the command of an `fcntl` (`F_*`).
pub fn command(call: &Call, args: &[u64; 6]) -> Option<i32> {
    Some(int(*args.get(call.arg(Role::Command)?)?))
}

/// Returns the descriptor that a call is to work on.
pub fn requested_fd(call: &Call, args: &[u64; 6]) -> Option<Fd> {
    fd_argument(call, Role::Fd, args).or_else(|| call.changed_fd(args).map(fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CallId;

    #[test]
    fn int_is_lower_half_of_register() {
        assert_eq!([int(0xffff_ff9c), int(u64::MAX), int(0xdead_beef_0000_0003)], [-100, -1, 3]);
        assert_eq!(low_half(u64::MAX), u32::MAX);
        assert_eq!(fd_pair(0x0000_0005_0000_0003), [Fd(3), Fd(5)]);
        assert_eq!([is_position(&0), is_position(&(u64::MAX - 4))], [true, false]);
    }

    #[test]
    fn int_argument_is_lower_half_of_its_register() {
        let check = |name: &str, role, register: u64, expected: u64| {
            let call = CallId::by_name(name).expect(name).call();
            let mut args = [0; 6];
            args[call.arg(role).expect("it has one")] = register;
            assert_eq!(argument(call, role, &args), Some(expected), "{name} {role:?}");
        };
        let upper = 0x1122_3344_0000_0000;
        check("getdents64", Role::Count, upper | 2048, 2048);
        check("readlinkat", Role::Count, upper | 64, 64);
        check("lseek", Role::Whence, upper | 2, 2);
        check("openat", Role::OpenFlags, upper | 1, 1);
        check("read", Role::Count, upper | 8, upper | 8);
        check("pread64", Role::Offset, upper | 8, upper | 8);
    }
}
