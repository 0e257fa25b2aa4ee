//! Contents of directories: directories that were found not empty, and the entries that explain
//! that.

use super::fs_model::FsModel;
use super::model::{EntryKind, FirstId, NodeId, PlaceState};

impl FsModel {
    /// Records that a directory was found not empty.
    pub fn was_not_empty(&mut self, node: NodeId) {
        self.was_there(node, EntryKind::Directory);
        if !self.has_contents(node)
            && let Some(first) = self.node(node).first
        {
            self.first_mut(first).has_more = true;
        }
    }

    /// Returns true if some entry is known to be inside.
    pub fn has_contents(&self, node: NodeId) -> bool {
        let mut children = self.node(node).children.values();
        children.any(|child| matches!(self.node(*child).now, PlaceState::There(_)))
    }

    /// Returns true if the program has made the entry that is there.
    pub fn is_of_program(&self, node: NodeId) -> bool {
        let node = self.node(node);
        node.first.is_none() && matches!(node.now, PlaceState::There(_))
    }

    /// Updates the parent of an initial entry that is found: if the directory was found not empty,
    /// this entry explains that. A file that an open may have made explains nothing.
    pub(super) fn explains_contents(&mut self, entry: FirstId, state: PlaceState) {
        let known = self.first(entry);
        let is_new =
            !matches!(known.state, PlaceState::There(_)) && matches!(state, PlaceState::There(_));
        if is_new && !known.perhaps {
            let parent = known.parent;
            self.first_mut(parent).has_more = false;
        }
    }
}
