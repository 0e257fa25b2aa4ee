//! Formatting of numbers: a large part of a trace, so it does without the machinery of `std::fmt`.

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Writes `number` in decimal.
pub(super) fn unsigned(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes `number` in decimal, with a minus sign if it is negative.
pub(super) fn signed(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes `number` in hexadecimal, preceded by `0x`.
pub(super) fn hex(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(format!("{number:#x}").as_bytes());
}

/// Writes one byte as two lower-case hexadecimal digits.
pub(super) fn hex_byte(out: &mut Vec<u8>, byte: u8) {
    for nibble in [byte >> 4, byte & 0xf] {
        out.push(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    }
}

/// Writes seconds with nine decimals, right-aligned in `width` columns (0: as short as possible).
pub(super) fn seconds(out: &mut Vec<u8>, ns: i64, width: usize) {
    let mut room = itoa::Buffer::new();
    let whole = room.format(ns.unsigned_abs() / SECOND_NS).as_bytes();
    let length = usize::from(ns < 0) + whole.len() + 1 + 9;
    out.resize(out.len() + width.saturating_sub(length), b' ');
    if ns < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(whole);
    decimals(out, ns.unsigned_abs() % SECOND_NS, SECOND_NS);
}

/// Writes seconds with six decimals, truncated to microseconds.
pub(super) fn seconds_us(out: &mut Vec<u8>, ns: u64) {
    unsigned(out, ns / SECOND_NS);
    decimals(out, ns % SECOND_NS / 1000, SECOND_NS / 1000);
}

/// Writes a point, and all decimals of `part` of `whole`, a power of ten.
fn decimals(out: &mut Vec<u8>, part: u64, whole: u64) {
    let start = out.len();
    // The sum has a one before as many digits as the whole has zeros; the point replaces the one.
    unsigned(out, whole + part);
    if let Some(one) = out.get_mut(start) {
        *one = b'.';
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn times_keep_their_columns() {
        for (ns, expected) in [
            (0, "   0.000000000"),
            (123_456, "   0.000123456"),
            (-500, "  -0.000000500"),
            (i64::MAX, "9223372036.854775807"),
            (i64::MIN, "-9223372036.854775808"),
        ] {
            assert_eq!(text(|out| super::seconds(out, ns, 14)), expected);
        }
        assert_eq!(text(|out| super::seconds(out, 1, 0)), "0.000000001");
        assert_eq!(text(|out| super::seconds_us(out, 1_999_999_999)), "1.999999");
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_std(number: u64, negative: i64, byte: u8) {
            for number in [number, 0, u64::MAX] {
                prop_assert_eq!(text(|out| super::unsigned(out, number)), number.to_string());
            }
            for number in [negative, 0, i64::MIN, i64::MAX] {
                prop_assert_eq!(text(|out| super::signed(out, number)), number.to_string());
            }
            prop_assert_eq!(text(|out| super::hex_byte(out, byte)), format!("{byte:02x}"));
        }
    }
}
