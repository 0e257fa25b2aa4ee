//! Units and identities. Each has a type of its own, so that a sector cannot be used as a byte or a
//! thread as a process.

use std::fmt;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Point in time as the kernel recorded it: nanoseconds of `CLOCK_MONOTONIC` (since boot, without
/// suspend).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelTime(pub u64);

impl KernelTime {
    /// First instant: all others are at or after it.
    pub const MIN: Self = Self(0);
    /// Last instant: all others are at or before it.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the nanoseconds from `start` to this instant; `None` if this instant is before
    /// `start`.
    pub fn since(self, start: Self) -> Option<Nanos> {
        self.0.checked_sub(start.0).map(Nanos)
    }

    /// Returns the nanoseconds from `start` as a signed number, which is negative before `start`.
    pub fn signed_since(self, start: Self) -> i64 {
        i64::try_from(i128::from(self.0) - i128::from(start.0)).unwrap_or(i64::MAX)
    }
}

/// Point in time of a plan: nanoseconds since its first operation began. Times of a replay count
/// from the begin of the replay, or from that of its window.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ReplayTime(pub u64);

impl ReplayTime {
    /// Begin of the first operation: all other times are at or after it.
    pub const MIN: Self = Self(0);
    /// Last instant: all others are at or before it.
    pub const MAX: Self = Self(u64::MAX);

    /// Converts a time of the kernel's clock, by which the first operation began at `first`. Times
    /// before it become [`Self::MIN`].
    #[inline]
    pub fn of(time: KernelTime, first: KernelTime) -> Self {
        Self(time.0.saturating_sub(first.0))
    }

    /// Returns this time by the kernel's clock, by which the first operation began at `first`.
    #[inline]
    pub fn by_clock(self, first: KernelTime) -> KernelTime {
        KernelTime(first.0.saturating_add(self.0))
    }

    /// Returns the time from `start` to this instant; 0 if this instant is before `start`.
    #[inline]
    pub fn since(self, start: Self) -> Nanos {
        Nanos(self.0.saturating_sub(start.0))
    }

    /// Returns the instant after `duration`, [`Self::MAX`] at most.
    #[inline]
    #[must_use]
    pub fn saturating_add(self, duration: Nanos) -> Self {
        Self(self.0.saturating_add(duration.0))
    }

    /// Returns the instant before `duration`, [`Self::MIN`] at least.
    #[inline]
    #[must_use]
    pub fn saturating_sub(self, duration: Nanos) -> Self {
        Self(self.0.saturating_sub(duration.0))
    }
}

impl fmt::Display for ReplayTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Duration in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl AddAssign for Nanos {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

macro_rules! identity {
    ($($(#[$doc:meta])+ $name:ident($inner:ty);)*) => {$(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

identity! {
    /// Process: the kernel's tgid in the pid namespace of the tracer. 0 is the idle task, or a task
    /// that this namespace does not show; -1 is a dead task.
    Pid(i32);
    /// Thread: the kernel's pid in the pid namespace of the tracer. 0 is the idle task.
    Tid(i32);
    /// File descriptor number as the system call took or returned it; `AT_FDCWD` is -100.
    Fd(i32);
    /// Number of a CPU, from 0, with gaps where CPUs are offline.
    CpuId(u32);
}

impl Fd {
    /// "The current directory" where a descriptor is expected (`include/uapi/linux/fcntl.h`).
    pub const AT_FDCWD: Self = Self(-100);
}

/// Block device as the kernel numbers it internally: major in the upper 12 bits, minor in the lower
/// 20 (`include/linux/kdev_t.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevId(pub u32);

impl DevId {
    /// Creates the identity from the two numbers that `/proc/diskstats` and `/sys/block/*/dev`
    /// print.
    pub fn new(major: u32, minor: u32) -> Self {
        Self(major << 20 | minor & 0xf_ffff)
    }

    /// Parses the form that the kernel prints: `MAJOR:MINOR`.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        (major < 1 << 12 && minor < 1 << 20).then(|| Self::new(major, minor))
    }

    /// Returns the number of the driver.
    pub fn major(self) -> u32 {
        self.0 >> 20
    }

    /// Returns the number of the device within the driver.
    pub fn minor(self) -> u32 {
        self.0 & 0xf_ffff
    }
}

impl fmt::Display for DevId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major(), self.minor())
    }
}

/// Bytes of a sector: the block layer always counts in 512 bytes, independently of the device
/// (`include/linux/blk_types.h`).
pub const SECTOR_BYTES: u64 = 512;

/// Formats a count: `20,480`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1 file`, `2,000 files`, `3 processes`. The noun is in the
/// singular.
pub fn counted(number: u64, noun: &str) -> String {
    let stem = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o']));
    let noun = match stem {
        _ if number == 1 => noun.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with(['s', 'x']) => format!("{noun}es"),
        None => format!("{noun}s"),
    };
    format!("{} {noun}", count(number))
}

/// Formats a count with words in the singular or the plural: `1 file or directory`, `2 files and
/// directories`.
pub fn counted_as(number: u64, [one, many]: [&str; 2]) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Formats a count with its noun and the rest of a sentence, in the singular and in the plural:
/// `1 file was gone`, `2 files were gone`.
pub fn counted_with(number: u64, noun: &str, [one, many]: [&str; 2]) -> String {
    format!("{} {}", counted(number, noun), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_agree_with_their_nouns() {
        let nouns = ["file", "process", "directory", "delay", "address", "box"];
        assert_eq!(nouns.map(|noun| counted(1, noun)), nouns.map(|noun| format!("1 {noun}")));
        let many = ["files", "processes", "directories", "delays", "addresses", "boxes"];
        assert_eq!(nouns.map(|noun| counted(2000, noun)), many.map(|noun| format!("2,000 {noun}")));
        let gone = [0, 1, 2].map(|number| counted_with(number, "file", ["was gone", "were gone"]));
        assert_eq!(gone, ["0 files were gone", "1 file was gone", "2 files were gone"]);
        assert_eq!(counted_as(1, ["child", "children"]), "1 child");
    }
}
