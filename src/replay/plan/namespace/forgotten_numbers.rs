//! Numbers of forgotten names.

use std::hash::{DefaultHasher, Hash, Hasher};

use rustc_hash::FxHashSet;

/// Number of names that are known to have been absent at the start, or to have been looked into;
/// some 20 MiB each. With more of them the oldest are lost: an operation that finds one of them
/// again, which no captured operation has made, takes it for an initial one.
pub(super) const NUMBERS_MAX: u32 = 1 << 20;

/// Returns the number of a name in the directory with this number.
pub(super) fn key(directory: u64, name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (directory, name).hash(&mut hasher);
    hasher.finish()
}

/// Numbers of names of which nothing else is known.
#[derive(Debug, Default)]
pub(super) struct ForgottenNumbers {
    newer: FxHashSet<u64>,
    older: FxHashSet<u64>,
    lost: u64,
}

impl ForgottenNumbers {
    pub(super) fn has(&self, key: u64) -> bool {
        self.newer.contains(&key) || self.older.contains(&key)
    }

    pub(super) fn add(&mut self, key: u64) {
        if self.newer.len() >= NUMBERS_MAX as usize / 2 {
            self.lost += self.older.len() as u64;
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key);
    }

    /// Returns how many numbers are no longer kept.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}
