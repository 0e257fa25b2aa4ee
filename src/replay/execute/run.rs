//! Replay run: starts and supervises all its threads, from the first one to the last.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle, available_parallelism};
use std::time::Duration;

use rustc_hash::FxHashMap;
use zstd::bulk::Decompressor;

use super::decoder_threads::{DecodeRequest, help};
use super::inherited_fds::{InheritedFds, UnopenedFd};
use super::interruptible_threads::InterruptibleThreads;
use super::load::PlanSource;
use super::messages::WorkerMessage;
use super::options::{Engine, Pacing, ReplayOptions, ReplayOrder};
use super::preload::Preload;
use super::progress::Progress;
use super::progress_counters::{DeadlockDetector, ProgressCounters};
use super::run_error::{RunError, THREADS_MAX};
use super::shared::Shared;
use super::time_window::StartGate;
use super::timestamps::Timestamps;
use super::worker_pool::{self, WorkerPool};
use crate::replay::comparison::Comparison;
use crate::replay::plan::plan_file::{Index, PlanError, PlanReader};
use crate::sys::replay::reissue::{CallRing, DataSink, FdSlots, UringUnavailable, WriteContents};
use crate::sys::replay::tsc::CycleCounter;
use crate::sys::{rlimits, thread};

/// Outcome of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// The plan's index.
    pub index: Index,
    /// Paths of files, by file number.
    pub names: FxHashMap<u32, Vec<u8>>,
    /// Comparison of the results with the capture.
    pub comparison: Comparison,
    /// Replay was stopped before its end.
    pub is_stopped: bool,
    /// Replay was stopped by an operation on names ([`ReplayOptions::ends_at_names`]).
    pub names_differ: bool,
    /// Initially open descriptors that could not be opened.
    pub unopened_fds: Vec<UnopenedFd>,
    /// Number of descriptors that may be needed, and the lower number that the process may have.
    pub too_few: Option<(u64, u64)>,
    /// Highest number of threads at one time.
    pub most: usize,
    /// Total number of threads that had a ring.
    pub rings: usize,
    /// CPUs of this machine.
    pub cpus: usize,
}

/// Properties of the machine that must be read outside the sandbox.
#[derive(Debug)]
pub struct Machine {
    /// CPUs that the process may use: those of its cgroup (cgroups(7)).
    pub cpus: usize,
    /// Tick counter, read where the clock is too slow.
    pub ticks: CycleCounter,
    /// Destination of bytes whose captured destination does not exist in a replay.
    pub sink: DataSink,
}

impl Machine {
    /// Reads the properties of this machine.
    pub fn new() -> Self {
        let cpus = available_parallelism().map_or(1, usize::from);
        Self { cpus, ticks: CycleCounter::new(), sink: DataSink::open() }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

/// Checks whether the process has the rights that an engine needs.
///
/// # Errors
///
/// io_uring is not available to this process.
pub fn check(engine: Engine) -> Result<(), UringUnavailable> {
    match engine {
        Engine::Calls => Ok(()),
        Engine::IoUring(rules) => CallRing::new(1, rules).map(drop),
    }
}

/// Handles per plan at most: more than any kernel lets a process have by default (`sysctl
/// fs.nr_open`).
const HANDLES_MAX: u32 = 1 << 24;

/// Descriptors of the process itself without rings, and those that threads open for a moment.
const OWN_DESCRIPTORS: usize = 256;

/// Replays a plan in the current root directory. Calls `go_on` periodically with the number of
/// completed operations; the replay stops when it returns false.
///
/// # Errors
///
/// The plan is damaged, or the machine has not enough memory, threads or rights. Errors of replayed
/// operations are part of the result.
pub fn run(
    reader: PlanReader,
    index: Index,
    options: ReplayOptions,
    Machine { cpus, ticks, sink }: Machine,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Replayed, RunError> {
    if index.handles > HANDLES_MAX {
        return Err(PlanError::Damaged { offset: 0, what: "it has too many descriptors" }.into());
    }
    let source = PlanSource::new(reader, index).map_err(RunError::UnknownCall)?;
    let fill = |bytes: &mut [u8]| options.contents.of(0).fill(bytes);
    let contents = WriteContents::new(source.longest, fill).map_err(RunError::Memory)?;
    thread::allow_interrupts().map_err(RunError::Signal)?;
    let may_have = rlimits::raise_open_files();
    let own = OWN_DESCRIPTORS.saturating_add(worker_pool::rings(&source.index, options.engine));
    let needed = usize::try_from(source.index.handles).unwrap_or(usize::MAX).saturating_add(own);
    let reserved = i32::try_from(needed).unwrap_or(i32::MAX);
    let slots = FdSlots::new(source.index.handles, reserved).with(sink);
    slots.make_room(may_have);
    let workers = source.index.workers.len();
    let (births, first) = births(&source.index, options.order);
    let ahead = Preload::new(&source)?;
    let given = InheritedFds::new(source.index.given.clone(), workers == 1);
    let shared = Shared {
        ahead,
        turns: ProgressCounters::new(workers),
        progress: Progress::new(workers),
        at_work: InterruptibleThreads::new(workers),
        gate: StartGate::new(options.window.from.is_none()),
        stamps: Timestamps::new(Some(ticks).filter(|_| options.pacing == Pacing::Max)),
        given,
        may_spin: AtomicBool::new(true),
        births,
        source,
        options,
        slots,
        contents,
    };
    let (comparison, ended) = all(&shared, &first, cpus, go_on)?;
    let RunEnd { is_stopped, names_differ, most, rings } = ended;
    let PlanSource { reader, index, .. } = shared.source;
    let names = reader.names(&index)?;
    // Highest descriptor number that is requested: each handle has a number of its own, above those
    // that the kernel chooses.
    let needed = needed as u64 + u64::from(index.handles);
    let too_few = (needed > may_have).then_some((needed, may_have));
    let unopened_fds = shared.given.into_unopened();
    Ok(Replayed {
        index,
        names,
        comparison,
        is_stopped,
        names_differ,
        unopened_fds,
        too_few,
        most,
        rings,
        cpus,
    })
}

/// Returns for each worker the workers that its operations start, and the workers without a parent.
fn births(index: &Index, order: ReplayOrder) -> (Vec<Vec<(u32, u32)>>, Vec<u32>) {
    let mut births = vec![Vec::new(); index.workers.len()];
    let mut first = Vec::new();
    for (born, worker) in (0..).zip(&index.workers) {
        // A worker never starts one that precedes it in the plan.
        let before = worker.before.filter(|it| order != ReplayOrder::None && it.0 < born);
        match before.and_then(|it| Some((it.1, births.get_mut(it.0 as usize)?))) {
            Some((parent_op, births)) => births.push((parent_op, born)),
            None => first.push(born),
        }
    }
    births.iter_mut().for_each(|it| it.sort_unstable());
    (births, first)
}

/// Outcome of all workers.
struct RunEnd {
    is_stopped: bool,
    names_differ: bool,
    most: usize,
    rings: usize,
}

/// Starts all workers, waits for them, and returns what the helpers compared.
fn all(
    shared: &Shared,
    first: &[u32],
    cpus: usize,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<(Comparison, RunEnd), RunError> {
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
        let result = threads(scope, shared, first, cpus, requests, go_on);
        let mut comparison = Comparison::since(shared.options.window.from);
        let compared: Vec<_> = helpers.into_iter().map(ScopedJoinHandle::join).collect();
        for it in compared {
            comparison.merge(it.map_err(|_| RunError::Helper)?);
        }
        result.map(|ended| (comparison, ended))
    })
}

/// Requests that may queue for a helper.
const REQUESTS_MAX: usize = 256;

/// Helpers at most: each of them serves several millions of operations in a second.
const HELPERS_MAX: usize = 16;

/// Interval between two calls of `go_on`.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Starts each worker when it is born, until all have ended.
fn threads<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared,
    first: &[u32],
    cpus: usize,
    requests: SyncSender<DecodeRequest>,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<RunEnd, RunError> {
    let (messages, inbox): (Sender<WorkerMessage>, Receiver<WorkerMessage>) = channel();
    let mut crew = WorkerPool::new(scope, shared, requests, messages);
    let mut result = Ok(());
    let (mut prepared, mut most, mut is_stopped, mut names_differ) = (0, 0, false, false);
    let mut born: Vec<u32> = first.to_vec();
    let mut vain = DeadlockDetector::default();
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
        // A worker reports the births of its children before it reports that it is prepared.
        if prepared == crew.workers() && !shared.gate.is_open() {
            shared.stamps.begin_again();
            shared.gate.open();
        }
        if crew.workers() == 0 {
            return result.map(|()| RunEnd { is_stopped, names_differ, most, rings: crew.rings() });
        }
        let news = inbox.recv_timeout(LOOK_EVERY);
        if news.is_ok() {
            vain.no();
        }
        match news {
            Ok(WorkerMessage::Born(worker)) if result.is_ok() && !is_stopped => born.push(worker),
            Ok(WorkerMessage::Born(_)) => {}
            Ok(WorkerMessage::Prepared) => prepared += 1,
            Ok(WorkerMessage::NamesDiffer) => names_differ = true,
            Ok(WorkerMessage::Ended(worker)) => crew.ended(worker),
            Ok(WorkerMessage::Failed(worker, failure)) => {
                crew.ended(worker);
                // A later failure may be a consequence of the first one, so the first one is kept.
                result = result.and(Err(failure.into()));
            }
            // A worker that has not ended by now may be blocked in a call that never returns.
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
