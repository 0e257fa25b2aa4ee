//! Keys of files in tables: a path, its mounts, and whether the name is doubtful.

use super::bounded_map::BoundedMap;
use super::completed_op::NamedPath;
use crate::operation::model::MountNamespace;

/// Returns the key of a file. It is its path. If the path is not in the tracer's mounts, a 0 and
/// the number of the mounts follow; if the name is doubtful, a second 0 follows. A doubtful name
/// therefore has a row of its own, and does not count for a file that certainly has the name.
pub fn file_key(name: &NamedPath<'_>) -> Vec<u8> {
    let mounts = (name.mounts != MountNamespace::OWN).then_some(name.mounts);
    KeyParts { path: name.path, mounts, is_doubtful: name.is_doubtful }.key()
}

/// Parts of the key of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyParts<'a> {
    /// Path of the file.
    pub path: &'a [u8],
    /// Mounts of the path, if they are not the tracer's.
    pub mounts: Option<MountNamespace>,
    /// True if the name may belong to another file.
    pub is_doubtful: bool,
}

impl<'a> KeyParts<'a> {
    /// Splits a key into its parts.
    pub fn of(key: &'a [u8]) -> Self {
        let mut parts = key.splitn(3, |it| *it == 0);
        let path = parts.next().unwrap_or_default();
        let number = parts.next().and_then(|it| std::str::from_utf8(it).ok()?.parse().ok());
        Self { path, mounts: number.map(MountNamespace), is_doubtful: parts.next().is_some() }
    }

    /// Returns the key of these parts.
    pub fn key(&self) -> Vec<u8> {
        let mut key = self.path.to_vec();
        if self.mounts.is_some() || self.is_doubtful {
            key.push(0);
            key.extend(self.mounts.iter().flat_map(|it| it.0.to_string().into_bytes()));
        }
        if self.is_doubtful {
            key.push(0);
        }
        key
    }
}

/// Returns the number of the row of a file with this name.
pub fn place_of<V: Default>(files: &mut BoundedMap<Vec<u8>, V>, name: &NamedPath<'_>) -> usize {
    if name.mounts == MountNamespace::OWN && !name.is_doubtful {
        return files.place(name.path, || name.path.to_vec());
    }
    let key = file_key(name);
    files.place(key.as_slice(), || key.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_path_mounts_and_doubt() {
        for mounts in [MountNamespace::OWN, MountNamespace(7), MountNamespace::UNKNOWN] {
            for is_doubtful in [false, true] {
                let key = file_key(&NamedPath { path: b"/a", mounts, is_doubtful });
                let mounts = (mounts != MountNamespace::OWN).then_some(mounts);
                assert_eq!(KeyParts::of(&key), KeyParts { path: b"/a", mounts, is_doubtful });
                assert_eq!(KeyParts::of(&key).key(), key);
            }
        }
        assert_eq!(
            file_key(&NamedPath { path: b"/a", mounts: MountNamespace::OWN, is_doubtful: false }),
            b"/a"
        );
    }
}
