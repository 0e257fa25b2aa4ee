//! Values of options: sizes, times, CPUs.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
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
    parse_cpu_list(text)
        .map(Cpus)
        .ok_or_else(|| "a list of CPUs is needed, such as 0-3,8".to_owned())
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
    bytes.filter(|&byte| byte <= 1 << 30).ok_or_else(|| "the size is at most 1G".to_owned())
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

/// Parses the number of a process that runs.
pub(super) fn parse_pid(text: &str) -> Result<i32, String> {
    if text.starts_with('-') && text.parse::<i64>().is_ok() || text == "0" {
        return Err(format!("{text} is not the number of a process"));
    }
    text.parse().map_err(|_| {
        let find = if is_word(text) { format!("pgrep {text}") } else { "ps -e".to_owned() };
        format!("{text} is not the number of a process; find it: {find}")
    })
}

/// Parses the number of a process or thread in a log.
pub(super) fn parse_id(text: &str) -> Result<i32, String> {
    let id = text.parse().ok().filter(|id| *id >= 0);
    id.ok_or_else(|| format!("{text} is not the number of a process or thread"))
}

/// True for a word that may be the name of a program.
fn is_word(text: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    text.starts_with(|letter: char| letter.is_ascii_alphabetic()) && text.chars().all(is_part)
}

/// Parses a whole number from 0 on.
fn parse_whole(text: &str) -> Result<u64, String> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) if text.strip_prefix('-').is_some_and(is_digits) => {
            Err("a number from 0 on is needed, such as 10".to_owned())
        }
        Err(_) if is_digits(text) => Err("the number is too large".to_owned()),
        Err(_) => Err("a whole number is needed, such as 10".to_owned()),
    }
}

/// Parses a number of operations.
pub(super) fn parse_number(text: &str) -> Result<u64, String> {
    parse_whole(text)
}

/// Parses a number of rows, accesses and the like.
pub(super) fn parse_count(text: &str) -> Result<usize, String> {
    usize::try_from(parse_whole(text)?).map_err(|_| "the number is too large".to_owned())
}

/// Parses a number of accesses that are kept: at least 1.
pub(super) fn parse_kept(text: &str) -> Result<usize, String> {
    match parse_count(text)? {
        0 => Err("at least 1 is needed".to_owned()),
        count => Ok(count),
    }
}

/// Parses a number of rounds: at least 1.
pub(super) fn parse_rounds(text: &str) -> Result<NonZeroU32, String> {
    let number = parse_whole(text).map_err(|why| why.replace("from 0", "from 1"))?;
    let number = u32::try_from(number).map_err(|_| "the number is too large".to_owned())?;
    NonZeroU32::new(number).ok_or_else(|| "at least 1 is needed".to_owned())
}

/// Real-time priorities of the tracer's threads.
const PRIORITIES: RangeInclusive<u64> = 1..=38;

/// Parses a real-time priority.
pub(super) fn parse_priority(text: &str) -> Result<u8, String> {
    let priority = parse_whole(text).ok().filter(|priority| PRIORITIES.contains(priority));
    let priority = priority.and_then(|priority| u8::try_from(priority).ok());
    priority.ok_or_else(|| "a priority is a number from 1 to 38".to_owned())
}

/// Message about a size without a number.
const NO_SIZE: &str = "a whole number with a unit is needed, such as 8M (K, M, G)";

/// Parses `64K`, `8M`, `1G`, or bytes: any size.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) =
        text.split_at(text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic()).len());
    if number.is_empty() {
        return Err(NO_SIZE.to_owned());
    }
    if number.starts_with('-') {
        return Err("a size is 0 or more, such as 8M".to_owned());
    }
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(format!("there is no unit {unit}; the units are B, K, M, G and T")),
    };
    let bytes = match number.parse::<u64>() {
        Ok(number) => number.checked_mul(1 << shift),
        Err(_) if number.bytes().all(|byte| byte.is_ascii_digit()) => None,
        Err(_) => return Err(NO_SIZE.to_owned()),
    };
    bytes.ok_or_else(|| "the size is too large".to_owned())
}

/// Size below which a log has no room for its beginning.
const LOG_BYTES_MIN: u64 = 100 << 10;

/// Parses the limit on the size of a log.
pub(super) fn parse_log_size(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        bytes if bytes < LOG_BYTES_MIN => {
            Err("the limit is too small: a log needs at least 100K".to_owned())
        }
        bytes => Ok(bytes),
    }
}

/// Default number of bytes of a stack copy.
const STACK_BYTES: u32 = 8192;
/// Limit on the bytes of a stack copy: the kernel copies fewer (`perf_copy_attr()`), and a record
/// has no more room.
pub(super) const STACK_BYTES_MAX: u32 = 65_000;

/// Parses `fp`, `dwarf`, `dwarf,BYTES`.
pub(super) fn parse_unwind(text: &str) -> Result<Unwind, String> {
    let bytes = match text.split_once(',') {
        None if text == "fp" => return Ok(Unwind::FramePointers),
        None if text == "dwarf" => STACK_BYTES,
        Some(("dwarf", bytes)) => u32::try_from(parse_size(bytes)?).unwrap_or(u32::MAX),
        _ => return Err("the method is fp or dwarf[,BYTES], such as dwarf,16K".into()),
    };
    // The kernel takes multiples of eight.
    let stack_bytes =
        bytes.checked_next_multiple_of(8).filter(|bytes| (8..=STACK_BYTES_MAX).contains(bytes));
    let stack_bytes = stack_bytes.ok_or_else(|| {
        format!("a copy of a stack has 8 to {STACK_BYTES_MAX} bytes, such as dwarf,16K")
    })?;
    Ok(Unwind::Dwarf { stack_bytes })
}

/// Parses `10s`, `500ms`, `100us`, `2m`, `1h`, or seconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.trim_end_matches(char::is_alphabetic).len());
    let wrong = || "a number with a unit is needed, such as 10ms".to_owned();
    if number.is_empty() {
        return Err(wrong());
    }
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 0.001,
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return Err(format!("there is no unit {unit}; the units are ns, us, ms, s, m and h")),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    if number < 0.0 {
        return Err("a duration is not below 0, such as 10s".to_owned());
    }
    let duration = Duration::try_from_secs_f64(number * seconds).ok();
    let duration = duration.filter(|duration| u64::try_from(duration.as_nanos()).is_ok());
    duration.ok_or_else(|| "the duration is too long".to_owned())
}

/// Parses the duration of a recording: above 0.
pub(super) fn parse_limit(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) => Err("a duration is above 0, such as 10s".to_owned()),
        Err(_) if text.starts_with('-') => Err("a duration is above 0, such as 10s".to_owned()),
        Err(why) => Err(why),
    }
}

/// Shortest and longest interval of `top`: the log has a round each 50 ms.
const INTERVALS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(86_400);

/// Parses an interval of `top`.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_limit(text)?;
    match INTERVALS.contains(&interval) {
        true => Ok(interval),
        false => Err("an interval is from 100ms to 24h".to_owned()),
    }
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
        assert_eq!(parse_duration("2min"), parse_duration("120sec"));
        assert!(parse_duration("-1s").is_err());
        assert!(parse_limit("0s").is_err() && parse_limit("1ns").is_ok());
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
