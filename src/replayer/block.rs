//! Asks a device again what another one was asked.
//!
//! ```text
//!   BlockPlan ─► a thread that is free takes the next request in the row when all is done that it waits for,
//!                lets time pass until its own has come, asks the device, tells that it is done, and is free
//! ```
//!
//! There are as many threads as requests were under way at once, so each request finds one that is free. Who has finished the request that the
//! next one waits for takes that one itself: nobody has to be woken. Nobody takes one while the one before it waits for its time, so they
//! begin in the order of the capture, but for those that follow each other so fast that the kernel lets one thread run before the other.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, available_parallelism};
use std::time::Duration;

use thiserror::Error;

use super::run::{Options, Pacing};
use super::stamps::Stamps;
use crate::replay::block::{Asked, BlockPlan, Got, Kind};
use crate::sys::target::{Buffer, Target};
use crate::sys::thread;

/// Threads at most: deeper queues are clipped, and told.
pub const THREADS_MAX: u32 = 256;

/// At their times more requests may be under way than in the capture: as many threads for each of then, and at least so many.
const OPEN_THREADS: [u32; 2] = [4, 32];

/// Who waits for his turn looks so often whether it has come, or all is over, if nobody wakes him.
const TURN_LOOK_EVERY: Duration = Duration::from_millis(100);

/// Who has started the threads looks so often whether they have ended, and whether to go on: a short replay ends as soon as it is done.
const END_LOOK_EVERY: Duration = Duration::from_millis(5);

/// What came of a replay.
#[derive(Debug)]
pub struct BlockReplayed {
    /// What each request got, as far as they were asked.
    pub got: Vec<Got>,
    /// It was stopped before its end.
    pub is_stopped: bool,
    /// Threads that asked.
    pub threads: u32,
    /// CPUs of this machine.
    pub cpus: usize,
}

/// Why there is no replay.
#[derive(Debug, Error)]
pub enum BlockError {
    /// Requests beyond the end.
    #[error(
        "the device is too small: {count} requests end behind its {size} bytes, the first at {end}; a replay needs a device that is as large as the \
         captured one"
    )]
    TooSmall {
        /// How many.
        count: usize,
        /// The device's bytes.
        size: u64,
        /// Where the first of them ends.
        end: u64,
    },
    /// Requests between its blocks.
    #[error(
        "the device has blocks of {block} bytes, and {count} requests do not begin and end with them, the first at {offset}; a replay needs a device with \
         the captured one's blocks or smaller ones"
    )]
    Unaligned {
        /// How many.
        count: usize,
        /// The device's block.
        block: u64,
        /// Where the first of them begins.
        offset: u64,
    },
    /// Not enough memory.
    #[error("there is not enough memory for the buffers of the replay: {0}")]
    Memory(io::Error),
    /// Not enough threads.
    #[error("cannot start a thread of the replay: {0}; try: ulimit -u unlimited")]
    Thread(io::Error),
    /// A thread has ended too early.
    #[error("a thread of the replay has failed; what was done is not known")]
    Failed,
}

/// Whether a device has room for all of it; nothing is asked.
///
/// # Errors
///
/// [`BlockError::TooSmall`], [`BlockError::Unaligned`].
pub fn check(plan: &BlockPlan, size: u64, block: u64) -> Result<(), BlockError> {
    let ends = |it: &&Asked| it.offset.saturating_add(it.bytes) > size;
    let is_odd = |it: &&Asked| !it.offset.is_multiple_of(block) || !it.bytes.is_multiple_of(block);
    let placed = || plan.all.iter().filter(|it| it.kind != Kind::Flush);
    if let Some(it) = placed().find(ends) {
        let end = it.offset.saturating_add(it.bytes);
        return Err(BlockError::TooSmall { count: placed().filter(ends).count(), size, end });
    }
    if let Some(it) = placed().find(is_odd) {
        let count = placed().filter(is_odd).count();
        return Err(BlockError::Unaligned { count, block, offset: it.offset });
    }
    Ok(())
}

/// How many threads a plan takes.
fn threads(plan: &BlockPlan, pacing: Pacing) -> u32 {
    let [each, least] = OPEN_THREADS;
    let wanted = match pacing {
        Pacing::Open => plan.depth.saturating_mul(each).max(least),
        Pacing::Closed | Pacing::Max => plan.depth,
    };
    let all = u32::try_from(plan.all.len()).unwrap_or(u32::MAX);
    wanted.min(all).clamp(1, THREADS_MAX)
}

/// The requests in a row, and which of them are done.
#[derive(Debug)]
struct Row {
    /// The next one.
    next: u32,
    /// Somebody waits for the time of the one before it.
    is_paced: bool,
    /// Requests that are done, by their place among those of the capture.
    done: Vec<bool>,
    /// So many of the first of them are.
    first: u32,
    /// When the first so many of them were, ns since the replay began.
    since: Vec<u64>,
}

/// What the threads have in common.
#[derive(Debug)]
struct Shared<'a> {
    plan: &'a BlockPlan,
    target: &'a Target,
    options: Options,
    contents: Buffer,
    row: Mutex<Row>,
    /// Somebody may take a request.
    is_free: Condvar,
    is_over: AtomicBool,
    may_spin: bool,
    stamps: Stamps,
}

/// Asks all of it. `go_on` is asked now and then.
///
/// # Errors
///
/// The machine has no room for it. Whatever requests run into is a part of the result.
pub fn run(
    plan: &BlockPlan,
    target: &Target,
    options: Options,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<BlockReplayed, BlockError> {
    let count = threads(plan, options.pacing);
    let cpus = available_parallelism().map_or(1, usize::from);
    let mut contents = buffer(plan.longest[1])?;
    options.contents.of(0).fill(contents.bytes_mut());
    let buffers = (0..count).map(|_| buffer(plan.longest[0])).collect::<Result<Vec<_>, _>>()?;
    let done = vec![false; plan.all.len()];
    let row = Row { next: 0, is_paced: false, done, first: 0, since: vec![0] };
    let shared = Shared {
        plan,
        target,
        options,
        contents,
        row: Mutex::new(row),
        is_free: Condvar::new(),
        is_over: AtomicBool::new(false),
        may_spin: cpus > 1,
        // Times by the clock itself: next to a request it takes no time.
        stamps: Stamps::new(None),
    };
    let (mut got, is_stopped) = (Vec::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut started = Vec::new();
        let mut result = Ok(());
        for buffer in buffers {
            match Builder::new().spawn_scoped(scope, || work(&shared, buffer)) {
                Ok(it) => started.push(it),
                Err(error) => result = Err(BlockError::Thread(error)),
            }
        }
        while !started.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            if result.is_err() || !go_on() {
                // ORDERING: only a flag.
                is_stopped.store(true, Ordering::Relaxed);
                // ORDERING: only a flag.
                shared.is_over.store(true, Ordering::Relaxed);
                shared.is_free.notify_all();
            }
            thread::pause(END_LOOK_EVERY);
        }
        for it in started {
            got.extend(it.join().map_err(|_| BlockError::Failed)?);
        }
        result
    })?;
    let is_stopped = is_stopped.into_inner();
    Ok(BlockReplayed { got, is_stopped, threads: count, cpus })
}

fn buffer(bytes: u64) -> Result<Buffer, BlockError> {
    let bytes = usize::try_from(bytes).map_err(io::Error::other);
    bytes.and_then(Buffer::new).map_err(BlockError::Memory)
}

/// One thread: requests, as long as there are any.
fn work(shared: &Shared<'_>, mut buffer: Buffer) -> Vec<Got> {
    thread::set_exact_timers();
    let mut all = Vec::new();
    while let Some((number, late)) = shared.take() {
        let asked = &shared.plan.all[number as usize];
        let start = shared.stamps.now();
        let result = shared.ask(asked, &mut buffer);
        let end = shared.stamps.now();
        shared.done(number, end);
        all.push(Got { number, start, end, result, late });
    }
    all
}

impl Shared<'_> {
    /// The next request, when its turn and its time have come, and how late it is; `None`: there is none any more.
    fn take(&self) -> Option<(u32, Option<u64>)> {
        let mut row = locked(&self.row);
        while row.is_paced || !self.is_turn(&row) {
            let waited = self.is_free.wait_timeout(row, TURN_LOOK_EVERY);
            row = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let number = row.next;
        let asked = self.plan.all.get(number as usize).filter(|_| !self.is_over())?;
        row.next += 1;
        let mut late = None;
        if let Some(time) = self.time(&row, number, asked) {
            row.is_paced = true;
            drop(row);
            late = Some(self.stamps.wait_until(time, self.may_spin, || self.is_over()));
            row = locked(&self.row);
            row.is_paced = false;
        }
        if self.is_turn(&row) {
            self.is_free.notify_one();
        }
        (!self.is_over()).then_some((number, late))
    }

    /// True if there is nothing to wait for: all is done that the next request follows, or there is none.
    fn is_turn(&self, row: &Row) -> bool {
        let waits = self.plan.waits.get(row.next as usize);
        let is_open = self.options.pacing == Pacing::Open;
        is_open || self.is_over() || waits.is_none_or(|it| row.first >= *it)
    }

    /// When it is to be asked, ns since the replay began.
    fn time(&self, row: &Row, number: u32, asked: &Asked) -> Option<u64> {
        match self.options.pacing {
            Pacing::Max => None,
            Pacing::Open => Some(self.options.scaled(asked.issued)),
            Pacing::Closed => {
                let waits = self.plan.waits[number as usize] as usize;
                let before = waits.checked_sub(1).map_or(0, |it| self.plan.completed[it]);
                let gap = self.options.scaled(asked.issued - before);
                Some(row.since[waits].saturating_add(gap))
            }
        }
    }

    fn ask(&self, asked: &Asked, buffer: &mut Buffer) -> Result<u64, i32> {
        let Asked { kind, offset, bytes, .. } = *asked;
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let done = match kind {
            Kind::Read => self.target.read(&mut buffer.bytes_mut()[..length], offset),
            Kind::Write => self.target.write(&self.contents.bytes()[..length], offset),
            Kind::Flush => self.target.flush().map(|()| 0),
            Kind::Discard => self.target.discard(offset, bytes).map(|()| 0),
            Kind::WriteZeroes => self.target.zero(offset, bytes).map(|()| 0),
        };
        done.map(|it| it as u64).map_err(|it| it.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Who is next sees it: we look ourselves.
    fn done(&self, number: u32, end: u64) {
        let mut row = locked(&self.row);
        let Row { done, first, since, .. } = &mut *row;
        done[self.plan.rank[number as usize] as usize] = true;
        while done.get(*first as usize) == Some(&true) {
            *first += 1;
            since.push(end);
        }
    }

    fn is_over(&self) -> bool {
        // ORDERING: only a flag.
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Nothing is half done where a thread has failed: it is told by its end.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
