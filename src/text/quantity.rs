//! Quantities for people: three digits and a unit, and counts with their thousands separated.

pub use crate::units::{count, counted, counted_as, counted_with};

/// A unit: nanoseconds or bytes in it, and its name.
type NamedUnit = (u64, &'static str);

/// Units of times: nanoseconds in each.
const TIMES: [NamedUnit; 4] = [(1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s")];

/// Units of sizes: bytes in each.
const SIZES: [(u64, &str); 6] = [
    (1, "B"),
    (1_000, "kB"),
    (1_000_000, "MB"),
    (1_000_000_000, "GB"),
    (1_000_000_000_000, "TB"),
    (1_000_000_000_000_000, "PB"),
];

/// Nanoseconds in a minute, and in an hour.
const MINUTE_NS: u64 = 60_000_000_000;
const HOUR_NS: u64 = 60 * MINUTE_NS;

/// Longest time that is shown in seconds, ns.
const SECONDS_NS_MAX: u64 = 2 * MINUTE_NS;

/// Formats a time: `850 ns`, `12.3 µs`, `4.05 s`, `3 min 20 s`, `1 h 5 min`.
pub fn time(ns: u64) -> String {
    match ns {
        0..SECONDS_NS_MAX => in_units(ns, &TIMES),
        SECONDS_NS_MAX..HOUR_NS => {
            format!("{} min {} s", ns / MINUTE_NS, ns % MINUTE_NS / 1_000_000_000)
        }
        _ => format!("{} h {} min", ns / HOUR_NS, ns % HOUR_NS / MINUTE_NS),
    }
}

/// Formats a time with the range that it is from, in the unit of the time: `2.50 ms (1.92–9.53)`.
pub fn time_in_range(ns: u64, low: u64, high: u64) -> String {
    if high >= SECONDS_NS_MAX {
        return format!("{} ({}–{})", time(ns), time(low), time(high));
    }
    let unit = ColumnUnit::of_times(&[ns]);
    format!("{} ({}–{})", time(ns), unit.format(low), unit.format(high))
}

/// Formats a number of bytes: `999 B`, `4.10 kB`, `23.6 MB`.
pub fn size(bytes: u64) -> String {
    in_units(bytes, &SIZES)
}

/// Unit and decimals that all values of a column have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColumnUnit {
    /// Name of the unit.
    pub(super) name: &'static str,
    unit: u64,
    decimals: u32,
}

/// Limit of the largest of values that are compared, in their unit.
const COMPARED_MAX: u64 = 10_000_000;

/// Largest number of decimals in a column.
const DECIMALS_MAX: u32 = 3;

impl ColumnUnit {
    /// Returns the unit of a column of times, ns.
    pub(super) fn of_times(values: &[u64]) -> Self {
        Self::of(values, &TIMES)
    }

    /// Returns the unit of a column of sizes in bytes.
    pub(super) fn of_sizes(values: &[u64]) -> Self {
        Self::of(values, &SIZES)
    }

    /// Returns the units of columns of times that are compared in a row, such as percentiles: all
    /// have one unit, in which the smallest value has at least two digits, and decimals of their
    /// own.
    pub(super) fn of_compared_times(columns: &[Vec<u64>]) -> Vec<Self> {
        let all = || columns.iter().flatten().copied();
        let max = all().max().unwrap_or(0);
        let min = all().filter(|value| *value > 0).min().unwrap_or(0);
        let is_large = |unit: u64| min.saturating_mul(100) >= unit && max >= unit;
        // The largest value gets few digits before all small ones get two.
        let is_short = |unit: u64| max / unit < COMPARED_MAX;
        let units = || TIMES.iter().copied();
        let fitting = units().rev().find(|(unit, _)| is_large(*unit) && is_short(*unit));
        let unit = fitting.or_else(|| units().find(|(unit, _)| is_short(*unit)));
        let unit = unit.unwrap_or((1, "ns"));
        columns.iter().map(|values| Self::in_unit(values, unit)).collect()
    }

    /// Returns the largest unit of which the largest value has at least one.
    fn of(values: &[u64], units: &[(u64, &'static str)]) -> Self {
        let max = values.iter().copied().max().unwrap_or(0);
        let fitting = units.iter().rev().find(|(unit, _)| max >= *unit);
        Self::in_unit(values, *fitting.or(units.first()).unwrap_or(&(1, "")))
    }

    /// Returns a unit with the decimals that give the largest value three digits, or more if the
    /// smallest value needs them.
    fn in_unit(values: &[u64], unit: NamedUnit) -> Self {
        let (unit, name) = unit;
        let max = values.iter().copied().max().unwrap_or(0);
        let min = values.iter().copied().filter(|value| *value > 0).min().unwrap_or(0);
        let for_max =
            (0..3).rev().find(|decimals| rounded(max, unit, *decimals) < 1000).unwrap_or(0);
        let for_min = (0..=DECIMALS_MAX).find(|decimals| rounded(min, unit, *decimals) >= 1);
        let decimals = match unit {
            1 => 0,
            _ => for_max.max(for_min.unwrap_or(DECIMALS_MAX)),
        };
        Self { name, unit, decimals }
    }

    /// Formats a value without the name of the unit; `<0.001` is more than nothing.
    pub(super) fn format(&self, value: u64) -> String {
        let digits = rounded(value, self.unit, self.decimals);
        let width = self.decimals as usize;
        match (digits, value, self.decimals) {
            (0, 0, _) => "0".to_owned(),
            (0, _, 1..) => format!("<0.{:0width$}", 1),
            _ => with_decimals(digits, self.decimals),
        }
    }
}

/// Formats a value with three digits, in the largest unit of which it has at least one after
/// rounding; values below the second unit are exact.
fn in_units(value: u64, units: &[(u64, &str)]) -> String {
    let is_large = |place: usize, unit: u64| {
        let smaller = units.get(place - 1).filter(|_| place > 1);
        value >= unit || smaller.is_some_and(|(smaller, _)| rounded(value, *smaller, 0) >= 1000)
    };
    let larger = units.iter().enumerate().skip(1);
    let found = larger.rev().find(|(place, (unit, _))| is_large(*place, *unit));
    let Some((_, (unit, name))) = found else {
        return format!("{value} {}", units.first().map_or("", |(_, name)| *name));
    };
    let decimals = (0..3).rev().find(|decimals| rounded(value, *unit, *decimals) < 1000);
    format!(
        "{} {name}",
        with_decimals(rounded(value, *unit, decimals.unwrap_or(0)), decimals.unwrap_or(0))
    )
}

/// Formats a number that was multiplied by ten to the power of its decimals.
fn with_decimals(digits: u64, decimals: u32) -> String {
    let scale = 10_u64.pow(decimals);
    match decimals {
        0 => count(digits),
        _ => format!(
            "{}.{:0width$}",
            count(digits / scale),
            digits % scale,
            width = decimals as usize
        ),
    }
}

/// Returns a value in units, times ten to the power of the decimals, rounded.
fn rounded(value: u64, unit: u64, decimals: u32) -> u64 {
    let scaled = u128::from(value) * 10_u128.pow(decimals) + u128::from(unit) / 2;
    u64::try_from(scaled / u128::from(unit)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_has_the_unit_of_its_time() {
        assert_eq!(time_in_range(2_500_000, 1_920_000, 9_530_000), "2.50 ms (1.92–9.53)");
        assert_eq!(time_in_range(900, 800, 12_000), "900 ns (800–12,000)");
        assert_eq!(
            time_in_range(60_000_000_000, 50_000_000_000, 180_000_000_000),
            "60.0 s (50.0 s–3 min 0 s)"
        );
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        for (ns, text) in [
            (0, "0 ns"),
            (850, "850 ns"),
            (999, "999 ns"),
            (1000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (999_499, "999 µs"),
            (999_999, "1.00 ms"),
            (463_000_000, "463 ms"),
            (4_049_999_999, "4.05 s"),
            (99_949_999_999, "99.9 s"),
            (119_000_000_000, "119 s"),
            (200_000_000_000, "3 min 20 s"),
            (3_900_000_000_000, "1 h 5 min"),
        ] {
            assert_eq!(time(ns), text, "{ns}");
        }
    }

    #[test]
    fn sizes_have_three_digits_and_a_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (4096, "4.10 kB"),
            (23_600_000, "23.6 MB"),
            (999_999, "1.00 MB"),
            (u64::MAX, "18,447 PB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[track_caller]
    fn check_column(values: &[u64], unit: &str, shown: &[&str]) {
        let column = ColumnUnit::of_times(values);
        let texts: Vec<String> = values.iter().map(|value| column.format(*value)).collect();
        assert_eq!((column.name, texts), (unit, shown.iter().map(ToString::to_string).collect()));
    }

    #[test]
    fn column_has_one_unit() {
        check_column(&[], "ns", &[]);
        check_column(&[0, 0], "ns", &["0", "0"]);
        check_column(&[7, 850], "ns", &["7", "850"]);
        check_column(&[4_050_000_000, 463_000_000, 0], "s", &["4.05", "0.46", "0"]);
        check_column(&[4_050_000_000, 4_630_000, 12_000], "s", &["4.050", "0.005", "<0.001"]);
        check_column(&[123_456, 12_345], "µs", &["123", "12"]);
        check_column(&[7_200_000_000_000, 1_000_000_000], "s", &["7,200", "1"]);
    }

    #[test]
    fn thousands_are_separated() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (20_480, "20,480"), (1_234_567, "1,234,567")]
        {
            assert_eq!(count(number), text);
        }
        assert_eq!(
            (counted(1, "file"), counted(2000, "file")),
            ("1 file".into(), "2,000 files".into())
        );
    }
}
