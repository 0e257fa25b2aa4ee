//! When operations began and ended: read from the clock, or, where they follow each other as fast as they can, from what is read faster.

use crate::sys::clock;
use crate::sys::ticks::{Both, Ticks};
use crate::units::KernelTime;

/// What is read, and since when times are counted.
#[derive(Debug)]
pub(super) struct Stamps {
    ticks: Option<Ticks>,
    begin: KernelTime,
}

impl Stamps {
    /// From now on; with `ticks`, if there are any.
    pub(super) fn new(ticks: Option<Ticks>) -> Self {
        Self { ticks, begin: clock::now() }
    }

    /// When the replay began.
    pub(super) fn begin(&self) -> KernelTime {
        self.begin
    }

    /// ns since then, by the clock.
    pub(super) fn clock(&self) -> u64 {
        clock::now().0.saturating_sub(self.begin.0)
    }

    /// A stamp: what it means tells [`Self::ns`].
    pub(super) fn now(&self) -> u64 {
        self.ticks.map_or_else(|| self.clock(), |it| it.now())
    }

    /// Both at the end of some stamps; `None`: these are times.
    pub(super) fn both(&self) -> Option<Both> {
        self.ticks.map(|it| it.both())
    }

    /// ns since the replay began. `at` is behind the stamp.
    pub(super) fn ns(&self, stamp: u64, at: Option<Both>) -> u64 {
        match self.ticks.zip(at) {
            Some((ticks, at)) => ticks.time(stamp, at).0.saturating_sub(self.begin.0),
            None => stamp,
        }
    }
}
