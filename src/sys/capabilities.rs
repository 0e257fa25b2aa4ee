//! Capabilities of a recording: the part of root's rights that it keeps (capabilities(7)). It
//! cannot do anything else, even when it is compromised. (A process that stays user 0 gets the rest
//! of its children's bounding set by executing a program.)

use std::io;

use caps::Capability::{self, *};
use caps::{CapSet, CapsHashSet};

/// Capabilities that a recording may need from its beginning to its end.
const RECORDING: &[Capability] = &[
    // /proc of other processes: their descriptors, maps, counters and memory; files that only their
    // owners may open.
    CAP_SYS_PTRACE,
    CAP_DAC_READ_SEARCH,
    // Reading other users' files without changing their access times (`O_NOATIME`).
    CAP_FOWNER,
    // Output in other users' directories, and ownership given to them (`sudo`).
    CAP_DAC_OVERRIDE,
    CAP_CHOWN,
    // Signals forwarded to a program that has changed its user.
    CAP_KILL,
    // Addresses of the kernel's functions.
    CAP_SYSLOG,
    // Helpers change to an unprivileged user.
    CAP_SETUID,
    CAP_SETGID,
];

/// Capabilities that a recording needs only to open its sources.
const OPENING: &[Capability] = &[
    // Tracepoints of all processes; fanotify. CAP_PERFMON is newer (5.8) and smaller, and not
    // enough for fanotify.
    CAP_SYS_ADMIN,
    CAP_PERFMON,
    // Memory of rings, the limit of open files.
    CAP_IPC_LOCK,
    CAP_SYS_RESOURCE,
    // Real-time priority.
    CAP_SYS_NICE,
];

/// Capabilities of a thread that reads rings, and the state of the processes in them.
const READING: &[Capability] = &[CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_FOWNER];

/// Drops the capabilities that no recording needs, for this thread, the threads that it starts, and
/// the programs that they execute. To be called while there is one thread.
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

/// Drops the capabilities that only opening needs, for this thread and the threads that it starts.
///
/// # Errors
///
/// Those of `capset(2)`.
pub fn keep_when_open() -> io::Result<()> {
    keep(&RECORDING.iter().copied().collect())
}

/// Drops the capabilities that a thread that reads rings does not need.
///
/// # Errors
///
/// Those of `capset(2)`.
pub fn keep_for_reading() -> io::Result<()> {
    keep(&READING.iter().copied().collect())
}

/// Capabilities that a replay may need: to do to its own files what root did to the captured ones.
const REPLAYING: &[Capability] = &[CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID];

/// Drops the capabilities that a replay does not need, above all those that lead out of its root
/// directory.
///
/// # Errors
///
/// Those of `capset(2)`.
pub fn keep_for_replay() -> io::Result<()> {
    keep(&REPLAYING.iter().copied().collect())
}

/// Drops all capabilities.
///
/// # Errors
///
/// Those of `capset(2)`.
pub fn keep_none() -> io::Result<()> {
    keep(&CapsHashSet::new())
}

/// True if the kernel lets this process trace all others: as root, or with the capability for it,
/// on the machine itself. The capabilities of a user namespace do not allow tracing outside of that
/// namespace.
pub fn may_trace() -> bool {
    let has = |it| caps::has_cap(None, CapSet::Effective, it).unwrap_or(false);
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_of_machine = users.split_whitespace().eq(["0", "0", "4294967295"]);
    (has(CAP_SYS_ADMIN) || has(CAP_PERFMON)) && is_of_machine
}

/// Keeps those of the given capabilities that this thread has.
fn keep(kept: &CapsHashSet) -> io::Result<()> {
    // Effective capabilities must be permitted, so the permitted set goes last.
    for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        let now = caps::read(None, set).map_err(io::Error::other)?;
        let left = now.intersection(kept).copied().collect();
        caps::set(None, set, &left).map_err(io::Error::other)?;
    }
    Ok(())
}
