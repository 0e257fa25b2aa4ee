//! Values of options: sizes, times, CPUs.

use std::fmt;
use std::time::Duration;

use crate::sys::cpu_topology::parse_cpu_list;
use crate::sys::perf::Unwind;
use crate::sys::ring::page_bytes;

/// Default number of accesses that are kept of a watched file.
pub(super) const WATCHED_MAX: usize = 10_000;

/// A list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cpus(pub(super) Vec<u32>);

/// Parses a CPU list as the kernel writes it: `0-3,8`.
pub(super) fn parse_cpus(text: &str) -> Result<Cpus, String> {
    parse_cpu_list(text).map(Cpus).ok_or_else(|| "CPUs are given like 0-3,8".to_owned())
}

/// Parses `2`, `0.5`, `max`.
pub(super) fn parse_speed(text: &str) -> Result<SpeedArg, String> {
    let is_speed = |number: &f64| number.is_finite() && *number > 0.0;
    match (text, text.parse().ok().filter(is_speed)) {
        ("max", _) => Ok(SpeedArg::Max),
        (_, Some(times)) => Ok(SpeedArg::Times(times)),
        _ => Err("a speed is a number above 0, such as 2 or 0.5, or max".to_owned()),
    }
}

/// Parses `sparse`, `zero`, `random`, `random:SEED`, `compress:PERCENT`.
pub(super) fn parse_content(text: &str) -> Result<ContentArg, String> {
    let (word, number) =
        text.split_once(':').map_or((text, None), |halves| (halves.0, Some(halves.1)));
    let wanted = "the content of files is sparse, zero, random, random:SEED or compress:PERCENT";
    let wrong = || wanted.to_owned();
    match (word, number) {
        ("sparse", None) => Ok(ContentArg::Sparse),
        ("zero", None) => Ok(ContentArg::Zero),
        ("random", None) => Ok(ContentArg::RANDOM),
        ("random", Some(seed)) => seed.parse().map(ContentArg::Random).map_err(|_| wrong()),
        ("compress", Some(percent)) => {
            let percent = percent.parse().ok().filter(|value| *value <= 100);
            percent.map(ContentArg::Compressible).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// Parses the content of files, or `original`.
pub(super) fn parse_init_content(text: &str) -> Result<InitContentArg, String> {
    match text {
        "original" => Ok(InitContentArg::Original),
        _ => {
            parse_content(text).map(InitContentArg::MadeUp).map_err(|error| error + ", or original")
        }
    }
}

/// Parses `64K`, `8M`, `1G`, or bytes: the size of memory or a file to be made.
pub(super) fn parse_size(text: &str) -> Result<usize, String> {
    let bytes = usize::try_from(parse_bytes(text)?).ok();
    bytes.filter(|&byte| byte <= 1 << 30).ok_or_else(|| "at most 1G".to_owned())
}

/// Parses the size of a ring: a page at least.
pub(super) fn parse_ring_size(text: &str) -> Result<usize, String> {
    let page = page_bytes();
    match parse_size(text)? {
        bytes if bytes < page => {
            Err(format!("a ring has at least {page} bytes; the default is 8M"))
        }
        bytes => Ok(bytes),
    }
}

/// Parses the number of a process.
pub(super) fn parse_pid(text: &str) -> Result<i32, String> {
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| format!("{text} is not the number of a process; find it: pgrep {text}"))
}

/// Parses `64K`, `8M`, `1G`, or bytes: any size.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) =
        text.split_at(text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic()).len());
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return Err(format!("unknown unit {unit}; use K, M or G")),
    };
    let number: u64 =
        number.parse().map_err(|_| "a number with K, M or G is needed, such as 8M".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "more than 2^64 bytes".to_owned())
}

/// Default number of bytes of a stack copy.
const STACK_BYTES: u32 = 8192;
/// Limit on the bytes of a stack copy: the kernel copies fewer (`perf_copy_attr()`), and a record
/// has no more room.
pub(super) const STACK_BYTES_MAX: u32 = 65_000;

pub(super) fn parse_unwind(text: &str) -> Result<Unwind, String> {
    let bytes = match text.split_once(',') {
        None if text == "fp" => return Ok(Unwind::FramePointers),
        None if text == "dwarf" => STACK_BYTES,
        Some(("dwarf", bytes)) => u32::try_from(parse_size(bytes)?).unwrap_or(u32::MAX),
        _ => return Err("neither fp nor dwarf[,BYTES]".into()),
    };
    // The kernel takes multiples of eight.
    let stack_bytes =
        bytes.checked_next_multiple_of(8).filter(|bytes| (8..=STACK_BYTES_MAX).contains(bytes));
    let stack_bytes = stack_bytes.ok_or_else(|| format!("8 to {STACK_BYTES_MAX} bytes"))?;
    Ok(Unwind::Dwarf { stack_bytes })
}

/// Parses `10s`, `500ms`, `100us`, `2m`, `1h`, or seconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.trim_end_matches(char::is_alphabetic).len());
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit {unit}; use us, ms, s, m or h")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "a number with ms, s, m or h is needed, such as 10s".to_owned())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

/// Speed of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SpeedArg {
    /// Factor above 0, relative to the capture.
    Times(f64),
    /// No pauses.
    Max,
}

/// Generated content of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentArg {
    /// Holes without data.
    Sparse,
    /// Zero bytes.
    Zero,
    /// Incompressible bytes made from this seed.
    Random(u64),
    /// Bytes of which this percentage is zeros.
    Compressible(u8),
}

impl ContentArg {
    /// Default content.
    pub(super) const RANDOM: Self = Self::Random(0);
}

/// Content of the files that exist before the first operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InitContentArg {
    /// Content of the captured files.
    Original,
    /// Generated content.
    MadeUp(ContentArg),
}

impl fmt::Display for ContentArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sparse => f.write_str("sparse"),
            Self::Zero => f.write_str("zero"),
            Self::Random(seed) => write!(f, "random:{seed}"),
            Self::Compressible(percent) => write!(f, "compress:{percent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations() {
        assert_eq!(parse_size("512K"), Ok(512 << 10));
        assert_eq!(parse_size("8MiB"), Ok(8 << 20));
        assert!(parse_size("8X").is_err());
        assert!(parse_size("9G").is_err());
        assert_eq!(parse_bytes("9G"), Ok(9 << 30));
        assert!(parse_bytes("99999999999G").is_err());
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        assert!(parse_duration("-1s").is_err());
        assert_eq!(parse_cpus("0-2,8"), Ok(Cpus(vec![0, 1, 2, 8])));
        assert!(parse_cpus("a").is_err());
    }

    #[test]
    fn contents_are_read_as_they_are_printed() {
        for text in ["sparse", "zero", "random:7", "compress:50", "original"] {
            assert_eq!(
                parse_init_content(text).map(|init_content| init_content.to_string()),
                Ok(text.to_owned())
            );
        }
        assert_eq!(parse_content("random"), Ok(ContentArg::RANDOM));
        assert!(parse_content("original").is_err() && parse_init_content("compress:101").is_err());
    }
}
