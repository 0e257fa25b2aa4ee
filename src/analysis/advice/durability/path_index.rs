//! Files by their paths.

use std::collections::BTreeMap;
use std::ops::Bound;

use rustc_hash::FxHashMap;

use super::state_key::StateKey;
use crate::naming::paths::{is_below, last, parent};
use crate::operation::model::{MountNamespace, PathArgument};

/// Limit of directories whose other names are remembered.
const ALIASES_MAX: usize = 4096;

/// A path in the mounts in which it is valid.
pub(super) type PlacedPath = (MountNamespace, Vec<u8>);

/// Paths of the files whose state is kept.
#[derive(Debug, Default)]
pub(super) struct PathIndex {
    files: BTreeMap<PlacedPath, StateKey>,
    /// Directories as programs spelled them, with the kernel's names.
    aliases: FxHashMap<PlacedPath, Vec<u8>>,
}

impl PathIndex {
    /// Returns the file with this path.
    pub(super) fn get(&self, mounts: MountNamespace, path: &[u8]) -> Option<StateKey> {
        self.files.get(&(mounts, normal(path))).copied()
    }

    /// Sets the file with this path. Returns another file that had it.
    pub(super) fn insert(
        &mut self,
        mounts: MountNamespace,
        path: &[u8],
        key: StateKey,
    ) -> Option<StateKey> {
        self.files.insert((mounts, path.to_vec()), key).filter(|old| *old != key)
    }

    pub(super) fn remove(&mut self, mounts: MountNamespace, path: &[u8]) -> Option<StateKey> {
        self.files.remove(&(mounts, path.to_vec()))
    }

    /// Notes that a path leads to a file with another name. Returns false if there is no room.
    pub(super) fn note_alias(
        &mut self,
        mounts: MountNamespace,
        given: &[u8],
        whole: &[u8],
    ) -> bool {
        // A link to a file tells nothing of its directory.
        let is_same_name = last(given) == last(whole);
        let [given, whole] = [given, whole].map(parent);
        if given == whole {
            self.aliases.remove(&(mounts, given.to_vec()));
        } else if is_same_name {
            let placed = (mounts, given.to_vec());
            if self.aliases.len() >= ALIASES_MAX && !self.aliases.contains_key(&placed) {
                return false;
            }
            self.aliases.insert(placed, whole.to_vec());
        }
        true
    }

    /// Returns the kernel's name of a path, as far as the log shows it.
    pub(super) fn resolved(&self, placed: PlacedPath) -> PlacedPath {
        let (mounts, path) = placed;
        match self.aliases.get(&(mounts, parent(&path).to_vec())) {
            Some(directory) => {
                let resolved = [directory.as_slice(), b"/", last(&path)].concat();
                (mounts, resolved)
            }
            None => (mounts, path),
        }
    }

    /// Returns the files below a directory.
    pub(super) fn below(&self, placed: &PlacedPath) -> Vec<(Vec<u8>, StateKey)> {
        let (mounts, directory) = placed;
        let start = [directory.as_slice(), b"/"].concat();
        let from = (Bound::Included((*mounts, start)), Bound::Unbounded);
        let all = self.files.range(from);
        let inside = all.take_while(|((of, path), _)| of == mounts && is_below(path, directory));
        inside.map(|((_, path), key)| (path.clone(), *key)).collect()
    }
}

/// Returns the whole path of an argument, if it is known for certain.
pub(super) fn whole(given: &PathArgument) -> Option<PlacedPath> {
    let path = given.absolute.as_deref().filter(|path| path.starts_with(b"/"))?;
    (!given.path.source.is_doubtful()).then(|| (given.path.mounts, normal(path)))
}

/// Returns the directory of a path.
pub(super) fn directory(path: &[u8]) -> Vec<u8> {
    match parent(path) {
        b"" => b"/".to_vec(),
        above => above.to_vec(),
    }
}

/// Removes `.`, `..` and repeated slashes, as far as that is possible without the directories.
pub(super) fn normal(path: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => out.truncate(parent(&out).len()),
            _ => {
                out.push(b'/');
                out.extend_from_slice(part);
            }
        }
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_plain() {
        for (path, expected) in [
            ("/a/./b//c", "/a/b/c"),
            ("/a/../b", "/b"),
            ("/..", "/"),
            ("/a/b/..", "/a"),
            ("/", "/"),
        ] {
            assert_eq!(normal(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }
}
