//! Clocks: the only module that reads the time.

use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

use crate::units::KernelTime;

/// Clock of all records and facts: `CLOCK_MONOTONIC` as the kernel stamps it, ns.
///
/// In a time namespace a process reads another clock (`time_namespaces(7)`): the kernel adds an
/// offset to the time that it returns, and none to the times in records.
pub fn now() -> KernelTime {
    let own = nanoseconds(ClockId::CLOCK_MONOTONIC);
    KernelTime(own.saturating_add_signed(offset_ns().saturating_neg()))
}

/// Offset of our time namespace from the kernel's clock, ns.
fn offset_ns() -> i64 {
    static OFFSET_NS: OnceLock<i64> = OnceLock::new();
    *OFFSET_NS.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        monotonic_offset_ns(&text).unwrap_or(0)
    })
}

/// Reads the monotonic offset from `/proc/PID/timens_offsets`: `CLOCK SECONDS NANOSECONDS` in each
/// line.
fn monotonic_offset_ns(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|it| it.strip_prefix("monotonic"))?;
    let mut words = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, ns) = (words.next()?.ok()?, words.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// True if the offset of our time namespace is unknown: the kernel reports only the offset that our
/// children get. (From Linux 6.0 on a process that executes a program gets that offset, too.)
pub fn is_offset_unknown() -> bool {
    let link = |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}"));
    // Kernels without time namespaces have neither.
    link("time").is_ok_and(|own| link("time_for_children").is_ok_and(|it| it != own))
}

/// Wall clock: ns since 1970-01-01 00:00 UTC.
pub fn realtime_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_REALTIME)
}

/// Time of CPUs that this process has used, ns.
pub fn own_cpu_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Both clocks at the same moment.
pub fn both() -> (KernelTime, u64) {
    // A thread may be descheduled between two reads: the pair that was closest together counts.
    let looks = (0..5).map(|_| {
        let (before, wall, after) = (now(), realtime_ns(), now());
        (after.0.saturating_sub(before.0), before.0.midpoint(after.0), wall)
    });
    let (_, time, wall) = looks.min().unwrap_or_default();
    (KernelTime(time), wall)
}

fn nanoseconds(clock: ClockId) -> u64 {
    // No such clock can fail or be negative on Linux (clock_gettime(2)).
    let time = clock_gettime(clock).unwrap_or(TimeSpec::new(0, 0));
    (time.tv_sec() * 1_000_000_000 + time.tv_nsec()).cast_unsigned()
}

/// Sleeps until this time, and some 50 µs longer.
pub fn sleep_until(time: KernelTime) {
    let own = time.0.saturating_add_signed(offset_ns());
    let time = TimeSpec::from_duration(Duration::from_nanos(own));
    // Callers that a signal wakes read the clock and sleep again.
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_that_of_the_monotonic_clock() {
        let text = "monotonic      100000         7\nboottime           5         0\n";
        assert_eq!(monotonic_offset_ns(text), Some(100_000_000_000_007));
        let earlier = "monotonic          -5 999999999\nboottime           0         0\n";
        assert_eq!(monotonic_offset_ns(earlier), Some(-4_000_000_001));
        for nothing in ["", "monotonic", "monotonic 1", "boottime 1 2", "monotonic x 1"] {
            assert_eq!(monotonic_offset_ns(nothing), None, "{nothing}");
        }
    }
}
