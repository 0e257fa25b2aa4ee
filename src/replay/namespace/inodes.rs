//! Which names are of one file: those that were there at the start and have the same inode.
//!
//! ```text
//!   open a    inode 7     there, and a file
//!   open b    inode 7     a second name of it, if it is still there: its number is given to another one when it is gone
//! ```

use rustc_hash::FxHashMap;

use super::{EntryKind, FileId, FirstId, FsModel, Node, NodeId, State};
use crate::event::FileStat;
use crate::units::DevId;

/// What the kernel calls a file, and its type and permissions. With them, and its length, no other one is taken for it where inodes of several trees
/// have the same numbers (btrfs: each subvolume).
type Inode = (DevId, u64, u32);

/// How the kernel has shown a file.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    inode: Inode,
    /// How long it was, in bytes, before the call that has shown it.
    bytes: Option<u64>,
}

impl Shown {
    /// By a call that has cut it off or has not; `None`: nothing tells which file it is.
    pub fn new(stat: FileStat, is_cut_off: bool) -> Option<Self> {
        let (dev, number) = stat.inode()?;
        Some(Self { inode: (dev, number, stat.mode), bytes: (!is_cut_off).then_some(stat.size) })
    }
}

#[derive(Debug)]
struct Known {
    file: FileId,
    /// Where it was seen first.
    first: FirstId,
}

/// Files that were there, by their inodes; and how many names files have.
#[derive(Debug, Default)]
pub(super) struct Inodes {
    known: FxHashMap<Inode, Known>,
    names: FxHashMap<FileId, u32>,
}

impl Inodes {
    /// Those that are forgotten are not known any more.
    pub(super) fn retain(&mut self, is_there: impl Fn(FileId) -> bool) {
        self.known.retain(|_, it| is_there(it.file));
        self.names.retain(|it, _| is_there(*it));
    }
}

impl FsModel {
    /// This is at a place from now on.
    pub(super) fn put(&mut self, node: NodeId, now: State) {
        let before = std::mem::replace(&mut self.node_mut(node).now, now);
        if let State::There(EntryKind::File(file)) = now {
            *self.inodes.names.entry(file).or_default() += 1;
        }
        if let State::There(EntryKind::File(file)) = before
            && let Some(names) = self.inodes.names.get_mut(&file)
        {
            *names = names.saturating_sub(1);
        }
    }

    /// A file was opened by this name: if it is one that has another name already, it is known which.
    pub fn may_be_second_name(
        &mut self,
        node: NodeId,
        shown: Shown,
        is_open: impl Fn(FileId) -> bool,
    ) {
        let Node { now, first, .. } = *self.node(node);
        let is_new =
            first.is_some() && matches!(now, State::Unasked | State::There(EntryKind::Any));
        if let Some(file) = self.of_inode(shown, is_open).filter(|_| is_new) {
            // By two names, so no open has made it.
            let first = self.inodes.known[&shown.inode].first;
            self.first_mut(first).perhaps = false;
            self.was_there(node, EntryKind::File(file));
        }
    }

    /// The file at this place was shown.
    pub fn has_inode(&mut self, node: NodeId, shown: Shown, is_open: impl Fn(FileId) -> bool) {
        let Node { now: State::There(EntryKind::File(file)), first: Some(first), .. } =
            *self.node(node)
        else {
            return;
        };
        match self.of_inode(shown, is_open) {
            Some(known) if known == file => {}
            // Both were worked on before anybody knew.
            Some(_) => self.unexplained += 1,
            None => {
                self.inodes.known.insert(shown.inode, Known { file, first });
            }
        }
    }

    /// The file that was there with this inode, if nothing says that it is another one now.
    fn of_inode(&self, shown: Shown, is_open: impl Fn(FileId) -> bool) -> Option<FileId> {
        let file = self.inodes.known.get(&shown.inode)?.file;
        let is_it = shown.bytes.is_none_or(|it| self.size(file).may_end(it));
        let has_name = || self.inodes.names.get(&file).is_some_and(|it| *it > 0);
        (is_it && (has_name() || is_open(file))).then_some(file)
    }
}
