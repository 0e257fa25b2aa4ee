//! Kernel's view of an argument register: an `int` is the lower half, whatever the upper half has.

use crate::event::syscall_table::Role;
use crate::operation::model::SyscallOperation;
use crate::units::Fd;

/// The register as a C `unsigned int`.
pub(super) fn unsigned_int(register: u64) -> u32 {
    u32::try_from(register & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// The register as a C `int`.
pub(super) fn int(register: u64) -> i32 {
    unsigned_int(register).cast_signed()
}

/// Descriptor in the register with this role; `None`: the call has no such argument.
pub(super) fn descriptor(operation: &SyscallOperation, role: Role) -> Option<Fd> {
    let register = operation.args.get(operation.call.call().arg(role)?)?;
    Some(Fd(int(*register)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_upper_half_does_not_count() {
        assert_eq!(super::int(0xffff_ff9c), -100);
        assert_eq!(super::int(u64::MAX), -1);
        assert_eq!(super::int(0xdead_beef_0000_0003), 3);
        assert_eq!(super::unsigned_int(u64::MAX), u32::MAX);
    }
}
