//! Undecided opens: a later event may still show that their names were read too late.
//!
//! The first event that bears on an open decides: it came before the end of the read, or after it,
//! and then so do all later ones. So each open is checked by one such event of each kind, however
//! many opens are waiting.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::units::{Pid, Tid};

/// Numbers of opens, ascending.
type Numbers = VecDeque<u64>;

/// Opens by the descriptor of the process that a close may end.
#[derive(Debug, Default)]
struct DescriptorIndex(FxHashMap<Pid, FxHashMap<u64, Numbers>>);

/// Opens by the events that bear on them.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    /// By the thread, whose next action may change its memory.
    by_thread: FxHashMap<Tid, Numbers>,
    /// By the new descriptor.
    by_descriptor: DescriptorIndex,
    /// By the directory at which the path of a lookup begins.
    by_base: DescriptorIndex,
    /// By the file's name: all renames and removals.
    by_name: Numbers,
    /// By the place of a lookup: all changes of directories and mounts.
    by_place: Numbers,
}

impl DescriptorIndex {
    fn add(&mut self, number: u64, pid: Pid, fd: u64) {
        self.0.entry(pid).or_default().entry(fd).or_default().push_back(number);
    }

    /// Removes this open, and all before it.
    fn judged(&mut self, number: u64, pid: Pid, fd: u64) {
        let Some(descriptors) = self.0.get_mut(&pid) else { return };
        if descriptors.get_mut(&fd).is_some_and(|numbers| is_empty_after(numbers, number)) {
            descriptors.remove(&fd);
        }
        if descriptors.is_empty() {
            self.0.remove(&pid);
        }
    }

    /// Takes the opens of a descriptor of the process; `None`: of any of them.
    fn of(&mut self, pid: Pid, fd: Option<u64>) -> Numbers {
        match fd {
            Some(fd) => {
                let descriptors = self.0.get_mut(&pid);
                descriptors.and_then(|of_process| of_process.remove(&fd)).unwrap_or_default()
            }
            None => {
                let all = self.0.remove(&pid).unwrap_or_default();
                all.into_values().flatten().collect()
            }
        }
    }

    fn all(&mut self) -> Numbers {
        let all = std::mem::take(&mut self.0);
        all.into_values().flat_map(FxHashMap::into_values).flatten().collect()
    }
}

/// Removes all numbers until this one. Returns true if none is left.
fn is_empty_after(numbers: &mut Numbers, number: u64) -> bool {
    while numbers.front().is_some_and(|first| *first <= number) {
        numbers.pop_front();
    }
    numbers.is_empty()
}

impl Undecided {
    /// Adds an open; its number is higher than all before.
    pub(super) fn add(&mut self, number: u64, pid: Pid, tid: Tid, [fd, second]: [u64; 2]) {
        self.by_thread.entry(tid).or_default().push_back(number);
        self.by_descriptor.add(number, pid, fd);
        if second != fd {
            self.by_descriptor.add(number, pid, second);
        }
        self.by_name.push_back(number);
    }

    /// Adds a lookup for the open that was added last. Its path begins at this descriptor, if it
    /// begins at one.
    pub(super) fn add_lookup(&mut self, number: u64, pid: Pid, base: Option<u64>) {
        self.by_place.push_back(number);
        if let Some(fd) = base {
            self.by_base.add(number, pid, fd);
        }
    }

    /// Removes an open that has been judged, and all before it.
    pub(super) fn judged(
        &mut self,
        number: u64,
        pid: Pid,
        tid: Tid,
        fds: [u64; 2],
        base: Option<u64>,
    ) {
        is_empty_after(&mut self.by_name, number);
        is_empty_after(&mut self.by_place, number);
        if self.by_thread.get_mut(&tid).is_some_and(|numbers| is_empty_after(numbers, number)) {
            self.by_thread.remove(&tid);
        }
        for fd in fds {
            self.by_descriptor.judged(number, pid, fd);
        }
        if let Some(fd) = base {
            self.by_base.judged(number, pid, fd);
        }
    }

    /// Takes the opens on which an action of the thread bears.
    pub(super) fn of_thread(&mut self, tid: Tid) -> Numbers {
        self.by_thread.remove(&tid).unwrap_or_default()
    }

    /// Takes the opens on which a rename or removal bears.
    pub(super) fn of_names(&mut self) -> Numbers {
        std::mem::take(&mut self.by_name)
    }

    /// Takes the opens on which the close of a descriptor of the process bears; `None`: any of
    /// them.
    pub(super) fn of_descriptor(&mut self, pid: Pid, fd: Option<u64>) -> Numbers {
        self.by_descriptor.of(pid, fd)
    }

    /// Takes the opens on which any close bears.
    pub(super) fn of_all_descriptors(&mut self) -> Numbers {
        self.by_descriptor.all()
    }

    /// Takes the opens with lookups on which the close of a descriptor of the process bears;
    /// `None`: any of them.
    pub(super) fn of_base(&mut self, pid: Pid, fd: Option<u64>) -> Numbers {
        self.by_base.of(pid, fd)
    }

    /// Takes the opens with lookups on which any close bears.
    pub(super) fn of_all_bases(&mut self) -> Numbers {
        self.by_base.all()
    }

    /// Takes the opens with lookups on which a change of directories or mounts bears.
    pub(super) fn of_places(&mut self) -> Numbers {
        std::mem::take(&mut self.by_place)
    }
}
