//! Paths that lead through symbolic links whose texts are known: those that were there, and those that the program makes.

use std::rc::Rc;

use super::{EntryKind, FsModel, Node, NodeId, State};
use crate::replay::links::Links;

/// Links that a path leads through at most (`MAXSYMLINKS` in the kernel's `include/linux/namei.h`); behind more of them it leads nowhere.
const FOLLOWED_MAX: usize = 40;

impl FsModel {
    /// With links that were there at the start, if anybody asks for them.
    pub fn with_links(links: &Links) -> Self {
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

    /// The place that a path leads to, and that of the link itself if it leads to one; `..` of a directory is the one that it is in. `None`:
    /// it does not begin at the root.
    pub fn find(&mut self, path: &[u8]) -> Option<NodeId> {
        self.reach(path, false, &mut Vec::new())
    }

    /// The same, or what the link leads to if it is followed. The links on the way are added to `via`.
    pub fn reach(
        &mut self,
        path: &[u8],
        is_followed: bool,
        via: &mut Vec<NodeId>,
    ) -> Option<NodeId> {
        let path = path.strip_prefix(b"/")?;
        let mut links = Vec::new();
        let at = self.walk(NodeId(0), path, &mut links);
        let at = if is_followed { self.behind(at, &mut links) } else { at };
        via.append(&mut links);
        Some(at)
    }

    fn walk(&mut self, from: NodeId, path: &[u8], via: &mut Vec<NodeId>) -> NodeId {
        let mut at = from;
        for part in path.split(|it| *it == b'/') {
            at = self.behind(at, via);
            at = match part {
                b"" | b"." => at,
                b".." => self.node(at).parent,
                name => self.child(at, name),
            };
        }
        at
    }

    /// Where a link leads to; anything else is what it is.
    pub(super) fn behind(&mut self, node: NodeId, via: &mut Vec<NodeId>) -> NodeId {
        let Node { now, parent, ref text, .. } = *self.node(node);
        let may_be_link =
            matches!(now, State::Unasked | State::There(EntryKind::Any | EntryKind::Link(_)));
        let Some(text) = text.clone().filter(|_| may_be_link && via.len() < FOLLOWED_MAX) else {
            return node;
        };
        via.push(node);
        let from = if text.starts_with(b"/") { NodeId(0) } else { parent };
        let to = self.walk(from, &text, via);
        self.behind(to, via)
    }

    /// A path has led through these links: they were there.
    pub fn led_through(&mut self, via: &[NodeId]) {
        via.iter().for_each(|it| self.was_there(*it, EntryKind::Link(0)));
    }

    /// Nothing was found where a path leads to. Where something is, a link on the way was not there: that of which nobody knew it. True if so.
    pub fn led_nowhere(&mut self, via: &[NodeId], to: NodeId) -> bool {
        if self.thing(to).is_none() || self.is_absent(to) {
            return false;
        }
        let is_link = |it: &NodeId| matches!(self.thing(*it), Some(EntryKind::Link(_)));
        let mut unknown = via.iter().copied().filter(|it| !is_link(it));
        let only = unknown.next().filter(|_| unknown.next().is_none());
        only.into_iter().for_each(|it| self.set(it, State::Absent));
        only.is_some()
    }

    /// The link that the program has made there contains this.
    pub fn contains(&mut self, link: NodeId, text: &[u8]) {
        self.node_mut(link).text = Some(text.into());
    }
}
