//! The only place that asks for the time.

use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

use crate::units::KernelTime;

/// The clock of all records and facts: `CLOCK_MONOTONIC`, ns.
pub fn now() -> KernelTime {
    KernelTime(nanoseconds(ClockId::CLOCK_MONOTONIC))
}

/// Wall clock: ns since 1970-01-01 00:00 UTC.
pub fn realtime_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_REALTIME)
}

/// Both at the same moment.
pub fn both() -> (KernelTime, u64) {
    // A thread may have to wait between two looks: the pair that was closest together counts.
    let looks = (0..5).map(|_| {
        let (before, wall, after) = (now(), realtime_ns(), now());
        (after.0.saturating_sub(before.0), before.0.midpoint(after.0), wall)
    });
    let (_, time, wall) = looks.min().unwrap_or_default();
    (KernelTime(time), wall)
}

fn nanoseconds(clock: ClockId) -> u64 {
    // Neither clock can fail or be negative on Linux (clock_gettime(2)).
    let time = clock_gettime(clock).unwrap_or(TimeSpec::new(0, 0));
    (time.tv_sec() * 1_000_000_000 + time.tv_nsec()).cast_unsigned()
}

/// Sleeps until then, and some 50 µs longer.
pub fn sleep_until(time: KernelTime) {
    let time = TimeSpec::from_duration(Duration::from_nanos(time.0));
    // Whoever is woken by a signal looks at the clock and sleeps again.
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &time);
}
