//! Who has done how much, and waiting for it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use atomic_wait::{wait, wake_all};

/// How often one looks before one sleeps: about as long as a short call of another thread takes.
const LOOKS: u32 = 200;

/// How much one thread has done.
#[derive(Debug, Default)]
struct Counter {
    done: AtomicU32,
    sleepers: AtomicU32,
}

impl Counter {
    fn get(&self) -> u32 {
        // ORDERING: pairs with the release in `set`: who sees the number sees what was done before it.
        self.done.load(Ordering::Acquire)
    }

    fn set(&self, done: u32) {
        // ORDERING: what was done (descriptors in their slots) is there for whoever sees the number.
        self.done.store(done, Ordering::Release);
        // ORDERING: the number is written before we look for sleepers; in `sleep` a sleeper is counted before it looks at the number. So
        // one of us sees the other.
        fence(Ordering::SeqCst);
        // ORDERING: the fence has ordered it.
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            wake_all(&self.done);
        }
    }

    fn sleep(&self, while_it_is: u32) {
        // ORDERING: counted before the kernel looks at the number (futex(2)); see `set`.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        wait(&self.done, while_it_is);
        // ORDERING: only a count.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Until it is `wanted` or more, or all is over; false if that.
    fn reach(&self, is_reached: impl Fn(u32) -> bool, is_over: &AtomicBool) -> bool {
        let mut looks = 0;
        loop {
            let done = self.get();
            // ORDERING: whoever sets the flag changes the number behind it, so who sees that sees the flag.
            if is_over.load(Ordering::Relaxed) {
                return false;
            }
            if is_reached(done) {
                return true;
            }
            looks += 1;
            if looks < LOOKS { std::hint::spin_loop() } else { self.sleep(done) }
        }
    }
}

/// All threads of a replay.
#[derive(Debug)]
pub(super) struct Turns {
    workers: Box<[Counter]>,
    /// Operations of all of them, where one comes behind the other.
    all: Counter,
    is_over: AtomicBool,
}

impl Turns {
    pub(super) fn new(workers: usize) -> Self {
        let workers = (0..workers).map(|_| Counter::default()).collect();
        Self { workers, all: Counter::default(), is_over: AtomicBool::new(false) }
    }

    /// The worker has done so many.
    pub(super) fn done(&self, worker: u32, count: u32) {
        if let Some(it) = self.workers.get(worker as usize) {
            it.set(count);
        }
    }

    /// Until that operation of that worker is over; false: all is.
    pub(super) fn wait_for(&self, (worker, number): (u32, u32)) -> bool {
        let Some(it) = self.workers.get(worker as usize) else { return true };
        it.reach(|done| done > number, &self.is_over)
    }

    /// True if that operation of that worker is over.
    pub(super) fn is_done(&self, (worker, number): (u32, u32)) -> bool {
        self.workers.get(worker as usize).is_none_or(|it| it.get() > number)
    }

    /// True if so many operations are over.
    pub(super) fn is_turn(&self, turn: u64) -> bool {
        self.all.get() == wrapped(turn)
    }

    /// Until so many operations are over; false: all is.
    pub(super) fn wait_for_turn(&self, turn: u64) -> bool {
        self.all.reach(|done| done == wrapped(turn), &self.is_over)
    }

    /// The operation with this turn is over.
    pub(super) fn turn_done(&self, turn: u64) {
        self.all.set(wrapped(turn + 1));
    }

    /// True if nothing more is to be done.
    pub(super) fn is_over(&self) -> bool {
        // ORDERING: only a flag.
        self.is_over.load(Ordering::Relaxed)
    }

    /// Nothing more is done: whoever waits goes on.
    pub(super) fn stop(&self) {
        // ORDERING: before the numbers that the sleepers look at.
        if self.is_over.swap(true, Ordering::SeqCst) {
            // The numbers are changed already: once more, and they would be as before.
            return;
        }
        for it in self.workers.iter().chain([&self.all]) {
            // A number that they have not seen, so that none of them falls asleep.
            // ORDERING: they see the flag behind it.
            it.done.fetch_xor(1 << 31, Ordering::SeqCst);
            wake_all(&it.done);
        }
    }
}

/// The counter has 32 bits; nobody is so far behind.
fn wrapped(turn: u64) -> u32 {
    u32::try_from(turn & u64::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_waits_for_the_other() {
        let turns = Turns::new(2);
        std::thread::scope(|scope| {
            for me in 0..2 {
                let turns = &turns;
                scope.spawn(move || {
                    for number in 0..20_000 {
                        assert!(
                            me == 0 && number == 0
                                || turns.wait_for((1 - me, number - u32::from(me == 0)))
                        );
                        turns.done(me, number + 1);
                    }
                });
            }
        });
        assert_eq!([0, 1].map(|it: usize| turns.workers[it].get()), [20_000; 2]);
    }

    /// Fails if who sleeps sees the same number again, as several have said that it is over.
    #[test]
    fn it_is_over_once() {
        let turns = Turns::new(1);
        turns.stop();
        let told = turns.workers[0].get();
        turns.stop();
        assert!(turns.is_over() && told != 0 && turns.workers[0].get() == told);
    }

    #[test]
    fn who_waits_for_ever_is_told_that_it_is_over() {
        let turns = Turns::new(1);
        std::thread::scope(|scope| {
            let [one, all] =
                [scope.spawn(|| turns.wait_for((0, 5))), scope.spawn(|| turns.wait_for_turn(5))];
            crate::sys::thread::pause(std::time::Duration::from_millis(20));
            turns.stop();
            assert!(!one.join().expect("no panic"));
            assert!(!all.join().expect("no panic"));
        });
    }
}
