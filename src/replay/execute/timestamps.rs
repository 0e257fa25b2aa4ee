//! Time stamps of operations: read from the clock, or, when operations follow each other without
//! pacing, from a faster tick counter.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::clock;
use crate::sys::replay::tsc::{ClockSample, CycleCounter};
use crate::units::KernelTime;

/// Remaining time that a waiting thread spends polling the clock instead of sleeping: a sleep takes
/// about 50 µs longer than requested.
pub(super) const SPIN_NS: u64 = 60_000;

/// Longest sleep without checking whether the replay is over.
pub(super) const SLEEP_NS: u64 = 100_000_000;

/// Source of stamps, and the time from which the replay counts.
#[derive(Debug)]
pub(super) struct Timestamps {
    ticks: Option<CycleCounter>,
    begin: AtomicU64,
}

impl Timestamps {
    /// Starts counting now; uses `ticks` if there are any.
    pub(super) fn new(ticks: Option<CycleCounter>) -> Self {
        Self { ticks, begin: AtomicU64::new(clock::now().0) }
    }

    /// Restarts counting now. Earlier stamps are not used afterwards.
    pub(super) fn begin_again(&self) {
        // ORDERING: every thread that has to see the new time passes a gate first, which is opened
        // after this store.
        self.begin.store(clock::now().0, Ordering::Relaxed);
    }

    fn begin(&self) -> u64 {
        // ORDERING: see `begin_again`.
        self.begin.load(Ordering::Relaxed)
    }

    /// Returns the time in ns since the replay began, by the clock.
    pub(super) fn clock(&self) -> u64 {
        clock::now().0.saturating_sub(self.begin())
    }

    /// Returns a stamp, which [`Self::ns`] converts. Without ticks it is the time in ns since the
    /// replay began.
    pub(super) fn now(&self) -> u64 {
        self.ticks.map_or_else(|| self.clock(), |it| it.now())
    }

    /// Waits until `time`, in ns since the replay began, or until the replay is over. Returns the
    /// lateness in ns. `may_spin`: a CPU is free for polling the clock.
    pub(super) fn wait_until(&self, time: u64, may_spin: bool, is_over: impl Fn() -> bool) -> u64 {
        let mut now = self.clock();
        while now < time && !is_over() {
            if may_spin && time - now <= SPIN_NS {
                std::hint::spin_loop();
            } else {
                let early = if may_spin { SPIN_NS } else { 0 };
                let until = time.saturating_sub(early).min(now.saturating_add(SLEEP_NS));
                clock::sleep_until(KernelTime(self.begin().saturating_add(until)));
            }
            now = self.clock();
        }
        now.saturating_sub(time)
    }

    /// Returns clock and ticks, to convert preceding stamps; `None`: stamps are times.
    pub(super) fn both(&self) -> Option<ClockSample> {
        self.ticks.map(|it| it.both())
    }

    /// Converts a stamp to ns since the replay began. `at` was read after the stamp.
    pub(super) fn ns(&self, stamp: u64, at: Option<ClockSample>) -> u64 {
        match self.ticks.zip(at) {
            Some((ticks, at)) => ticks.time(stamp, at).0.saturating_sub(self.begin()),
            None => stamp,
        }
    }
}
