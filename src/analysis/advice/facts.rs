//! Folds from which the rules are judged.

use std::convert::Infallible;

use super::super::cache_use::CacheUses;
use super::super::completed_op::CompletedOp;
use super::super::files::FileTotals;
use super::super::filter::{Filter, Picker};
use super::super::job_keys::{Absorb, CaptureKeys};
use super::super::pattern::Patterns;
use super::super::picked::Picked;
use super::super::rank_activity::RankActivity;
use super::super::rank_rows::{CapturedRanks, RankRows};
use super::super::summary::IoSummary;
use super::durability::Durability;
use super::habits::Habits;
use crate::capture::header::Header;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Folds that only the rules need.
#[derive(Debug)]
pub struct AdviceFacts {
    /// Order and depth of accesses; `None`: not folded.
    pub patterns: Option<Patterns>,
    /// Reads from memory and from disks; `None`: not folded.
    pub cache: Option<CacheUses>,
    /// Counters of habits.
    pub habits: Habits,
    /// State of each file.
    pub durability: Durability,
}

impl AdviceFacts {
    /// Creates the folds of all rules for a recording with this header; `direct_flag` is the bit of
    /// `O_DIRECT` on its machine.
    pub fn new(header: &Header, direct_flag: u32) -> Self {
        Self {
            patterns: Some(Patterns::default()),
            cache: Some(CacheUses::new(header, direct_flag)),
            ..Self::brief(direct_flag)
        }
    }

    /// Creates the folds of the rules that cost little ([`super::rule::RuleId::is_brief`]).
    pub fn brief(direct_flag: u32) -> Self {
        Self {
            patterns: None,
            cache: None,
            habits: Habits::new(direct_flag),
            durability: Durability::default(),
        }
    }

    /// Takes a step; `done` is its operation, if it ends one. Durability depends on all operations,
    /// and the cache on all requests, whichever are selected.
    pub fn take(
        &mut self,
        time: KernelTime,
        step: &Step<'_>,
        done: Option<&CompletedOp<'_>>,
        is_selected: bool,
    ) {
        self.take_as(time, step, done, [is_selected; 2]);
    }

    /// Takes a rename of which only the new name is selected: it counts for durability.
    fn take_new_name(&mut self, time: KernelTime, step: &Step<'_>, done: Option<&CompletedOp<'_>>) {
        self.take_as(time, step, done, [false, true]);
    }

    fn take_as(
        &mut self,
        time: KernelTime,
        step: &Step<'_>,
        done: Option<&CompletedOp<'_>>,
        [is_selected, is_durably_selected]: [bool; 2],
    ) {
        self.durability.take(step, done, is_durably_selected);
        if let Some(done) = done {
            return self.ended(step, done, is_selected);
        }
        if let Some(cache) = &mut self.cache {
            cache.take_step(step, is_selected);
        }
        let is_of_all = matches!(step, Step::MountsSeen(_) | Step::Forked { .. });
        if is_selected || is_of_all {
            self.habits.take(step);
            if let Some(patterns) = &mut self.patterns {
                // The fold never fails.
                let Ok(()) = patterns.step(time, step);
            }
        } else {
            self.habits.take_other(step, None);
        }
    }

    /// Adds the operation that a step ends to all folds but that of durability.
    fn ended(&mut self, step: &Step<'_>, done: &CompletedOp<'_>, is_selected: bool) {
        if let Some(cache) = &mut self.cache {
            cache.done(done, is_selected);
        }
        if !is_selected {
            return self.habits.take_other(step, Some(done));
        }
        self.habits.ended(done, step);
        if let Some(patterns) = &mut self.patterns {
            patterns.done(step, done);
        }
    }
}

/// All folds of `advise`.
#[derive(Debug)]
pub struct AdviceFold {
    /// Sums by call, process, file and device.
    pub summary: IoSummary,
    /// Uses of files; `None`: not folded.
    pub files: Option<FileTotals>,
    /// Folds that only the rules need.
    pub facts: AdviceFacts,
    /// I/O of each process over time; `None`: not folded.
    pub activity: Option<RankActivity>,
    /// Ranks of the recording.
    pub captured: CapturedRanks,
    /// Sums by rank and host, of the captures that were absorbed.
    pub ranks: RankRows,
}

impl AdviceFold {
    /// Creates the folds for a recording; see [`AdviceFacts::new`].
    pub fn new(header: &Header, direct_flag: u32) -> Self {
        let facts = AdviceFacts::new(header, direct_flag);
        let (activity, captured, ranks) = Default::default();
        let (summary, files) = (IoSummary::default(), Some(FileTotals::default()));
        Self { summary, files, facts, activity, captured, ranks }
    }

    /// Creates the folds of a summary, and of the rules that cost little.
    pub fn brief(direct_flag: u32, summary: IoSummary) -> Self {
        let (activity, captured, ranks) = Default::default();
        let facts = AdviceFacts::brief(direct_flag);
        Self { summary, files: None, facts, activity, captured, ranks }
    }

    /// Sums up by rank as well: the ranks of the recording.
    #[must_use]
    pub fn with_ranks(self, captured: CapturedRanks) -> Self {
        Self { activity: Some(RankActivity::default()), captured, ..self }
    }
}

/// All folds over the selected operations.
#[derive(Debug)]
pub struct SelectedAdvice {
    /// Picker that selects.
    pub picker: Picker,
    /// Folds of the selected operations.
    pub fold: AdviceFold,
}

impl SelectedAdvice {
    /// Creates it for a filter.
    pub fn new(filter: Filter, fold: AdviceFold) -> Self {
        Self { picker: Picker::new(filter), fold }
    }
}

impl Sink for SelectedAdvice {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        let is_selected = self.picker.wants(step);
        // The folds share the form of the operation.
        let done = CompletedOp::of(step);
        if !is_selected && self.picker.wants_new_name(step) {
            self.fold.facts.take_new_name(time, step, done.as_ref());
            if let Some(done) = &done {
                self.fold.summary.names.keep(done.process);
            }
            return Ok(());
        }
        self.fold.facts.take(time, step, done.as_ref(), is_selected);
        if !is_selected {
            return Ok(());
        }
        if let (Some(activity), Some(done)) = (&mut self.fold.activity, &done) {
            activity.done(done);
        }
        match &done {
            Some(done) => self.fold.summary.done(done),
            None => self.fold.summary.step(time, step)?,
        }
        match (&mut self.fold.files, &done) {
            (Some(files), Some(done)) => files.ended(step, done),
            (Some(files), None) => files.step(time, step)?,
            (None, _) => {}
        }
        Ok(())
    }
    fn damaged(&mut self) {
        self.fold.captured.is_damaged = true;
    }
}

impl Absorb for SelectedAdvice {
    /// Adds the sums of one more capture. What only the rules need belongs to a capture.
    fn absorb(&mut self, other: Self, keys: &mut CaptureKeys<'_>) {
        let AdviceFold { summary, activity, captured, .. } = other.fold;
        self.fold.ranks.add(&summary, activity.as_ref(), &captured, keys);
        self.fold.summary.absorb(summary, keys);
    }
}

impl Picked for SelectedAdvice {
    fn picker(&self) -> &Picker {
        &self.picker
    }
}
