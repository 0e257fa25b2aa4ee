//! Block replay: issues the captured requests of one device to another one.
//!
//! ```text
//!   BlockPlan ─► a free thread takes the next request when its dependencies have completed,
//!                waits for its due time, issues it, records its completion, and is free again
//! ```
//!
//! There are as many threads as requests were in flight at once, so each request finds a free one.
//! The thread that completes the last dependency of the next request takes that request itself, so
//! no thread has to be woken. No thread takes a request while the previous one waits for its due
//! time. So requests begin in captured order, except those that follow each other so fast that the
//! kernel runs one thread before the other.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, available_parallelism};
use std::time::Duration;

use thiserror::Error;

use super::options::{Pacing, ReplayOptions};
use super::timestamps::Timestamps;
use crate::replay::block_comparison::ReplayedRequest;
use crate::replay::plan::block::{BlockPlan, CapturedRequest, CapturedRequestKind};
use crate::sys::replay::block_device::{BlockTarget, DirectBuffer};
use crate::sys::thread;
use crate::units::{Nanos, ReplayTime};

/// Threads at most. Deeper queues are clipped, which the report shows.
pub const THREADS_MAX: u32 = 256;

/// Threads with open pacing, where more requests may be in flight than in the capture: a factor on
/// the captured depth, and a minimum.
const OPEN_THREADS: [u32; 2] = [4, 32];

/// Longest sleep of a thread that waits for its turn, before it checks again for its turn and for
/// the end of the replay.
const TURN_LOOK_EVERY: Duration = Duration::from_millis(100);

/// Interval in which the starting thread checks for ended threads and calls `go_on`: a short replay
/// must end as soon as it is done.
const END_LOOK_EVERY: Duration = Duration::from_millis(5);

/// Outcome of a block replay.
#[derive(Debug)]
pub struct BlockReplayed {
    /// Results of the issued requests.
    pub got: Vec<ReplayedRequest>,
    /// Replay was stopped before its end.
    pub is_stopped: bool,
    /// Threads that issued requests.
    pub threads: u32,
    /// CPUs of this machine.
    pub cpus: usize,
}

/// Reason why a block replay failed.
#[derive(Debug, Error)]
pub enum BlockError {
    /// Requests end beyond the end of the device.
    #[error(
        "the device is too small: {count} requests end beyond its {size} bytes, the first at {end_byte}; a replay needs a device that is as large as the \
         captured one"
    )]
    TooSmall {
        /// Number of these requests.
        count: usize,
        /// Size of the device in bytes.
        size: u64,
        /// End of the first of these requests, in bytes.
        end_byte: u64,
    },
    /// Requests are not aligned to the device's blocks.
    #[error(
        "the device has blocks of {block} bytes, and {count} requests are not aligned to them, the first at {offset}; a replay needs a device whose \
         blocks are no larger than those of the captured one"
    )]
    Unaligned {
        /// Number of these requests.
        count: usize,
        /// Block size of the device.
        block: u64,
        /// Offset of the first of these requests.
        offset: u64,
    },
    /// Buffers do not fit in memory.
    #[error("there is not enough memory for the buffers of the replay: {0}")]
    Memory(io::Error),
    /// Thread could not be started.
    #[error("cannot start a thread of the replay: {0}; try: ulimit -u unlimited")]
    Thread(io::Error),
    /// Thread has ended prematurely.
    #[error("a thread of the replay has failed; what was done is not known")]
    Failed,
}

/// Checks that all requests of a plan fit on a device; issues nothing.
///
/// # Errors
///
/// [`BlockError::TooSmall`], [`BlockError::Unaligned`].
pub fn check(plan: &BlockPlan, size: u64, block: u64) -> Result<(), BlockError> {
    let ends = |it: &&CapturedRequest| it.offset.saturating_add(it.bytes) > size;
    let is_odd =
        |it: &&CapturedRequest| !it.offset.is_multiple_of(block) || !it.bytes.is_multiple_of(block);
    let placed = || plan.all.iter().filter(|it| it.kind != CapturedRequestKind::Flush);
    if let Some(it) = placed().find(ends) {
        let (count, end_byte) = (placed().filter(ends).count(), it.offset.saturating_add(it.bytes));
        return Err(BlockError::TooSmall { count, size, end_byte });
    }
    if let Some(it) = placed().find(is_odd) {
        let count = placed().filter(is_odd).count();
        return Err(BlockError::Unaligned { count, block, offset: it.offset });
    }
    Ok(())
}

/// Returns the number of threads that a plan needs.
fn threads(plan: &BlockPlan, pacing: Pacing) -> u32 {
    let [each, least] = OPEN_THREADS;
    let wanted = match pacing {
        Pacing::Open => plan.depth.saturating_mul(each).max(least),
        Pacing::Closed | Pacing::Max => plan.depth,
    };
    let all = u32::try_from(plan.all.len()).unwrap_or(u32::MAX);
    wanted.min(all).clamp(1, THREADS_MAX)
}

/// Queue of requests, and which of them have completed.
#[derive(Debug)]
struct RequestQueue {
    /// Index of the next request.
    next: u32,
    /// A thread waits for the due time of the previous request.
    is_paced: bool,
    /// Completed requests, by their rank in the capture's completion order.
    done: Vec<bool>,
    /// Length of the completed prefix of `done`.
    first: u32,
    /// Times at which the prefix reached each length.
    since: Vec<ReplayTime>,
}

/// State that all threads share.
#[derive(Debug)]
struct BlockShared<'a> {
    plan: &'a BlockPlan,
    target: &'a BlockTarget,
    options: ReplayOptions,
    contents: DirectBuffer,
    row: Mutex<RequestQueue>,
    /// Signaled when a thread may take a request.
    is_free: Condvar,
    is_over: AtomicBool,
    may_spin: bool,
    stamps: Timestamps,
}

/// Issues all requests. `go_on` is called periodically; the replay stops when it returns false.
///
/// # Errors
///
/// The machine has not enough memory or threads. Errors of requests are part of the result.
pub fn run(
    plan: &BlockPlan,
    target: &BlockTarget,
    options: ReplayOptions,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<BlockReplayed, BlockError> {
    let count = threads(plan, options.pacing);
    let cpus = available_parallelism().map_or(1, usize::from);
    let mut contents = buffer(plan.longest[1])?;
    options.contents.of(0).fill(contents.bytes_mut());
    let buffers = (0..count).map(|_| buffer(plan.longest[0])).collect::<Result<Vec<_>, _>>()?;
    let done = vec![false; plan.all.len()];
    let row =
        RequestQueue { next: 0, is_paced: false, done, first: 0, since: vec![ReplayTime::MIN] };
    let shared = BlockShared {
        plan,
        target,
        options,
        contents,
        row: Mutex::new(row),
        is_free: Condvar::new(),
        is_over: AtomicBool::new(false),
        may_spin: cpus > 1,
        // Times come from the clock itself, whose cost is negligible next to a request.
        stamps: Timestamps::new(None),
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

fn buffer(bytes: u64) -> Result<DirectBuffer, BlockError> {
    let bytes = usize::try_from(bytes).map_err(io::Error::other);
    bytes.and_then(DirectBuffer::new).map_err(BlockError::Memory)
}

/// Body of a thread: issues requests as long as there are any.
fn work(shared: &BlockShared<'_>, mut buffer: DirectBuffer) -> Vec<ReplayedRequest> {
    thread::set_exact_timers();
    let mut all = Vec::new();
    while let Some((number, late)) = shared.take() {
        let request = &shared.plan.all[number as usize];
        let start = shared.stamps.clock();
        let result = shared.issue(request, &mut buffer);
        let end = shared.stamps.clock();
        shared.done(number, end);
        all.push(ReplayedRequest { number, start, end, result, late });
    }
    all
}

impl BlockShared<'_> {
    /// Takes the next request when its turn and its due time have come. Returns its index and its
    /// lateness; `None`: there is no further request.
    fn take(&self) -> Option<(u32, Option<Nanos>)> {
        let mut row = locked(&self.row);
        while row.is_paced || !self.is_turn(&row) {
            let waited = self.is_free.wait_timeout(row, TURN_LOOK_EVERY);
            row = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let number = row.next;
        let request = self.plan.all.get(number as usize).filter(|_| !self.is_over())?;
        row.next += 1;
        let mut late = None;
        if let Some(time) = self.time(&row, number, request) {
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

    /// Returns true if all dependencies of the next request have completed, or there is no next
    /// request.
    fn is_turn(&self, row: &RequestQueue) -> bool {
        let waits = self.plan.waits.get(row.next as usize);
        let is_open = self.options.pacing == Pacing::Open;
        is_open || self.is_over() || waits.is_none_or(|it| row.first >= *it)
    }

    /// Returns the due time of a request.
    fn time(
        &self,
        row: &RequestQueue,
        number: u32,
        request: &CapturedRequest,
    ) -> Option<ReplayTime> {
        match self.options.pacing {
            Pacing::Max => None,
            Pacing::Open => Some(self.options.due(request.issued.since(ReplayTime::MIN))),
            Pacing::Closed => {
                let waits = self.plan.waits[number as usize] as usize;
                let before =
                    waits.checked_sub(1).map_or(ReplayTime::MIN, |it| self.plan.completed[it]);
                let gap = self.options.scaled(request.issued.since(before));
                Some(row.since[waits].saturating_add(gap))
            }
        }
    }

    fn issue(&self, request: &CapturedRequest, buffer: &mut DirectBuffer) -> Result<u64, i32> {
        let CapturedRequest { kind, offset, bytes, .. } = *request;
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let done = match kind {
            CapturedRequestKind::Read => {
                self.target.read(&mut buffer.bytes_mut()[..length], offset)
            }
            CapturedRequestKind::Write => {
                self.target.write(&self.contents.bytes()[..length], offset)
            }
            CapturedRequestKind::Flush => self.target.flush().map(|()| 0),
            CapturedRequestKind::Discard => self.target.discard(offset, bytes).map(|()| 0),
            CapturedRequestKind::WriteZeroes => self.target.zero(offset, bytes).map(|()| 0),
        };
        done.map(|it| it as u64).map_err(|it| it.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Records a completion. No wake-up is needed: this thread checks for the next request itself.
    fn done(&self, number: u32, end: ReplayTime) {
        let mut row = locked(&self.row);
        let RequestQueue { done, first, since, .. } = &mut *row;
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

/// Locks a mutex. A poisoned one is usable: a failed thread leaves no state half changed, and its
/// failure is reported when it is joined.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
