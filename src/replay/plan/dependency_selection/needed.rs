//! Items that are needed, and until when.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::replay::plan::namespace::PlaceKeys;
use crate::units::KernelTime;

/// Needed items with the times until which they are needed.
#[derive(Debug)]
pub(super) struct NeededUntil<T>(FxHashMap<T, KernelTime>);

impl<T> Default for NeededUntil<T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<T: Copy + Eq + Hash> NeededUntil<T> {
    /// Adds an item; returns true if that is new.
    pub(super) fn add(&mut self, thing: T, until: KernelTime) -> bool {
        let known = self.0.get(&thing).copied();
        let is_new = known.is_none_or(|known| known < until);
        if is_new {
            self.0.insert(thing, until);
        }
        is_new
    }

    /// Returns true if an operation that begins at `start` affects a need for the item.
    pub(super) fn has(&self, thing: T, start: KernelTime) -> bool {
        self.0.get(&thing).is_some_and(|until| start <= *until)
    }
}

/// Needed names with the times until which they are needed.
#[derive(Debug, Default)]
pub(super) struct NeededNames {
    pub(super) until: NeededUntil<u64>,
    /// Needed names by their directory.
    within: FxHashMap<u64, Vec<u64>>,
}

impl NeededNames {
    /// Adds a name; returns true if that is new.
    pub(super) fn add(
        &mut self,
        PlaceKeys { place, within }: PlaceKeys,
        until: KernelTime,
    ) -> bool {
        if !self.until.0.contains_key(&place) {
            self.within.entry(within).or_default().push(place);
        }
        self.until.add(place, until)
    }

    /// Adds the known names inside a removed directory, of which none may be left at that time;
    /// returns true if that is new.
    pub(super) fn leave(&mut self, directory: u64, until: KernelTime) -> bool {
        let Self { until: names, within } = self;
        let all = within.get(&directory).into_iter().flatten();
        all.fold(false, |is_new, name| names.add(*name, until) | is_new)
    }
}

/// Set of dense numbers, one bit each.
#[derive(Debug, Default)]
pub(super) struct NumberSet(Vec<u64>);

impl NumberSet {
    fn place(number: u64) -> Option<(usize, u64)> {
        Some((usize::try_from(number / 64).ok()?, 1 << (number % 64)))
    }

    pub(super) fn has(&self, number: u64) -> bool {
        let Some((word, bit)) = Self::place(number) else { return false };
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Adds a number; returns true if that is new.
    pub(super) fn add(&mut self, number: u64) -> bool {
        let Some((word, bit)) = Self::place(number) else { return false };
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}
