//! Registry of running workers. Interrupts workers that are blocked in a system call when the
//! replay ends, such as an open of a FIFO that another process has put there, or a read from a disk
//! that does not answer.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::sys::thread;
use crate::units::Tid;

/// Value of a worker that is not running.
const NO_THREAD: i32 = 0;

/// Thread IDs of the running workers, by worker.
#[derive(Debug)]
pub(super) struct InterruptibleThreads(Box<[AtomicI32]>);

impl InterruptibleThreads {
    pub(super) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| AtomicI32::new(NO_THREAD)).collect())
    }

    /// Records that the calling thread runs this worker.
    pub(super) fn begins(&self, worker: u32) {
        self.set(worker, thread::own_tid().0);
    }

    /// Records that a worker no longer runs.
    pub(super) fn ends(&self, worker: u32) {
        self.set(worker, NO_THREAD);
    }

    fn set(&self, worker: u32, tid: i32) {
        if let Some(it) = self.0.get(worker as usize) {
            // ORDERING: only a number; a worker that is missed is found by the next call of
            // `interrupt`.
            it.store(tid, Ordering::Relaxed);
        }
    }

    /// Makes blocked calls of all workers return. Must be repeated until no worker runs: a worker
    /// may be about to block.
    pub(super) fn interrupt(&self) {
        // ORDERING: as in `set`.
        let all = self.0.iter().map(|it| it.load(Ordering::Relaxed));
        all.filter(|it| *it != NO_THREAD).for_each(|it| thread::interrupt(Tid(it)));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Fails if a thread blocks forever in the kernel, reading a pipe without a writer.
    #[test]
    fn blocked_worker_is_interrupted() {
        thread::allow_interrupts().expect("a signal");
        let (at_work, (mut pipe, _kept)) =
            (InterruptibleThreads::new(2), std::io::pipe().expect("a pipe"));
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
