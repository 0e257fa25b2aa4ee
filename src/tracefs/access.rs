//! Compiled accessors of numbers: the part of a format that the hot path keeps.

/// Sizes of an integer in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    One,
    Two,
    Four,
    Eight,
}

impl Width {
    fn from_bytes(size: u32) -> Option<Self> {
        Some(match size {
            1 => Self::One,
            2 => Self::Two,
            4 => Self::Four,
            8 => Self::Eight,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    fn read(self, payload: &[u8], offset: usize) -> Option<u64> {
        let bytes = payload.get(offset..)?;
        Some(match self {
            Self::One => u64::from(*bytes.first()?),
            Self::Two => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
            Self::Four => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
            Self::Eight => u64::from_le_bytes(*bytes.first_chunk()?),
        })
    }

    fn sign_extend(self, bits: u64) -> i64 {
        let unused = match self {
            Self::One => 56,
            Self::Two => 48,
            Self::Four => 32,
            Self::Eight => 0,
        };
        (bits << unused).cast_signed() >> unused
    }
}

/// Reads an integer of 1, 2, 4 or 8 bytes, little-endian, at a fixed place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntField {
    offset: usize,
    width: Width,
    signed: bool,
}

impl IntField {
    /// Creates the accessor; `None` for a size that no integer has.
    pub(super) fn new(offset: usize, size: u32, signed: bool) -> Option<Self> {
        Some(Self { offset, width: Width::from_bytes(size)?, signed })
    }

    /// Returns the field's bits, zero-extended even if the kernel declares the field signed: -1 in
    /// four bytes is 4294967295. Returns `None` when the payload is too short.
    #[must_use]
    pub fn read_u64(&self, payload: &[u8]) -> Option<u64> {
        self.width.read(payload, self.offset)
    }

    /// Returns the field's value: sign-extended if the kernel declares the field signed, else
    /// zero-extended (an unsigned field of eight bytes above `i64::MAX` becomes negative). Returns
    /// `None` when the payload is too short.
    #[must_use]
    pub fn read_i64(&self, payload: &[u8]) -> Option<i64> {
        let bits = self.read_u64(payload)?;
        Some(if self.signed { self.width.sign_extend(bits) } else { bits.cast_signed() })
    }
}

/// Reads the elements of an array of integers at a fixed place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayField {
    offset: usize,
    width: Width,
    count: usize,
}

impl ArrayField {
    /// Creates the accessor; `None` for an element size that no integer has.
    pub(super) fn new(offset: usize, element_size: u32, count: usize) -> Option<Self> {
        Some(Self { offset, width: Width::from_bytes(element_size)?, count })
    }

    /// Returns the number of elements, at least 1.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the bits of the element `index` (from 0), zero-extended. Returns `None` after the
    /// end of the array or when the payload is too short.
    #[must_use]
    pub fn read_u64(&self, payload: &[u8], index: usize) -> Option<u64> {
        if index >= self.count {
            return None;
        }
        let distance = index.checked_mul(self.width.bytes())?;
        self.width.read(payload, self.offset.checked_add(distance)?)
    }

    /// Returns the bits of the first elements, zero-extended as by [`Self::read_u64`].
    #[must_use]
    pub fn read_first<const N: usize>(&self, payload: &[u8]) -> Option<[u64; N]> {
        let mut values = [0; N];
        if self.width == Width::Eight && N <= self.count {
            // Eight-byte elements are read all at once: registers are read for every second sample.
            let bytes = payload.get(self.offset..)?.get(..N.checked_mul(8)?)?;
            for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(8)) {
                *value = u64::from_le_bytes(*bytes.first_chunk()?);
            }
        } else {
            for (index, value) in values.iter_mut().enumerate() {
                *value = self.read_u64(payload, index)?;
            }
        }
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: [u8; 10] = [0xff, 0xfe, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0x80];

    #[track_caller]
    fn check(offset: usize, size: u32, unsigned: u64, signed: i64) {
        let field = |signed| IntField::new(offset, size, signed).expect("an integer's size");
        assert_eq!(field(true).read_u64(&PAYLOAD), Some(unsigned));
        assert_eq!(field(false).read_u64(&PAYLOAD), Some(unsigned));
        assert_eq!(field(true).read_i64(&PAYLOAD), Some(signed));
        assert_eq!(field(false).read_i64(&PAYLOAD), Some(unsigned.cast_signed()));
    }

    #[test]
    fn integers_of_every_width() {
        check(0, 1, 0xff, -1);
        check(1, 2, 0xfffe, -2);
        check(1, 4, 0xffff_fffe, -2);
        check(4, 2, 0x7fff, 0x7fff);
        check(2, 8, 0x8000_0000_7fff_ffff, 0x8000_0000_7fff_ffff_u64.cast_signed());
    }

    #[test]
    fn a_short_payload_has_no_value() {
        for (offset, size) in [(10, 1), (9, 2), (7, 4), (3, 8), (11, 1), (usize::MAX, 8)] {
            let field = IntField::new(offset, size, false).expect("an integer's size");
            assert_eq!(field.read_u64(&PAYLOAD), None, "{size} bytes at {offset}");
            assert_eq!(field.read_i64(&PAYLOAD), None, "{size} bytes at {offset}");
        }
        assert_eq!(IntField::new(0, 3, false), None);
    }

    #[test]
    fn array_elements() {
        let array = ArrayField::new(1, 2, 4).expect("an integer's size");
        let elements: Vec<_> = (0..5).map(|index| array.read_u64(&PAYLOAD, index)).collect();
        assert_eq!(elements, [Some(0xfffe), Some(0xffff), Some(0x7f), Some(0), None]);
        assert_eq!(array.read_u64(PAYLOAD.split_at(8).0, 3), None, "cut payload");

        let far = ArrayField::new(usize::MAX, 8, usize::MAX).expect("an integer's size");
        assert_eq!(far.read_u64(&PAYLOAD, usize::MAX - 1), None);
        assert_eq!(far.read_first::<1>(&PAYLOAD), None);
    }

    #[test]
    fn the_first_elements_are_those_one_by_one() {
        let payload: Vec<u8> = (0..40).collect();
        for (size, count, length) in [(8, 6, 40), (8, 3, 40), (8, 3, 25), (8, 2, 40), (4, 3, 40)] {
            let array = ArrayField::new(2, size, count).expect("an integer's size");
            let payload = &payload[..length];
            let one_by_one: Option<Vec<u64>> =
                (0..3).map(|index| array.read_u64(payload, index)).collect();
            let together = array.read_first::<3>(payload).map(Vec::from);
            assert_eq!(together, one_by_one, "{count} of {size} bytes in {length}");
        }
    }
}
