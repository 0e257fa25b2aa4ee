//! Worker thread: executes the operations of one captured thread, each when its turn has come.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, SyncSender};

use super::decoder_threads::DecodeRequest;
use super::frames::Frames;
use super::load::LoadedOps;
use super::messages::{WorkerEndNotice, WorkerFailure, WorkerMessage};
use super::options::ReplayOrder;
use super::shared::Shared;
use super::steps::{HandleEffect, OpTiming, ReplayStep, ReplayedResult};
use super::worker_state::{WindowReach, WorkerState};
use crate::sys::replay::reissue::{CallBatch, CallMemory};
use crate::sys::thread;
use crate::units::Nanos;

/// Worker while it is running.
struct WorkerThread<'a> {
    course: WorkerState<'a>,
    memory: CallMemory,
}

/// Executes all operations of a worker.
pub(super) fn work(
    shared: &Shared,
    worker: u32,
    helpers: &SyncSender<DecodeRequest>,
    messages: &Sender<WorkerMessage>,
) {
    let _ending = WorkerEndNotice(worker, messages);
    shared.at_work.begins(worker);
    let result = all(shared, worker, helpers, messages);
    shared.at_work.ends(worker);
    shared.given.left(&shared.slots);
    // The thread that has started this one waits for the message.
    let failed = |failure| WorkerMessage::Failed(worker, failure);
    let _ = messages.send(result.map_or_else(failed, |()| WorkerMessage::Ended(worker)));
}

fn all(
    shared: &Shared,
    worker: u32,
    helpers: &SyncSender<DecodeRequest>,
    messages: &Sender<WorkerMessage>,
) -> Result<(), WorkerFailure> {
    thread::set_exact_timers();
    shared.given.open(&shared.slots);
    let memory = CallMemory::new(shared.source.longest, shared.contents.clone());
    let memory = memory.map_err(WorkerFailure::Memory)?;
    let mut work = WorkerThread { course: WorkerState::new(shared, worker, messages), memory };
    let mut frames = Frames::new(shared.ahead.take(worker), worker, helpers);
    let mut goes_on = true;
    while goes_on && let Some(mut loaded) = frames.next()? {
        goes_on = work.frame(&mut loaded);
        frames.done(loaded);
    }
    frames.end();
    Ok(())
}

impl WorkerThread<'_> {
    /// Executes the operations of a frame. Returns false if the replay is over.
    fn frame(&mut self, loaded: &mut LoadedOps) -> bool {
        let mut goes_on = true;
        for index in 0..loaded.steps.len() {
            let Some(step) = loaded.steps.get(index) else { break };
            let done = if self.reaches(step.moment) {
                self.one(&mut loaded.batch, index, step)
            } else {
                None
            };
            let Some((got, late)) = done else {
                goes_on = false;
                break;
            };
            loaded.results.push(got, late);
            self.course.over(loaded.number(index), step);
        }
        loaded.at = self.course.shared.stamps.both();
        goes_on
    }

    /// Returns whether an operation is to be executed; waits until it may begin.
    fn reaches(&mut self, moment: &OpTiming) -> bool {
        loop {
            match self.course.reaches(moment) {
                WindowReach::Yes => return true,
                WindowReach::AtGate => self.course.shared.gate.wait(),
                WindowReach::No => return false,
            }
        }
    }

    /// Executes an operation when its turn and its due time have come. Returns its result, and its
    /// lateness if it has a due time; `None` if the replay is over.
    fn one(
        &mut self,
        batch: &mut CallBatch,
        index: usize,
        step: ReplayStep<'_>,
    ) -> Option<(ReplayedResult, Option<Nanos>)> {
        if step.due.handle_effect == HandleEffect::Waits {
            return self.waiting(batch, index, step);
        }
        if !self.is_turn(step) {
            return None;
        }
        let late = self.pace(step.moment);
        if self.course.shared.turns.is_over() {
            return None;
        }
        if step.due.handle_effect.is_implicit() {
            return Some((self.course.implicit(batch, index, &mut self.memory, step.due), None));
        }
        Some((self.course.call(batch, index, &mut self.memory, step), late))
    }

    /// Executes a call that waited for other threads in the capture. It waits here before the call
    /// is made, and the wait is part of the operation's time.
    fn waiting(
        &mut self,
        batch: &mut CallBatch,
        index: usize,
        step: ReplayStep<'_>,
    ) -> Option<(ReplayedResult, Option<Nanos>)> {
        let late = self.pace(step.moment);
        let start = self.course.shared.stamps.now();
        if !self.is_turn(step) {
            return None;
        }
        Some((
            ReplayedResult { start, ..self.course.call(batch, index, &mut self.memory, step) },
            late,
        ))
    }

    /// Waits for the operations that must precede this one. Returns false if the replay is over.
    fn is_turn(&self, step: ReplayStep<'_>) -> bool {
        let (turns, worker) = (&self.course.shared.turns, self.course.worker);
        match self.course.shared.options.order {
            ReplayOrder::Total => turns.wait_for_turn(step.moment.turn, worker),
            ReplayOrder::Dependencies => {
                let mut waits = step.waits.iter();
                !turns.is_over()
                    && waits.all(|&(other, number)| turns.wait_for(other, number, worker))
            }
            ReplayOrder::Thread | ReplayOrder::None => !turns.is_over(),
        }
    }

    /// Waits for the due time. Returns the lateness if there is a due time.
    fn pace(&self, moment: &OpTiming) -> Option<Nanos> {
        let time = self.course.time(moment)?;
        let Shared { stamps, turns, may_spin, .. } = self.course.shared;
        // ORDERING: only a flag.
        let may_spin = may_spin.load(Ordering::Relaxed);
        Some(stamps.wait_until(time, may_spin, || turns.is_over()))
    }
}
