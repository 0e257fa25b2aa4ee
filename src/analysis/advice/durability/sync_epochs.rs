//! Times since which files are synced.

use std::collections::BTreeMap;
use std::ops::Bound;

use rustc_hash::FxHashMap;

use super::path_index::{PlacedPath, normal};
use crate::naming::paths::is_below;
use crate::units::{DevId, KernelTime};

/// Device and inode of a directory.
pub(super) type DirectoryInode = (DevId, u64);

/// Knowledge of a directory by one of its names.
#[derive(Clone, Copy, Debug, Default)]
struct KnownDirectory {
    inode: Option<DirectoryInode>,
    /// Begin of its last sync by this name.
    synced: Option<KernelTime>,
}

/// Answer to the question whether a directory was synced after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectorySync {
    Done,
    Missing,
    /// A directory was synced that may be this one by another name.
    Unclear,
}

/// Limit of directories whose syncs are remembered.
const DIRECTORIES_MAX: usize = 1 << 16;

/// Times since which everything of a kind is synced: the beginnings of the last syncs.
#[derive(Debug, Default)]
pub(super) struct SyncEpochs {
    pub(super) all: Option<KernelTime>,
    pub(super) devices: FxHashMap<DevId, KernelTime>,
    directories: BTreeMap<PlacedPath, KnownDirectory>,
    /// Syncs of directories by their inodes.
    inodes: FxHashMap<DirectoryInode, KernelTime>,
    /// Last sync of any directory of a device; `None`: of one whose device is not known.
    any_directory: FxHashMap<Option<DevId>, KernelTime>,
    /// Last sync of an unknown file, which may have been any.
    pub(super) unknown: Option<KernelTime>,
    /// True if a sync of a directory was not remembered for lack of room.
    pub(super) is_full: bool,
}

/// Sets a time to a later one.
pub(super) fn later(known: &mut Option<KernelTime>, time: KernelTime) {
    *known = (*known).max(Some(time));
}

impl SyncEpochs {
    /// True if a sync of all files, or of those of the device, began at this time or later.
    pub(super) fn covers(&self, dev: Option<DevId>, end: KernelTime) -> bool {
        let is_later = |start: KernelTime| start >= end;
        self.all.is_some_and(is_later)
            || match dev {
                Some(dev) => self.devices.get(&dev).copied().is_some_and(is_later),
                // It may be on any of the devices.
                None => self.devices.values().copied().any(is_later),
            }
    }

    /// Tells whether a sync of the directory began at this time or later.
    pub(super) fn of_directory(
        &self,
        directory: &PlacedPath,
        dev: Option<DevId>,
        end: KernelTime,
    ) -> DirectorySync {
        let is_later = |start: KernelTime| start >= end;
        let known = self.directories.get(directory).copied().unwrap_or_default();
        if known.synced.is_some_and(is_later) {
            return DirectorySync::Done;
        }
        if let Some(start) = known.inode.and_then(|inode| self.inodes.get(&inode)).copied()
            && is_later(start)
        {
            return DirectorySync::Done;
        }
        let any = |dev: Option<DevId>| self.any_directory.get(&dev).copied().is_some_and(is_later);
        let of_device = match (known.inode, dev) {
            // It is none of the others.
            (Some(_), _) => false,
            (None, Some(dev)) => any(Some(dev)),
            (None, None) => self.any_directory.values().copied().any(is_later),
        };
        match of_device || any(None) {
            true => DirectorySync::Unclear,
            false => DirectorySync::Missing,
        }
    }

    /// Notes which directory has this name.
    pub(super) fn note_directory(&mut self, directory: PlacedPath, inode: DirectoryInode) {
        if let Some(known) = self.known(directory) {
            if known.inode.is_some_and(|old| old != inode) {
                known.synced = None;
            }
            known.inode = Some(inode);
        }
    }

    /// Notes a sync of a directory that began at this time.
    pub(super) fn sync_directory(&mut self, directory: PlacedPath, start: KernelTime) {
        if let Some(known) = self.known(directory) {
            later(&mut known.synced, start);
        }
    }

    /// Notes a sync of a directory, by whichever name.
    pub(super) fn sync_inode(&mut self, inode: Option<DirectoryInode>, start: KernelTime) {
        let any = self.any_directory.entry(inode.map(|inode| inode.0)).or_insert(start);
        *any = (*any).max(start);
        let Some(inode) = inode else { return };
        if self.inodes.len() >= DIRECTORIES_MAX && !self.inodes.contains_key(&inode) {
            self.is_full = true;
            return;
        }
        let known = self.inodes.entry(inode).or_insert(start);
        *known = (*known).max(start);
    }

    fn known(&mut self, directory: PlacedPath) -> Option<&mut KnownDirectory> {
        let is_full = self.directories.len() >= DIRECTORIES_MAX;
        if is_full && !self.directories.contains_key(&directory) {
            self.is_full = true;
            return None;
        }
        Some(self.directories.entry(directory).or_default())
    }

    /// Forgets a removed directory.
    pub(super) fn forget_directory(&mut self, directory: &PlacedPath) {
        self.directories.remove(directory);
    }

    /// Gives a directory, and those below it, other names.
    pub(super) fn move_directory(&mut self, from: &PlacedPath, to: &PlacedPath) {
        let (mounts, above) = from;
        let start = (Bound::Included(from.clone()), Bound::Unbounded);
        let all = self.directories.range(start).map(|(placed, _)| placed);
        // Names such as `a-b` lie between `a` and those below it.
        let near = all.take_while(|(of, path)| of == mounts && path.starts_with(above));
        let moved = near.filter(|(_, path)| path == above || is_below(path, above));
        let moved: Vec<PlacedPath> = moved.cloned().collect();
        self.directories.remove(to);
        for old in moved {
            let Some(known) = self.directories.remove(&old) else { continue };
            let rest = old.1.get(above.len()..).unwrap_or_default();
            let path = normal(&[to.1.as_slice(), rest].concat());
            self.directories.insert((to.0, path), known);
        }
    }
}
