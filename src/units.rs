//! Units and identities, one type each, so that a sector is never taken for a byte and a thread
//! never for a process.

use std::fmt;

/// A point in time as the kernel stamped it: nanoseconds of `CLOCK_MONOTONIC` (since boot, without
/// suspend).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelTime(pub u64);

impl KernelTime {
    /// The first instant: everything is at or after it.
    pub const MIN: Self = Self(0);
    /// The last instant: everything is at or before it.
    pub const MAX: Self = Self(u64::MAX);

    /// Nanoseconds from `start` to this instant; `None` if this instant lies before it.
    pub fn since(self, start: Self) -> Option<TraceTime> {
        self.0.checked_sub(start.0).map(TraceTime)
    }

    /// Nanoseconds from `start`, as a signed number: negative before it.
    pub fn signed_since(self, start: Self) -> i64 {
        i64::try_from(i128::from(self.0) - i128::from(start.0)).unwrap_or(i64::MAX)
    }
}

/// Nanoseconds since the start of the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceTime(pub u64);

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
    /// A process: the kernel's tgid, in the pid namespace of the tracer. 0 is the idle task, or one
    /// that it cannot see; -1 is dead.
    Pid(i32);
    /// A thread: the kernel's pid, in the pid namespace of the tracer. 0 is the idle task.
    Tid(i32);
    /// A file descriptor number as the system call took or returned it; `AT_FDCWD` is -100.
    Fd(i32);
    /// A CPU's number, 0 upwards, with holes where CPUs are offline.
    CpuId(u32);
}

impl Fd {
    /// "The current directory" where a descriptor is expected (`include/uapi/linux/fcntl.h`).
    pub const AT_FDCWD: Self = Self(-100);
}

/// A block device as the kernel numbers it inside: major in the upper 12 bits, minor in the lower
/// 20 (`include/linux/kdev_t.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevId(pub u32);

impl DevId {
    /// From the two numbers as `/proc/diskstats` and `/sys/block/*/dev` print them.
    pub fn new(major: u32, minor: u32) -> Self {
        Self(major << 20 | minor & 0xf_ffff)
    }

    /// As the kernel prints it: `MAJOR:MINOR`.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        (major < 1 << 12 && minor < 1 << 20).then(|| Self::new(major, minor))
    }

    /// The driver's number.
    pub fn major(self) -> u32 {
        self.0 >> 20
    }

    /// The device's number within the driver.
    pub fn minor(self) -> u32 {
        self.0 & 0xf_ffff
    }
}

impl fmt::Display for DevId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major(), self.minor())
    }
}

/// Bytes in one sector: the block layer always counts in 512, whatever the device does
/// (`include/linux/blk_types.h`).
pub const SECTOR_BYTES: u64 = 512;
