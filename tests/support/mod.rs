//! What the integration tests share: `mod support;` in a test makes it available.
//!
//! Witnesses that know nothing of our code judge what we wrote: `otf2-print` with our rules
//! ([`otf2_check`]), strace ([`strace`]), the kernel's own counters ([`diskstats`]).

#![expect(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod block_books;
pub(crate) mod block_jobs;
pub(crate) mod block_stack;
pub(crate) mod books;
pub(crate) mod busy;
pub(crate) mod daily;
pub(crate) mod diskstats;
pub(crate) mod json;
pub(crate) mod loop_device;
pub(crate) mod mounted;
pub(crate) mod names;
pub(crate) mod need;
pub(crate) mod otf2_check;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod recording;
pub(crate) mod strace;
pub(crate) mod truth;
pub(crate) mod watching;
pub(crate) mod workloads;

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A directory that vanishes with the value, below the build's own: on a disk, not in memory, so
/// that what is written there reaches a block device.
pub(crate) fn scratch_dir(name: &str) -> TempDir {
    let root = env!("CARGO_TARGET_TMPDIR");
    tempfile::Builder::new().prefix(name).tempdir_in(root).expect("create a directory for the test")
}

/// A copy of a program that can be run. Another process makes it: what a test that runs beside this one starts has all that we have open until it
/// is a program itself, and one that somebody has open for writing cannot be run (ETXTBSY, execve(2)).
#[track_caller]
pub(crate) fn copy_program(program: impl AsRef<Path>, to: impl AsRef<Path>) {
    let status = Command::new("cp").args([program.as_ref(), to.as_ref()]).status();
    assert!(status.expect("cp").success(), "{} is copied", program.as_ref().display());
}

/// A path as an argument: those of tests are text.
#[track_caller]
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}
