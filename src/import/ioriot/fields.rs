//! Fields that the lines of all versions have in common: metadata, numbers, times.

/// Nanoseconds of a millisecond.
pub(super) const MS: u64 = 1_000_000;

/// Finds `KEY=value|` in a line of the kind `#|KEY=value|KEY=value|`.
pub(super) fn meta<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    line.split(|line| *line == b'|').find_map(|part| part.strip_prefix(key)?.strip_prefix(b"="))
}

/// Parses a decimal number, with a sign or not.
pub(super) fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
