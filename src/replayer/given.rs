//! What is open before the first operation; and whose table of descriptors it is in.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::replay::plan_file::GivenPlan;
use crate::sys::again::Slots;
use crate::sys::{files, thread};

/// A descriptor that could not be opened, and why.
pub(super) type NotGiven = (PathBuf, io::Error);

/// Opened by the first thread that asks.
#[derive(Debug)]
pub(super) struct Given {
    plan: Vec<GivenPlan>,
    /// There is one thread only: the kernel looks descriptors up faster in a table that one thread has for itself (`fdget()` in
    /// `fs/file.c` counts references in others), as had a program of one thread.
    is_alone: bool,
    not: OnceLock<Vec<NotGiven>>,
}

impl Given {
    /// None of them is open yet.
    pub(super) fn new(plan: Vec<GivenPlan>, is_alone: bool) -> Self {
        Self { plan, is_alone, not: OnceLock::new() }
    }

    /// Behind it they are open, where they stand.
    pub(super) fn open(&self, slots: &Slots) {
        if self.is_alone {
            // Who cannot have one has it with the others.
            let _ = thread::own_descriptors();
        }
        self.not.get_or_init(|| give(&self.plan, slots));
    }

    /// A thread has no more to do.
    pub(super) fn left(&self, slots: &Slots) {
        if self.is_alone {
            slots.close_all();
        }
    }

    /// Those that could not be opened.
    pub(super) fn failed(self) -> Vec<NotGiven> {
        self.not.into_inner().unwrap_or_default()
    }
}

fn give(given: &[GivenPlan], slots: &Slots) -> Vec<NotGiven> {
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
