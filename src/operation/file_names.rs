//! Names of open files through renames and removals.
//!
//! The name of a file is the one at its opening. A rename of the file, or of a directory above it,
//! gives it another name; a removal, or a rename onto it, makes it `NAME (deleted)`, as in
//! `/proc/PID/fd`. The kernel's names are resolved; path arguments may lead through symbolic links.
//! So a call is followed only if its targets are certain:
//!
//! ```text
//!   path of the call        ─┬─ directory is real ──► open files of that name, and those below it
//!   (from the root; ".." only│  (the kernel has reported a name below it that was not moved since)
//!    after a real directory) └─ else ──────────────► names with such a part become doubtful
//! ```
//!
//! A name that was read during the call may be from before or after the change: it becomes
//! doubtful, too. Changes that are not recorded stay unseen: calls of other programs, and
//! directories that are mounted at two places.

mod name_change;
mod relative;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::{Rc, Weak};

pub use self::name_change::{CallSpan, NameChange, NamedPlace};
use self::relative::{Relative, SWEEP_MIN};
use super::fd_table::Description;
use super::model::{FilePath, MountNamespace, PathSource};
use crate::naming::paths::{DELETED, below, has_part, is_below, last, parent, shown};
use crate::units::{DevId, KernelTime};

/// Limit of directories that are remembered as real: a missing directory only makes names doubtful.
const REAL_MAX: usize = 1024;

/// Limit of mount namespaces whose directories are remembered.
const SPACES_MAX: usize = 256;

/// Names of open files, and the directories that are known not to be symbolic links.
#[derive(Debug, Default)]
pub struct FileNames {
    open: BTreeMap<Vec<u8>, Vec<NamedOpenFile>>,
    /// Names that are not in `open` yet: most files are closed before any rename.
    new: Vec<NamedOpenFile>,
    /// Names whose directory is not known: only their end is.
    relative: Relative,
    /// Number of names in both, closed files included.
    count: usize,
    /// Number of names at which the closed files are removed.
    sweep_at: usize,
    real: BTreeMap<MountNamespace, BTreeSet<Vec<u8>>>,
    /// Directory that was reported last: mostly the next one is the same.
    last_real: (MountNamespace, Vec<u8>),
    /// True if names of files were reported in other mounts than the tracer's.
    is_elsewhere: bool,
    /// Number of losses at the time when `real` was certain.
    losses: u32,
    /// Time of the end of the last call that changed names.
    changed: KernelTime,
}

/// An open file under its name.
#[derive(Clone, Debug)]
struct NamedOpenFile {
    description: Weak<Description>,
    /// True if the file has no name any more; the last one is only a prefix of those below it.
    deleted: bool,
    /// True if another file may have been mounted over it: its name leads to another file.
    covered: bool,
    /// Latest time at which the name was read.
    read: KernelTime,
}

impl FileNames {
    /// Adds an open file, whose name was read at this time at the latest.
    pub fn note(&mut self, description: &Rc<Description>, read: KernelTime) {
        let file = description.file();
        let Some(path) = file.path.as_ref() else { return };
        if matches!(path.source, PathSource::Unverified | PathSource::Call) {
            return;
        }
        if !path.bytes.starts_with(b"/") {
            // Such a name from the kernel is not that of a file in a directory: `pipe:[7]`.
            if !path.is_resolved() {
                self.relative.note(description);
            }
            return;
        }
        if path.is_resolved() {
            let is_directory = file.stat.is_some_and(|it| it.is_directory());
            let directory = if is_directory { &path.bytes } else { parent(&path.bytes) };
            self.note_directory(directory, path.mounts);
        }
        if self.count >= self.sweep_at.max(SWEEP_MIN) {
            self.sweep();
        }
        self.is_elsewhere |= path.mounts != MountNamespace::OWN;
        let description = Rc::downgrade(description);
        self.new.push(NamedOpenFile { description, deleted: false, covered: false, read });
        self.count += 1;
    }

    /// Sorts in the files that were opened since the last call. Precedes any search for names.
    pub fn sort_in(&mut self) {
        let new = std::mem::take(&mut self.new);
        self.count -= new.len();
        for known in new {
            let file = known.description.upgrade().map(|it| it.file());
            let path = file.as_ref().and_then(|it| it.path.as_ref());
            // The name may have become doubtful since.
            if let Some(path) = path.filter(|it| it.source != PathSource::Unverified) {
                self.add(path.bytes.clone(), known);
            }
        }
    }

    /// Handles an open file of this name in an unknown process: it may be any of the known files of
    /// the name, so their positions may be moved unseen.
    pub fn share(&mut self, path: &[u8]) {
        self.sort_in();
        let known = self.open.get(path).into_iter().flatten();
        known.filter_map(|it| it.description.upgrade()).for_each(|it| it.share_outside());
    }

    /// Adds a directory whose path the kernel has reported: none of its parts is a symbolic link.
    pub fn note_directory(&mut self, path: &[u8], mounts: MountNamespace) {
        if (mounts, path) == (self.last_real.0, &self.last_real.1)
            || path.len() <= 1
            || mounts == MountNamespace::UNKNOWN
            || !path.starts_with(b"/")
            || path.ends_with(DELETED)
        {
            return;
        }
        self.last_real.0 = mounts;
        self.last_real.1.clear();
        self.last_real.1.extend_from_slice(path);
        if !self.real.contains_key(&mounts) && self.real.len() >= SPACES_MAX {
            self.real.clear();
        }
        let real = self.real.entry(mounts).or_default();
        if !real.contains(path) {
            if real.len() >= REAL_MAX {
                real.clear();
            }
            real.insert(path.to_vec());
        }
    }

    /// Sets the loss count at which the snapshot of the places is valid: it was read after all
    /// tracepoints had been switched on, and the switching on counts as a loss for earlier state.
    pub fn certain_at(&mut self, losses: u32) {
        self.losses = losses;
    }

    /// Forgets the directories after lost records: they may have been moved unseen.
    pub fn doubt_since(&mut self, losses: u32) {
        if self.losses != losses {
            self.losses = losses;
            self.last_real.1.clear();
            self.real.clear();
        }
    }

    /// Handles a rename with unknown paths; `parts`: the last parts of both names, if known.
    pub fn doubt_renamed(&mut self, parts: Option<[&[u8]; 2]>) {
        self.sort_in();
        let may_be = |path: &[u8]| parts.is_none_or(|it| it.iter().any(|it| has_part(path, it)));
        self.doubt(may_be);
        self.relative.doubt(may_be);
        self.last_real.1.clear();
        self.real.clear();
    }

    /// Returns true if names may have changed after this time.
    pub fn changed_since(&self, time: KernelTime) -> bool {
        self.changed >= time
    }

    /// Returns the target of this path from the root, without following its last part.
    pub fn spot(&self, path: &[u8], mounts: MountNamespace) -> NamedPlace {
        let mut real = Vec::new();
        let mut sure = true;
        for part in path.split(|&it| it == b'/').filter(|it| !it.is_empty()) {
            if part == b".." {
                sure &= self.is_real(&real, mounts);
                real.truncate(parent(&real).len());
            } else {
                real.push(b'/');
                real.extend_from_slice(part);
            }
        }
        if !sure || path.ends_with(b"/..") {
            return NamedPlace { path: path.to_vec(), mounts, sure: false };
        }
        let sure = self.is_real(parent(&real), mounts) || self.is_open(&real, mounts);
        NamedPlace { path: real, mounts, sure: sure && mounts != MountNamespace::UNKNOWN }
    }

    /// Returns true if it is known that no part of this path is a symbolic link.
    pub fn is_real(&self, directory: &[u8], mounts: MountNamespace) -> bool {
        if directory.len() <= 1 {
            return true;
        }
        let Some(real) = self.real.get(&mounts) else { return false };
        real.contains(directory)
            || real
                .range::<[u8], _>((Bound::Excluded(below(directory).as_slice()), Bound::Unbounded))
                .next()
                .is_some_and(|it| is_below(it, directory))
    }

    /// Returns true if the kernel has reported the name of an open file here or below.
    fn is_open(&self, path: &[u8], mounts: MountNamespace) -> bool {
        let has_name = |known: &NamedOpenFile| {
            let file = known.description.upgrade().map(|it| it.file());
            let path = file.as_ref().and_then(|it| it.path.as_ref());
            !known.deleted && path.is_some_and(|it| it.is_resolved() && it.mounts.is(mounts))
        };
        let here = self.open.get_key_value(path).into_iter();
        here.chain(self.range_below(path)).any(|it| it.1.iter().any(has_name))
    }

    /// Follows a call that has changed names. The places of processes must have followed it before.
    /// Returns false if it has changed none, because both are names of one file.
    pub fn follow(&mut self, change: &NameChange, span: CallSpan) -> bool {
        self.changed = self.changed.max(span.end);
        self.relative.doubt(|path| change.may_concern(path));
        if self.is_elsewhere {
            self.doubt_elsewhere(change);
        }
        match change {
            NameChange::Removed(spot) if spot.sure => {
                self.delete(spot, span);
                drop(self.forget_directories(spot));
            }
            NameChange::Removed(spot) => {
                self.doubt(|path| last(path) == last(&spot.path));
                self.forget_directories_like(&spot.path);
            }
            NameChange::Renamed { from, to, exchange } => {
                // For two names of one file, rename(2) does nothing, and both names stay.
                let inode = self.inode(from);
                let is_one = inode.is_some() && inode == self.inode(to);
                if is_one || self.is_same_file(from, to) {
                    return false;
                }
                self.rename(from, to, *exchange, span);
            }
        }
        true
    }

    fn rename(&mut self, from: &NamedPlace, to: &NamedPlace, exchange: bool, span: CallSpan) {
        let doubtful = [(from, true), (to, exchange)];
        for (spot, with_below) in doubtful.into_iter().filter(|it| !it.0.sure) {
            let name = last(&spot.path).to_vec();
            self.doubt(|path| last(path) == name || with_below && has_part(path, &name));
        }
        let moved = if from.sure { self.take(from) } else { Vec::new() };
        let replaced = if exchange && to.sure { self.take(to) } else { Vec::new() };
        if !exchange && to.sure {
            self.delete(to, span);
        }
        for (list, old, new) in [(moved, from, to), (replaced, to, from)] {
            for (path, known) in list {
                self.put_moved(&path, known, &old.path, new, span);
            }
        }
        self.move_directories(from, to, exchange);
    }

    /// Returns the inode of the open file that certainly has this name.
    fn inode(&self, spot: &NamedPlace) -> Option<(DevId, u64)> {
        let known = self.open.get(&spot.path).filter(|_| spot.sure)?;
        let is_there = |it: &&NamedOpenFile| !it.deleted && !it.covered;
        let mut open = known.iter().filter(is_there).filter_map(|it| it.description.upgrade());
        let description = open.find(|it| is_within(it, spot.mounts) && it.is_certain())?;
        description.file().stat?.inode()
    }

    /// Moves the known directories after a rename.
    fn move_directories(&mut self, from: &NamedPlace, to: &NamedPlace, exchange: bool) {
        if !(from.sure && to.sure) {
            return [from, to].iter().for_each(|it| self.forget_directories_like(&it.path));
        }
        let moved = self.forget_directories(from);
        let replaced = self.forget_directories(to);
        let back = if exchange { replaced } else { Vec::new() };
        for (list, old, new) in [(moved, from, to), (back, to, from)] {
            for path in list {
                let rest = path.get(old.path.len()..).unwrap_or_default();
                let real = self.real.entry(new.mounts).or_default();
                real.insert([new.path.as_slice(), rest].concat());
            }
        }
    }

    /// Gives an open file its new name, if that is certain.
    fn put_moved(
        &mut self,
        path: &[u8],
        known: NamedOpenFile,
        old: &[u8],
        new: &NamedPlace,
        span: CallSpan,
    ) {
        let Some(description) = known.description.upgrade() else { return };
        if !new.sure || !is_certain(&description, &known, span) {
            description.doubt_name();
            return;
        }
        let mut name = new.path.clone();
        name.extend_from_slice(path.get(old.len()..).unwrap_or_default());
        description.rename(shown(&name, known.deleted));
        self.add(name, NamedOpenFile { read: span.end, ..known });
    }

    /// Marks the open files of this name as deleted.
    fn delete(&mut self, spot: &NamedPlace, span: CallSpan) {
        let path = spot.path.as_slice();
        let Some(list) = self.open.get_mut(path) else { return };
        let before = list.len();
        list.retain_mut(|known| {
            let Some(description) = known.description.upgrade() else { return false };
            if known.deleted || !is_within(&description, spot.mounts) {
                return true;
            }
            if !is_certain(&description, known, span) {
                description.doubt_name();
                return false;
            }
            description.rename(shown(path, true));
            (known.deleted, known.read) = (true, span.end);
            true
        });
        self.count -= before - list.len();
        if list.is_empty() {
            self.open.remove(path);
        }
    }

    /// Marks the matching names as doubtful and stops following them.
    fn doubt(&mut self, is_touched: impl Fn(&[u8]) -> bool) {
        let mut doubted = 0;
        self.open.retain(|path, list| {
            let touched = is_touched(path);
            if touched {
                doubted += list.len();
                let open = list.iter().filter_map(|it| it.description.upgrade());
                open.for_each(|it| it.doubt_name());
            }
            !touched
        });
        self.count -= doubted;
    }

    /// Removes and returns the open files of this name, unless they have lost it, and all below.
    fn take(&mut self, spot: &NamedPlace) -> Vec<(Vec<u8>, NamedOpenFile)> {
        let mut taken = Vec::new();
        let below: Vec<Vec<u8>> = self.range_below(&spot.path).map(|it| it.0.clone()).collect();
        for key in std::iter::once(spot.path.clone()).chain(below) {
            let Some(mut list) = self.open.remove(&key) else { continue };
            let is_meant = |known: &mut NamedOpenFile| {
                let is_there = !known.deleted || key != spot.path;
                let description = known.description.upgrade();
                is_there && description.is_none_or(|it| is_within(&it, spot.mounts))
            };
            taken.extend(list.extract_if(.., is_meant).map(|it| (key.clone(), it)));
            if !list.is_empty() {
                self.open.insert(key, list);
            }
        }
        self.count -= taken.len();
        taken
    }

    /// Handles a change in other mounts: its files may be open there, too, under any name. An open
    /// file of such a name stays certain only if it is known to be another file.
    fn doubt_elsewhere(&mut self, change: &NameChange) {
        for (spot, with_below) in change.spots() {
            let (name, mounts) = (last(&spot.path), spot.mounts);
            let here = self.files_at(spot);
            let mut doubted = 0;
            self.open.retain(|path, list| {
                if last(path) != name && !(with_below && has_part(path, name)) {
                    return true;
                }
                let before = list.len();
                list.retain(|known| {
                    let Some(description) = known.description.upgrade() else { return false };
                    let stat = description.file().stat;
                    let is_other = stat
                        .and_then(|it| it.inode())
                        .is_some_and(|it| here.as_ref().is_some_and(|here| !here.contains(&it)));
                    let is_left = is_within(&description, mounts) || is_other;
                    if !is_left {
                        description.doubt_name();
                    }
                    is_left
                });
                doubted += before - list.len();
                !list.is_empty()
            });
            self.count -= doubted;
            for real in self.real.iter_mut().filter(|it| !it.0.is(mounts)) {
                real.1.retain(|it| !has_part(it, name));
            }
        }
    }

    /// Returns the inodes of the open files of this name; `None`: a directory, or not all known.
    fn files_at(&self, spot: &NamedPlace) -> Option<BTreeSet<(DevId, u64)>> {
        let known =
            self.open.get(&spot.path).into_iter().flatten().filter(|it| !it.deleted && !it.covered);
        let known = known.filter_map(|it| it.description.upgrade());
        let stats = known.filter(|it| is_within(it, spot.mounts)).map(|it| it.file().stat);
        let files: Option<BTreeSet<_>> =
            stats.map(|it| it.filter(|it| !it.is_directory()).and_then(|it| it.inode())).collect();
        files.filter(|it| spot.sure && !it.is_empty())
    }

    /// Handles a mount at a place or its end (`None`: anywhere); with `only` in these mounts,
    /// otherwise in all, because mounts propagate to other namespaces.
    pub fn cover(&mut self, spot: Option<&NamedPlace>, only: Option<MountNamespace>) {
        self.sort_in();
        self.last_real.1.clear();
        let is_covered =
            |path: &[u8]| spot.is_none_or(|spot| path == spot.path || is_below(path, &spot.path));
        for (path, list) in &mut self.open {
            if is_covered(path) {
                let is_meant = |known: &&mut NamedOpenFile| {
                    let description = known.description.upgrade();
                    only.is_none_or(|only| description.is_some_and(|it| is_within(&it, only)))
                };
                list.iter_mut().filter(is_meant).for_each(|it| it.covered = true);
            }
        }
        let real = self.real.iter_mut().filter(|it| only.is_none_or(|only| only == *it.0));
        real.for_each(|it| it.1.retain(|it| !is_covered(it)));
    }

    /// Handles a place (`None`: anywhere), in these mounts or in all, whose files were moved away.
    pub fn displace(&mut self, spot: Option<&NamedPlace>, only: Option<MountNamespace>) {
        self.sort_in();
        let mut doubted = 0;
        self.open.retain(|path, list| {
            if spot.is_some_and(|it| *path != it.path && !is_below(path, &it.path)) {
                return true;
            }
            let before = list.len();
            list.retain(|known| {
                let Some(description) = known.description.upgrade() else { return false };
                let is_left = only.is_some_and(|only| !is_within(&description, only));
                if !is_left {
                    description.doubt_name();
                }
                is_left
            });
            doubted += before - list.len();
            !list.is_empty()
        });
        self.count -= doubted;
        self.relative.doubt(|_| true);
        self.cover(spot, only);
    }

    fn range_below(&self, path: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &Vec<NamedOpenFile>)> {
        let first = below(path);
        self.open
            .range::<[u8], _>((Bound::Excluded(first.as_slice()), Bound::Unbounded))
            .take_while(move |it| it.0.starts_with(&first))
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn add(&mut self, path: Vec<u8>, known: NamedOpenFile) {
        self.open.entry(path).or_default().push(known);
        self.count += 1;
    }

    /// Removes closed files.
    fn sweep(&mut self) {
        self.open.retain(|_, list| {
            list.retain(|it| it.description.strong_count() > 0);
            !list.is_empty()
        });
        self.new.retain(|it| it.description.strong_count() > 0);
        self.count = self.new.len() + self.open.values().map(Vec::len).sum::<usize>();
        self.sweep_at = 2 * self.count;
    }

    /// Removes and returns this directory and all below.
    fn forget_directories(&mut self, spot: &NamedPlace) -> Vec<Vec<u8>> {
        self.last_real.1.clear();
        let Some(real) = self.real.get_mut(&spot.mounts) else { return Vec::new() };
        let path = spot.path.as_slice();
        let first = below(path);
        let range = (Bound::Excluded(first.as_slice()), Bound::Unbounded);
        let below = real.range::<[u8], _>(range).take_while(|it| it.starts_with(&first));
        let all: Vec<Vec<u8>> = real.get(path).into_iter().chain(below).cloned().collect();
        for path in &all {
            real.remove(path);
        }
        all
    }

    fn forget_directories_like(&mut self, path: &[u8]) {
        self.last_real.1.clear();
        let name = last(path);
        self.real.values_mut().for_each(|it| it.retain(|it| !has_part(it, name)));
    }

    /// Returns true if files are open under both names and at least one is the same.
    fn is_same_file(&self, one: &NamedPlace, other: &NamedPlace) -> bool {
        let files = |spot: &NamedPlace| {
            let known = self.open.get(&spot.path).into_iter().flatten().filter(|it| !it.deleted);
            let known = known.filter_map(|it| it.description.upgrade());
            let stat =
                known.filter(|it| is_within(it, spot.mounts)).filter_map(|it| it.file().stat);
            stat.filter_map(|it| it.inode()).collect::<BTreeSet<_>>()
        };
        one.path == other.path || !files(one).is_disjoint(&files(other))
    }
}

/// Returns true if the name of the file at the begin of the call is known.
fn is_certain(description: &Description, known: &NamedOpenFile, span: CallSpan) -> bool {
    let file = description.file();
    !known.covered
        && known.read < span.start
        && file.path.as_ref().is_some_and(FilePath::is_resolved)
}

/// Returns true if its name is one in these mounts.
fn is_within(description: &Description, mounts: MountNamespace) -> bool {
    description.file().path.as_ref().is_some_and(|it| it.mounts.is(mounts))
}
