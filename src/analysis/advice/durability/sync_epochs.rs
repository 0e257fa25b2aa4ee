//! Times since which files are synced.

use rustc_hash::FxHashMap;

use super::path_index::PlacedPath;
use crate::units::{DevId, KernelTime};

/// Limit of directories whose syncs are remembered.
const DIRECTORIES_MAX: usize = 1 << 16;

/// Times since which everything of a kind is synced: the beginnings of the last syncs.
#[derive(Debug, Default)]
pub(super) struct SyncEpochs {
    pub(super) all: Option<KernelTime>,
    pub(super) devices: FxHashMap<DevId, KernelTime>,
    directories: FxHashMap<PlacedPath, KernelTime>,
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

    /// True if a sync of the directory began at this time or later.
    pub(super) fn covers_directory(&self, directory: &PlacedPath, end: KernelTime) -> bool {
        self.directories.get(directory).is_some_and(|start| *start >= end)
    }

    /// Notes a sync of a directory that began at this time.
    pub(super) fn sync_directory(&mut self, directory: PlacedPath, start: KernelTime) {
        if self.directories.len() >= DIRECTORIES_MAX && !self.directories.contains_key(&directory) {
            self.is_full = true;
            return;
        }
        let known = self.directories.entry(directory).or_insert(start);
        *known = (*known).max(start);
    }
}
