//! Decimal numbers of logs: integers, and times with a fraction.

/// Nanoseconds of a second.
pub(super) const SECOND: u64 = 1_000_000_000;

/// Parses a decimal integer without a sign.
pub(super) fn integer<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses decimal seconds, to the nanosecond.
pub(super) fn seconds(text: &[u8]) -> Option<u64> {
    scaled(text, SECOND)
}

/// Parses a decimal number with at most nine digits after the point, and multiplies it by `unit`;
/// what remains below 1 is left out.
pub(super) fn scaled(text: &[u8], unit: u64) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let parts = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let below = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let below = u64::try_from(below * u128::from(unit) / parts).ok()?;
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact() {
        assert_eq!(seconds(b"1.000000310"), Some(1_000_000_310));
        assert_eq!(seconds(b"7"), Some(7 * SECOND));
        assert_eq!(scaled(b"0.25", 1000), Some(250));
        assert_eq!(scaled(b"128166372003061629", 100), Some(12_816_637_200_306_162_900));
        for wrong in [&b""[..], b".5", b"1.2.3", b"-1", b"1e3", b"1.0000000001", b"99999999999999"]
        {
            assert_eq!(scaled(wrong, SECOND), None, "{wrong:?}");
        }
    }
}
