//! Cycle counter that is read in half the time of the clock, where the machine has a reliable one.

use std::fs;

use crate::sys::clock;
use crate::units::KernelTime;

/// Counter that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CounterKind {
    /// The processor's time stamp counter.
    #[cfg(target_arch = "x86_64")]
    TimeStamps,
    /// The clock itself.
    Clock,
}

/// A counter, with its value and that of the clock at one earlier moment.
#[derive(Clone, Copy, Debug)]
pub struct CycleCounter {
    source: CounterKind,
    since: ClockSample,
}

/// A counter and the clock at the same moment.
#[derive(Clone, Copy, Debug)]
pub struct ClockSample {
    ticks: u64,
    time: KernelTime,
}

/// Binary fraction digits of a fixed-point number.
const FRACTION_BITS: u32 = 32;

impl CycleCounter {
    /// Selects the best counter of this machine. To be called where `/sys` is visible, some time
    /// before the first measurement.
    ///
    /// The kernel's clock source is `tsc` only where the counters of all CPUs run in step and at a
    /// constant rate (`Documentation/virt/kvm/x86/timekeeping.rst`, `arch/x86/kernel/tsc.c`).
    pub fn new() -> Self {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = match fs::read_to_string(path) {
            #[cfg(target_arch = "x86_64")]
            Ok(name) if name.trim() == "tsc" => CounterKind::TimeStamps,
            _ => CounterKind::Clock,
        };
        Self { source, since: both(source) }
    }

    /// Reads the counter.
    pub fn now(&self) -> u64 {
        read(self.source)
    }

    /// Reads the counter and the clock.
    pub fn both(&self) -> ClockSample {
        both(self.source)
    }

    /// Time at which the counter had this value, at `at` or before.
    pub fn time(&self, ticks: u64, at: ClockSample) -> KernelTime {
        let passed = u128::from(at.ticks.saturating_sub(ticks));
        let ns = (passed * u128::from(self.scale(at))) >> FRACTION_BITS;
        KernelTime(at.time.0.saturating_sub(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// Length of a tick in ns, from the first reading until `at`.
    fn scale(&self, at: ClockSample) -> u64 {
        let ticks = at.ticks.saturating_sub(self.since.ticks).max(1);
        let ns = u128::from(at.time.0.saturating_sub(self.since.time.0));
        u64::try_from((ns << FRACTION_BITS) / u128::from(ticks)).unwrap_or(u64::MAX)
    }
}

impl Default for CycleCounter {
    fn default() -> Self {
        Self::new()
    }
}

fn read(source: CounterKind) -> u64 {
    match source {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: it reads a register, which every program may read unless the kernel forbids it
        // (PR_SET_TSC, prctl(2)).
        CounterKind::TimeStamps => unsafe { std::arch::x86_64::_rdtsc() },
        CounterKind::Clock => clock::now().0,
    }
}

/// Takes the reading with the shortest time between its two counter values: a thread may be
/// descheduled there.
fn both(source: CounterKind) -> ClockSample {
    let look = || {
        let (before, time, after) = (read(source), clock::now(), read(source));
        (after.saturating_sub(before), ClockSample { ticks: before.midpoint(after), time })
    };
    let looks = [look(), look(), look()];
    let [first, rest @ ..] = looks;
    rest.into_iter().fold(first, |best, it| if it.0 < best.0 { it } else { best }).1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a counter's value is not converted into the time at which it was read.
    #[test]
    fn ticks_are_times() {
        let ticks = CycleCounter::new();
        crate::sys::thread::pause(std::time::Duration::from_millis(20));
        let looks: Vec<_> = (0..1000).map(|_| (clock::now(), ticks.now(), clock::now())).collect();
        let at = ticks.both();
        let within = looks.iter().filter(|(before, read, after)| {
            let time = ticks.time(*read, at).0;
            // The readings differ by some 100 ns.
            (before.0.saturating_sub(1000)..after.0 + 1000).contains(&time)
        });
        assert_eq!(within.count(), looks.len());
    }
}
