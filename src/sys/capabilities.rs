//! What of root's rights a recording keeps (capabilities(7)): what is not here it cannot do, whatever befalls it. (Who stays user 0
//! gets what is left for its children, the bounding set, by executing something.)

use std::io;

use caps::Capability::{self, *};
use caps::{CapSet, CapsHashSet};

/// What a recording may need from its beginning to its end.
const RECORDING: &[Capability] = &[
    // /proc of others: their descriptors, maps, books and memory; files that only they may open.
    CAP_SYS_PTRACE,
    CAP_DAC_READ_SEARCH,
    // To look at others' files without a change of their times of access (`O_NOATIME`).
    CAP_FOWNER,
    // Output in directories of others, and given to them (`sudo`).
    CAP_DAC_OVERRIDE,
    CAP_CHOWN,
    // Signals sent on to a program that has become another user's.
    CAP_KILL,
    // Addresses of the kernel's functions.
    CAP_SYSLOG,
    // Helpers become nobody.
    CAP_SETUID,
    CAP_SETGID,
];

/// What it needs to open everything, and not any more.
const OPENING: &[Capability] = &[
    // Tracepoints of everybody; fanotify. The second is newer (5.8) and smaller, and not enough for fanotify.
    CAP_SYS_ADMIN,
    CAP_PERFMON,
    // Memory of rings, the limit of open files.
    CAP_IPC_LOCK,
    CAP_SYS_RESOURCE,
    // Real-time priority.
    CAP_SYS_NICE,
];

/// What a thread needs that reads rings, and about the processes that it finds in them.
const READING: &[Capability] = &[CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_FOWNER];

/// Gives up what no recording needs: this thread, those that it starts, and what they execute. To be said while there is one thread.
///
/// # Errors
///
/// Those of `capset(2)` and `prctl(2)`.
pub fn keep_for_recording() -> io::Result<()> {
    let kept: CapsHashSet = RECORDING.iter().chain(OPENING).copied().collect();
    if caps::has_cap(None, CapSet::Effective, CAP_SETPCAP).map_err(io::Error::other)? {
        for other in caps::runtime::thread_all_supported().difference(&kept) {
            caps::drop(None, CapSet::Bounding, *other).map_err(io::Error::other)?;
        }
    }
    keep(&kept)
}

/// Gives up what only opening needs: this thread, and those that it starts.
///
/// # Errors
///
/// Those of `capset(2)`.
pub fn keep_when_open() -> io::Result<()> {
    keep(&RECORDING.iter().copied().collect())
}

/// Gives up what a thread that reads rings does not need.
///
/// # Errors
///
/// Those of `capset(2)`.
pub fn keep_for_reading() -> io::Result<()> {
    keep(&READING.iter().copied().collect())
}

/// What a replay may need: to do to its own files what root did to its.
const REPLAYING: &[Capability] = &[CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID];

/// Gives up what a replay does not need: above all what leads out of its root.
///
/// # Errors
///
/// Those of `capset(2)`.
pub fn keep_for_replay() -> io::Result<()> {
    keep(&REPLAYING.iter().copied().collect())
}

/// Gives up all.
///
/// # Errors
///
/// Those of `capset(2)`.
pub fn keep_none() -> io::Result<()> {
    keep(&CapsHashSet::new())
}

/// True if the kernel lets us trace everybody: as root, or with the capability for it, on the machine itself. A user namespace has
/// capabilities of its own, by which nothing outside of it may be traced.
pub fn may_trace() -> bool {
    let has = |it| caps::has_cap(None, CapSet::Effective, it).unwrap_or(false);
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_of_machine = users.split_whitespace().eq(["0", "0", "4294967295"]);
    (has(CAP_SYS_ADMIN) || has(CAP_PERFMON)) && is_of_machine
}

/// Those that this thread has, and are among these.
fn keep(kept: &CapsHashSet) -> io::Result<()> {
    // What is effective must be permitted, so that goes last.
    for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        let now = caps::read(None, set).map_err(io::Error::other)?;
        let left = now.intersection(kept).copied().collect();
        caps::set(None, set, &left).map_err(io::Error::other)?;
    }
    Ok(())
}
