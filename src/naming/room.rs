//! Capacity for items whose end is not notified: they are counted again where there is no room.

/// Number of refusals after which the living items are counted again.
const COUNT_AGAIN: u32 = 1 << 12;

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
pub const NAME_BYTES_MAX: usize = 256 << 20;

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

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn freed_entries_release_their_space() {
        let mut room = Room::new(3);
        assert!((0..3).all(|_| room.take(1, || unreachable!("there is room"))));
        assert!(room.take(2, || 1));
        assert!(!room.take(1, || 3));
        assert!(!room.take(1, || unreachable!("it has just been counted")));
    }
}
