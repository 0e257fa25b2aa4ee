//! Owners of threads: the process of each thread, because a sample in a tracefs ring carries only
//! the thread.
//!
//! Births and execs are learned from the events, in the order of time; older threads from the
//! snapshot.

use rustc_hash::FxHashMap;

use crate::units::{Pid, Tid};

/// Process of each known thread.
#[derive(Debug)]
pub struct ThreadOwners {
    /// Processes by thread. Ends are not followed: a number is overwritten by its next birth, and a
    /// dead thread still causes block requests.
    by_tid: FxHashMap<i32, Pid>,
}

impl Default for ThreadOwners {
    fn default() -> Self {
        // The idle threads: 0 on each CPU, of no process in `/proc`.
        Self { by_tid: FxHashMap::from_iter([(0, Pid(0))]) }
    }
}

impl ThreadOwners {
    /// Returns the first threads of the processes that were followed from the start: they have the
    /// numbers of their processes. A process may end before the snapshot reads it.
    pub fn of_roots(processes: &[i32]) -> Self {
        let mut owners = Self::default();
        processes.iter().for_each(|number| owners.seen(Tid(*number), Pid(*number)));
        owners
    }

    /// Sets the process of a thread that was born in it, or has become it by an exec.
    pub fn is_of(&mut self, tid: Tid, pid: Pid) {
        self.by_tid.insert(tid.0, pid);
    }

    /// Sets the process of a thread by the snapshot. A birth that was recorded is later, and stays.
    pub fn seen(&mut self, tid: Tid, pid: Pid) {
        self.by_tid.entry(tid.0).or_insert(pid);
    }

    /// Returns the thread's process, if it is known.
    pub fn of(&self, tid: Tid) -> Option<Pid> {
        self.by_tid.get(&tid.0).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_threads_of_followed_processes_are_known() {
        let mut owners = ThreadOwners::of_roots(&[7, 9]);
        assert_eq!((owners.of(Tid(7)), owners.of(Tid(8))), (Some(Pid(7)), None));
        owners.is_of(Tid(9), Pid(7));
        assert_eq!(owners.of(Tid(9)), Some(Pid(7)));
    }

    #[test]
    fn a_birth_counts_more_than_an_old_snapshot() {
        let mut owners = ThreadOwners::default();
        assert_eq!((owners.of(Tid(0)), owners.of(Tid(8))), (Some(Pid(0)), None));
        owners.seen(Tid(8), Pid(7));
        owners.is_of(Tid(9), Pid(9));
        owners.seen(Tid(9), Pid(7));
        assert_eq!((owners.of(Tid(8)), owners.of(Tid(9))), (Some(Pid(7)), Some(Pid(9))));
        owners.is_of(Tid(8), Pid(8));
        assert_eq!(owners.of(Tid(8)), Some(Pid(8)));
    }
}
