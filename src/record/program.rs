//! Registers and stack of a program at the time of a sample.
//!
//! They follow the payload. First comes a `u64` ABI (0 for a kernel thread, which has no program)
//! and, unless the ABI is 0, the requested registers in the order of their bits. Then come a `u64`
//! number of stack bytes, these bytes, and, if there are any, a `u64` number of bytes that could be
//! copied (`perf_output_sample()` in `kernel/events/core.c`).

/// Bit numbers in a mask of registers (`arch/x86/include/uapi/asm/perf_regs.h`).
pub mod x86 {
    /// Register rax.
    pub const AX: u32 = 0;
    /// Register rbx.
    pub const BX: u32 = 1;
    /// Register rcx.
    pub const CX: u32 = 2;
    /// Register rdx.
    pub const DX: u32 = 3;
    /// Register rsi.
    pub const SI: u32 = 4;
    /// Register rdi.
    pub const DI: u32 = 5;
    /// Frame pointer.
    pub const BP: u32 = 6;
    /// Stack pointer.
    pub const SP: u32 = 7;
    /// Address of the next instruction.
    pub const IP: u32 = 8;
    /// Register r8; r9 to r15 have the next numbers.
    pub const R8: u32 = 16;
    /// Mask of all of these registers, with which a stack is unwound.
    pub const ALL: u64 = 0xff_01ff;
}

/// ABI of a 64-bit program (`PERF_SAMPLE_REGS_ABI_64`).
pub const ABI_64: u64 = 2;

/// Bytes of a sample without an ABI and without a stack.
const NOTHING_BYTES: usize = 16;

/// Registers and stack of a program in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserState<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`; 0 means that there is no program.
    pub abi: u64,
    mask: u64,
    registers: &'a [u8],
    /// Bytes of the stack, from the stack pointer on.
    pub stack: &'a [u8],
    /// True if all requested bytes were copied: the stack may continue after them.
    pub is_full: bool,
}

impl<'a> UserState<'a> {
    /// Reads the program at the beginning of these bytes; `None` if they end too early.
    pub(super) fn read(bytes: &'a [u8], mask: u64) -> Option<Self> {
        let (abi, rest) = word(bytes)?;
        let count = if abi == 0 { 0 } else { mask.count_ones() };
        let (registers, rest) = rest.split_at_checked(8 * usize::try_from(count).ok()?)?;
        let (room, rest) = word(rest)?;
        let (stack, rest) = rest.split_at_checked(usize::try_from(room).ok()?)?;
        let copied = if room == 0 { 0 } else { word(rest)?.0 };
        let stack = stack.get(..usize::try_from(copied).ok()?)?;
        Some(Self { abi, mask, registers, stack, is_full: copied == room })
    }

    /// Returns false for kernel threads, also for those that the kernel created for a program
    /// (workers of `io_uring`): at their place there is neither a program nor a stack.
    pub fn is_there(&self) -> bool {
        self.abi != 0 && self.register(x86::SP) != Some(0)
    }

    /// Returns a register by its bit; `None` if it was not requested or there are no registers.
    pub fn register(&self, bit: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(bit).filter(|it| self.mask & it != 0)?;
        let place = usize::try_from((self.mask & (bit - 1)).count_ones()).ok()?;
        word(self.registers.get(8 * place..)?).map(|it| it.0)
    }
}

/// Removes the program at this offset from a whole record, which is then marked as having none.
/// Returns the new length of the record, or `None` if the record stays as it is.
pub fn take_out(record: &mut [u8], at: usize) -> Option<usize> {
    let end = at.checked_add(NOTHING_BYTES)?;
    let size = u16::try_from(end).ok()?;
    record.get_mut(at..end)?.fill(0);
    record.get_mut(6..8)?.copy_from_slice(&size.to_le_bytes());
    Some(end)
}

fn word(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*word), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|it| it.to_le_bytes()).collect()
    }

    const MASK: u64 = 1 << x86::BP | 1 << x86::SP | 1 << x86::IP;

    #[test]
    fn registers_stand_in_the_order_of_their_bits() {
        let bytes = bytes_of(&[ABI_64, 1, 2, 3, 16, 0x11, 0x22, 8]);
        let program = UserState::read(&bytes, MASK).expect("whole");
        let register = |bit| program.register(bit);
        assert_eq!(
            (register(x86::BP), register(x86::SP), register(x86::IP)),
            (Some(1), Some(2), Some(3))
        );
        assert_eq!((register(9), register(64)), (None, None));
        // The next page could not be read.
        assert_eq!((program.stack, program.is_full), (&0x11_u64.to_le_bytes()[..], false));
        for length in 0..bytes.len() {
            assert_eq!(UserState::read(&bytes[..length], MASK), None, "{length}");
        }
    }

    #[test]
    fn kernel_thread_has_no_user_stack() {
        let bytes = bytes_of(&[0, 0]);
        let program = UserState::read(&bytes, MASK).expect("whole");
        assert_eq!((program.abi, program.register(x86::IP), program.stack.len()), (0, None, 0));
        assert!(!program.is_there());
        let worker = bytes_of(&[ABI_64, 1, 0, 0, 0]);
        assert!(UserState::read(&worker, MASK).is_some_and(|it| !it.is_there()));
    }

    #[test]
    fn filtered_program_has_no_remains() {
        let program = bytes_of(&[ABI_64, 1, 2, 3, 8, 0x11, 8]);
        let mut record = [vec![9; 24], program].concat();
        let length = take_out(&mut record, 24);
        assert_eq!((length, &record[6..8]), (Some(40), &[40, 0][..]));
        let program = UserState::read(&record[24..40], MASK).expect("whole");
        assert_eq!((program.abi, program.stack.len()), (0, 0));
        assert_eq!(take_out(&mut record[..30], 24), None);
    }

    #[test]
    fn stack_size_beyond_the_record_is_refused() {
        assert_eq!(UserState::read(&bytes_of(&[ABI_64, 1, 2, 3, 8, 0x11, 9]), MASK), None);
        assert_eq!(UserState::read(&bytes_of(&[ABI_64, 1, 2, 3, u64::MAX, 0x11, 9]), MASK), None);
    }
}
