//! Undecided opens: a later event may still show that their names were read too late.
//!
//! The first event that bears on an open decides: it came before the end of the read, or after it,
//! and then so do all later ones. So each open is checked by one such event of each kind, however
//! many opens are waiting.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::event::EventKind;
use crate::event::syscall_table::{CallClass, Role};
use crate::units::{Pid, Tid};

/// Numbers of opens, ascending.
type Numbers = VecDeque<u64>;

/// Opens by the events that bear on them.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    /// By the thread, whose next action may change its memory.
    by_thread: FxHashMap<Tid, Numbers>,
    /// By the descriptor, which a close may end.
    by_descriptor: FxHashMap<Pid, FxHashMap<u64, Numbers>>,
    /// By the file's name: all renames and removals.
    by_name: Numbers,
}

impl Undecided {
    /// Adds an open; its number is higher than all before.
    pub(super) fn add(&mut self, number: u64, pid: Pid, tid: Tid, [fd, second]: [u64; 2]) {
        self.by_thread.entry(tid).or_default().push_back(number);
        let descriptors = self.by_descriptor.entry(pid).or_default();
        descriptors.entry(fd).or_default().push_back(number);
        if second != fd {
            descriptors.entry(second).or_default().push_back(number);
        }
        self.by_name.push_back(number);
    }

    /// Removes an open that has been judged, and all before it.
    pub(super) fn judged(&mut self, number: u64, pid: Pid, tid: Tid, fds: [u64; 2]) {
        let drop_until = |numbers: &mut Numbers| {
            while numbers.front().is_some_and(|first| *first <= number) {
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
        match fd {
            Some(fd) => {
                let descriptors = self.by_descriptor.get_mut(&pid);
                descriptors.and_then(|of_process| of_process.remove(&fd)).unwrap_or_default()
            }
            None => {
                let all = self.by_descriptor.remove(&pid).unwrap_or_default();
                all.into_values().flatten().collect()
            }
        }
    }

    /// Takes the opens on which any close bears.
    pub(super) fn of_all_descriptors(&mut self) -> Numbers {
        let all = std::mem::take(&mut self.by_descriptor);
        all.into_values().flat_map(FxHashMap::into_values).flatten().collect()
    }
}

/// Returns true if a file may get another name or lose its name in this call.
pub(super) fn renames(kind: &EventKind) -> bool {
    let call = match kind {
        EventKind::SysEnter(enter) => enter.call,
        EventKind::SysExit(exit) => exit.call,
        _ => return false,
    };
    let call = call.call();
    // A call with two paths that makes no symbolic link is a rename, or a link that becomes a
    // rename with the next removal.
    call.class == CallClass::Remove || call.arg(Role::Path2).is_some() && !call.is_symlink()
}
