//! A counter that is read in half the time that the clock takes, where there is one that may be trusted.

use std::fs;

use super::clock;
use crate::units::KernelTime;

/// Which counter is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The processor's time stamp counter.
    #[cfg(target_arch = "x86_64")]
    TimeStamps,
    /// The clock itself.
    Clock,
}

/// A counter, and how it and the clock stood at the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    source: Source,
    since: Both,
}

/// A counter and the clock at the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Both {
    ticks: u64,
    time: KernelTime,
}

/// Bits of a number behind the point.
const FRACTION_BITS: u32 = 32;

impl Ticks {
    /// The best counter of this machine. To be asked where `/sys` can be seen, some time before anything is measured.
    ///
    /// The kernel names its clock source, and that is `tsc` only where the counters of all CPUs go on together and at the same pace
    /// (`Documentation/virt/kvm/x86/timekeeping.rst`, `arch/x86/kernel/tsc.c`).
    pub fn new() -> Self {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = match fs::read_to_string(path) {
            #[cfg(target_arch = "x86_64")]
            Ok(name) if name.trim() == "tsc" => Source::TimeStamps,
            _ => Source::Clock,
        };
        Self { source, since: both(source) }
    }

    /// The counter.
    pub fn now(&self) -> u64 {
        read(self.source)
    }

    /// The counter and the clock.
    pub fn both(&self) -> Both {
        both(self.source)
    }

    /// When the counter stood so, if it stood so at that moment or before.
    pub fn time(&self, ticks: u64, at: Both) -> KernelTime {
        let passed = u128::from(at.ticks.saturating_sub(ticks));
        let ns = (passed * u128::from(self.scale(at))) >> FRACTION_BITS;
        KernelTime(at.time.0.saturating_sub(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// ns of a tick, from the first look until that moment.
    fn scale(&self, at: Both) -> u64 {
        let ticks = at.ticks.saturating_sub(self.since.ticks).max(1);
        let ns = u128::from(at.time.0.saturating_sub(self.since.time.0));
        u64::try_from((ns << FRACTION_BITS) / u128::from(ticks)).unwrap_or(u64::MAX)
    }
}

impl Default for Ticks {
    fn default() -> Self {
        Self::new()
    }
}

fn read(source: Source) -> u64 {
    match source {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: it reads a register, which the kernel lets every program do that it has not forbidden it (PR_SET_TSC, prctl(2)).
        Source::TimeStamps => unsafe { std::arch::x86_64::_rdtsc() },
        Source::Clock => clock::now().0,
    }
}

/// The look with the least between the two: a thread may have to wait there.
fn both(source: Source) -> Both {
    let look = || {
        let (before, time, after) = (read(source), clock::now(), read(source));
        (after.saturating_sub(before), Both { ticks: before.midpoint(after), time })
    };
    let looks = [look(), look(), look()];
    let [first, rest @ ..] = looks;
    rest.into_iter().fold(first, |best, it| if it.0 < best.0 { it } else { best }).1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if ticks are not turned into the time at which they were read.
    #[test]
    fn ticks_are_times() {
        let ticks = Ticks::new();
        crate::sys::thread::pause(std::time::Duration::from_millis(20));
        let looks: Vec<_> = (0..1000).map(|_| (clock::now(), ticks.now(), clock::now())).collect();
        let at = ticks.both();
        let within = looks.iter().filter(|(before, it, after)| {
            let time = ticks.time(*it, at).0;
            // As exact as the two are compared: some 100 ns.
            (before.0.saturating_sub(1000)..after.0 + 1000).contains(&time)
        });
        assert_eq!(within.count(), looks.len());
    }
}
