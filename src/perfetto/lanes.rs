//! Lanes of a group of tracks: slices that overlap in time need a track each. The user interface
//! shows tracks of one name and one parent as one.

use std::collections::BTreeSet;

use super::packets::TrackId;
use crate::units::KernelTime;

/// Lanes of one group, by the end of their last slice.
#[derive(Debug, Default)]
pub(super) struct TrackLanes {
    lanes: BTreeSet<(KernelTime, TrackId)>,
}

impl TrackLanes {
    /// Takes the lane that was free for the shortest time before `start`, until `end`. `None`: all
    /// are taken, see [`Self::add`].
    ///
    /// Slices come in about the order of their ends. Lanes that are free for longer are kept for
    /// slices that began earlier, so there are not many more lanes than slices at one time.
    pub(super) fn take(&mut self, start: KernelTime, end: KernelTime) -> Option<TrackId> {
        let (free, id) = *self.lanes.range(..=(start, TrackId(u64::MAX))).next_back()?;
        self.lanes.remove(&(free, id));
        self.lanes.insert((end, id));
        Some(id)
    }

    /// Adds a lane that is taken until `end`.
    pub(super) fn add(&mut self, id: TrackId, end: KernelTime) {
        self.lanes.insert((end, id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_slices_have_lanes_of_their_own() {
        let mut lanes = TrackLanes::default();
        let at = KernelTime;
        assert_eq!(lanes.take(at(0), at(10)), None);
        lanes.add(TrackId(7), at(10));
        assert_eq!(lanes.take(at(5), at(12)), None);
        lanes.add(TrackId(11), at(12));
        // Both are free: the one with the later end is taken.
        assert_eq!(lanes.take(at(12), at(20)), Some(TrackId(11)));
        assert_eq!(lanes.take(at(10), at(30)), Some(TrackId(7)));
        assert_eq!(lanes.take(at(19), at(31)), None);
    }
}
