//! Paths through symbolic links whose texts are known: initial links, and links that the program
//! makes.

use std::rc::Rc;

use super::fs_model::FsModel;
use super::model::{EntryKind, Node, NodeId, PlaceState};
use crate::replay::plan::links::SymlinkMap;

/// Maximum number of links that a path leads through (`MAXSYMLINKS` in the kernel's
/// `include/linux/namei.h`); after more of them it leads nowhere.
const FOLLOWED_MAX: usize = 40;

impl FsModel {
    /// Creates a model with initial links, for operations that look them up.
    pub fn with_links(links: &SymlinkMap) -> Self {
        let mut world = Self { unexplained: links.unknown, ..Self::default() };
        for (path, text) in links.iter() {
            let Some(node) = world.find(path) else { continue };
            let text: Rc<[u8]> = text.into();
            if let Some(first) = world.node(node).first {
                world.first_mut(first).text = Some(Rc::clone(&text));
            }
            world.node_mut(node).text = Some(text);
        }
        world
    }

    /// Returns the place to which a path leads, without following a final link. `..` of a directory
    /// is the directory that contains it. `None`: the path does not begin at the root.
    pub fn find(&mut self, path: &[u8]) -> Option<NodeId> {
        self.reach(path, false, &mut Vec::new())
    }

    /// Returns the place to which a path leads, with or without following a final link. Links on
    /// the way are added to `via`.
    pub fn reach(
        &mut self,
        path: &[u8],
        is_followed: bool,
        via: &mut Vec<NodeId>,
    ) -> Option<NodeId> {
        let path = path.strip_prefix(b"/")?;
        let mut links = Vec::new();
        let at = self.walk(NodeId(0), path, &mut links);
        let at = if is_followed { self.link_target(at, &mut links) } else { at };
        via.append(&mut links);
        Some(at)
    }

    fn walk(&mut self, from: NodeId, path: &[u8], via: &mut Vec<NodeId>) -> NodeId {
        let mut at = from;
        for part in path.split(|byte| *byte == b'/') {
            at = self.link_target(at, via);
            at = match part {
                b"" | b"." => at,
                b".." => self.node(at).parent,
                name => self.child(at, name),
            };
        }
        at
    }

    /// Returns the place to which a link leads; any other place leads to itself.
    pub(super) fn link_target(&mut self, node: NodeId, via: &mut Vec<NodeId>) -> NodeId {
        let Node { now, parent, ref text, .. } = *self.node(node);
        let may_be_link = matches!(
            now,
            PlaceState::Unasked | PlaceState::There(EntryKind::Any | EntryKind::Link(_))
        );
        let Some(text) = text.clone().filter(|_| may_be_link && via.len() < FOLLOWED_MAX) else {
            return node;
        };
        via.push(node);
        let from = if text.starts_with(b"/") { NodeId(0) } else { parent };
        let to = self.walk(from, &text, via);
        self.link_target(to, via)
    }

    /// Records that a path has led through these links: they were there.
    pub fn record_traversed_links(&mut self, via: &[NodeId]) {
        via.iter().for_each(|link| self.was_there(*link, EntryKind::Link(0)));
    }

    /// Records that nothing was found where a path leads. If something is there, a link on the way
    /// was missing: the only one that no operation has found. Returns true if so.
    pub fn infer_missing_link(&mut self, via: &[NodeId], to: NodeId) -> bool {
        if self.entry_kind(to).is_none() || self.is_absent(to) {
            return false;
        }
        let is_link = |place: &NodeId| matches!(self.entry_kind(*place), Some(EntryKind::Link(_)));
        let mut unknown = via.iter().copied().filter(|link| !is_link(link));
        let only = unknown.next().filter(|_| unknown.next().is_none());
        only.into_iter().for_each(|link| self.set(link, PlaceState::Absent));
        only.is_some()
    }

    /// Records the text of a link that the program has made.
    pub fn contains(&mut self, link: NodeId, text: &[u8]) {
        self.node_mut(link).text = Some(text.into());
    }
}
