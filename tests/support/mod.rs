//! Support shared by the integration tests: `mod support;` in the `main.rs` of each of them.
//!
//! - [`oracle`]: witnesses that know nothing of the code under test and judge its results:
//!   `otf2-print` with rules of its own, strace, the kernel's counters.
//! - [`machine`]: requirements of a test, devices, file systems and servers that it makes, and its
//!   turn on the machine.
//! - [`driver`]: programs that a test runs, recordings of them, and their output as values.
//! - [`page`]: pages of `report`, looked at and opened in a browser.
//! - [`log_copy`]: copies of a log with other frames.
//! - `synthetic`: logs of machines that are not at hand; included by the tests that use it.

#![expect(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod driver;
pub(crate) mod log_copy;
pub(crate) mod machine;
pub(crate) mod oracle;
pub(crate) mod page;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A directory that vanishes with the value, below the build's own: on a disk, not in memory, so
/// that what is written there reaches a block device.
pub(crate) fn scratch_dir(name: &str) -> TempDir {
    let root = env!("CARGO_TARGET_TMPDIR");
    tempfile::Builder::new().prefix(name).tempdir_in(root).expect("create a directory for the test")
}

/// Directory that every user can enter: the checkout may be in the home directory of root.
#[track_caller]
pub(crate) fn public_scratch_dir(name: &str) -> TempDir {
    let dir = tempfile::Builder::new().prefix(name).tempdir_in("/var/tmp");
    let dir = dir.expect("create a directory for the test");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("it is ours");
    dir
}

/// A copy of a program that can be run. Another process makes it: what a test that runs beside this
/// one starts has all that we have open until it is a program itself, and one that a process has
/// open for writing cannot be run (ETXTBSY, execve(2)).
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
