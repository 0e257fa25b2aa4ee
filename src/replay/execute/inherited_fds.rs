//! Descriptors open before the first operation, and the descriptor table that holds them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::replay::plan::plan_file::InheritedFdPlan;
use crate::sys::replay::reissue::FdSlots;
use crate::sys::{files, thread};

/// Initially open descriptor that could not be opened.
#[derive(Debug)]
pub struct UnopenedFd {
    /// Path of the file.
    pub path: PathBuf,
    /// Error of the open.
    pub error: io::Error,
}

/// Initially open descriptors. The first thread that needs them opens them.
#[derive(Debug)]
pub(super) struct InheritedFds {
    plan: Vec<InheritedFdPlan>,
    /// True if there is one worker only, which then gets a descriptor table of its own, as a
    /// single-threaded program has one. The kernel looks descriptors up faster in an unshared
    /// table: `fdget()` in `fs/file.c` counts references in shared ones.
    is_alone: bool,
    unopened: OnceLock<Vec<UnopenedFd>>,
}

impl InheritedFds {
    /// Records the descriptors without opening any.
    pub(super) fn new(plan: Vec<InheritedFdPlan>, is_alone: bool) -> Self {
        Self { plan, is_alone, unopened: OnceLock::new() }
    }

    /// Opens the descriptors, unless another thread has done so.
    pub(super) fn open(&self, slots: &FdSlots) {
        if self.is_alone {
            // A thread that cannot unshare the table uses the shared one.
            let _ = thread::own_descriptors();
        }
        self.unopened.get_or_init(|| open_all(&self.plan, slots));
    }

    /// Closes the descriptors of a thread with a table of its own, which has ended.
    pub(super) fn left(&self, slots: &FdSlots) {
        if self.is_alone {
            slots.close_all();
        }
    }

    /// Returns the descriptors that could not be opened.
    pub(super) fn into_unopened(self) -> Vec<UnopenedFd> {
        self.unopened.into_inner().unwrap_or_default()
    }
}

/// Opens the descriptors. Returns those that could not be opened.
fn open_all(plan: &[InheritedFdPlan], slots: &FdSlots) -> Vec<UnopenedFd> {
    let mut unopened = Vec::new();
    for inherited in plan {
        let path = Path::new(OsStr::from_bytes(&inherited.path));
        match files::open_as(path, inherited.flags.unwrap_or(0), inherited.offset) {
            Ok(fd) => slots.put(inherited.handle, fd),
            Err(error) => unopened.push(UnopenedFd { path: path.to_owned(), error }),
        }
    }
    unopened
}
