//! Orphans of a test: processes whose parent, a tracer, was killed.

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::support::driver::recording::wait_until;

/// The test process adopts the orphans below it, until this is dropped. The setting is one of the
/// whole process, so the test must have the machine alone.
#[derive(Debug)]
pub(crate) struct Subreaper(());

impl Subreaper {
    /// Adopts orphans from now on; what other tests left without waiting for it is reaped before.
    #[track_caller]
    pub(crate) fn new() -> Self {
        while matches!(reap(), Some(it) if it != WaitStatus::StillAlive) {}
        set_child_subreaper(true).expect("it is allowed");
        Self(())
    }

    /// Waits until no child and no orphan is left; returns how they ended.
    #[track_caller]
    pub(crate) fn reap_all(&self) -> Vec<WaitStatus> {
        let mut ends = Vec::new();
        wait_until("all are gone that the tracer has started", || {
            loop {
                match reap() {
                    Some(WaitStatus::StillAlive) => return false,
                    Some(end) => ends.push(end),
                    None => return true,
                }
            }
        });
        ends
    }
}

impl Drop for Subreaper {
    fn drop(&mut self) {
        set_child_subreaper(false).expect("it is allowed");
    }
}

/// Reaps one child that has ended; `None` if there are no children.
#[track_caller]
fn reap() -> Option<WaitStatus> {
    match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
        Ok(status) => Some(status),
        Err(Errno::ECHILD) => None,
        Err(errno) => panic!("{errno}"),
    }
}
