//! The only place that asks for the time.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::units::KernelTime;

/// The clock of all records and facts: `CLOCK_MONOTONIC`, ns.
pub fn now() -> KernelTime {
    KernelTime(nanoseconds(ClockId::CLOCK_MONOTONIC))
}

/// Wall clock: ns since 1970-01-01 00:00 UTC.
pub fn realtime_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_REALTIME)
}

fn nanoseconds(clock: ClockId) -> u64 {
    // Neither clock can fail or be negative on Linux (clock_gettime(2)).
    let time = clock_gettime(clock).map(Duration::from).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
