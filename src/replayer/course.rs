//! What there is around the operations of a worker, whoever makes the calls: when each may begin, what its result changes, and who is told.

use std::sync::mpsc::Sender;

use super::progress::Count;
use super::run::{Order, Pacing};
use super::steps::{Besides, Due, Got, Moment, Step};
use super::turns::Others;
use super::worker::{Shared, Told};
use crate::sys::again::{Batch, Memory};

/// How far a worker is.
#[derive(Debug)]
pub(super) struct Course<'a> {
    pub(super) shared: &'a Shared,
    pub(super) worker: u32,
    /// Others wait for some of its operations.
    is_waited_for: bool,
    tell: &'a Sender<Told>,
    births: &'a [(u32, u32)],
    /// What ends by then in the capture is done before, or, when that is over, is done at all.
    until: u64,
    part: Part,
    /// Operations that it has done, and where it says so.
    done: (u32, Option<&'a Count>),
    /// When the last operation ended, ns since the replay began, and when it did in the capture, ns since the first one: kept only for
    /// gaps between operations, which nobody asks for where stamps are no times.
    last: (u64, u64),
}

/// Where it is in the part of the plan that is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Before,
    AtGate,
    Inside,
}

/// Whether an operation is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    Yes,
    /// When the gate is open: that is to be asked again.
    AtGate,
    No,
}

impl<'a> Course<'a> {
    /// Before the first operation.
    pub(super) fn new(shared: &'a Shared, worker: u32, tell: &'a Sender<Told>) -> Self {
        let births = shared.births.get(worker as usize).map_or(&[][..], |it| it);
        let plan = shared.source.index.workers.get(worker as usize);
        let window = shared.options.window;
        Self {
            shared,
            worker,
            is_waited_for: plan.is_some_and(|it| it.is_waited_for),
            tell,
            births,
            until: window.from.or(window.until).unwrap_or(u64::MAX),
            part: if window.from.is_none() { Part::Inside } else { Part::Before },
            done: (0, shared.progress.of(worker)),
            last: (0, 0),
        }
    }

    /// Whether an operation is to be done.
    pub(super) fn reaches(&mut self, moment: &Moment) -> Reached {
        // The moment is looked at only where there is a part.
        if self.until == u64::MAX || moment.behind <= self.until {
            Reached::Yes
        } else {
            self.reaches_behind(moment.behind)
        }
    }

    /// The same behind what it had to do so far.
    fn reaches_behind(&mut self, end: u64) -> Reached {
        let window = self.shared.options.window;
        let until = window.until.unwrap_or(u64::MAX);
        if self.part == Part::Inside || end > until {
            return Reached::No;
        }
        if self.part == Part::Before {
            let _ = self.tell.send(Told::Prepared);
            self.part = Part::AtGate;
        }
        if !self.shared.gate.is_open() {
            return Reached::AtGate;
        }
        self.part = Part::Inside;
        self.until = until;
        self.last = (0, window.from.unwrap_or(0));
        Reached::Yes
    }

    /// When it is to begin, ns since the replay began; `None`: at once.
    pub(super) fn time(&self, moment: &Moment) -> Option<u64> {
        let options = &self.shared.options;
        let from = options.window.from.unwrap_or(0);
        match options.pacing {
            _ if self.part != Part::Inside => None,
            Pacing::Max => None,
            Pacing::Open => Some(options.scaled(moment.start.saturating_sub(from))),
            Pacing::Closed => {
                let (ended, captured_end) = self.last;
                let gap = options.scaled(moment.start.saturating_sub(captured_end));
                Some(ended.saturating_add(gap))
            }
        }
    }

    /// True if those are through that have to be before it.
    pub(super) fn has_turn(&self, step: Step<'_>) -> bool {
        let turns = &self.shared.turns;
        match self.shared.options.order {
            Order::Total => turns.is_turn(step.moment.turn),
            Order::Dependencies => step.waits.iter().all(|it| turns.is_done(*it)),
            Order::Thread | Order::None => true,
        }
    }

    /// It waits for those, and nothing else can be done meanwhile; `None`: no longer.
    pub(super) fn waits(&self, step: Option<Step<'_>>) {
        let turns = &self.shared.turns;
        let others = step.and_then(|it| match self.shared.options.order {
            Order::Total => Some(Others::Turn(it.moment.turn)),
            _ => it.waits.iter().find(|it| !turns.is_done(**it)).map(|it| Others::Operation(*it)),
        });
        turns.waits(self.worker, others);
    }

    /// Makes the call.
    pub(super) fn call(
        &mut self,
        (batch, index): (&mut Batch, usize),
        memory: &mut Memory,
        step: Step<'_>,
    ) -> Got {
        let slots = &self.shared.slots;
        let due = step.due;
        let copy = match (due.besides, due.handle) {
            (Besides::ClosesCopy, Some(handle)) => Some(slots.copy(handle)),
            _ => None,
        };
        let start = self.shared.stamps.now();
        let ret = batch.call(index, memory, slots, copy);
        let end = self.shared.stamps.now();
        self.made(step, ret, end);
        Got { ret, start, end }
    }

    /// Makes what no call of the capture did: nobody looks at its result, or at when it was.
    pub(super) fn implicit(
        &self,
        (batch, index): (&mut Batch, usize),
        memory: &mut Memory,
        due: &Due,
    ) -> Got {
        let slots = &self.shared.slots;
        batch.call(index, memory, slots, None);
        if let (Besides::Implicit, Some(handle)) = (due.besides, due.handle) {
            slots.closed(handle);
        }
        Got::default()
    }

    /// Its call has returned this.
    pub(super) fn made(&mut self, Step { due, moment, .. }: Step<'_>, ret: i64, end: u64) {
        let slots = &self.shared.slots;
        match (due.besides, due.handle) {
            (Besides::Nothing, _) => {}
            (Besides::Makes, _) => slots.made(due.makes, ret),
            // Whatever it says, the descriptor is gone (close(2)).
            (Besides::Closes, Some(handle)) => slots.closed(handle),
            _ => {}
        }
        if self.shared.options.pacing == Pacing::Closed {
            self.last = (end, moment.end);
        }
        if due.names.is_some_and(|it| it != (ret >= 0)) && self.shared.options.ends_at_names {
            let _ = self.tell.send(Told::NamesDiffer);
            self.shared.turns.stop();
        }
        self.done.0 += 1;
        self.done.1.iter().for_each(|it| it.set(self.done.0));
    }

    /// It is over: tells those who wait for it.
    pub(super) fn over(&mut self, number: u32, step: Step<'_>) {
        let turns = &self.shared.turns;
        match self.shared.options.order {
            Order::Total => turns.turn_done(step.moment.turn),
            Order::Dependencies if self.is_waited_for => turns.done(self.worker, number + 1),
            Order::Dependencies | Order::Thread | Order::None => {}
        }
        while let [(behind, born), rest @ ..] = self.births
            && *behind == number
        {
            let _ = self.tell.send(Told::Born(*born));
            self.births = rest;
        }
    }
}
