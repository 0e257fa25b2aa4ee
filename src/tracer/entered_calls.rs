//! Calls that threads have entered, by thread and time: a names reader looks for the arguments of a
//! call that has returned.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::event::SysEnter;
use crate::event::syscall_table::CallId;
use crate::units::{KernelTime, Tid};

/// Largest number of threads with entries: threads that end inside a call leave theirs.
const THREADS_MAX: usize = 1 << 12;
/// Largest number of entries of a thread: a thread whose calls end on another CPU leaves theirs.
const ENTRIES_MAX: usize = 4;

/// Entries of calls that have not been found to return. With tracefs, entries and exits are in
/// rings of their own, so the entry of a thread's next call may be taken before the exit of the
/// current one.
#[derive(Debug, Default)]
pub(super) struct EnteredCalls {
    by_thread: FxHashMap<Tid, VecDeque<(KernelTime, SysEnter)>>,
}

impl EnteredCalls {
    /// Adds an entry.
    pub(super) fn add(&mut self, tid: Tid, time: KernelTime, enter: SysEnter) {
        if self.by_thread.len() >= THREADS_MAX {
            self.by_thread.clear();
        }
        let entries = self.by_thread.entry(tid).or_default();
        if entries.len() >= ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back((time, enter));
    }

    /// Removes and returns the entry of a call that this thread has left at this time. Earlier
    /// entries of the thread are dropped: their calls have returned, too.
    pub(super) fn take(&mut self, tid: Tid, until: KernelTime, call: CallId) -> Option<SysEnter> {
        let entries = self.by_thread.get_mut(&tid)?;
        let mut last = None;
        while entries.front().is_some_and(|entry| entry.0 <= until) {
            last = entries.pop_front().map(|entry| entry.1);
        }
        if entries.is_empty() {
            self.by_thread.remove(&tid);
        }
        last.filter(|enter| enter.call == call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(call: &str, first: u64) -> SysEnter {
        let call = CallId::by_name(call).expect("the table has the call");
        SysEnter { call, args: [first, 0, 0, 0, 0, 0] }
    }

    #[test]
    fn entry_before_the_exit_is_found() {
        let mut entered = EnteredCalls::default();
        let call = enter("openat", 1).call;
        entered.add(Tid(7), KernelTime(10), enter("openat", 1));
        entered.add(Tid(8), KernelTime(11), enter("openat", 2));
        entered.add(Tid(7), KernelTime(30), enter("openat", 3));
        let first = |found: Option<SysEnter>| found.map(|enter| enter.args[0]);
        assert_eq!(first(entered.take(Tid(7), KernelTime(20), call)), Some(1));
        assert_eq!(first(entered.take(Tid(7), KernelTime(20), call)), None);
        assert_eq!(first(entered.take(Tid(7), KernelTime(40), call)), Some(3));
        assert_eq!(first(entered.take(Tid(8), KernelTime(40), call)), Some(2));
        assert!(entered.by_thread.is_empty());
    }

    #[test]
    fn entry_of_another_call_is_not_taken() {
        let mut entered = EnteredCalls::default();
        entered.add(Tid(7), KernelTime(10), enter("openat", 1));
        entered.add(Tid(7), KernelTime(12), enter("unlink", 2));
        assert_eq!(entered.take(Tid(7), KernelTime(20), enter("openat", 1).call), None);
        assert!(entered.by_thread.is_empty(), "both calls have returned");
    }
}
