//! Turns on the machine: a test that measures it, changes it or puts a load on it has it alone.
//!
//! The turns are locks of a directory (`flock`), so that they also hold between processes: the test
//! programs of two `cargo test`, or the process of each test with `cargo nextest`.

use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

thread_local! {
    /// Set while the test of this thread has a turn: a second one would wait for the first.
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
}

/// One turn, to its drop.
#[derive(Debug)]
#[must_use = "the turn ends with this value"]
pub(crate) struct Turn {
    _lock: Flock<File>,
}

/// Waits until no other test has a turn, and keeps all others from theirs. For tests that measure
/// the machine or put a load on it, that change its state, or the state of their own process.
#[track_caller]
pub(crate) fn alone() -> Turn {
    let turn = Turn::new(FlockArg::LockExclusive);
    remove_free_instances();
    // A killed tracer leaves its instances to the next one.
    for _ in 0..REMOVAL_LOOKS {
        if tracer_instances().is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    turn
}

/// Looks, every 10 ms, at the instances of recordings that have ended, until these are removed.
const REMOVAL_LOOKS: u32 = 500;

/// Instances of tracers that record, or have just ended, without those that are kept for the next
/// recording.
pub(crate) fn tracer_instances() -> Vec<PathBuf> {
    all_instances().into_iter().filter(|path| !is_free(path)).collect()
}

/// Instances that are kept for the next recording.
pub(crate) fn free_instances() -> Vec<PathBuf> {
    all_instances().into_iter().filter(|path| is_free(path)).collect()
}

/// Removes the instances that are kept for the next recording, which then creates new ones.
pub(crate) fn remove_free_instances() {
    for instance in free_instances() {
        // A recording may take it at this moment.
        let _ = fs::remove_dir(instance);
    }
}

fn all_instances() -> Vec<PathBuf> {
    let all = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    let is_ours = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b"iotrace-");
    all.map(|entry| entry.path()).filter(|path| path.file_name().is_some_and(is_ours)).collect()
}

/// True if no tracer has locked the instance, and it is off: it is kept for the next recording.
fn is_free(instance: &Path) -> bool {
    let is_off = |file: &str, text: &str| {
        fs::read_to_string(instance.join(file)).is_ok_and(|found| found.trim() == text)
    };
    let lock = File::open(instance).map(|it| Flock::lock(it, FlockArg::LockExclusiveNonblock));
    lock.is_ok_and(|lock| lock.is_ok()) && is_off("tracing_on", "0") && is_off("set_event", "")
}

/// Waits until no test has the machine alone. Every test that records or replays takes this turn,
/// if it does not take that of [`alone`].
#[track_caller]
pub(crate) fn beside_others() -> Turn {
    Turn::new(FlockArg::LockShared)
}

impl Turn {
    #[track_caller]
    fn new(kind: FlockArg) -> Self {
        assert!(!HAS_TURN.replace(true), "this test has its turn already");
        let directory = File::open(env!("CARGO_TARGET_TMPDIR")).expect("cargo has made it");
        let lock = Flock::lock(directory, kind).map_err(|(_, errno)| errno);
        Self { _lock: lock.expect("any file can be locked") }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        HAS_TURN.set(false);
    }
}
