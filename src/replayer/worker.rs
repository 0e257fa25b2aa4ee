//! One thread of the replay: does what one thread of the original did, each operation when its turn has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender};

use super::ahead::Ahead;
use super::at_work::AtWork;
use super::course::{Course, Reached};
use super::frames::Frames;
use super::given::Given;
use super::helper::Request;
use super::load::{Loaded, Source};
use super::progress::Progress;
use super::run::{Options, Order};
use super::stamps::Stamps;
use super::steps::{Besides, Got, Moment, Step};
use super::turns::Turns;
use super::window::Gate;
use crate::replay::plan_file::PlanError;
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
    /// An operation on names has succeeded and had not, or the other way round, and nothing more is done ([`Options::ends_at_names`]).
    NamesDiffer,
    /// That worker is through.
    Ended(u32),
    /// That worker cannot go on.
    Failed(u32, Failure),
}

/// Why a worker cannot go on.
#[derive(Debug)]
pub(super) enum Failure {
    Plan(PlanError),
    Memory(std::io::Error),
    Ring(std::io::Error),
    /// Who reads the plan for it has.
    Helper,
    /// It has failed in a way that nobody has thought of.
    Panicked,
}

/// Tells it also of a thread that panics: whoever has started it would wait for ever.
#[derive(Debug)]
pub(super) struct Ending<'a>(pub(super) u32, pub(super) &'a Sender<Told>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.1.send(Told::Failed(self.0, Failure::Panicked));
        }
    }
}

/// A worker at work.
struct Work<'a> {
    course: Course<'a>,
    memory: Memory,
}

/// Does everything that a worker has to do.
pub(super) fn work(
    shared: &Shared,
    worker: u32,
    helpers: &SyncSender<Request>,
    tell: &Sender<Told>,
) {
    let _ending = Ending(worker, tell);
    shared.at_work.begins(worker);
    let result = all(shared, worker, helpers, tell);
    shared.at_work.ends(worker);
    shared.given.left(&shared.slots);
    // Who has started us waits for it.
    let failed = |failure| Told::Failed(worker, failure);
    let _ = tell.send(result.map_or_else(failed, |()| Told::Ended(worker)));
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
    let memory = memory.map_err(Failure::Memory)?;
    let mut work = Work { course: Course::new(shared, worker, tell), memory };
    let mut frames = Frames::new(shared.ahead.take(worker), worker, helpers);
    let mut goes_on = true;
    while goes_on && let Some(mut loaded) = frames.next()? {
        goes_on = work.frame(&mut loaded);
        frames.done(loaded);
    }
    frames.end();
    Ok(())
}

impl Work<'_> {
    /// Does the operations of a frame; false if all is over.
    fn frame(&mut self, loaded: &mut Loaded) -> bool {
        let mut goes_on = true;
        for index in 0..loaded.steps.len() {
            let Some(step) = loaded.steps.get(index) else { break };
            let done = if self.reaches(step.moment) {
                self.one((&mut loaded.batch, index), step)
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

    /// Whether an operation is to be done; waits until that may begin.
    fn reaches(&mut self, moment: &Moment) -> bool {
        loop {
            match self.course.reaches(moment) {
                Reached::Yes => return true,
                Reached::AtGate => self.course.shared.gate.wait(),
                Reached::No => return false,
            }
        }
    }

    /// Does it when its turn and its time have come; how late that was, if it has a time. `None` if all is over.
    fn one(&mut self, call: (&mut Batch, usize), step: Step<'_>) -> Option<(Got, Option<u64>)> {
        if step.due.besides == Besides::Waits {
            return self.waiting(call, step);
        }
        if !self.is_turn(step) {
            return None;
        }
        let late = self.pace(step.moment);
        if self.course.shared.turns.is_over() {
            return None;
        }
        if step.due.besides.is_implicit() {
            return Some((self.course.implicit(call, &mut self.memory, step.due), None));
        }
        Some((self.course.call(call, &mut self.memory, step), late))
    }

    /// The same of a call that waited for others in the capture: here it does so before the kernel is asked, and that is a part of what
    /// it takes.
    fn waiting(&mut self, call: (&mut Batch, usize), step: Step<'_>) -> Option<(Got, Option<u64>)> {
        let late = self.pace(step.moment);
        let start = self.course.shared.stamps.now();
        if !self.is_turn(step) {
            return None;
        }
        Some((Got { start, ..self.course.call(call, &mut self.memory, step) }, late))
    }

    /// Waits for those that have to be before it; false if all is over.
    fn is_turn(&self, step: Step<'_>) -> bool {
        let (turns, worker) = (&self.course.shared.turns, self.course.worker);
        match self.course.shared.options.order {
            Order::Total => turns.wait_for_turn(step.moment.turn, worker),
            Order::Dependencies => {
                !turns.is_over() && step.waits.iter().all(|it| turns.wait_for(*it, worker))
            }
            Order::Thread | Order::None => !turns.is_over(),
        }
    }

    /// Waits for its time. How late it is, if it has one.
    fn pace(&self, moment: &Moment) -> Option<u64> {
        let time = self.course.time(moment)?;
        let Shared { stamps, turns, may_spin, .. } = self.course.shared;
        // ORDERING: only a flag.
        let may_spin = may_spin.load(Ordering::Relaxed);
        Some(stamps.wait_until(time, may_spin, || turns.is_over()))
    }
}
