//! Directories that were found to have something in them, and what explains that.

use super::{EntryKind, FirstId, FsModel, NodeId, State};

impl FsModel {
    /// A directory was found to have something in it.
    pub fn was_not_empty(&mut self, node: NodeId) {
        self.was_there(node, EntryKind::Directory);
        if !self.has_contents(node)
            && let Some(first) = self.node(node).first
        {
            self.first_mut(first).has_more = true;
        }
    }

    /// True if something is known to be in it.
    pub fn has_contents(&self, node: NodeId) -> bool {
        let mut children = self.node(node).children.values();
        children.any(|it| matches!(self.node(*it).now, State::There(_)))
    }

    /// True if the program has made what is there.
    pub fn is_of_program(&self, node: NodeId) -> bool {
        let node = self.node(node);
        node.first.is_none() && matches!(node.now, State::There(_))
    }

    /// Something is found that was there at the start: if its directory was found full, this is what was in it. A file that an open may
    /// have made explains nothing.
    pub(super) fn explains_contents(&mut self, it: FirstId, state: State) {
        let known = self.first(it);
        let is_new = !matches!(known.state, State::There(_)) && matches!(state, State::There(_));
        if is_new && !known.perhaps {
            let parent = known.parent;
            self.first_mut(parent).has_more = false;
        }
    }
}
