//! Operations sorted by their beginnings, from the order of their ends.
//!
//! An operation is reported when it has ended, so the operations in flight are unknown here. Some
//! ended operations are therefore held back, in proportion to the disorder that was seen. In a
//! program that does one operation after the other none comes late, and few are held. An operation
//! that comes even later is *late*: it is returned as such, and counted.

use std::collections::VecDeque;

use crate::units::KernelTime;

/// Number of operations held back at first.
const WINDOW_MIN: usize = 16;
/// Maximum number of operations held back: more than are in flight of one stream at once, except in
/// device tests.
const WINDOW_MAX: usize = 4096;
/// Number of operations held back for each place by which one came too late: the next one may be
/// later.
const WINDOW_PER_PLACE: usize = 4;

/// Access that is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedAccess {
    /// Time of its beginning.
    pub start: KernelTime,
    /// Order among accesses that began at the same time.
    pub number: u64,
    /// Time of its end.
    pub end: KernelTime,
    /// Position of its first byte; `None` if unknown.
    pub offset: Option<u64>,
    /// Bytes that it moved; 0 if it failed or moved none.
    pub bytes: u64,
}

impl OrderedAccess {
    fn key(&self) -> (KernelTime, u64) {
        (self.start, self.number)
    }
}

/// Accesses that are held back.
#[derive(Clone, Debug)]
pub struct AccessOrder {
    /// Held accesses in order.
    held: VecDeque<OrderedAccess>,
    window: usize,
    passed: (KernelTime, u64),
    /// Number of accesses that came after a later one had been passed on.
    pub late: u64,
}

/// Access that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleasedAccess {
    /// Next access by its beginning.
    InOrder(OrderedAccess),
    /// Access that should have been passed on earlier.
    Late(OrderedAccess),
}

impl Default for AccessOrder {
    fn default() -> Self {
        Self { held: VecDeque::new(), window: WINDOW_MIN, passed: (KernelTime::MIN, 0), late: 0 }
    }
}

impl AccessOrder {
    /// Takes an ended access; passes on at most one.
    pub fn add(&mut self, access: OrderedAccess) -> Option<ReleasedAccess> {
        let key = access.key();
        if key < self.passed {
            self.late += 1;
            self.window = (self.window * 2).min(WINDOW_MAX);
            return Some(ReleasedAccess::Late(access));
        }
        let later = self.held.iter().rev().take_while(|it| it.key() > key).count();
        self.held.insert(self.held.len() - later, access);
        self.window = self.window.max(later * WINDOW_PER_PLACE).min(WINDOW_MAX);
        if self.held.len() <= self.window {
            return None;
        }
        let first = self.held.pop_front()?;
        self.passed = first.key();
        Some(ReleasedAccess::InOrder(first))
    }

    /// Returns the accesses that are held back.
    pub fn rest(self) -> impl Iterator<Item = ReleasedAccess> {
        self.held.into_iter().map(ReleasedAccess::InOrder)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn access(start: u64) -> OrderedAccess {
        let time = KernelTime(start);
        OrderedAccess { start: time, number: 0, end: time, offset: None, bytes: 1 }
    }

    /// Returns the starts in the order in which they come out, and the number of late ones.
    fn sorted(starts: impl IntoIterator<Item = u64>) -> (Vec<u64>, u64) {
        let mut order = AccessOrder::default();
        let mut out: Vec<ReleasedAccess> =
            starts.into_iter().filter_map(|it| order.add(access(it))).collect();
        let late = order.late;
        out.extend(order.rest());
        let in_order = out.iter().filter_map(|next| match next {
            ReleasedAccess::InOrder(access) => Some(access.start.0),
            ReleasedAccess::Late(_) => None,
        });
        (in_order.collect(), late)
    }

    #[test]
    fn as_many_as_are_in_flight() {
        for depth in [1, 2, 16] {
            // Each group ends in reverse order.
            let starts = (0..211_u64).map(|it| it / depth * depth + (depth - 1 - it % depth));
            let mut all: Vec<u64> = starts.clone().collect();
            let found = sorted(starts);
            all.sort_unstable();
            assert_eq!(found, (all, 0), "{depth}");
        }
    }

    #[test]
    fn a_greater_depth_is_learned() {
        let depth = 256;
        let starts = (0..256 * 101_u64).map(|it| it / depth * depth + it % depth * 97 % depth);
        let (in_order, late) = sorted(starts);
        assert!(late < 256, "{late}");
        assert_eq!(in_order.len() as u64 + late, depth * 101);
        assert!(in_order.is_sorted());
    }

    #[test]
    fn simultaneous_starts_keep_their_order() {
        let mut order = AccessOrder::default();
        for number in [3, 1, 2] {
            assert_eq!(order.add(OrderedAccess { number, ..access(7) }), None);
        }
        let numbers = order.rest().map(|next| match next {
            ReleasedAccess::InOrder(access) | ReleasedAccess::Late(access) => access.number,
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn order_is_complete_and_monotonic(starts in prop::collection::vec(0..500_u64, 0..400)) {
            let (in_order, late) = sorted(starts.iter().copied());
            prop_assert!(in_order.is_sorted());
            prop_assert_eq!(in_order.len() as u64 + late, starts.len() as u64);
        }
    }
}
