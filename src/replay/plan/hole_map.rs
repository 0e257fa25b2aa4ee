//! Data and holes of a file before its first operation, as captured `SEEK_DATA` and `SEEK_HOLE`
//! calls have shown.
//!
//! Ranges that no call has queried are unknown. Memory grows with the number of known ranges.

use std::ops::Range;

use rangemap::RangeMap;
use serde::{Deserialize, Serialize};

/// Kind of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegionKind {
    /// Data, possibly zeros.
    Data,
    /// Hole: read as zeros without occupying space.
    Hole,
}

/// Known range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownRegion {
    /// Offset of its first byte.
    pub from_byte: u64,
    /// Offset after its last byte.
    pub to_byte: u64,
    /// Kind of the range.
    pub kind: RegionKind,
}

/// Known ranges of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoleMap(RangeMap<u64, RegionKind>);

impl HoleMap {
    /// Records the kind of a range. Earlier knowledge is kept: it is closer to the initial state.
    pub fn learn(&mut self, range: Range<u64>, kind: RegionKind) {
        let new: Vec<Range<u64>> = self.0.gaps(&range).collect();
        new.into_iter().for_each(|it| self.0.insert(it, kind));
    }

    /// Returns the known ranges of a file of this length, in order.
    pub fn parts(&self, bytes: u64) -> impl Iterator<Item = KnownRegion> {
        let part = move |(range, kind): (&Range<u64>, &RegionKind)| KnownRegion {
            from_byte: range.start,
            to_byte: range.end.min(bytes),
            kind: *kind,
        };
        self.0.iter().map(part).take_while(|it| it.from_byte < it.to_byte)
    }
}

/// Returns the number of bytes in holes.
pub fn hole_bytes(parts: impl Iterator<Item = KnownRegion>) -> u64 {
    parts
        .filter(|it| it.kind == RegionKind::Hole)
        .fold(0, |sum, it| sum.saturating_add(it.to_byte.saturating_sub(it.from_byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_answer_wins_and_the_range_past_the_end_is_ignored() {
        let mut layout = HoleMap::default();
        layout.learn(100..200, RegionKind::Hole);
        layout.learn(0..300, RegionKind::Data);
        layout.learn(150..u64::MAX, RegionKind::Hole);
        let parts = |bytes| -> Vec<_> {
            layout.parts(bytes).map(|it| (it.from_byte, it.to_byte, it.kind)).collect()
        };
        let all = [
            (0, 100, RegionKind::Data),
            (100, 200, RegionKind::Hole),
            (200, 300, RegionKind::Data),
            (300, 301, RegionKind::Hole),
        ];
        assert_eq!(parts(301), all);
        assert_eq!(parts(300), all[..3]);
        assert_eq!(parts(0), []);
        assert_eq!(hole_bytes(layout.parts(301)), 101);
    }
}
