//! Renames, and links, one behind the other, without a pass over the log for each of them.
//!
//! ```text
//!   rename a b, rename b c, rename c d, read d        d is needed: so is c, for that b, for that a
//! ```
//!
//! Renames of which nobody is known to need anything are kept while a pass goes on. At its end those that do turn out to be needed are
//! followed from the newest one to the oldest. The next pass finds them needed as if each had taken a pass of its own.

use std::collections::VecDeque;

use super::needed::Names;
use crate::replay::namespace::Keys;
use crate::units::KernelTime;

/// With so many places they are kept, the newest: 4 MiB; what they are needed for beyond that takes further passes.
const PLACES_MAX: usize = 1 << 18;

/// A rename or link, in terms of what it needs.
#[derive(Debug)]
pub(super) struct Rename {
    pub(super) start: KernelTime,
    pub(super) end: KernelTime,
    /// The places where something else is behind it.
    pub(super) changed: Vec<u64>,
    /// What its paths lead through and to.
    pub(super) places: Vec<Keys>,
    /// What was in the directory that it took the place of.
    pub(super) removed: Option<u64>,
}

/// The newest of which nobody is known to need anything.
#[derive(Debug, Default)]
pub(super) struct Renames {
    kept: VecDeque<Rename>,
    /// Places of all of them.
    places: usize,
}

impl Renames {
    /// Keeps one more.
    pub(super) fn keep(&mut self, rename: Rename) {
        self.places += rename.places.len();
        self.kept.push_back(rename);
        while self.places > PLACES_MAX {
            self.places -= self.kept.pop_front().map_or(self.places, |it| it.places.len());
        }
    }

    /// What those need of names that are needed is needed, too; true if some of that is new.
    pub(super) fn follow(self, names: &mut Names) -> bool {
        let mut is_new = false;
        for it in self.kept.iter().rev() {
            if !it.changed.iter().any(|name| names.until.has(*name, it.start)) {
                continue;
            }
            for keys in &it.places {
                is_new |= names.add(*keys, it.end);
            }
            if let Some(directory) = it.removed {
                is_new |= names.leave(directory, it.end);
            }
        }
        is_new
    }
}
