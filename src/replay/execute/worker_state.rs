//! State of one worker: schedules its operations, applies their results, and notifies waiting
//! workers.
//!
//! The calls themselves are made by a thread ([`super::worker`]) or by a ring ([`super::lane`]).

use std::sync::mpsc::Sender;

use super::messages::WorkerMessage;
use super::options::{Pacing, ReplayOrder};
use super::progress::Count;
use super::progress_counters::WaitTarget;
use super::shared::Shared;
use super::steps::{HandleEffect, OpMeta, OpTiming, ReplayStep, ReplayedResult};
use super::timestamps::WorkerStamp;
use crate::sys::replay::reissue::{CallBatch, CallMemory};
use crate::units::ReplayTime;

/// State of a worker.
#[derive(Debug)]
pub(super) struct WorkerState<'a> {
    pub(super) shared: &'a Shared,
    pub(super) worker: u32,
    /// True if other workers wait for some of its operations.
    is_waited_for: bool,
    messages: &'a Sender<WorkerMessage>,
    births: &'a [(u32, u32)],
    /// Captured end time up to which operations run in the current part: before the window, then
    /// inside it.
    until: ReplayTime,
    part: WindowState,
    /// Number of completed operations, and the counter that publishes it.
    done: (u32, Option<&'a Count>),
    /// End of the last operation in the replay, and its captured end. Kept only for closed pacing,
    /// which is never requested where stamps are not times.
    last: (ReplayTime, ReplayTime),
}

/// Position of the worker relative to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowState {
    Before,
    AtGate,
    Inside,
}

/// Decision whether an operation is to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowReach {
    Yes,
    /// Undecided until the gate is open; the caller then retries.
    AtGate,
    No,
}

impl<'a> WorkerState<'a> {
    /// Creates the state before the first operation.
    pub(super) fn new(
        shared: &'a Shared,
        worker: u32,
        messages: &'a Sender<WorkerMessage>,
    ) -> Self {
        let births = shared.births.get(worker as usize).map_or(&[][..], |it| it);
        let plan = shared.source.index.workers.get(worker as usize);
        let window = shared.options.window;
        Self {
            shared,
            worker,
            is_waited_for: plan.is_some_and(|it| it.is_waited_for),
            messages,
            births,
            until: window.from.or(window.until).unwrap_or(ReplayTime::MAX),
            part: if window.from.is_none() { WindowState::Inside } else { WindowState::Before },
            done: (0, shared.progress.of(worker)),
            last: Default::default(),
        }
    }

    /// Decides whether an operation is to be executed.
    pub(super) fn reaches(&mut self, moment: &OpTiming) -> WindowReach {
        // The moment is read only where there is a window.
        if self.until == ReplayTime::MAX || moment.latest <= self.until {
            WindowReach::Yes
        } else {
            self.reaches_after_part(moment.latest)
        }
    }

    /// Decides about an operation that ends after the current part, and advances to the next part.
    fn reaches_after_part(&mut self, end: ReplayTime) -> WindowReach {
        let window = self.shared.options.window;
        let until = window.until.unwrap_or(ReplayTime::MAX);
        if self.part == WindowState::Inside || end > until {
            return WindowReach::No;
        }
        if self.part == WindowState::Before {
            let _ = self.messages.send(WorkerMessage::Prepared);
            self.part = WindowState::AtGate;
        }
        if !self.shared.gate.is_open() {
            return WindowReach::AtGate;
        }
        self.part = WindowState::Inside;
        self.until = until;
        self.last = (ReplayTime::MIN, window.from.unwrap_or_default());
        WindowReach::Yes
    }

    /// Returns the due time; `None`: immediately.
    pub(super) fn time(&self, moment: &OpTiming) -> Option<ReplayTime> {
        let options = &self.shared.options;
        let from = options.window.from.unwrap_or_default();
        match options.pacing {
            _ if self.part != WindowState::Inside => None,
            Pacing::Max => None,
            Pacing::Open => Some(options.due(moment.start.since(from))),
            Pacing::Closed => {
                let (ended, captured_end) = self.last;
                let gap = options.scaled(moment.start.since(captured_end));
                Some(ended.saturating_add(gap))
            }
        }
    }

    /// Returns true if all operations that must precede this one are over.
    pub(super) fn has_turn(&self, step: ReplayStep<'_>) -> bool {
        let turns = &self.shared.turns;
        match self.shared.options.order {
            ReplayOrder::Total => turns.is_turn(step.moment.turn),
            ReplayOrder::Dependencies => {
                step.waits.iter().all(|&(worker, number)| turns.is_done(worker, number))
            }
            ReplayOrder::Thread | ReplayOrder::None => true,
        }
    }

    /// Records that the worker waits for the dependencies of a step and can do nothing else;
    /// `None`: it no longer waits.
    pub(super) fn waits(&self, step: Option<ReplayStep<'_>>) {
        let turns = &self.shared.turns;
        let is_open = |wait: &&(u32, u32)| !turns.is_done(wait.0, wait.1);
        let others = step.and_then(|step| match self.shared.options.order {
            ReplayOrder::Total => Some(WaitTarget::Turn(step.moment.turn)),
            _ => step.waits.iter().find(is_open).map(|wait| WaitTarget::Operation(*wait)),
        });
        turns.waits(self.worker, others);
    }

    /// Makes the call of an operation.
    pub(super) fn call(
        &mut self,
        batch: &mut CallBatch,
        index: usize,
        memory: &mut CallMemory,
        step: ReplayStep<'_>,
    ) -> ReplayedResult {
        let slots = &self.shared.slots;
        let due = step.due;
        let copy = match (due.handle_effect, due.handle) {
            (HandleEffect::ClosesCopy, Some(handle)) => Some(slots.copy(handle)),
            _ => None,
        };
        let start = self.shared.stamps.now();
        let ret = batch.call(index, memory, slots, copy);
        let end = self.shared.stamps.now();
        self.made(step, ret, end);
        ReplayedResult { ret, start, end }
    }

    /// Executes an implicit operation. Its result and its times are not compared.
    pub(super) fn implicit(
        &self,
        batch: &mut CallBatch,
        index: usize,
        memory: &mut CallMemory,
        due: &OpMeta,
    ) -> ReplayedResult {
        let slots = &self.shared.slots;
        batch.call(index, memory, slots, None);
        if let (HandleEffect::Implicit, Some(handle)) = (due.handle_effect, due.handle) {
            slots.closed(handle);
        }
        ReplayedResult::default()
    }

    /// Applies the result of a call.
    pub(super) fn made(
        &mut self,
        ReplayStep { due, moment, .. }: ReplayStep<'_>,
        ret: i64,
        end: WorkerStamp,
    ) {
        let slots = &self.shared.slots;
        match (due.handle_effect, due.handle) {
            (HandleEffect::Nothing, _) => {}
            (HandleEffect::Makes, _) => slots.made(due.makes, ret),
            // The descriptor is closed even if the call fails (close(2)).
            (HandleEffect::Closes, Some(handle)) => slots.closed(handle),
            _ => {}
        }
        if self.shared.options.pacing == Pacing::Closed {
            self.last = (self.shared.stamps.time(end, None), moment.end);
        }
        if due.names.is_some_and(|it| it != (ret >= 0)) && self.shared.options.ends_at_names {
            let _ = self.messages.send(WorkerMessage::NamesDiffer);
            self.shared.turns.stop();
        }
        self.done.0 += 1;
        if let Some(count) = self.done.1 {
            count.set(self.done.0);
        }
    }

    /// Publishes that an operation is over, and reports the workers that it starts.
    pub(super) fn over(&mut self, number: u32, step: ReplayStep<'_>) {
        let turns = &self.shared.turns;
        match self.shared.options.order {
            ReplayOrder::Total => turns.turn_done(step.moment.turn),
            ReplayOrder::Dependencies if self.is_waited_for => turns.done(self.worker, number + 1),
            ReplayOrder::Dependencies | ReplayOrder::Thread | ReplayOrder::None => {}
        }
        while let [(parent_op, born), rest @ ..] = self.births
            && *parent_op == number
        {
            let _ = self.messages.send(WorkerMessage::Born(*born));
            self.births = rest;
        }
    }
}
