//! All folds of the page, in one pass.

use std::convert::Infallible;

use super::advice::facts::AdviceFacts;
use super::completed_op::CompletedOp;
use super::disk_use::DiskUses;
use super::files::FileTotals;
use super::filter::{Filter, Picker};
use super::latency::{Latency, LatencyOptions};
use super::slowest::Slowest;
use super::stacks::{IoStacks, StacksOf};
use super::summary::IoSummary;
use super::timeline::IoTimeline;
use crate::capture::header::Header;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Fold of the page: the folds of several reports side by side.
#[derive(Debug)]
pub struct Overview {
    /// Sums by call, process, file and device.
    pub summary: IoSummary,
    /// Uses of files.
    pub files: FileTotals,
    /// Uses of disks.
    pub disks: DiskUses,
    /// Durations by layer.
    pub latency: Latency,
    /// Slowest operations.
    pub slowest: Slowest,
    /// Activity over time.
    pub timeline: IoTimeline,
    /// Facts for findings with advice.
    pub advice: AdviceFacts,
    /// Call chains, if they were recorded.
    pub stacks: Option<IoStacks>,
}

impl Overview {
    /// Creates the fold for the log with this header; `direct_flag` is the bit of `O_DIRECT` on its
    /// machine.
    pub fn new(header: &Header, direct_flag: u32) -> Self {
        let layers = LatencyOptions {
            syscalls: true,
            vfs: true,
            fs: true,
            block: true,
            queued: false,
            unit_ns: 1,
        };
        let stacks = header.chains.as_ref().map(|chains| {
            // A recording of calls alone has no stacks of bios.
            let calls = chains.calls && !chains.kernel && !chains.user;
            IoStacks::new(StacksOf { calls, by_process: false })
        });
        Self {
            summary: IoSummary::default(),
            files: FileTotals::default(),
            disks: DiskUses::default(),
            latency: Latency::new(layers),
            slowest: Slowest::default(),
            timeline: IoTimeline::new(KernelTime(header.clock.start_ns)),
            advice: AdviceFacts::new(header, direct_flag),
            stacks,
        }
    }
}

impl Overview {
    /// Adds an operation to all folds. They share its form; the use of disks has only requests.
    fn done(&mut self, step: &Step<'_>, done: &CompletedOp<'_>) {
        self.summary.done(done);
        self.files.ended(step, done);
        self.latency.done(step, done);
        self.slowest.done(step, done, true);
        self.timeline.done(done);
    }
}

/// Fold of the page over the selected operations. The depth of disks depends on all requests, and
/// what a slow operation waited for on all steps.
#[derive(Debug)]
pub struct SelectedOverview {
    /// Picker that selects.
    pub picker: Picker,
    /// Fold of the selected operations.
    pub fold: Overview,
}

impl SelectedOverview {
    /// Creates it for a filter.
    pub fn new(filter: Filter, mut fold: Overview) -> Self {
        if let Some((from, until)) = filter.window {
            fold.timeline.restrict(from, until);
        }
        Self { picker: Picker::new(filter), fold }
    }
}

impl Sink for SelectedOverview {
    type Error = Infallible;
    const USES_BEGINS: bool = false;
    const IS_COSTLY: bool = true;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        let is_selected = self.picker.wants(step);
        let done = CompletedOp::of(step);
        self.fold.advice.take(time, step, done.as_ref(), is_selected);
        if is_selected {
            return self.fold.add(time, step, done.as_ref());
        }
        if let Step::Block { step: block, .. } = step {
            self.fold.timeline.count_depth(time, block, |dev| self.picker.has_device(dev));
        }
        self.fold.slowest.take_step(step, false);
        Ok(())
    }
}

impl Sink for Overview {
    type Error = Infallible;
    const USES_BEGINS: bool = false;
    const IS_COSTLY: bool = true;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        let done = CompletedOp::of(step);
        self.advice.take(time, step, done.as_ref(), true);
        self.add(time, step, done.as_ref())
    }
}

impl Overview {
    /// Adds a step to all folds but that of advice; `done` is its operation, if it ends one.
    fn add(
        &mut self,
        time: KernelTime,
        step: &Step<'_>,
        done: Option<&CompletedOp<'_>>,
    ) -> Result<(), Infallible> {
        if let Some(done) = done {
            self.done(step, done);
            return self.stacks.as_mut().map_or(Ok(()), |stacks| stacks.step(time, step));
        }
        self.summary.step(time, step)?;
        self.files.step(time, step)?;
        self.disks.step(time, step)?;
        self.latency.step(time, step)?;
        self.slowest.step(time, step)?;
        self.timeline.step(time, step)?;
        self.stacks.as_mut().map_or(Ok(()), |stacks| stacks.step(time, step))
    }
}
