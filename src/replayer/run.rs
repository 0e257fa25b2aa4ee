//! A whole replay: its threads, from the first one to the last.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, available_parallelism};
use std::time::Duration;

use thiserror::Error;

use super::contents;
use super::helper::{Request, help};
use super::load::Source;
use super::turns::Turns;
use super::worker::{Failure, Shared, Told, work};
use crate::replay::comparison::Comparison;
use crate::replay::file::{GivenPlan, Index, PlanError, PlanReader};
use crate::sys::again::{Contents, Slots};
use crate::sys::{clock, files, limits};

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

/// How a plan is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What keeps operations apart.
    pub order: Order,
    /// When they begin.
    pub pacing: Pacing,
    /// How often faster than in the capture, above 0.
    pub speed: f64,
    /// What is written.
    pub contents: contents::Contents,
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
    /// What it got.
    pub comparison: Comparison,
    /// It was stopped before its end.
    pub is_stopped: bool,
    /// Descriptors that were open before and could not be opened, and why.
    pub not_given: Vec<(PathBuf, io::Error)>,
    /// Descriptors that may be needed and that there may be, if these are fewer.
    pub too_few: Option<(u64, u64)>,
    /// Threads that were there at once at most.
    pub most: usize,
    /// CPUs of this machine.
    pub cpus: usize,
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
    /// A thread that compares has ended too early.
    #[error("a thread that compares results has failed; what was done is not known")]
    Helper,
    /// Not enough threads.
    #[error("cannot start a thread of the replay: {0}; try: ulimit -u unlimited")]
    Thread(io::Error),
}

/// More than any kernel lets a process have by default (`sysctl fs.nr_open`).
const HANDLES_MAX: u32 = 1 << 24;

/// Descriptors of our own, and what threads have open for a moment.
const OWN_DESCRIPTORS: i32 = 256;

/// Replays a plan in the root directory that we have. `go_on` is asked now and then.
///
/// # Errors
///
/// The plan is damaged, or the machine has no room for it. Whatever operations run into is a part of the result.
pub fn run(
    reader: PlanReader,
    index: Index,
    options: Options,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Replayed, RunError> {
    if index.handles > HANDLES_MAX {
        return Err(PlanError::Damaged { at: 0, what: "it has too many descriptors" }.into());
    }
    let source = Source::new(reader, index).map_err(RunError::UnknownCall)?;
    let fill = |bytes: &mut [u8]| options.contents.of(0).fill(bytes);
    let contents = Contents::new(source.longest, fill).map_err(RunError::Memory)?;
    let may_have = limits::raise_open_files();
    let count = i32::try_from(source.index.handles).unwrap_or(i32::MAX);
    let slots = Slots::new(source.index.handles, count.saturating_add(OWN_DESCRIPTORS));
    let not_given = give(&source.index.given, &slots);
    let workers = source.index.workers.len();
    let cpus = available_parallelism().map_or(1, usize::from);
    let (births, first) = births(&source.index, options.order);
    let shared = Shared {
        turns: Turns::new(workers),
        begin: clock::now(),
        may_spin: AtomicBool::new(true),
        births,
        source,
        options,
        slots,
        contents,
    };
    let (comparison, ended) = all(&shared, &first, cpus, go_on)?;
    let Ended { is_stopped, most } = ended;
    let index = shared.source.index;
    let needed = u64::from(index.handles) + u64::from(OWN_DESCRIPTORS.unsigned_abs());
    let too_few = (needed > may_have).then_some((needed, may_have));
    Ok(Replayed { index, comparison, is_stopped, not_given, too_few, most, cpus })
}

/// Opens what is open before the first operation, where it stands.
fn give(given: &[GivenPlan], slots: &Slots) -> Vec<(PathBuf, io::Error)> {
    let mut failed = Vec::new();
    for it in given {
        let path = Path::new(OsStr::from_bytes(&it.path));
        match files::open_as(path, it.flags.unwrap_or(0), it.offset) {
            Ok(fd) => slots.put(it.handle, fd),
            Err(error) => failed.push((path.to_owned(), error)),
        }
    }
    failed
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
    most: usize,
}

/// Starts everybody and waits for them. What was compared.
fn all(
    shared: &Shared,
    first: &[u32],
    cpus: usize,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(Comparison, Ended), RunError> {
    let (requests, received) = sync_channel(REQUESTS_MAX);
    let received = Mutex::new(received);
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (0..(cpus / 4).clamp(1, HELPERS_MAX))
            .map(|_| scope.spawn(|| help(&shared.source, &received)))
            .collect();
        let result = threads(scope, (shared, first, cpus), requests, go_on);
        let mut comparison = Comparison::default();
        for helper in helpers {
            comparison.merge(helper.join().map_err(|_| RunError::Helper)?);
        }
        result.map(|ended| (comparison, ended))
    })
}

/// Requests that wait for a helper.
const REQUESTS_MAX: usize = 256;

/// Helpers at most: each of them serves several millions of operations in a second.
const HELPERS_MAX: usize = 16;

/// How often it is looked whether to go on, ns.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Starts each worker when it is born, until all are through.
fn threads<'scope>(
    scope: &'scope Scope<'scope, '_>,
    (shared, first, cpus): (&'scope Shared, &[u32], usize),
    requests: SyncSender<Request>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Ended, RunError> {
    let (tell, told): (Sender<Told>, Receiver<Told>) = channel();
    let start = |worker: u32| -> Result<(), RunError> {
        let (requests, tell) = (requests.clone(), tell.clone());
        let run = move || work(shared, worker, &requests, &tell);
        Builder::new().spawn_scoped(scope, run).map(drop).map_err(RunError::Thread)
    };
    let mut result = Ok(());
    let (mut alive, mut most, mut is_stopped) = (0_usize, 0, false);
    let mut born: Vec<u32> = first.to_vec();
    loop {
        for worker in born.drain(..) {
            result = result.and_then(|()| start(worker));
            alive += usize::from(result.is_ok());
        }
        most = most.max(alive);
        // ORDERING: only a flag.
        shared.may_spin.store(alive < cpus, Ordering::Relaxed);
        if (result.is_err() || is_stopped) && !shared.turns.is_over() {
            shared.turns.stop();
        }
        if alive == 0 {
            return result.map(|()| Ended { is_stopped, most });
        }
        match told.recv_timeout(LOOK_EVERY) {
            Ok(Told::Born(worker)) if result.is_ok() && !is_stopped => born.push(worker),
            Ok(Told::Born(_)) => {}
            Ok(Told::Ended) => alive -= 1,
            Ok(Told::Failed(failure)) => {
                alive -= 1;
                result = Err(failure.into());
            }
            Err(_) => {}
        }
        is_stopped |= !go_on();
    }
}

impl From<Failure> for RunError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Plan(it) => Self::Plan(it),
            Failure::Memory(it) => Self::Memory(it),
        }
    }
}
