//! Progress of all workers, and waiting for it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use atomic_wait::{wait, wake_all};

/// Polls before a thread sleeps: about as long as a short call of another thread takes.
const LOOKS: u32 = 200;

/// Number of operations that one thread has completed.
#[derive(Debug, Default)]
struct Counter {
    done: AtomicU32,
    sleepers: AtomicU32,
}

impl Counter {
    fn get(&self) -> u32 {
        // ORDERING: pairs with the release in `set`: a thread that reads the number also sees the
        // work that preceded it.
        self.done.load(Ordering::Acquire)
    }

    fn set(&self, done: u32) {
        // ORDERING: completed work (descriptors in their slots) is visible to every thread that
        // reads the number.
        self.done.store(done, Ordering::Release);
        // ORDERING: the number is written before `sleepers` is read; in `sleep` a sleeper is
        // counted before it reads the number. So at least one of the two threads sees the other.
        fence(Ordering::SeqCst);
        // ORDERING: the fence has ordered it.
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            wake_all(&self.done);
        }
    }

    fn sleep(&self, while_it_is: u32) {
        // ORDERING: counted before the kernel reads the number (futex(2)); see `set`.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        wait(&self.done, while_it_is);
        // ORDERING: only a count.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Condition that a worker waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitTarget {
    /// Total number of completed operations.
    Turn(u64),
    /// Completion of an operation: worker, and index among that worker's operations.
    Operation((u32, u32)),
}

impl WaitTarget {
    /// Packs the condition into one number. No worker has the highest number.
    fn packed(self) -> u64 {
        match self {
            Self::Turn(turn) => u64::from(u32::MAX) << 32 | u64::from(wrapped(turn)),
            Self::Operation((worker, number)) => u64::from(worker) << 32 | u64::from(number),
        }
    }
}

/// Value in place of [`WaitTarget::packed`] for a worker that does not wait.
const NO_TARGET: u64 = u64::MAX;

/// Progress of all threads of a replay.
#[derive(Debug)]
pub(super) struct ProgressCounters {
    workers: Box<[Counter]>,
    /// Operations of all workers together, for the total order.
    all: Counter,
    is_over: AtomicBool,
    /// Condition that each worker waits for: [`WaitTarget::packed`].
    waits: Box<[AtomicU64]>,
}

impl ProgressCounters {
    pub(super) fn new(workers: usize) -> Self {
        let waits = (0..workers).map(|_| AtomicU64::new(NO_TARGET)).collect();
        let workers = (0..workers).map(|_| Counter::default()).collect();
        Self { workers, all: Counter::default(), is_over: AtomicBool::new(false), waits }
    }

    /// Records the number of operations that a worker has completed.
    pub(super) fn done(&self, worker: u32, count: u32) {
        if let Some(it) = self.workers.get(worker as usize) {
            it.set(count);
        }
    }

    /// Waits until operation `number` of a worker is over. Returns false if the replay is over.
    /// `by`: the waiting worker.
    pub(super) fn wait_for(&self, worker: u32, number: u32, by: u32) -> bool {
        let Some(it) = self.workers.get(worker as usize) else { return true };
        self.reach(it, |done| done > number, by, || WaitTarget::Operation((worker, number)))
    }

    /// Waits until a counter has the required value. Returns false if the replay is over.
    fn reach(
        &self,
        counter: &Counter,
        is_reached: impl Fn(u32) -> bool,
        by: u32,
        others: impl Fn() -> WaitTarget,
    ) -> bool {
        let mut looks = 0;
        loop {
            let done = counter.get();
            // ORDERING: `stop` sets the flag before it changes the number, so a thread that sees
            // the changed number sees the flag.
            if self.is_over.load(Ordering::Relaxed) {
                return false;
            }
            if is_reached(done) {
                return true;
            }
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                self.waits(by, Some(others()));
                counter.sleep(done);
                self.waits(by, None);
            }
        }
    }

    /// Records that a worker waits for others and does nothing else; `None`: it no longer waits.
    pub(super) fn waits(&self, worker: u32, others: Option<WaitTarget>) {
        if let Some(it) = self.waits.get(worker as usize) {
            // ORDERING: in one total order with the reads of it and of the counters in `in_vain`.
            it.store(others.map_or(NO_TARGET, WaitTarget::packed), Ordering::SeqCst);
        }
    }

    /// Returns the number of workers whose condition is not met, and a progress value that changes
    /// with each completed operation.
    fn in_vain(&self) -> (usize, u64) {
        let is_done = |packed: u64| {
            let (worker, number) = (packed >> 32, packed & u64::from(u32::MAX));
            match usize::try_from(worker).ok().and_then(|it| self.workers.get(it)) {
                Some(it) => u64::from(it.get()) > number,
                None => u64::from(self.all.get()) == number,
            }
        };
        // ORDERING: see `waits`.
        let waits = self.waits.iter().map(|it| it.load(Ordering::SeqCst));
        let in_vain = waits.filter(|it| *it != NO_TARGET && !is_done(*it)).count();
        let done = self.workers.iter().chain([&self.all]).map(|it| u64::from(it.get()));
        (in_vain, done.sum())
    }

    /// Returns true if operation `number` of a worker is over.
    pub(super) fn is_done(&self, worker: u32, number: u32) -> bool {
        self.workers.get(worker as usize).is_none_or(|it| it.get() > number)
    }

    /// Returns true if exactly `turn` operations are over.
    pub(super) fn is_turn(&self, turn: u64) -> bool {
        self.all.get() == wrapped(turn)
    }

    /// Waits until `turn` operations are over. Returns false if the replay is over. `by`: the
    /// waiting worker.
    pub(super) fn wait_for_turn(&self, turn: u64, by: u32) -> bool {
        self.reach(&self.all, |done| done == wrapped(turn), by, || WaitTarget::Turn(turn))
    }

    /// Records that the operation with this turn is over.
    pub(super) fn turn_done(&self, turn: u64) {
        self.all.set(wrapped(turn + 1));
    }

    /// Returns true if nothing more is to be executed.
    pub(super) fn is_over(&self) -> bool {
        // ORDERING: only a flag.
        self.is_over.load(Ordering::Relaxed)
    }

    /// Ends the replay: waiting workers continue and see that it is over.
    pub(super) fn stop(&self) {
        // ORDERING: before the numbers that the sleepers read.
        if self.is_over.swap(true, Ordering::SeqCst) {
            // The numbers are changed already; a second change would restore them.
            return;
        }
        for it in self.workers.iter().chain([&self.all]) {
            // A number that the sleepers have not seen, so that none of them falls asleep.
            // ORDERING: sleepers read the flag after the number.
            it.done.fetch_xor(1 << 31, Ordering::SeqCst);
            wake_all(&it.done);
        }
    }
}

/// Deadlock detector: all workers wait for operations that no worker will execute, as in a crafted
/// plan.
#[derive(Debug, Default)]
pub(super) struct DeadlockDetector(Option<u64>);

impl DeadlockDetector {
    /// Resets the detector: something has happened.
    pub(super) fn no(&mut self) {
        self.0 = None;
    }

    /// Returns true if `workers`, all workers that can run, wait at two consecutive checks and
    /// nothing was completed and nothing happened in between. All of them then waited at the same
    /// time.
    pub(super) fn is_so(&mut self, turns: &ProgressCounters, workers: usize) -> bool {
        let (in_vain, done) = turns.in_vain();
        let now = Some(done).filter(|_| in_vain > 0 && in_vain == workers);
        std::mem::replace(&mut self.0, now) == now && now.is_some()
    }
}

/// Low 32 bits of a turn, the width of the counter. No worker lags that far.
fn wrapped(turn: u64) -> u32 {
    u32::try_from(turn & u64::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternating_workers_wait_for_each_other() {
        let turns = ProgressCounters::new(2);
        std::thread::scope(|scope| {
            for me in 0..2 {
                let turns = &turns;
                scope.spawn(move || {
                    for number in 0..20_000 {
                        assert!(
                            me == 0 && number == 0
                                || turns.wait_for(1 - me, number - u32::from(me == 0), me)
                        );
                        turns.done(me, number + 1);
                    }
                });
            }
        });
        assert_eq!([0, 1].map(|it: usize| turns.workers[it].get()), [20_000; 2]);
    }

    /// Fails if a sleeper sees an unchanged number after several calls of `stop`.
    #[test]
    fn end_is_signalled_once() {
        let turns = ProgressCounters::new(1);
        turns.stop();
        let stopped = turns.workers[0].get();
        turns.stop();
        assert!(turns.is_over() && stopped != 0 && turns.workers[0].get() == stopped);
    }

    #[test]
    fn waiting_worker_learns_of_the_end() {
        let turns = ProgressCounters::new(1);
        std::thread::scope(|scope| {
            let [one, all] = [
                scope.spawn(|| turns.wait_for(0, 5, 0)),
                scope.spawn(|| turns.wait_for_turn(5, 0)),
            ];
            crate::sys::thread::pause(std::time::Duration::from_millis(20));
            turns.stop();
            assert!(!one.join().expect("no panic"));
            assert!(!all.join().expect("no panic"));
        });
    }

    /// Fails if a deadlock is not detected, or a worker that can continue is overlooked.
    #[test]
    fn deadlocked_plan_is_detected() {
        let (turns, mut vain) = (ProgressCounters::new(3), DeadlockDetector::default());
        turns.waits(0, Some(WaitTarget::Operation((1, 4))));
        turns.waits(2, Some(WaitTarget::Turn(5)));
        // One of the three workers is running.
        assert!(!vain.is_so(&turns, 3) && !vain.is_so(&turns, 3));
        assert!(!vain.is_so(&turns, 2) && vain.is_so(&turns, 2));
        vain.no();
        assert!(!vain.is_so(&turns, 2) && vain.is_so(&turns, 2));
        turns.done(1, 4);
        assert!(!vain.is_so(&turns, 2) && vain.is_so(&turns, 2));
        turns.done(1, 5);
        assert!(!vain.is_so(&turns, 2) && !vain.is_so(&turns, 2));
        assert!(!vain.is_so(&turns, 1) && vain.is_so(&turns, 1));
        turns.turn_done(4);
        assert!(!vain.is_so(&turns, 1) && !vain.is_so(&turns, 0) && !vain.is_so(&turns, 0));
    }

    #[test]
    fn sleeping_worker_reports_its_dependency() {
        let turns = ProgressCounters::new(2);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.wait_for(0, 5, 1));
            while turns.in_vain().0 == 0 {
                crate::sys::thread::pause(std::time::Duration::from_millis(1));
            }
            turns.done(0, 6);
            assert!(waiting.join().expect("no panic"));
            assert_eq!(turns.in_vain(), (0, 6));
        });
    }
}
