//! Time stamps of operations: read from the clock, or, when operations follow each other without
//! pacing, from a faster tick counter.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::clock;
use crate::sys::replay::tsc::{ClockSample, CycleCounter};
use crate::units::{KernelTime, Nanos, ReplayTime};

/// Remaining time that a waiting thread spends polling the clock instead of sleeping: a sleep takes
/// about 50 µs longer than requested.
pub(super) const SPIN_TIME: Nanos = Nanos(60_000);

/// Longest sleep without checking whether the replay is over.
pub(super) const SLEEP_MAX: Nanos = Nanos(100_000_000);

/// Value of the tick counter, or without one the time since the replay began, in ns.
/// [`Timestamps::time`] converts it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorkerStamp(u64);

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

    fn begin(&self) -> KernelTime {
        // ORDERING: see `begin_again`.
        KernelTime(self.begin.load(Ordering::Relaxed))
    }

    /// Returns the time since the replay began, by the clock.
    pub(super) fn clock(&self) -> ReplayTime {
        ReplayTime::of(clock::now(), self.begin())
    }

    /// Returns a stamp.
    pub(super) fn now(&self) -> WorkerStamp {
        WorkerStamp(self.ticks.map_or_else(|| self.clock().0, |it| it.now()))
    }

    /// Waits until `time`, or until the replay is over. Returns the lateness. `may_spin`: a CPU is
    /// free for polling the clock.
    pub(super) fn wait_until(
        &self,
        time: ReplayTime,
        may_spin: bool,
        is_over: impl Fn() -> bool,
    ) -> Nanos {
        let mut now = self.clock();
        while now < time && !is_over() {
            if may_spin && time.since(now) <= SPIN_TIME {
                std::hint::spin_loop();
            } else {
                let early = if may_spin { SPIN_TIME } else { Nanos(0) };
                let latest = now.saturating_add(SLEEP_MAX);
                let until = time.saturating_sub(early).min(latest);
                clock::sleep_until(until.by_clock(self.begin()));
            }
            now = self.clock();
        }
        now.since(time)
    }

    /// Returns clock and ticks, to convert preceding stamps; `None`: stamps are times.
    pub(super) fn both(&self) -> Option<ClockSample> {
        self.ticks.map(|it| it.both())
    }

    /// Converts a stamp to the time since the replay began. `at` was read after the stamp.
    pub(super) fn time(&self, stamp: WorkerStamp, at: Option<ClockSample>) -> ReplayTime {
        match self.ticks.zip(at) {
            Some((ticks, at)) => ReplayTime::of(ticks.time(stamp.0, at), self.begin()),
            None => ReplayTime(stamp.0),
        }
    }
}
