//! One thread of the replay: does what one thread of the original did, each operation when its turn has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};

use super::ahead::{Ahead, Ready};
use super::at_work::AtWork;
use super::given::Given;
use super::helper::{Reply, Request};
use super::load::{Besides, Due, Got, Loaded, Source};
use super::progress::{Count, Progress};
use super::run::{Options, Order, Pacing};
use super::stamps::Stamps;
use super::turns::Turns;
use super::window::Gate;
use crate::replay::file::PlanError;
use crate::sys::again::{Batch, Contents, Memory, Slots};
use crate::sys::thread;

/// What all threads of a replay have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) source: Source,
    /// What of it is ready before it begins.
    pub(super) ahead: Ahead,
    pub(super) options: Options,
    pub(super) turns: Turns,
    /// Where those wait who have done what is to be done before.
    pub(super) gate: Gate,
    pub(super) progress: Progress,
    pub(super) at_work: AtWork,
    pub(super) slots: Slots,
    pub(super) contents: Arc<Contents>,
    /// For each worker those that are born by its operations, in their order: behind which one, and who.
    pub(super) births: Vec<Vec<(u32, u32)>>,
    pub(super) stamps: Stamps,
    /// What is open before the first operation.
    pub(super) given: Given,
    /// It is better to look at the clock than to sleep: there are more CPUs than threads.
    pub(super) may_spin: AtomicBool,
}

/// What a worker tells who has started it.
#[derive(Debug)]
pub(super) enum Told {
    /// That worker is born.
    Born(u32),
    /// A worker has done what is to be done before, and waits for the others.
    Prepared,
    /// A worker is through.
    Ended,
    /// A worker cannot go on.
    Failed(Failure),
}

/// Why a worker cannot go on.
#[derive(Debug)]
pub(super) enum Failure {
    Plan(PlanError),
    Memory(std::io::Error),
    /// It has failed in a way that nobody has thought of.
    Panicked,
}

/// Tells it also of a thread that panics: whoever has started it would wait for ever.
struct Ending<'a>(&'a Sender<Told>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.send(Told::Failed(Failure::Panicked));
        }
    }
}

/// A worker at work.
struct Work<'a> {
    shared: &'a Shared,
    worker: u32,
    /// Others wait for some of its operations.
    is_waited_for: bool,
    memory: Memory,
    tell: &'a Sender<Told>,
    births: &'a [(u32, u32)],
    /// What ends by then in the capture is done before, or, when that is over, is done at all.
    until: u64,
    is_prepared: bool,
    /// Operations that it has done, and where it says so.
    done: (u32, Option<&'a Count>),
    /// When the last operation ended, ns since the replay began, and when it did in the capture, ns since the first one. With ticks, which
    /// only `--speed max` has, the first of them is a stamp, which nobody asks for there.
    last: (u64, u64),
}

/// Does everything that a worker has to do.
pub(super) fn work(
    shared: &Shared,
    worker: u32,
    helpers: &SyncSender<Request>,
    tell: &Sender<Told>,
) {
    let _ending = Ending(tell);
    shared.at_work.begins(worker);
    let result = all(shared, worker, helpers, tell);
    shared.at_work.ends(worker);
    shared.given.left(&shared.slots);
    // Who has started us waits for it.
    let _ = tell.send(result.map_or_else(Told::Failed, |()| Told::Ended));
}

fn all(
    shared: &Shared,
    worker: u32,
    helpers: &SyncSender<Request>,
    tell: &Sender<Told>,
) -> Result<(), Failure> {
    thread::set_exact_timers();
    shared.given.open(&shared.slots);
    let memory = Memory::new(shared.source.longest, shared.contents.clone());
    let births = shared.births.get(worker as usize).map_or(&[][..], |it| it);
    let memory = memory.map_err(Failure::Memory)?;
    let plan = shared.source.index.workers.get(worker as usize);
    let is_waited_for = plan.is_some_and(|it| it.is_waited_for);
    let window = shared.options.window;
    let mut work = Work {
        shared,
        worker,
        is_waited_for,
        memory,
        tell,
        births,
        until: window.from.or(window.until).unwrap_or(u64::MAX),
        is_prepared: window.from.is_none(),
        done: (0, shared.progress.of(worker)),
        last: (0, 0),
    };
    let Ready { frames, next } = shared.ahead.take(worker);
    let (sender, replies): (_, Receiver<Reply>) = sync_channel(1);
    let ask = |next| {
        // Helpers live longer than workers.
        let _ = helpers.send(Request::Load { worker, next, to: sender.clone() });
    };
    ask(next);
    let mut goes_on = true;
    let mut done = Vec::with_capacity(frames.len());
    for mut loaded in frames {
        goes_on = goes_on && work.frame(&mut loaded);
        done.push(loaded);
    }
    while goes_on
        && let Ok(reply) = replies.recv()
        && let Some(mut loaded) = reply.map_err(Failure::Plan)?
    {
        ask(loaded.next);
        goes_on = work.frame(&mut loaded);
        let _ = helpers.send(Request::Compare(Box::new(loaded)));
    }
    // What was made ready before is compared behind it.
    for loaded in done {
        let _ = helpers.send(Request::Compare(Box::new(loaded)));
    }
    Ok(())
}

impl Work<'_> {
    /// Does the operations of a frame; false if all is over.
    fn frame(&mut self, loaded: &mut Loaded) -> bool {
        let mut from = 0;
        let mut goes_on = true;
        for index in 0..loaded.due.len() {
            let due = loaded.due[index];
            if due.behind > self.until && !self.goes_behind(due.behind) {
                goes_on = false;
                break;
            }
            let waits = &loaded.waits[from..due.waits_end as usize];
            from = due.waits_end as usize;
            let got = match due.besides {
                Besides::Waits => self.waiting(&mut loaded.batch, index, (&due, waits)),
                it if it.is_implicit() => self.implicit(&mut loaded.batch, index, (&due, waits)),
                _ => self.in_turn(&mut loaded.batch, index, (&due, waits)),
            };
            let Some(got) = got else {
                goes_on = false;
                break;
            };
            loaded.got[index] = got;
            loaded.done = index + 1;
            self.over(loaded.first.wrapping_add(u32::try_from(index).unwrap_or(0)), &due);
        }
        loaded.at = self.shared.stamps.both();
        goes_on
    }

    /// What ends then, behind what it had to do so far, is to be done, too.
    fn goes_behind(&mut self, end: u64) -> bool {
        let window = self.shared.options.window;
        let until = window.until.unwrap_or(u64::MAX);
        if !self.is_prepared && end <= until {
            let _ = self.tell.send(Told::Prepared);
            self.shared.gate.wait();
            self.is_prepared = true;
            self.until = until;
            self.last = (0, window.from.unwrap_or(0));
        }
        end <= self.until
    }

    /// Does it when its turn and its time have come; `None` if all is over.
    fn in_turn(
        &mut self,
        batch: &mut Batch,
        index: usize,
        (due, waits): (&Due, &[(u32, u32)]),
    ) -> Option<Got> {
        let late = self.comes(due, waits)?;
        Some(Got { late, ..self.one(batch, index, due) })
    }

    /// The same of a call that waited for others in the capture: here it does so before the kernel is asked, and that is a part of what
    /// it takes.
    fn waiting(
        &mut self,
        batch: &mut Batch,
        index: usize,
        (due, waits): (&Due, &[(u32, u32)]),
    ) -> Option<Got> {
        let late = self.pace(due);
        let start = self.shared.stamps.now();
        if !self.is_turn(due, waits) {
            return None;
        }
        Some(Got { start, late, ..self.one(batch, index, due) })
    }

    /// What no call of the capture did: nobody looks at its result, or at when it was.
    fn implicit(
        &mut self,
        batch: &mut Batch,
        index: usize,
        (due, waits): (&Due, &[(u32, u32)]),
    ) -> Option<Got> {
        self.comes(due, waits)?;
        let slots = &self.shared.slots;
        batch.call(index, &mut self.memory, slots, None);
        if let (Besides::Implicit, Some(handle)) = (due.besides, due.handle) {
            slots.closed(handle);
        }
        Some(Got::default())
    }

    /// Waits for its turn, then for its time; `None` if all is over. How late it is, if it has a time.
    fn comes(&self, due: &Due, waits: &[(u32, u32)]) -> Option<Option<u64>> {
        if !self.is_turn(due, waits) {
            return None;
        }
        let late = self.pace(due);
        (!self.shared.turns.is_over()).then_some(late)
    }

    /// Waits for those that have to be before it; false if all is over.
    fn is_turn(&self, due: &Due, waits: &[(u32, u32)]) -> bool {
        let turns = &self.shared.turns;
        match self.shared.options.order {
            Order::Total => turns.wait_for_turn(due.turn),
            Order::Dependencies => !turns.is_over() && waits.iter().all(|it| turns.wait_for(*it)),
            Order::Thread | Order::None => !turns.is_over(),
        }
    }

    /// Waits for its time. How late it is, if it has one.
    fn pace(&self, due: &Due) -> Option<u64> {
        let options = &self.shared.options;
        let from = options.window.from.unwrap_or(0);
        let time = match options.pacing {
            _ if !self.is_prepared => return None,
            Pacing::Max => return None,
            Pacing::Open => options.scaled(due.start.saturating_sub(from)),
            Pacing::Closed => {
                let (ended, captured_end) = self.last;
                ended.saturating_add(options.scaled(due.start.saturating_sub(captured_end)))
            }
        };
        // ORDERING: only a flag.
        let may_spin = self.shared.may_spin.load(Ordering::Relaxed);
        Some(self.shared.stamps.wait_until(time, may_spin, || self.shared.turns.is_over()))
    }

    fn one(&mut self, batch: &mut Batch, index: usize, due: &Due) -> Got {
        let slots = &self.shared.slots;
        let copy = match (due.besides, due.handle) {
            (Besides::ClosesCopy, Some(handle)) => slots.copy(handle),
            _ => None,
        };
        let start = self.shared.stamps.now();
        let ret = batch.call(index, &mut self.memory, slots, copy);
        let end = self.shared.stamps.now();
        match (due.besides, due.handle) {
            (Besides::Nothing, _) => {}
            (Besides::Makes, _) => slots.made(due.makes, ret),
            // Whatever it says, the descriptor is gone (close(2)).
            (Besides::Closes, Some(handle)) => slots.closed(handle),
            _ => {}
        }
        self.last = (end, due.end);
        self.done.0 += 1;
        self.done.1.iter().for_each(|it| it.set(self.done.0));
        Got { ret, start, end, late: None }
    }

    /// Tells those who wait for it.
    fn over(&mut self, number: u32, due: &Due) {
        let turns = &self.shared.turns;
        match self.shared.options.order {
            Order::Total => turns.turn_done(due.turn),
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
