//! Names of the files that are remembered by inode, open or closed, through renames and removals.
//!
//! Open files are renamed when a call changes a name (`operation::file_names`). A file may be
//! closed before it is written back, and there may be a million such files, so their names are
//! followed only on demand. The changes are kept in order, and are indexed by the names that they
//! concern. A name that a change may have touched in an uncertain way is unverified from then on.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::naming::paths::{has_part, is_below, last, shown};
use crate::operation::file_names::{CallSpan, NameChange, NamedPlace};
use crate::operation::model::{FilePath, MountNamespace, OpenFile, PathSource};
use crate::units::KernelTime;

/// A change of the targets of paths.
#[derive(Clone, Debug)]
enum NameEvent {
    /// Rename or removal.
    Change(NameChange, CallSpan),
    /// Rename with unknown paths; the last parts of both names, if those are known.
    Unknown(Option<[Vec<u8>; 2]>),
    /// Mount, or its end, at a place (`None`: anywhere), in these mounts (`None`: in all).
    Covered(Option<Vec<u8>>, Option<MountNamespace>),
    /// Mount that was moved away from a place (`None`: anywhere), with everything below it, in
    /// these mounts (`None`: in all).
    Displaced(Option<Vec<u8>>, Option<MountNamespace>),
}

/// Limit of kept changes. Beyond it all names are brought up to date, and the changes are evicted.
const CHANGES_MAX: usize = 1 << 16;

/// Changes of names in the order in which they ended.
#[derive(Debug, Default)]
pub(super) struct NameChanges {
    /// Number of changes that were evicted because all names have followed them.
    before: u64,
    kept: Vec<NameEvent>,
    /// Numbers of changes, ascending: by the path that one concerns, or by a part of a path if the
    /// path is not certain.
    by_name: FxHashMap<Vec<u8>, Vec<u64>>,
    /// Changes that may concern any name.
    of_any: Vec<u64>,
}

impl NameChanges {
    /// Returns the number of the next change.
    pub(super) fn next(&self) -> u64 {
        self.before + self.kept.len() as u64
    }

    /// Returns true if names must follow before more changes are kept.
    pub(super) fn is_full(&self) -> bool {
        self.kept.len() >= CHANGES_MAX
    }

    /// Evicts all changes; all names have followed them.
    pub(super) fn forget(&mut self) {
        *self = Self { before: self.next(), ..Self::default() };
    }

    /// Adds a rename or removal that has ended. `one_space`: all files and the change are in the
    /// same mounts.
    pub(super) fn changed(&mut self, change: &NameChange, span: CallSpan, one_space: bool) {
        let number = self.next();
        for spot in change.places() {
            // In other mounts the same file may have a longer or shorter path.
            let by_part = !(spot.sure && one_space);
            self.concerns(&spot.path, number);
            if by_part {
                self.concerns(last(&spot.path), number);
            }
        }
        self.kept.push(NameEvent::Change(change.clone(), span));
    }

    /// Adds a rename with unknown paths.
    pub(super) fn renamed_somewhere(&mut self, parts: Option<[&[u8]; 2]>) {
        let number = self.next();
        match parts {
            Some(parts) => parts.iter().for_each(|it| self.concerns(it, number)),
            None => self.of_any.push(number),
        }
        self.kept.push(NameEvent::Unknown(parts.map(|it| it.map(<[u8]>::to_vec))));
    }

    /// Adds a mount at a place, or its end.
    pub(super) fn covered(&mut self, spot: Option<&NamedPlace>, only: Option<MountNamespace>) {
        self.of_place(spot);
        self.kept.push(NameEvent::Covered(spot.map(|it| it.path.clone()), only));
    }

    /// Adds the loss of a place: the files at the place are at another one now, or at none.
    pub(super) fn displaced(&mut self, spot: Option<&NamedPlace>, only: Option<MountNamespace>) {
        self.of_place(spot);
        self.kept.push(NameEvent::Displaced(spot.map(|it| it.path.clone()), only));
    }

    fn of_place(&mut self, spot: Option<&NamedPlace>) {
        let number = self.next();
        match spot {
            Some(spot) => self.concerns(&spot.path, number),
            None => self.of_any.push(number),
        }
    }

    fn concerns(&mut self, name: &[u8], number: u64) {
        match self.by_name.get_mut(name) {
            Some(numbers) if numbers.last() == Some(&number) => {}
            Some(numbers) => numbers.push(number),
            None => drop(self.by_name.insert(name.to_vec(), vec![number])),
        }
    }

    /// Returns the first change from this number on that may concern a path.
    fn first_of(&self, path: &[u8], from: u64) -> Option<(u64, &NameEvent)> {
        let first = |numbers: &Vec<u64>| {
            let place = numbers.partition_point(|it| *it < from);
            numbers.get(place).copied()
        };
        let ends = (1..=path.len()).filter(|it| path.get(*it).is_none_or(|it| *it == b'/'));
        let directories = ends.filter_map(|it| path.get(..it));
        let parts = path.split(|it| *it == b'/').filter(|it| !it.is_empty());
        let names = directories.chain(parts).filter_map(|it| self.by_name.get(it));
        let number = names.chain([&self.of_any]).filter_map(first).min()?;
        let place = usize::try_from(number - self.before).ok()?;
        Some((number, self.kept.get(place)?))
    }
}

/// A file and its current name.
#[derive(Debug)]
pub(super) struct NamedFile {
    file: Arc<OpenFile>,
    /// Latest time at which the name was read.
    read: KernelTime,
    /// First change that the name has not followed.
    next: u64,
    /// True if the file has no name any more; the stored name is the last one.
    is_deleted: bool,
    /// True if the name may lead to another file.
    is_covered: bool,
}

/// Effect of a change on a name.
#[derive(Debug, PartialEq, Eq)]
enum NameFate {
    Same,
    Moved(Vec<u8>),
    Deleted,
    /// The file may have another name now.
    Doubtful,
}

impl NamedFile {
    /// Returns a file whose name was read at this time at the latest.
    pub(super) fn new(file: &Arc<OpenFile>, read: KernelTime, changes: &NameChanges) -> Self {
        let (is_deleted, is_covered) = (false, false);
        Self { file: Arc::clone(file), read, next: changes.next(), is_deleted, is_covered }
    }

    /// Returns the file with its current name.
    pub(super) fn now(&mut self, changes: &NameChanges) -> Arc<OpenFile> {
        while let Some(place) = self.place()
            && let Some((number, entry)) = changes.first_of(place, self.next)
        {
            self.next = number + 1;
            self.follow(entry);
        }
        self.next = changes.next();
        Arc::clone(&self.file)
    }

    /// Returns the current or last path; `None`: no path that could change.
    fn place(&self) -> Option<&[u8]> {
        let path = self.file.path.as_ref();
        let path =
            path.filter(|it| !matches!(it.source, PathSource::Unverified | PathSource::Call));
        let is_file = |it: &&FilePath| it.bytes.starts_with(b"/") || !it.is_resolved();
        let bytes = path.filter(is_file).map(|it| it.bytes.as_slice())?;
        let suffix = if self.is_deleted { shown(b"", true).len() } else { 0 };
        bytes.get(..bytes.len() - suffix)
    }

    fn follow(&mut self, entry: &NameEvent) {
        let (Some(place), Some(path)) = (self.place(), self.file.path.as_ref()) else { return };
        let mounts = path.mounts;
        let is_at = |at: &Option<Vec<u8>>, only: &Option<MountNamespace>| {
            let is_there = |at: &Vec<u8>| place == at || is_below(place, at);
            only.is_none_or(|it| it == mounts) && at.as_ref().is_none_or(is_there)
        };
        let fate = match entry {
            NameEvent::Covered(at, only) => {
                self.is_covered |= is_at(at, only);
                return;
            }
            NameEvent::Displaced(at, only) if is_at(at, only) => NameFate::Doubtful,
            NameEvent::Displaced(..) => NameFate::Same,
            NameEvent::Unknown(parts) => {
                let is_touched = |it: &[Vec<u8>; 2]| it.iter().any(|it| has_part(place, it));
                match parts.as_ref().is_none_or(is_touched) {
                    true => NameFate::Doubtful,
                    false => NameFate::Same,
                }
            }
            NameEvent::Change(change, span) => {
                let fate = fate(place, self.is_deleted, mounts, change);
                let is_certain = !self.is_covered && self.read < span.start && path.is_resolved();
                match fate {
                    NameFate::Same => NameFate::Same,
                    certain if is_certain => certain,
                    _ => NameFate::Doubtful,
                }
            }
        };
        let file = match fate {
            NameFate::Same => return,
            NameFate::Moved(ref to) => self.file.renamed(shown(to, self.is_deleted)),
            NameFate::Deleted => self.file.renamed(shown(place, true)),
            NameFate::Doubtful => self.file.doubtful(),
        };
        self.is_deleted |= fate == NameFate::Deleted;
        self.file = Arc::new(file);
    }
}

/// Returns the effect of a change on a name in these mounts. A deleted file moves only with the
/// directories above it.
fn fate(path: &[u8], is_deleted: bool, mounts: MountNamespace, change: &NameChange) -> NameFate {
    // The directory of a relative name is not known.
    let is_whole = path.starts_with(b"/");
    let is_sure = |spot: &NamedPlace| is_whole && spot.sure && spot.mounts.is(mounts);
    let is_it = |spot: &NamedPlace| !is_deleted && path == spot.path;
    let moved = |from: &NamedPlace, to: &NamedPlace| {
        let rest = path.get(from.path.len()..).unwrap_or_default();
        match to.sure {
            true => NameFate::Moved([to.path.as_slice(), rest].concat()),
            false => NameFate::Doubtful,
        }
    };
    match change {
        NameChange::Removed(spot) if is_sure(spot) => {
            if is_it(spot) {
                NameFate::Deleted
            } else {
                NameFate::Same
            }
        }
        NameChange::Removed(spot) => {
            if last(path) == last(&spot.path) {
                NameFate::Doubtful
            } else {
                NameFate::Same
            }
        }
        NameChange::Renamed { from, to, exchange } => {
            let may_be = |spot: &NamedPlace, with_below: bool| {
                let name = last(&spot.path);
                last(path) == name || with_below && has_part(path, name)
            };
            let moves = |spot: &NamedPlace| is_it(spot) || is_below(path, &spot.path);
            if [(from, true), (to, *exchange)].iter().any(|it| !is_sure(it.0) && may_be(it.0, it.1))
            {
                NameFate::Doubtful
            } else if is_sure(from) && moves(from) {
                moved(from, to)
            } else if *exchange && is_sure(to) && moves(to) {
                moved(to, from)
            } else if !exchange && is_sure(to) && is_it(to) {
                NameFate::Deleted
            } else {
                NameFate::Same
            }
        }
    }
}

#[cfg(test)]
#[path = "named_tests.rs"]
mod tests;
