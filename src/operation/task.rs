//! Resources of a thread: its own ones, or those that it shares with the other threads of its
//! process.
//!
//! The kernel gives each thread its descriptors, its directories and its mounts; the flags of
//! `clone` (`CLONE_FILES`, `CLONE_FS`) determine whether they are shared. The threads of a process
//! nearly always share all; a thread that has called `unshare`, or was made without these flags,
//! has its own.

use std::cell::RefCell;
use std::rc::Rc;

use super::copy_interval::CopyInterval;
use super::fd_table::SharedTable;
use super::fs_context::SharedPlace;
use super::process::{Process, Thread};
use super::thread_overrides::ThreadOverrides;
use crate::event::task::{CLONE_FILES, CLONE_FS, CLONE_NEWNS, CLONE_NEWUSER};
use crate::units::{KernelTime, Pid, Tid};

/// Numbers of a thread and of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskId {
    /// The process (tgid).
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
}

/// Resources of a process as one of its threads has them.
#[derive(Clone, Copy, Debug)]
pub struct TaskView<'a> {
    /// The process.
    pub process: &'a Process,
    own: Option<&'a ThreadOverrides>,
}

impl<'a> TaskView<'a> {
    /// Returns the resources of a thread that has some of its own.
    pub fn new(process: &'a Process, own: &'a ThreadOverrides) -> Self {
        Self { process, own: Some(own) }
    }

    /// Returns the resources of most threads of the process.
    pub fn of_process(process: &'a Process) -> Self {
        Self { process, own: None }
    }

    /// Returns its descriptors.
    pub fn fds(&self) -> &'a SharedTable {
        self.own.and_then(|it| it.fds.as_ref()).unwrap_or(&self.process.fds)
    }

    /// Returns its working directory and root.
    pub fn place(&self) -> &'a SharedPlace {
        self.own.and_then(|it| it.place.as_ref()).unwrap_or(&self.process.place)
    }
}

impl ThreadOverrides {
    /// Returns the resources of a new thread with these clone flags; its parent, of the same
    /// process, has `parent`.
    pub fn of_child(parent: TaskView<'_>, flags: u64, now: KernelTime) -> Self {
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

/// Gives a thread copies of what it leaves (`unshare(2)`), as far as it concerns us. `is_alone`: it
/// is the only one of its process.
pub fn unshare(
    process: &mut Process,
    thread: &mut Thread,
    is_alone: bool,
    flags: u64,
    copied: CopyInterval,
) {
    let task = TaskView::new(process, &thread.own);
    let fds = (flags & CLONE_FILES != 0).then(|| task.fds().borrow().copied_between(copied));
    // A mount namespace cannot be shared in part: a thread that leaves it, or the user namespace,
    // also leaves the directories.
    let leaves_place = flags & (CLONE_FS | CLONE_NEWNS | CLONE_NEWUSER) != 0;
    let place =
        leaves_place.then(|| RefCell::new(task.place().borrow().copied_since(copied.start)));
    if let Some(fds) = fds {
        let fds = Rc::new(RefCell::new(fds));
        if is_alone {
            (process.fds, thread.own.fds) = (fds, None);
        } else {
            thread.own.fds = Some(fds);
        }
    }
    if let Some(place) = place {
        let place = Rc::new(place);
        if is_alone {
            (process.place, thread.own.place) = (place, None);
        } else {
            thread.own.place = Some(place);
        }
    }
}

/// Gives the process the resources of the thread in which it becomes another program.
pub fn become_process(process: &mut Process, own: ThreadOverrides) {
    process.fds = own.fds.unwrap_or_else(|| Rc::clone(&process.fds));
    process.place = own.place.unwrap_or_else(|| Rc::clone(&process.place));
}
