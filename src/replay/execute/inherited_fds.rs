//! Descriptors open before the first operation, and the descriptor table that holds them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::replay::plan::plan_file::GivenPlan;
use crate::sys::replay::reissue::FdSlots;
use crate::sys::{files, thread};

/// Path of a descriptor that could not be opened, and the error.
pub(super) type NotGiven = (PathBuf, io::Error);

/// Initially open descriptors. The first thread that needs them opens them.
#[derive(Debug)]
pub(super) struct InheritedFds {
    plan: Vec<GivenPlan>,
    /// True if there is one worker only, which then gets a descriptor table of its own, as a
    /// single-threaded program has one. The kernel looks descriptors up faster in an unshared
    /// table: `fdget()` in `fs/file.c` counts references in shared ones.
    is_alone: bool,
    not: OnceLock<Vec<NotGiven>>,
}

impl InheritedFds {
    /// Records the descriptors without opening any.
    pub(super) fn new(plan: Vec<GivenPlan>, is_alone: bool) -> Self {
        Self { plan, is_alone, not: OnceLock::new() }
    }

    /// Opens the descriptors, unless another thread has done so.
    pub(super) fn open(&self, slots: &FdSlots) {
        if self.is_alone {
            // A thread that cannot unshare the table uses the shared one.
            let _ = thread::own_descriptors();
        }
        self.not.get_or_init(|| give(&self.plan, slots));
    }

    /// Closes the descriptors of a thread with a table of its own, which has ended.
    pub(super) fn left(&self, slots: &FdSlots) {
        if self.is_alone {
            slots.close_all();
        }
    }

    /// Returns the descriptors that could not be opened.
    pub(super) fn failed(self) -> Vec<NotGiven> {
        self.not.into_inner().unwrap_or_default()
    }
}

fn give(given: &[GivenPlan], slots: &FdSlots) -> Vec<NotGiven> {
    let mut failed = Vec::new();
    for it in given {
        let path = Path::new(OsStr::from_bytes(&it.path));
        match files::open_as(path, it.flags.unwrap_or(0), it.offset) {
            Ok(fd) => slots.put(it.handle, fd),
            Err(error) => failed.push((path.to_owned(), error)),
        }
    }
    failed
}
