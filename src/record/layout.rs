//! Sample layout: the offsets of a sample's fields, computed once from `sample_type` for the hot
//! path.

use super::abi::sample_type as bit;

/// Offsets of the used fields in the body of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleLayout {
    sample_type: u64,
    /// Offset of `u32 pid, tid` in a sample.
    pub(super) tid: usize,
    /// Offset of `u64 time` in a sample.
    pub(super) time: usize,
    /// Offset of `u32 size` in a sample, after which the payload follows. In a sample with a call
    /// chain, the offset of the chain, which precedes them.
    pub(super) raw: usize,
    /// True if `u64 count` and as many addresses precede the payload.
    pub(super) has_chain: bool,
    /// Mask of the registers that follow the payload together with a part of the stack; `None`
    /// without them.
    pub(super) program: Option<u64>,
    /// Distance of `u32 pid, tid` from the end of all other records (`sample_id_all`).
    pub(super) trailer_tid: usize,
    /// Distance of `u64 time` from the end of all other records.
    pub(super) trailer_time: usize,
}

/// `sample_type` bits in the order of the fields in a sample, each eight bytes long.
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

/// Bits of the trailer of other records in their order, each eight bytes long (`struct sample_id`).
const TRAILER_ORDER: [u64; 6] =
    [bit::TID, bit::TIME, bit::ID, bit::STREAM_ID, bit::CPU, bit::IDENTIFIER];

impl SampleLayout {
    /// Creates the layout of this `sample_type` with `sample_id_all`; `registers` is the mask of
    /// the program's registers. Returns `None` if TID, TIME or RAW is missing, if a field of
    /// variable length other than CALLCHAIN precedes RAW, or if there are registers without a stack
    /// or a stack without registers.
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

    /// Returns true if the samples have registers and a part of the stack of the program.
    pub fn has_program(&self) -> bool {
        self.program.is_some()
    }

    /// Returns the mask of the program's registers; `None`: the samples have none.
    pub fn registers(&self) -> Option<u64> {
        self.program
    }

    /// Returns the number of bytes at the end of all other records that say whose they are.
    pub fn trailer_bytes(&self) -> usize {
        self.trailer_tid
    }

    /// Returns the number of bytes at the begin of a sample's body before the first field of
    /// variable length.
    pub fn fixed_bytes(&self) -> usize {
        self.raw
    }

    /// Returns the `PERF_SAMPLE_*` bits from which the layout was created.
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
    fn unreadable_layout_is_refused() {
        const READ: u64 = 1 << 4;
        let all = bit::TID | bit::TIME | bit::RAW;
        for bits in [bit::TID | bit::RAW, all | READ, all | bit::REGS_USER, all | bit::STACK_USER] {
            assert_eq!(SampleLayout::new(bits, 1), None);
        }
        assert!(SampleLayout::new(all | bit::REGS_USER | bit::STACK_USER, 1).is_some());
    }
}
