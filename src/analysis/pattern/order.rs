//! Operations in the order in which they began, out of those in which they ended.
//!
//! Which of them are still under way is not known here: an operation is told of when it has ended. So some are held back, as many
//! as the disorder that was seen asks for: none of a program that does one thing after the other comes late, and there little is
//! held. What comes later than that all the same is *late*: given back as such, and counted.

use std::collections::VecDeque;

use crate::units::KernelTime;

/// Held back at first.
const WINDOW_MIN: usize = 16;
/// Held back at most: more than are in flight of one stream at once, but in tests of devices.
const WINDOW_MAX: usize = 4096;
/// Held back for each place that an operation came too late: the next one may be later.
const WINDOW_PER_PLACE: usize = 4;

/// What is put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When it began.
    pub start: KernelTime,
    /// Which one, of those that began at the same time.
    pub number: u64,
    /// When it ended.
    pub end: KernelTime,
    /// Its first byte; `None`: not known.
    pub offset: Option<u64>,
    /// Bytes that it moved; 0 if it failed, or there were none.
    pub bytes: u64,
}

impl Access {
    fn key(&self) -> (KernelTime, u64) {
        (self.start, self.number)
    }
}

/// The ones that are held back.
#[derive(Clone, Debug)]
pub struct Order {
    /// In order.
    held: VecDeque<Access>,
    window: usize,
    passed: (KernelTime, u64),
    /// How many came after one that began later had been given out.
    pub late: u64,
}

/// What is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next one that began.
    InOrder(Access),
    /// One that should have been given out before.
    Late(Access),
}

impl Default for Order {
    fn default() -> Self {
        Self { held: VecDeque::new(), window: WINDOW_MIN, passed: (KernelTime::MIN, 0), late: 0 }
    }
}

impl Order {
    /// Takes one that has ended; gives out at most one.
    pub fn add(&mut self, access: Access) -> Option<Next> {
        let key = access.key();
        if key < self.passed {
            self.late += 1;
            self.window = (self.window * 2).min(WINDOW_MAX);
            return Some(Next::Late(access));
        }
        let later = self.held.iter().rev().take_while(|it| it.key() > key).count();
        self.held.insert(self.held.len() - later, access);
        self.window = self.window.max(later * WINDOW_PER_PLACE).min(WINDOW_MAX);
        if self.held.len() <= self.window {
            return None;
        }
        let first = self.held.pop_front()?;
        self.passed = first.key();
        Some(Next::InOrder(first))
    }

    /// Those that are held back.
    pub fn rest(self) -> impl Iterator<Item = Next> {
        self.held.into_iter().map(Next::InOrder)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn access(start: u64) -> Access {
        let time = KernelTime(start);
        Access { start: time, number: 0, end: time, offset: None, bytes: 1 }
    }

    /// What comes out in order, and how many come late.
    fn sorted(starts: impl IntoIterator<Item = u64>) -> (Vec<u64>, u64) {
        let mut order = Order::default();
        let mut out: Vec<Next> =
            starts.into_iter().filter_map(|it| order.add(access(it))).collect();
        let late = order.late;
        out.extend(order.rest());
        let in_order = out.iter().filter_map(|it| match it {
            Next::InOrder(it) => Some(it.start.0),
            Next::Late(_) => None,
        });
        (in_order.collect(), late)
    }

    #[test]
    fn as_many_as_are_in_flight() {
        for depth in [1, 2, 16] {
            // Each group ends the other way round.
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
    fn what_began_at_once_keeps_its_numbers() {
        let mut order = Order::default();
        for number in [3, 1, 2] {
            assert_eq!(order.add(Access { number, ..access(7) }), None);
        }
        let numbers = order.rest().map(|it| match it {
            Next::InOrder(it) | Next::Late(it) => it.number,
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_goes_back(starts in prop::collection::vec(0..500_u64, 0..400)) {
            let (in_order, late) = sorted(starts.iter().copied());
            prop_assert!(in_order.is_sorted());
            prop_assert_eq!(in_order.len() as u64 + late, starts.len() as u64);
        }
    }
}
