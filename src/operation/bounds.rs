//! Limits on the number of tasks and descriptors that are alive at once.

use crate::naming::room::Room;

/// Limit of processes, and of threads. The kernel allows at most four times as many task numbers
/// (`PID_MAX_LIMIT`).
pub(super) const TASKS_MAX: usize = 1 << 20;

/// Limit of descriptors of all processes together, each counted with [`UNITS_OF_NAME_BYTES`].
pub(super) const DESCRIPTORS_MAX: usize = 1 << 21;

/// Bytes of a file's name for which a descriptor counts once more.
const UNITS_OF_NAME_BYTES: usize = 256;

/// Facts of snapshots that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of tasks, and of other facts about them.
    pub tasks: u64,
    /// Number of descriptors.
    pub descriptors: u64,
}

/// Limits of tasks and descriptors.
#[derive(Debug)]
pub struct Bounds {
    /// Limit of processes and of threads, [`TASKS_MAX`].
    pub tasks_max: usize,
    /// Room for descriptors.
    pub descriptors: Room,
    /// Facts that had no room.
    pub left_out: LeftOut,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            tasks_max: TASKS_MAX,
            descriptors: Room::new(DESCRIPTORS_MAX),
            left_out: LeftOut::default(),
        }
    }
}

/// Returns the units of a descriptor with a file name of `name_bytes` bytes.
pub(super) fn units(name_bytes: usize) -> usize {
    1 + name_bytes / UNITS_OF_NAME_BYTES
}
