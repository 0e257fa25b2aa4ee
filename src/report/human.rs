//! Figures in units for people: at most four digits, followed by the unit.

/// A time.
pub(super) fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => scaled(ns, 1_000, "µs"),
        1_000_000..1_000_000_000 => scaled(ns, 1_000_000, "ms"),
        _ => scaled(ns, 1_000_000_000, "s"),
    }
}

/// A time, if it is known.
pub(super) fn known_time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), time)
}

/// Number of bytes.
pub(super) fn bytes(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|unit| bytes >= unit.0);
    unit.map_or_else(|| format!("{bytes} B"), |(one, name)| scaled(bytes, one, name))
}

/// A number of things: digits in groups of three.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let place = |number: usize| digits.len() - number;
    let with_comma = |(at, digit): (usize, char)| {
        let is_group = at > 0 && place(at).is_multiple_of(3);
        is_group.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(with_comma).collect()
}

/// Two decimals below 10, one below 100.
fn scaled(number: u64, one: u64, unit: &str) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
    let value = number as f64 / one as f64;
    let decimals = match number / one {
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Shortens a text to this number of letters: the end of a longer one follows three dots.
pub(super) fn end_of(text: &str, letters: usize) -> String {
    let count = text.chars().count();
    if count <= letters {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count - letters.saturating_sub(3)).collect();
    format!("...{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units() {
        let times = [0, 999, 1_000, 12_345, 999_999, 1_500_000, 61_000_000_000].map(time);
        assert_eq!(times, ["0 ns", "999 ns", "1.00 µs", "12.3 µs", "1000 µs", "1.50 ms", "61.0 s"]);
        assert_eq!([0, 1023, 1536, 7 << 30].map(bytes), ["0 B", "1023 B", "1.50 KiB", "7.00 GiB"]);
        assert_eq!([7, 1000, 5_979_204].map(count), ["7", "1,000", "5,979,204"]);
        assert_eq!(end_of("/a/long/path", 8), ".../path");
        assert_eq!(end_of("/a/b", 8), "/a/b");
    }
}
