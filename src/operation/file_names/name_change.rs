//! Changes of names: renames and removals, and the places that they concern.

use crate::naming::paths::{has_part, last};
use crate::operation::model::MountNamespace;
use crate::units::KernelTime;

/// Target of a path argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPlace {
    /// Path from the root.
    pub path: Vec<u8>,
    /// Namespace of the path.
    pub mounts: MountNamespace,
    /// True if no symbolic link leads there.
    pub sure: bool,
}

/// Effect of a call on names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameChange {
    /// Rename of the first place to the second; if `exchange`, also the other way round.
    Renamed {
        /// The old place.
        from: NamedPlace,
        /// The new place.
        to: NamedPlace,
        /// True if both change places.
        exchange: bool,
    },
    /// Removal of a file or an empty directory.
    Removed(NamedPlace),
}

/// Entry and exit times of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallSpan {
    /// Time of the entry.
    pub start: KernelTime,
    /// Time of the exit.
    pub end: KernelTime,
}

impl NameChange {
    /// Returns the places that the change concerns, and whether the files below them are touched.
    pub(super) fn spots(&self) -> impl Iterator<Item = (&NamedPlace, bool)> {
        let (first, second) = match self {
            Self::Removed(spot) => ((spot, false), None),
            Self::Renamed { from, to, exchange } => ((from, true), Some((to, *exchange))),
        };
        [Some(first), second].into_iter().flatten()
    }

    /// Returns true if the change may concern a file whose name ends so.
    pub(in crate::operation) fn may_concern(&self, path: &[u8]) -> bool {
        self.spots().any(|(spot, with_below)| {
            let name = last(&spot.path);
            last(path) == name || with_below && has_part(path, name)
        })
    }

    /// Returns the places that the change concerns.
    pub fn places(&self) -> impl Iterator<Item = &NamedPlace> {
        self.spots().map(|it| it.0)
    }

    /// Returns the last parts of the paths that the change concerns.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.spots().map(|it| last(&it.0.path))
    }
}
