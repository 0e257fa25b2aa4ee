//! Inodes of initial files: names with the same inode are names of one file.
//!
//! ```text
//!   open a    inode 7     there, and a file
//!   open b    inode 7     a second name of the file, if that still exists; otherwise the number
//!                         may have been given to another file
//! ```

use super::fs_model::FsModel;
use super::inode_table::{KnownInode, ShownFile};
use super::model::{EntryKind, FileId, Node, NodeId, PlaceState};

impl FsModel {
    /// Sets the state of a place from now on.
    pub(super) fn put(&mut self, node: NodeId, now: PlaceState) {
        let before = std::mem::replace(&mut self.node_mut(node).now, now);
        if let PlaceState::There(EntryKind::File(file)) = now {
            *self.inodes.names.entry(file).or_default() += 1;
        }
        if let PlaceState::There(EntryKind::File(file)) = before
            && let Some(names) = self.inodes.names.get_mut(&file)
        {
            *names = names.saturating_sub(1);
        }
    }

    /// Records the file that was opened by this name, if it is known to have another name already.
    pub fn may_be_second_name(
        &mut self,
        node: NodeId,
        shown: ShownFile,
        is_open: impl Fn(FileId) -> bool,
    ) {
        let Node { now, first, .. } = *self.node(node);
        let is_new = first.is_some()
            && matches!(now, PlaceState::Unasked | PlaceState::There(EntryKind::Any));
        if let Some(file) = self.of_inode(shown, is_open).filter(|_| is_new) {
            // The file has two names, so no open has made it.
            let first = self.inodes.known[&shown.inode].first;
            self.first_mut(first).perhaps = false;
            self.was_there(node, EntryKind::File(file));
        }
    }

    /// Records the report about the file at this place.
    pub fn has_inode(&mut self, node: NodeId, shown: ShownFile, is_open: impl Fn(FileId) -> bool) {
        let Node { now: PlaceState::There(EntryKind::File(file)), first: Some(first), .. } =
            *self.node(node)
        else {
            return;
        };
        match self.of_inode(shown, is_open) {
            Some(known) if known == file => {}
            // Both names were used before it was known that they are of one file.
            Some(_) => self.unexplained += 1,
            None => {
                self.inodes.known.insert(shown.inode, KnownInode { file, first });
            }
        }
    }

    /// Returns the initial file with this inode, if nothing shows that the inode belongs to another
    /// file now.
    fn of_inode(&self, shown: ShownFile, is_open: impl Fn(FileId) -> bool) -> Option<FileId> {
        let file = self.inodes.known.get(&shown.inode)?.file;
        let is_it = shown.bytes.is_none_or(|bytes| self.size(file).may_end(bytes));
        let has_name = || self.inodes.names.get(&file).is_some_and(|names| *names > 0);
        (is_it && (has_name() || is_open(file))).then_some(file)
    }
}
