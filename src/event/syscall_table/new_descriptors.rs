//! Descriptors that a call makes.

use super::call::{Call, O_CLOEXEC};
use super::class::CallClass;
use super::role::Role;
use crate::event::registers::low_half;

impl Call {
    /// Returns true if it makes two descriptors and stores their numbers in memory only.
    pub fn makes_pair(&self) -> bool {
        self.class == CallClass::MakePair
    }

    /// Returns true if an exec closes a descriptor that it makes with these arguments.
    pub fn is_cloexec(&self, args: &[u64; 6]) -> bool {
        let has_bit = |(role, register): (Role, u64)| match role {
            Role::Cloexec(bit) => register & u64::from(bit) != 0,
            Role::DupFlags => register & u64::from(O_CLOEXEC) != 0,
            _ => false,
        };
        self.always_cloexec || self.args.into_iter().zip(*args).any(has_bit)
    }

    /// Returns the register with a descriptor that it changes instead of making one (`signalfd`);
    /// `None` if it makes one, or has no such register.
    pub fn changed_fd(&self, args: &[u64; 6]) -> Option<u64> {
        let is_none = Role::MakesIf(u32::MAX, u32::MAX);
        let register = self.args.into_iter().zip(*args).find(|it| it.0 == is_none)?.1;
        (!self.makes(args)).then_some(register)
    }

    /// Returns true if its result, on success, is a descriptor.
    pub fn makes(&self, args: &[u64; 6]) -> bool {
        self.args.into_iter().zip(*args).all(|(role, register)| match role {
            Role::MakesIf(mask, value) => register & u64::from(mask) == u64::from(value),
            Role::MakesBy(set) => set.checked_shr(low_half(register)).is_some_and(|it| it & 1 != 0),
            _ => true,
        })
    }
}
