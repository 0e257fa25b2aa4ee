//! Limits on the number of tasks and descriptors that are alive at once.

/// Limit of processes, and of threads. The kernel allows at most four times as many task numbers
/// (`PID_MAX_LIMIT`).
pub(super) const TASKS_MAX: usize = 1 << 20;

/// Limit of descriptors of all processes together, each counted with [`UNITS_OF_NAME_BYTES`].
pub(super) const DESCRIPTORS_MAX: usize = 1 << 21;

/// Bytes of a file's name for which a descriptor counts once more.
const UNITS_OF_NAME_BYTES: usize = 256;

/// Number of refusals after which the living items are counted again.
const COUNT_AGAIN: u32 = 1 << 12;

/// Facts of snapshots that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of tasks, and of other facts about them.
    pub tasks: u64,
    /// Number of descriptors.
    pub descriptors: u64,
}

/// Capacity for items whose end is not notified.
#[derive(Debug)]
pub struct Room {
    max: usize,
    /// Amount at the last count, plus what was taken since.
    used: usize,
    refused: u32,
}

/// Limit of names that wait for their calls, in bytes: several rounds of them, however many threads
/// open files.
pub(super) const NAME_BYTES_MAX: usize = 256 << 20;

impl Default for Room {
    /// Returns a room of [`NAME_BYTES_MAX`].
    fn default() -> Self {
        Self::new(NAME_BYTES_MAX)
    }
}

impl Room {
    /// Returns an empty room of this size.
    pub fn new(max: usize) -> Self {
        Self { max, used: 0, refused: 0 }
    }

    /// Reserves an amount; false if there is no room. The living items are counted only where there
    /// seems to be no room: `alive` counts all.
    pub fn take(&mut self, amount: usize, alive: impl FnOnce() -> usize) -> bool {
        if !self.fits(amount) && (self.refused == 0 || self.refused.is_multiple_of(COUNT_AGAIN)) {
            self.used = alive();
        }
        if !self.fits(amount) {
            self.refused = self.refused.wrapping_add(1);
            return false;
        }
        self.refused = 0;
        self.used += amount;
        true
    }

    fn fits(&self, amount: usize) -> bool {
        self.used.saturating_add(amount) <= self.max
    }
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

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn what_has_gone_gives_its_room_back() {
        let mut room = Room::new(3);
        assert!((0..3).all(|_| room.take(1, || unreachable!("there is room"))));
        assert!(room.take(2, || 1));
        assert!(!room.take(1, || 3));
        assert!(!room.take(1, || unreachable!("it has just been counted")));
    }
}
