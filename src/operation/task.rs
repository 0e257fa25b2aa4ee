//! What a thread has: for itself, or with the other threads of its process.
//!
//! The kernel gives each thread its descriptors, its directories and its mounts, and they are shared as `clone` was told
//! (`CLONE_FILES`, `CLONE_FS`). The threads of a process nearly always share all; one that has called `unshare`, or was made
//! without, has its own.

use std::cell::RefCell;
use std::rc::Rc;

use super::fd_table::SharedTable;
use super::place::SharedPlace;
use super::process::{Process, Thread};
use crate::event::task::{CLONE_FILES, CLONE_FS, CLONE_NEWNS, CLONE_NEWUSER};
use crate::units::KernelTime;

/// What a thread does not share with the other threads of its process.
#[derive(Clone, Debug, Default)]
pub struct Own {
    fds: Option<SharedTable>,
    place: Option<SharedPlace>,
}

/// A process as one of its threads has it.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The process.
    pub process: &'a Process,
    own: Option<&'a Own>,
}

impl<'a> Task<'a> {
    /// As a thread has it that has this for itself.
    pub fn new(process: &'a Process, own: &'a Own) -> Self {
        Self { process, own: Some(own) }
    }

    /// As most of its threads have it.
    pub fn of_process(process: &'a Process) -> Self {
        Self { process, own: None }
    }

    /// Its descriptors.
    pub fn fds(&self) -> &'a SharedTable {
        self.own.and_then(|it| it.fds.as_ref()).unwrap_or(&self.process.fds)
    }

    /// Where its paths begin.
    pub fn place(&self) -> &'a SharedPlace {
        self.own.and_then(|it| it.place.as_ref()).unwrap_or(&self.process.place)
    }
}

/// From when to when it was copied: what has changed in between may be in the copy or not.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// Not before.
    pub start: KernelTime,
    /// Not after.
    pub end: KernelTime,
}

impl Own {
    /// True if it has something.
    pub fn is_something(&self) -> bool {
        self.fds.is_some() || self.place.is_some()
    }

    /// Its descriptors, if it has its own.
    pub fn fds(&self) -> Option<&SharedTable> {
        self.fds.as_ref()
    }

    /// Its directories, if it has its own.
    pub fn place(&self) -> Option<&SharedPlace> {
        self.place.as_ref()
    }

    /// What a thread has that was born with these flags of a thread of the same process that had `parent`.
    pub fn of_child(parent: Task<'_>, flags: u64, now: KernelTime) -> Self {
        let mut own = parent.own.cloned().unwrap_or_default();
        if flags & CLONE_FILES == 0 {
            own.fds = Some(Rc::new(RefCell::new(parent.fds().borrow().copied(now))));
        }
        if flags & CLONE_FS == 0 {
            own.place = Some(Rc::new(RefCell::new(parent.place().borrow().copied())));
        }
        own
    }
}

/// A thread leaves what it shares (`unshare(2)`), as far as it concerns us. `alone`: it is the only one of its process.
pub fn unshare(
    (process, thread, alone): (&mut Process, &mut Thread, bool),
    flags: u64,
    copied: Copied,
) {
    let task = Task::new(process, &thread.own);
    let fds = (flags & CLONE_FILES != 0).then(|| task.fds().borrow().copied_between(copied));
    // A mount namespace cannot be shared by halves: who leaves it, or the user namespace, leaves the directories.
    let leaves_place = flags & (CLONE_FS | CLONE_NEWNS | CLONE_NEWUSER) != 0;
    let place =
        leaves_place.then(|| RefCell::new(task.place().borrow().copied_since(copied.start)));
    if let Some(fds) = fds {
        let fds = Rc::new(RefCell::new(fds));
        if alone {
            (process.fds, thread.own.fds) = (fds, None);
        } else {
            thread.own.fds = Some(fds);
        }
    }
    if let Some(place) = place {
        let place = Rc::new(place);
        if alone {
            (process.place, thread.own.place) = (place, None);
        } else {
            thread.own.place = Some(place);
        }
    }
}

/// The process becomes another program, in this thread: what the thread had is the process's now.
pub fn become_process(process: &mut Process, own: Own) {
    process.fds = own.fds.unwrap_or_else(|| Rc::clone(&process.fds));
    process.place = own.place.unwrap_or_else(|| Rc::clone(&process.place));
}
