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
use crate::replay::world::Keys;
use crate::units::KernelTime;

/// So many are kept, the newest; what they are needed for beyond that takes further passes.
const KEPT: usize = 1 << 16;

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

/// Keeps one more.
pub(super) fn keep(kept: &mut VecDeque<Rename>, rename: Rename) {
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back(rename);
}

/// What those need of names that are needed is needed, too; true if some of that is new.
pub(super) fn follow(names: &mut Names, kept: &VecDeque<Rename>) -> bool {
    let mut is_new = false;
    for it in kept.iter().rev() {
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
