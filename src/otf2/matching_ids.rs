//! Numbers for operations that overlap: the smallest free one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Allocator of matching ids of the form `2 · n + 1`.
#[derive(Debug, Default)]
pub(super) struct MatchingIds {
    free: BinaryHeap<Reverse<u64>>,
    next: u64,
}

impl MatchingIds {
    /// Takes a matching id that no open operation has.
    pub(super) fn take(&mut self) -> u64 {
        let slot = self.free.pop().map_or_else(
            || {
                self.next += 1;
                self.next - 1
            },
            |free| free.0,
        );
        2 * slot + 1
    }

    /// Forgets the free ids: those of the next capture differ from all so far, whose operations may
    /// be at the same time.
    pub(super) fn begin_anew(&mut self) {
        self.free.clear();
    }

    /// Returns the id of an operation that has ended.
    pub(super) fn give_back(&mut self, id: u64) {
        self.free.push(Reverse(id / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::MatchingIds;

    #[test]
    fn smallest_free_id_comes_first() {
        let mut slots = MatchingIds::default();
        assert_eq!([slots.take(), slots.take(), slots.take()], [1, 3, 5]);
        slots.give_back(5);
        slots.give_back(1);
        assert_eq!([slots.take(), slots.take(), slots.take()], [1, 5, 7]);
        slots.give_back(1);
        slots.begin_anew();
        assert_eq!(slots.take(), 9);
    }
}
