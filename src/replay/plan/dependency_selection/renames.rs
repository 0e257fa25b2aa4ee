//! Chains of renames and links, followed without a pass over the log for each of them.
//!
//! ```text
//!   rename a b, rename b c, rename c d, read d        d is needed, so is c, so is b, so is a
//! ```
//!
//! Renames that no known operation needs are kept during a pass. At its end, renames that do turn
//! out to be needed are followed from the newest one to the oldest. The next pass finds them
//! needed, as if each had taken a pass of its own.

use std::collections::VecDeque;

use super::needed::NeededNames;
use crate::replay::plan::namespace::PlaceKeys;
use crate::units::KernelTime;

/// Maximum number of places of the renames that are kept, the newest ones: 4 MiB. Dependencies
/// beyond that take further passes.
const PLACES_MAX: usize = 1 << 18;

/// Rename or link, in terms of its dependencies.
#[derive(Debug)]
pub(super) struct Rename {
    pub(super) start: KernelTime,
    pub(super) end: KernelTime,
    /// Places whose entry it changes.
    pub(super) changed: Vec<u64>,
    /// Places that its paths lead through and to.
    pub(super) places: Vec<PlaceKeys>,
    /// Directory that it replaced.
    pub(super) removed: Option<u64>,
}

/// Newest renames that no known operation needs.
#[derive(Debug, Default)]
pub(super) struct Renames {
    kept: VecDeque<Rename>,
    /// Number of places of all kept renames.
    places: usize,
}

impl Renames {
    /// Keeps one more rename.
    pub(super) fn keep(&mut self, rename: Rename) {
        self.places += rename.places.len();
        self.kept.push_back(rename);
        while self.places > PLACES_MAX {
            let oldest = self.kept.pop_front();
            self.places -= oldest.map_or(self.places, |rename| rename.places.len());
        }
    }

    /// Adds the dependencies of renames that change needed names; returns true if some of them are
    /// new.
    pub(super) fn follow(self, names: &mut NeededNames) -> bool {
        let mut is_new = false;
        for rename in self.kept.iter().rev() {
            if !rename.changed.iter().any(|name| names.until.has(*name, rename.start)) {
                continue;
            }
            for keys in &rename.places {
                is_new |= names.add(*keys, rename.end);
            }
            if let Some(directory) = rename.removed {
                is_new |= names.leave(directory, rename.end);
            }
        }
        is_new
    }
}
