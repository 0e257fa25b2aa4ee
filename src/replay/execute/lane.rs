//! Lane that a ring serves: executes its operations one after the other, like a worker thread, but
//! never blocks.

use std::task::Poll;

use super::frames::Frames;
use super::load::LoadedOps;
use super::messages::{WorkerEndNotice, WorkerFailure};
use super::steps::{HandleEffect, ReplayedResult};
use super::timestamps::WorkerStamp;
use super::worker_state::{WindowReach, WorkerState};
use crate::sys::clock;
use crate::sys::replay::reissue::CallRing;
use crate::units::{KernelTime, Nanos, ReplayTime};

/// Lane with its seat in the ring.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    course: WorkerState<'a>,
    frames: Frames<'a>,
    seat: usize,
    /// Current frame, and index of the next operation in it.
    loaded: Option<LoadedOps>,
    index: usize,
    /// Start and lateness of the operation that the kernel executes.
    under_way: Option<(WorkerStamp, Option<Nanos>)>,
    /// Time since which the lane waits for other workers.
    waits_since: Option<KernelTime>,
    _ending: WorkerEndNotice<'a>,
}

/// Event that a lane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneWait {
    /// Result from the kernel.
    Result,
    /// Due time.
    Time(ReplayTime),
    /// Progress of other workers, since this time.
    Others(KernelTime),
    /// No event: the lane has ended.
    Nothing,
}

impl<'a> Lane<'a> {
    /// Creates a lane before its first operation.
    pub(super) fn new(
        course: WorkerState<'a>,
        frames: Frames<'a>,
        seat: usize,
        ending: WorkerEndNotice<'a>,
    ) -> Self {
        let (loaded, under_way, waits_since) = Default::default();
        let (index, _ending) = (0, ending);
        Self { course, frames, seat, loaded, index, under_way, waits_since, _ending }
    }

    /// Returns the lane's worker.
    pub(super) fn worker(&self) -> u32 {
        self.course.worker
    }

    /// Advances as far as possible without blocking: submits the due operation through its seat, or
    /// makes the call itself if a ring cannot.
    pub(super) fn advance(&mut self, ring: &mut CallRing) -> Result<LaneWait, WorkerFailure> {
        loop {
            if self.under_way.is_some() {
                return Ok(LaneWait::Result);
            }
            let Some(loaded) = &self.loaded else {
                match self.frames.poll()? {
                    Poll::Pending => return Ok(self.others()),
                    Poll::Ready(None) => return Ok(LaneWait::Nothing),
                    Poll::Ready(it) => (self.loaded, self.index) = (it, 0),
                }
                continue;
            };
            let Some(step) = loaded.steps.get(self.index) else {
                self.leave_frame();
                continue;
            };
            let reached = self.course.reaches(step.moment);
            let has_turn = reached == WindowReach::Yes && self.course.has_turn(step);
            // Checked after `has_turn`: dependencies count as met when the replay is over.
            if reached == WindowReach::No || self.course.shared.turns.is_over() {
                self.leave_frame();
                return Ok(LaneWait::Nothing);
            }
            if !has_turn {
                if reached == WindowReach::Yes {
                    self.course.waits(Some(step));
                }
                return Ok(self.others());
            }
            if self.waits_since.take().is_some() {
                self.course.waits(None);
            }
            let now = self.course.shared.stamps.clock();
            match self.course.time(step.moment) {
                Some(time) if now < time => return Ok(LaneWait::Time(time)),
                time => self.begins(ring, time.map(|it| now.since(it)))?,
            }
        }
    }

    fn others(&mut self) -> LaneWait {
        LaneWait::Others(*self.waits_since.get_or_insert_with(clock::now))
    }

    /// Starts the next operation, whose turn and due time have come.
    fn begins(&mut self, ring: &mut CallRing, late: Option<Nanos>) -> Result<(), WorkerFailure> {
        let Some(loaded) = &mut self.loaded else { return Ok(()) };
        let Some(step) = loaded.steps.get(self.index) else { return Ok(()) };
        let shared = self.course.shared;
        let (batch, index) = (&mut loaded.batch, self.index);
        if step.due.handle_effect == HandleEffect::Nothing
            && ring.push(self.seat, batch, index, &shared.slots).map_err(WorkerFailure::Ring)?
        {
            self.under_way = Some((shared.stamps.now(), late));
            return Ok(());
        }
        let memory = ring.memory(self.seat);
        let (got, late) = if step.due.handle_effect.is_implicit() {
            (self.course.implicit(batch, index, memory, step.due), None)
        } else {
            (self.course.call(batch, index, memory, step), late)
        };
        self.over(got, late);
        Ok(())
    }

    /// Takes the kernel's result of the current operation.
    pub(super) fn got(&mut self, ret: i64) {
        let step = self.loaded.as_ref().and_then(|it| it.steps.get(self.index));
        let Some((step, (start, late))) = step.zip(self.under_way.take()) else { return };
        let end = self.course.shared.stamps.now();
        self.course.made(step, ret, end);
        self.over(ReplayedResult { ret, start, end }, late);
    }

    fn over(&mut self, got: ReplayedResult, late: Option<Nanos>) {
        let Some(loaded) = &mut self.loaded else { return };
        let Some(step) = loaded.steps.get(self.index) else { return };
        loaded.results.push(got, late);
        self.course.over(loaded.number(self.index), step);
        self.index += 1;
    }

    fn leave_frame(&mut self) {
        if let Some(mut loaded) = self.loaded.take() {
            loaded.at = self.course.shared.stamps.both();
            self.frames.done(loaded);
        }
    }

    /// Ends the lane.
    pub(super) fn end(mut self) {
        self.leave_frame();
        self.frames.end();
    }
}
