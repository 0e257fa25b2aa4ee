//! Numbers of ranks in messages.

use std::collections::BTreeSet;

/// Largest number of hosts, recordings and names in messages; further ones are counted.
pub(super) const SHOWN_MAX: usize = 16;

/// Numbers as ranges: `0-3, 7`.
pub(super) fn ranges(numbers: &BTreeSet<u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some(range) if range.1.checked_add(1) == Some(number) => range.1 = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |&(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let texts: Vec<String> = ranges.iter().take(SHOWN_MAX).map(text).collect();
    let more = ranges.len().saturating_sub(SHOWN_MAX);
    let more = if more > 0 { format!(" and {more} more ranges") } else { String::new() };
    texts.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_ranges() {
        let shown = |numbers: &[u64]| ranges(&numbers.iter().copied().collect());
        assert_eq!(shown(&[]), "");
        assert_eq!(shown(&[3]), "3");
        assert_eq!(shown(&[0, 1, 2, 3, 7, 9, 8, u64::MAX]), format!("0-3, 7-9, {}", u64::MAX));
        let odd: Vec<u64> = (0..40).map(|number| 2 * number + 1).collect();
        assert!(shown(&odd).ends_with("31 and 24 more ranges"), "{}", shown(&odd));
    }
}
