//! Of which opens something may still show that a name was read too late.
//!
//! An event that bears on an open decides: it came before the read had ended, or after it, and then so do all that follow. So each open
//! is looked at by one such event of each kind, however many are waiting.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::units::{Pid, Tid};

/// Numbers of opens, ascending.
type Numbers = VecDeque<u64>;

/// Opens by what bears on them.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    /// On what stands in memory: whatever the thread does next.
    by_thread: FxHashMap<Tid, Numbers>,
    /// On the descriptor: what closes it.
    by_descriptor: FxHashMap<Pid, FxHashMap<u64, Numbers>>,
    /// On the file's name: all renames and removals.
    by_name: Numbers,
}

impl Undecided {
    /// An open whose number is higher than all before.
    pub(super) fn add(&mut self, number: u64, (pid, tid, [fd, second]): (Pid, Tid, [u64; 2])) {
        self.by_thread.entry(tid).or_default().push_back(number);
        let descriptors = self.by_descriptor.entry(pid).or_default();
        descriptors.entry(fd).or_default().push_back(number);
        if second != fd {
            descriptors.entry(second).or_default().push_back(number);
        }
        self.by_name.push_back(number);
    }

    /// It has been judged, and all before it.
    pub(super) fn judged(&mut self, number: u64, (pid, tid, fds): (Pid, Tid, [u64; 2])) {
        let drop_until = |numbers: &mut Numbers| {
            while numbers.front().is_some_and(|it| *it <= number) {
                numbers.pop_front();
            }
            numbers.is_empty()
        };
        drop_until(&mut self.by_name);
        if self.by_thread.get_mut(&tid).is_some_and(drop_until) {
            self.by_thread.remove(&tid);
        }
        let Some(descriptors) = self.by_descriptor.get_mut(&pid) else { return };
        for fd in fds {
            if descriptors.get_mut(&fd).is_some_and(drop_until) {
                descriptors.remove(&fd);
            }
        }
        if descriptors.is_empty() {
            self.by_descriptor.remove(&pid);
        }
    }

    /// The thread has done something.
    pub(super) fn of_thread(&mut self, tid: Tid) -> Numbers {
        self.by_thread.remove(&tid).unwrap_or_default()
    }

    /// A file was renamed or removed.
    pub(super) fn of_names(&mut self) -> Numbers {
        std::mem::take(&mut self.by_name)
    }

    /// A descriptor of the process was closed; `None`: any of them.
    pub(super) fn of_descriptor(&mut self, pid: Pid, fd: Option<u64>) -> Numbers {
        match fd {
            Some(fd) => {
                let descriptors = self.by_descriptor.get_mut(&pid);
                descriptors.and_then(|it| it.remove(&fd)).unwrap_or_default()
            }
            None => {
                let all = self.by_descriptor.remove(&pid).unwrap_or_default();
                all.into_values().flatten().collect()
            }
        }
    }

    /// Anything may have been closed.
    pub(super) fn of_all_descriptors(&mut self) -> Numbers {
        let all = std::mem::take(&mut self.by_descriptor);
        all.into_values().flat_map(FxHashMap::into_values).flatten().collect()
    }
}
