//! `sample_type` → where the fields of a sample are, computed once so that the hot path asks nothing.

use super::abi::sample_type as bit;

/// Where the fields that we use stand in a record's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleLayout {
    sample_type: u64,
    /// Offset of `u32 pid, tid` in a sample.
    pub(super) tid: usize,
    /// Offset of `u64 time` in a sample.
    pub(super) time: usize,
    /// Offset of `u32 size` and the payload behind it in a sample; if it has a chain, of that, which stands before them.
    pub(super) raw: usize,
    /// `u64 count` and so many addresses stand before the payload.
    pub(super) has_chain: bool,
    /// Registers, by this mask, and a piece of the stack stand behind the payload.
    pub(super) program: Option<u64>,
    /// Distance of `u32 pid, tid` from the end of any other record (`sample_id_all`).
    pub(super) trailer_tid: usize,
    /// Distance of `u64 time` from the end of any other record.
    pub(super) trailer_time: usize,
}

/// `sample_type` bits in the order in which a sample has them, each eight bytes long.
const SAMPLE_ORDER: [u64; 9] = [
    bit::IDENTIFIER,
    bit::IP,
    bit::TID,
    bit::TIME,
    bit::ADDR,
    bit::ID,
    bit::STREAM_ID,
    bit::CPU,
    bit::PERIOD,
];

/// The bits of the trailer of other records, in their order, each eight bytes long (`struct sample_id`).
const TRAILER_ORDER: [u64; 6] =
    [bit::TID, bit::TIME, bit::ID, bit::STREAM_ID, bit::CPU, bit::IDENTIFIER];

impl SampleLayout {
    /// The layout of this `sample_type` with `sample_id_all`; `registers`: the mask of those of the program. `None` if it lacks TID,
    /// TIME or RAW, has a field of variable length other than CALLCHAIN before RAW, or has registers without a stack or a stack without
    /// registers.
    pub fn new(sample_type: u64, registers: u64) -> Option<Self> {
        let program = bit::REGS_USER | bit::STACK_USER;
        let known =
            SAMPLE_ORDER.iter().fold(bit::CALLCHAIN | bit::RAW | program, |all, it| all | it);
        let needed = bit::TID | bit::TIME | bit::RAW;
        let is_half = !matches!(sample_type & program, 0) && sample_type & program != program;
        if sample_type & !known != 0 || sample_type & needed != needed || is_half {
            return None;
        }
        let before = |order: &[u64], end: u64| {
            8 * order
                .iter()
                .take_while(|&&it| it != end)
                .filter(|&&it| sample_type & it != 0)
                .count()
        };
        let from_end = |start: u64| {
            8 * TRAILER_ORDER
                .iter()
                .skip_while(|&&it| it != start)
                .filter(|&&it| sample_type & it != 0)
                .count()
        };
        Some(Self {
            sample_type,
            tid: before(&SAMPLE_ORDER, bit::TID),
            time: before(&SAMPLE_ORDER, bit::TIME),
            raw: before(&SAMPLE_ORDER, bit::RAW),
            has_chain: sample_type & bit::CALLCHAIN != 0,
            program: (sample_type & program != 0).then_some(registers),
            trailer_tid: from_end(bit::TID),
            trailer_time: from_end(bit::TIME),
        })
    }

    /// True if its samples have registers and a piece of the stack of the program.
    pub fn has_program(&self) -> bool {
        self.program.is_some()
    }

    /// The `PERF_SAMPLE_*` bits that it was made from.
    pub fn sample_type(&self) -> u64 {
        self.sample_type
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_bits_put_them() {
        let small = SampleLayout::new(bit::TID | bit::TIME | bit::RAW, 0).expect("complete");
        assert_eq!((small.tid, small.time, small.raw), (0, 8, 16));
        assert_eq!((small.trailer_tid, small.trailer_time), (16, 8));
        let bits = bit::IDENTIFIER | bit::TID | bit::TIME | bit::CPU | bit::RAW;
        let full = SampleLayout::new(bits, 0).expect("complete");
        assert_eq!((full.tid, full.time, full.raw), (8, 16, 32));
        assert_eq!((full.trailer_tid, full.trailer_time), (32, 24));
    }

    #[test]
    fn what_it_cannot_read_it_refuses() {
        const READ: u64 = 1 << 4;
        let all = bit::TID | bit::TIME | bit::RAW;
        for bits in [bit::TID | bit::RAW, all | READ, all | bit::REGS_USER, all | bit::STACK_USER] {
            assert_eq!(SampleLayout::new(bits, 1), None);
        }
        assert!(SampleLayout::new(all | bit::REGS_USER | bit::STACK_USER, 1).is_some());
    }
}
