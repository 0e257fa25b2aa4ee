//! A whole replay: its threads, from the first one to the last.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle, available_parallelism};
use std::time::Duration;

use rustc_hash::FxHashMap;
use thiserror::Error;
use zstd::bulk::Decompressor;

use super::ahead::Ahead;
use super::at_work::AtWork;
use super::contents;
use super::crew::{self, Crew};
use super::given::Given;
use super::helper::{Request, help};
use super::load::Source;
use super::progress::Progress;
use super::stamps::Stamps;
use super::turns::{Turns, Vain};
use super::window::{Gate, Window};
use super::worker::{Failure, Shared, Told};
use crate::replay::comparison::Comparison;
use crate::replay::plan_file::{Index, PlanError, PlanReader};
use crate::sys::again::{Contents, NoRing, Ring, Rules, Sink, Slots};
use crate::sys::ticks::Ticks;
use crate::sys::{limits, thread};

/// What keeps operations apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each begins when the one that ended before it has.
    Total,
    /// Each waits for those that it depends on.
    Dependencies,
    /// Those of a thread stand one behind the other, and threads begin when their parents have come so far.
    Thread,
    /// The same, and all threads begin at once.
    None,
}

/// When operations begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// At their times in the capture, however long those before them take.
    Open,
    /// As long after the one before as in the capture.
    Closed,
    /// At once.
    Max,
}

/// How asynchronous operations are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// A thread for each that is under way makes a call.
    Calls,
    /// One thread for each of the original hands them to a ring, which these rules are for.
    IoUring(Rules),
}

/// How a plan is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What keeps operations apart.
    pub order: Order,
    /// When they begin.
    pub pacing: Pacing,
    /// How often faster than in the capture, above 0.
    pub speed: f64,
    /// Who does what is asynchronous.
    pub engine: Engine,
    /// What is written.
    pub contents: contents::Contents,
    /// Which part of it.
    pub window: Window,
    /// Nothing more is done behind the first operation on names that succeeds and had not, or the other way round: what comes then may be
    /// about other files.
    pub ends_at_names: bool,
}

impl Options {
    /// A time of the capture, in ns, as long as it is in the replay.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a speed is no exact number: 2^53 ns are 104 days; what is too large is the largest there is"
    )]
    pub fn scaled(&self, ns: u64) -> u64 {
        if self.speed.to_bits() == 1.0_f64.to_bits() { ns } else { (ns as f64 / self.speed) as u64 }
    }
}

/// What came of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// The plan's index.
    pub index: Index,
    /// Paths of files, by their numbers.
    pub names: FxHashMap<u32, Vec<u8>>,
    /// What it got.
    pub comparison: Comparison,
    /// It was stopped before its end.
    pub is_stopped: bool,
    /// So it was, by an operation on names ([`Options::ends_at_names`]).
    pub names_differ: bool,
    /// Descriptors that were open before and could not be opened, and why.
    pub not_given: Vec<(PathBuf, io::Error)>,
    /// Descriptors that may be needed and that there may be, if these are fewer.
    pub too_few: Option<(u64, u64)>,
    /// Threads that were there at once at most.
    pub most: usize,
    /// Those of them that had a ring, all in all.
    pub rings: usize,
    /// CPUs of this machine.
    pub cpus: usize,
}

/// What has to be asked where all of the machine can be seen.
#[derive(Debug)]
pub struct Machine {
    /// CPUs that we may have: those of our group of processes (cgroups(7)).
    pub cpus: usize,
    /// What is read where the clock takes too long.
    pub ticks: Ticks,
    /// What takes the bytes for what a replay does not have.
    pub sink: Sink,
}

impl Machine {
    /// This one.
    pub fn new() -> Self {
        let cpus = available_parallelism().map_or(1, usize::from);
        Self { cpus, ticks: Ticks::new(), sink: Sink::open() }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

/// Why there is no replay.
#[derive(Debug, Error)]
pub enum RunError {
    /// The plan.
    #[error("the plan cannot be read: {0}")]
    Plan(#[from] PlanError),
    /// A call of a later version.
    #[error("the plan has a call that this iotrace-perf does not know: {0}")]
    UnknownCall(String),
    /// Not enough memory.
    #[error("there is not enough memory for the buffers of the replay: {0}")]
    Memory(io::Error),
    /// A thread that reads ahead and compares has failed.
    #[error(
        "a thread that reads the plan and compares results has failed; what was done is not known"
    )]
    Helper,
    /// A worker has ended too early.
    #[error("a thread of the replay has failed; what was done is not known")]
    Worker,
    /// Whoever is left waits for others.
    #[error(
        "the plan is none that replay plan makes: {0} threads of it wait for each other, or for operations that it does not have; make it again: \
         iotrace-perf replay plan LOG -o PLAN"
    )]
    Vain(usize),
    /// Threads could not be brought back.
    #[error("cannot set what interrupts calls: {0}")]
    Signal(io::Error),
    /// More than a process can have.
    #[error(
        "{0} threads would be there at once, and a replay has at most {THREADS_MAX}; leave out some of them: iotrace-perf replay plan LOG --comm NAME -o PLAN"
    )]
    TooMany(usize),
    /// Not enough threads.
    #[error("cannot start a thread of the replay: {0}; try: ulimit -u unlimited")]
    Thread(io::Error),
    /// No ring.
    #[error(transparent)]
    NoRing(#[from] NoRing),
    /// A ring that does not work any more.
    #[error(
        "the kernel takes no more operations of the replay's io_uring: {0}; try: --engine calls"
    )]
    Ring(io::Error),
}

/// Whether operations can be done so, with the rights that we have.
///
/// # Errors
///
/// There is no io_uring for us.
pub fn check(engine: Engine) -> Result<(), NoRing> {
    match engine {
        Engine::Calls => Ok(()),
        Engine::IoUring(rules) => Ring::new(1, rules).map(drop),
    }
}

/// More than any kernel lets a process have by default (`sysctl fs.nr_open`).
const HANDLES_MAX: u32 = 1 << 24;

/// Threads at once. Each has four areas of memory (its stack, that of its signals, what is behind them, what it reads into), and a process
/// has 65,530 by default (`sysctl vm.max_map_count`); without one of them the library ends the process.
const THREADS_MAX: usize = 10_000;

/// Descriptors of our own without rings, and what threads have open for a moment.
const OWN_DESCRIPTORS: usize = 256;

/// Replays a plan in the root directory that we have. `go_on` is asked now and then, and told how many operations are done.
///
/// # Errors
///
/// The plan is damaged, or the machine has no room for it. Whatever operations run into is a part of the result.
pub fn run(
    reader: PlanReader,
    index: Index,
    options: Options,
    Machine { cpus, ticks, sink }: Machine,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Replayed, RunError> {
    if index.handles > HANDLES_MAX {
        return Err(PlanError::Damaged { at: 0, what: "it has too many descriptors" }.into());
    }
    let source = Source::new(reader, index).map_err(RunError::UnknownCall)?;
    let fill = |bytes: &mut [u8]| options.contents.of(0).fill(bytes);
    let contents = Contents::new(source.longest, fill).map_err(RunError::Memory)?;
    thread::allow_interrupts().map_err(RunError::Signal)?;
    let may_have = limits::raise_open_files();
    let own = OWN_DESCRIPTORS.saturating_add(crew::rings(&source.index, options.engine));
    let needed = usize::try_from(source.index.handles).unwrap_or(usize::MAX).saturating_add(own);
    let reserved = i32::try_from(needed).unwrap_or(i32::MAX);
    let slots = Slots::new(source.index.handles, reserved).with(sink);
    slots.make_room(may_have);
    let workers = source.index.workers.len();
    let (births, first) = births(&source.index, options.order);
    let ahead = Ahead::new(&source)?;
    let given = Given::new(source.index.given.clone(), workers == 1);
    let shared = Shared {
        ahead,
        turns: Turns::new(workers),
        progress: Progress::new(workers),
        at_work: AtWork::new(workers),
        gate: Gate::new(options.window.from.is_none()),
        stamps: Stamps::new(Some(ticks).filter(|_| options.pacing == Pacing::Max)),
        given,
        may_spin: AtomicBool::new(true),
        births,
        source,
        options,
        slots,
        contents,
    };
    let (comparison, ended) = all(&shared, &first, cpus, go_on)?;
    let Ended { is_stopped, names_differ, most, rings } = ended;
    let Source { reader, index, .. } = shared.source;
    let names = reader.names(&index)?;
    // The highest number that is asked for: each handle has one of its own, behind those that the kernel chooses.
    let needed = needed as u64 + u64::from(index.handles);
    let too_few = (needed > may_have).then_some((needed, may_have));
    let not_given = shared.given.failed();
    Ok(Replayed {
        index,
        names,
        comparison,
        is_stopped,
        names_differ,
        not_given,
        too_few,
        most,
        rings,
        cpus,
    })
}

/// Who is born by whose operations; and who is there at the start.
fn births(index: &Index, order: Order) -> (Vec<Vec<(u32, u32)>>, Vec<u32>) {
    let mut births = vec![Vec::new(); index.workers.len()];
    let mut first = Vec::new();
    for (born, worker) in (0..).zip(&index.workers) {
        // Nobody is born by those who come later.
        let before = worker.before.filter(|it| order != Order::None && it.0 < born);
        match before.and_then(|it| Some((it.1, births.get_mut(it.0 as usize)?))) {
            Some((behind, births)) => births.push((behind, born)),
            None => first.push(born),
        }
    }
    births.iter_mut().for_each(|it| it.sort_unstable());
    (births, first)
}

/// How it went.
struct Ended {
    is_stopped: bool,
    names_differ: bool,
    most: usize,
    rings: usize,
}

/// Starts everybody and waits for them. What was compared.
fn all(
    shared: &Shared,
    first: &[u32],
    cpus: usize,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<(Comparison, Ended), RunError> {
    let (requests, received) = sync_channel(REQUESTS_MAX);
    let received = Mutex::new(received);
    std::thread::scope(|scope| {
        let mut helpers = Vec::new();
        for number in 0..(cpus / 4).clamp(1, HELPERS_MAX) {
            let zstd = Decompressor::new().map_err(RunError::Memory)?;
            let builder = Builder::new().name(format!("helper {number}"));
            let received = &received;
            let helper = builder.spawn_scoped(scope, move || help(shared, received, zstd));
            helpers.push(helper.map_err(RunError::Thread)?);
        }
        let result = threads(scope, (shared, first, cpus), requests, go_on);
        let mut comparison = Comparison::behind(shared.options.window.from);
        let compared: Vec<_> = helpers.into_iter().map(ScopedJoinHandle::join).collect();
        for it in compared {
            comparison.merge(it.map_err(|_| RunError::Helper)?);
        }
        result.map(|ended| (comparison, ended))
    })
}

/// Requests that wait for a helper.
const REQUESTS_MAX: usize = 256;

/// Helpers at most: each of them serves several millions of operations in a second.
const HELPERS_MAX: usize = 16;

/// How often it is looked whether to go on.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Starts each worker when it is born, until all are through.
fn threads<'scope>(
    scope: &'scope Scope<'scope, '_>,
    (shared, first, cpus): (&'scope Shared, &[u32], usize),
    requests: SyncSender<Request>,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Ended, RunError> {
    let (tell, told): (Sender<Told>, Receiver<Told>) = channel();
    let mut crew = Crew::new(scope, shared, requests, tell);
    let mut result = Ok(());
    let (mut prepared, mut most, mut is_stopped, mut names_differ) = (0, 0, false, false);
    let mut born: Vec<u32> = first.to_vec();
    let mut vain = Vain::default();
    loop {
        let needed = crew.threads_with(&born);
        if needed > THREADS_MAX {
            result = result.and(Err(RunError::TooMany(needed)));
        }
        for worker in born.drain(..) {
            result = result.and_then(|()| crew.start(worker));
        }
        most = most.max(crew.threads());
        // ORDERING: only a flag.
        shared.may_spin.store(crew.threads() < cpus, Ordering::Relaxed);
        if result.is_err() || is_stopped {
            shared.turns.stop();
            shared.gate.open();
        }
        // Whoever had children has told so before it told that it is prepared.
        if prepared == crew.workers() && !shared.gate.is_open() {
            shared.stamps.begin_again();
            shared.gate.open();
        }
        if crew.workers() == 0 {
            return result.map(|()| Ended { is_stopped, names_differ, most, rings: crew.rings() });
        }
        let news = told.recv_timeout(LOOK_EVERY);
        if news.is_ok() {
            vain.no();
        }
        match news {
            Ok(Told::Born(worker)) if result.is_ok() && !is_stopped => born.push(worker),
            Ok(Told::Born(_)) => {}
            Ok(Told::Prepared) => prepared += 1,
            Ok(Told::NamesDiffer) => names_differ = true,
            Ok(Told::Ended(worker)) => crew.ended(worker),
            Ok(Told::Failed(worker, failure)) => {
                crew.ended(worker);
                // What went wrong first may be why this did.
                result = result.and(Err(failure.into()));
            }
            // Who has not come by now may wait for what never comes.
            Err(_) if shared.turns.is_over() => shared.at_work.interrupt(),
            Err(_) => {
                let at_gate = if shared.gate.is_open() { 0 } else { prepared };
                let workers = crew.workers().saturating_sub(at_gate);
                if vain.is_so(&shared.turns, workers) {
                    result = Err(RunError::Vain(workers));
                }
            }
        }
        is_stopped |= names_differ || !go_on(shared.progress.done());
    }
}

impl From<Failure> for RunError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Plan(it) => Self::Plan(it),
            Failure::Memory(it) => Self::Memory(it),
            Failure::Helper => Self::Helper,
            Failure::Panicked => Self::Worker,
            Failure::Ring(it) => Self::Ring(it),
        }
    }
}
