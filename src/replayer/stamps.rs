//! When operations began and ended: read from the clock, or, where they follow each other as fast as they can, from what is read faster.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::clock;
use crate::sys::ticks::{Both, Ticks};
use crate::units::KernelTime;

/// Who has to wait longer than this for a time sleeps; the rest it looks at the clock, as sleeping takes some 50 µs more than asked.
pub(super) const SPIN_NS: u64 = 60_000;

/// Nobody sleeps longer without a look at whether all is over.
pub(super) const SLEEP_NS: u64 = 100_000_000;

/// What is read, and since when times are counted.
#[derive(Debug)]
pub(super) struct Stamps {
    ticks: Option<Ticks>,
    begin: AtomicU64,
}

impl Stamps {
    /// From now on; with `ticks`, if there are any.
    pub(super) fn new(ticks: Option<Ticks>) -> Self {
        Self { ticks, begin: AtomicU64::new(clock::now().0) }
    }

    /// Times are counted from now on: nobody asks for earlier ones any more.
    pub(super) fn begin_again(&self) {
        // ORDERING: whoever is to see it is let through a gate behind it.
        self.begin.store(clock::now().0, Ordering::Relaxed);
    }

    fn begin(&self) -> u64 {
        // ORDERING: see `begin_again`.
        self.begin.load(Ordering::Relaxed)
    }

    /// ns since the replay began, by the clock.
    pub(super) fn clock(&self) -> u64 {
        clock::now().0.saturating_sub(self.begin())
    }

    /// A stamp: what it means tells [`Self::ns`]. Without ticks it is a time, ns since the replay began.
    pub(super) fn now(&self) -> u64 {
        self.ticks.map_or_else(|| self.clock(), |it| it.now())
    }

    /// Waits until then, ns since the replay began, or until all is over; `may_spin`: there is a CPU for who looks at the clock. How late it is
    /// then, ns.
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

    /// Both at the end of some stamps; `None`: these are times.
    pub(super) fn both(&self) -> Option<Both> {
        self.ticks.map(|it| it.both())
    }

    /// ns since the replay began. `at` is behind the stamp.
    pub(super) fn ns(&self, stamp: u64, at: Option<Both>) -> u64 {
        match self.ticks.zip(at) {
            Some((ticks, at)) => ticks.time(stamp, at).0.saturating_sub(self.begin()),
            None => stamp,
        }
    }
}
