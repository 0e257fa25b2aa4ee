//! Argument registers of system calls, as the kernel sees them.

use crate::event::syscall_table::{Call, Role};
use crate::units::Fd;

/// The register of this role, as a descriptor.
pub(super) fn fd_of(call: &Call, role: Role, args: &[u64; 6]) -> Option<Fd> {
    let register = *args.get(call.arg(role)?)?;
    // The kernel looks at the lower 32 bits only.
    let [a, b, c, d, ..] = register.to_le_bytes();
    Some(Fd(i32::from_le_bytes([a, b, c, d])))
}

/// False for a negative number (`loff_t`).
#[expect(clippy::trivially_copy_pass_by_ref, reason = "a filter of options")]
pub(super) fn is_position(number: &u64) -> bool {
    i64::try_from(*number).is_ok()
}

/// The argument of this role, as the kernel sees it: of an `int` only the lower half of the register.
pub(super) fn register(call: &Call, role: Role, args: &[u64; 6]) -> Option<u64> {
    let register = args.get(call.arg(role)?).copied()?;
    Some(if call.is_int(role) { register & 0xffff_ffff } else { register })
}
