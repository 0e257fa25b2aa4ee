//! Lock that is held while the events of a recording are being closed.
//!
//! A process of its own closes them after the recording (`tracer::kernel_objects`). As long as any
//! event of a system call exists, every thread of the machine takes the slow way into the kernel
//! (`syscall_regfunc()` in `kernel/tracepoint.c`), so a call that is timed meanwhile takes too
//! long. The lock is shared by all that close, and no other program takes it: root's is the
//! directory `events` of tracefs, that of others their directory below `/run/user`.

use std::fs::{File, TryLockError};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;

use super::tracefs::Tracefs;

/// Time between two looks at the lock.
const LOOK: Duration = Duration::from_millis(5);

/// The lock, shared. A process that inherits the descriptor holds the lock, too: it is free when
/// both have closed the file. (A `Flock` of nix would free it for both.)
#[derive(Debug)]
pub struct ClosingLock(File);

impl ClosingLock {
    /// Takes the lock; `None`: there is no file for it, or another process looks at it.
    pub fn take() -> Option<Self> {
        Self::take_at(&path()?)
    }

    fn take_at(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        file.try_lock_shared().ok().map(|()| Self(file))
    }
}

impl AsFd for ClosingLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the file that is locked, if there is one.
pub fn path() -> Option<PathBuf> {
    let path = match geteuid() {
        user if user.is_root() => Tracefs::find().ok()?.root().join("events"),
        user => PathBuf::from(format!("/run/user/{user}")),
    };
    path.is_dir().then_some(path)
}

/// Waits until no events are being closed, at most this time. Returns false if they still are.
pub fn wait_until_closed(at_most: Duration) -> bool {
    path().is_none_or(|path| is_free_within(&path, at_most))
}

fn is_free_within(path: &Path, at_most: Duration) -> bool {
    let mut left = at_most;
    while is_held(path) {
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(LOOK.min(left));
        left = left.saturating_sub(LOOK);
    }
    true
}

fn is_held(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_free_when_all_have_closed() {
        let place = tempfile::tempdir().expect("a directory");
        let within = |ms| is_free_within(place.path(), Duration::from_millis(ms));
        assert!(within(0));
        let [first, second] = [(); 2].map(|()| ClosingLock::take_at(place.path()).expect("free"));
        assert!(!within(0));
        // A child has its own copy of the descriptor.
        let inherited = first.as_fd().try_clone_to_owned().expect("a descriptor");
        drop((first, second));
        assert!(!within(7));
        let closing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(inherited);
        });
        assert!(within(30_000));
        closing.join().expect("it ends");
    }
}
