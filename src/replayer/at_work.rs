//! Which threads are at work: who waits inside a call when all is over (an open of a pipe that somebody has put there, a disk that does not
//! answer) is brought back.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::sys::thread;
use crate::units::Tid;

/// Nobody is at work there.
const NOBODY: i32 = 0;

/// Their numbers, by workers.
#[derive(Debug)]
pub(super) struct AtWork(Box<[AtomicI32]>);

impl AtWork {
    pub(super) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| AtomicI32::new(NOBODY)).collect())
    }

    /// The calling thread is at work as this worker.
    pub(super) fn begins(&self, worker: u32) {
        self.set(worker, thread::own_tid().0);
    }

    /// It is no longer.
    pub(super) fn ends(&self, worker: u32) {
        self.set(worker, NOBODY);
    }

    fn set(&self, worker: u32, tid: i32) {
        if let Some(it) = self.0.get(worker as usize) {
            // ORDERING: only a number; who is missed is found the next time.
            it.store(tid, Ordering::Relaxed);
        }
    }

    /// Whoever waits inside a call returns from it. To be said again until nobody is at work: who was about to wait does so then.
    pub(super) fn interrupt(&self) {
        // ORDERING: as in `set`.
        let all = self.0.iter().map(|it| it.load(Ordering::Relaxed));
        all.filter(|it| *it != NOBODY).for_each(|it| thread::interrupt(Tid(it)));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Fails if a thread waits in the kernel for ever: nobody writes into its pipe.
    #[test]
    fn who_waits_in_a_call_comes_back() {
        thread::allow_interrupts().expect("a signal");
        let (at_work, (mut pipe, _kept)) = (AtWork::new(2), std::io::pipe().expect("a pipe"));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                at_work.begins(1);
                let read = pipe.read(&mut [0]);
                at_work.ends(1);
                read
            });
            while !waiting.is_finished() {
                at_work.interrupt();
                thread::pause(std::time::Duration::from_millis(1));
            }
            let read = waiting.join().expect("no panic");
            assert_eq!(read.expect_err("nothing").kind(), std::io::ErrorKind::Interrupted);
        });
    }
}
