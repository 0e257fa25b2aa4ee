//! Numbers in a variable number of bytes: seven bits in each, the lowest first, a set eighth bit if
//! more follow.

/// Limit on the bytes of a number.
pub(crate) const NUMBER_BYTES_MAX: usize = 10;

/// A field of a record.
pub(crate) trait Field: Sized {
    /// Appends it.
    fn put(self, bytes: &mut Vec<u8>);

    /// Takes the value off the front; `None` if it is incomplete.
    fn take(bytes: &mut &[u8]) -> Option<Self>;
}

impl Field for u64 {
    #[inline]
    fn put(self, bytes: &mut Vec<u8>) {
        let mut rest = self;
        while rest >= 0x80 {
            bytes.push(low_byte(rest) | 0x80);
            rest >>= 7;
        }
        bytes.push(low_byte(rest));
    }

    #[inline]
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let mut value = 0;
        for shift in (0..Self::BITS).step_by(7) {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            value |= Self::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[inline]
fn low_byte(value: u64) -> u8 {
    let [low, ..] = value.to_le_bytes();
    low
}

impl Field for u32 {
    #[inline]
    fn put(self, bytes: &mut Vec<u8>) {
        u64::from(self).put(bytes);
    }

    #[inline]
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Self::try_from(u64::take(bytes)?).ok()
    }
}

impl Field for u8 {
    #[inline]
    fn put(self, bytes: &mut Vec<u8>) {
        bytes.push(self);
    }

    #[inline]
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        Some(byte)
    }
}

/// Encoding with the sign as the lowest bit, so that small negative numbers are short, too.
impl Field for i64 {
    #[inline]
    fn put(self, bytes: &mut Vec<u8>) {
        ((self << 1) ^ (self >> 63)).cast_unsigned().put(bytes);
    }

    #[inline]
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let value = u64::take(bytes)?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

/// A number of bytes, or [`OTF2_UNDEFINED_UINT64`](crate::constants::OTF2_UNDEFINED_UINT64), which
/// becomes 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrUndefined(pub(crate) u64);

impl Field for OrUndefined {
    #[inline]
    fn put(self, bytes: &mut Vec<u8>) {
        self.0.wrapping_add(1).put(bytes);
    }

    #[inline]
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self(u64::take(bytes)?.wrapping_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_kept<T: Field + Copy + PartialEq + std::fmt::Debug>(value: T, length: usize) {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        assert_eq!(bytes.len(), length, "{value:?}");
        for cut in 0..length {
            assert_eq!(T::take(&mut &bytes[..cut]), None, "{value:?}");
        }
        bytes.push(7);
        let mut rest = bytes.as_slice();
        assert_eq!(T::take(&mut rest), Some(value));
        assert_eq!(rest, [7]);
    }

    #[test]
    fn numbers_come_back() {
        for (value, length) in [(0, 1), (127, 1), (128, 2), (1 << 63, 10), (u64::MAX, 10)] {
            assert_kept(value, length);
        }
        for (value, length) in [(0, 1), (-1, 1), (-64, 1), (64, 2), (i64::MIN, 10), (i64::MAX, 10)]
        {
            assert_kept(value, length);
        }
        assert_kept(u32::MAX, 5);
        assert_kept(u8::MAX, 1);
        assert_kept(OrUndefined(u64::MAX), 1);
        assert_kept(OrUndefined(u64::MAX - 1), 10);
    }

    #[test]
    fn value_that_does_not_fit_is_none() {
        assert_eq!(u32::take(&mut [0xff, 0xff, 0xff, 0xff, 0x1f].as_slice()), None);
        assert_eq!(u64::take(&mut [0xff; 11].as_slice()), None);
    }
}
