//! Known links and their texts.

use std::collections::BTreeMap;

/// Links by their paths from the root, and their texts. No path leads through another link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymlinkMap {
    pub(super) all: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Number of opens that have shown other links, which are no longer known.
    pub unknown: u64,
}

impl SymlinkMap {
    /// Returns true if there are no links, as far as known.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.unknown == 0
    }

    /// Returns all links with their texts.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.all.iter().map(|(path, text)| (&**path, &**text))
    }
}

impl FromIterator<(Vec<u8>, Vec<u8>)> for SymlinkMap {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, Vec<u8>)>>(all: I) -> Self {
        Self { all: all.into_iter().collect(), unknown: 0 }
    }
}
