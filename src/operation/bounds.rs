//! How many tasks and descriptors may be alive at once.

/// Processes, and threads. A machine has as many numbers for tasks at most as four times this (`PID_MAX_LIMIT`).
pub(super) const TASKS_MAX: usize = 1 << 20;

/// Descriptors of all processes together, each counted with [`UNITS_OF_NAME_BYTES`].
pub(super) const DESCRIPTORS_MAX: usize = 1 << 21;

/// A descriptor counts once more for each of so many bytes of its file's name.
const UNITS_OF_NAME_BYTES: usize = 256;

/// After so many refusals what is alive is counted again.
const COUNT_AGAIN: u32 = 1 << 12;

/// What was left out of what snapshots saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Tasks, and what else was seen of them.
    pub tasks: u64,
    /// Descriptors.
    pub descriptors: u64,
}

/// Room for what comes and goes unseen.
#[derive(Debug)]
pub struct Room {
    max: usize,
    /// What was taken since it was counted, and what was there then.
    used: usize,
    refused: u32,
}

/// Names that wait for their calls, bytes: some rounds of them, however many threads open files.
pub(super) const NAME_BYTES_MAX: usize = 256 << 20;

impl Default for Room {
    /// For [`NAME_BYTES_MAX`].
    fn default() -> Self {
        Self::new(NAME_BYTES_MAX)
    }
}

impl Room {
    /// So much is free.
    pub fn new(max: usize) -> Self {
        Self { max, used: 0, refused: 0 }
    }

    /// Takes so much. What has gone is found out where there seems to be no room: `alive` counts all.
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

/// The bounds of tasks and descriptors.
#[derive(Debug)]
pub struct Bounds {
    /// [`TASKS_MAX`].
    pub tasks_max: usize,
    /// For descriptors.
    pub descriptors: Room,
    /// What had no room.
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

/// What a descriptor counts whose file has a name of so many bytes.
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
