//! Inodes that the kernel has reported, and their files.

use rustc_hash::FxHashMap;

use super::model::{FileId, FirstId};
use crate::event::FileStat;
use crate::units::DevId;

/// Inode of a file: device, number, and type with permissions. With these and its length, no other
/// file is taken for it where inodes of several trees have the same numbers (btrfs: each
/// subvolume).
type Inode = (DevId, u64, u32);

/// Report of the kernel about a file.
#[derive(Clone, Copy, Debug)]
pub struct ShownFile {
    pub(super) inode: Inode,
    /// Length in bytes before the call that has reported the file.
    pub(super) bytes: Option<u64>,
}

impl ShownFile {
    /// Creates a report of a call; `is_cut_off`: the call has truncated the file. `None`: the
    /// report does not identify the file.
    pub fn new(stat: FileStat, is_cut_off: bool) -> Option<Self> {
        let (dev, number) = stat.inode()?;
        Some(Self { inode: (dev, number, stat.mode), bytes: (!is_cut_off).then_some(stat.size) })
    }
}

/// File of an inode.
#[derive(Debug)]
pub(super) struct KnownInode {
    pub(super) file: FileId,
    /// Initial entry where the file was seen first.
    pub(super) first: FirstId,
}

/// Initial files by their inodes, and the number of names of each file.
#[derive(Debug, Default)]
pub(super) struct Inodes {
    pub(super) known: FxHashMap<Inode, KnownInode>,
    pub(super) names: FxHashMap<FileId, u32>,
}

impl Inodes {
    /// Forgets all files except for those that `is_there`.
    pub(super) fn retain(&mut self, is_there: impl Fn(FileId) -> bool) {
        self.known.retain(|_, known| is_there(known.file));
        self.names.retain(|file, _| is_there(*file));
    }
}
