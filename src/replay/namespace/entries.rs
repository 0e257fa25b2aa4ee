//! What was there at the start, for a replay to make.

use super::{EntryKind, FirstId, FsModel, InitialEntry, NodeId, Size, State};
use crate::replay::replay_paths::is_short;

/// Permissions of a file of which nothing is known but that somebody may execute it.
const EXECUTABLE_MODE: u32 = 0o755;

/// A file or directory that was there at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From the root.
    pub path: Vec<u8>,
    /// What it was.
    pub thing: EntryKind,
    /// Permissions, if something has shown them.
    pub mode: Option<u32>,
    /// A directory that something else is in.
    pub has_more: bool,
    /// What a link contains, if it is known where it led.
    pub text: Option<Vec<u8>>,
    /// What of it is not known, or not made.
    pub gap: Option<Gap>,
}

/// What of an entry is not known, or not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Something was found behind it, and nothing has shown where that is: it becomes a directory.
    Target,
    /// No text of its length leads where it led: it gets one of another length.
    Text,
    /// Of a directory: from the root, paths of what was in it are longer than any that a call can be given. That is not made.
    Depth,
}

impl FsModel {
    /// Everything that was there at the start, directories before what is in them, in the order of names.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut path = Vec::new();
        // Renames can make it deeper than a stack.
        let mut open = vec![(0, None, self.in_order(FirstId(0)))];
        while let Some((length, directory, children)) = open.last_mut() {
            path.truncate(*length);
            let Some((name, child)) = children.next() else {
                open.pop();
                continue;
            };
            let first = self.first(child);
            let State::There(thing) = first.state else { continue };
            if first.perhaps && matches!(thing, EntryKind::File(it) if self.size(it).first() == 0) {
                continue;
            }
            path.push(b'/');
            path.extend_from_slice(name);
            if !is_short(&path) {
                let directory = directory.and_then(|it: usize| entries.get_mut(it));
                directory.into_iter().for_each(|it: &mut Entry| it.gap = Some(Gap::Depth));
                continue;
            }
            let entry = self.entry(&path, first, thing);
            if entry.thing == EntryKind::Directory {
                open.push((path.len(), Some(entries.len()), self.in_order(child)));
            }
            entries.push(entry);
        }
        entries
    }

    /// What was in a directory.
    fn in_order(&self, at: FirstId) -> std::vec::IntoIter<(&[u8], FirstId)> {
        let children = &self.first(at).children;
        let mut children: Vec<_> = children.iter().map(|(name, it)| (&**name, *it)).collect();
        children.sort_unstable();
        children.into_iter()
    }

    fn entry(&self, path: &[u8], first: &InitialEntry, thing: EntryKind) -> Entry {
        let InitialEntry { has_more, ref children, ref text, .. } = *first;
        let mode = first.mode.or(first.is_executable.then_some(EXECUTABLE_MODE));
        let has_children = !children.is_empty() || first.was_asked || has_more;
        let is_there = |it: &FirstId| matches!(self.first(*it).state, State::There(_));
        // A link through which something was found: what is behind it has its name here.
        let text = text.as_ref();
        let (thing, gap) = match (thing, text) {
            (EntryKind::Any | EntryKind::Link(_), Some(text)) => {
                let bytes = text.len() as u64;
                let is_as_asked = matches!(thing, EntryKind::Any | EntryKind::Link(0));
                let is_other = !is_as_asked && thing != EntryKind::Link(bytes);
                (EntryKind::Link(bytes), is_other.then_some(Gap::Text))
            }
            (EntryKind::Link(_), None) if children.values().any(is_there) => {
                (EntryKind::Directory, Some(Gap::Target))
            }
            (EntryKind::Any, None) if has_children => (EntryKind::Directory, None),
            (known, _) => (known, None),
        };
        let text = text.filter(|_| matches!(thing, EntryKind::Link(_))).map(|it| it.to_vec());
        Entry { path: path.to_vec(), thing, mode, has_more, text, gap }
    }

    /// Where something was at the start that is here now; `None`: it has come about since.
    pub fn path_at_start(&self, node: NodeId) -> Option<Vec<u8>> {
        let mut at = self.node(node).first?;
        let mut names = Vec::new();
        while at != FirstId(0) {
            let parent = self.first(at).parent;
            let name = self.first(parent).children.iter().find(|it| *it.1 == at)?.0;
            names.push(&**name);
            at = parent;
        }
        let absolute = names.iter().rev().flat_map(|it| [b"/".as_slice(), it].concat()).collect();
        Some(if names.is_empty() { b"/".to_vec() } else { absolute })
    }

    /// Where it is now, from the root; `None`: it is forgotten.
    pub fn path_now(&self, node: NodeId) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        for it in self.way(node) {
            let siblings = &self.node(self.node(it).parent).children;
            names.push(&**siblings.iter().find(|(_, child)| **child == it)?.0);
        }
        Some(names.iter().rev().flat_map(|it| [b"/".as_slice(), it].concat()).collect())
    }

    /// What was at a place at the start, whatever has become of it: a directory, or a file, which is made known if nothing was known of it. `None`:
    /// it was something else, or nothing.
    pub fn thing_at_start(&mut self, path: &[u8], kind: EntryKind) -> Option<EntryKind> {
        let mut at = FirstId(0);
        for part in path.split(|it| *it == b'/').filter(|it| !it.is_empty()) {
            if self.first(at).state == State::Absent {
                return None;
            }
            if matches!(self.first(at).state, State::Unasked | State::There(EntryKind::Any)) {
                self.first_mut(at).state = State::There(EntryKind::Directory);
            }
            let known = self.first(at).children.get(part).copied();
            at = known.or_else(|| self.first_child(at, part))?;
        }
        match (self.first(at).state, kind) {
            (State::There(it @ (EntryKind::File(_) | EntryKind::Directory)), _) => Some(it),
            (State::Unasked | State::There(EntryKind::Any), kind) => {
                let thing = match kind {
                    EntryKind::Directory => kind,
                    _ => EntryKind::File(self.new_file(Size::THERE)),
                };
                self.first_mut(at).state = State::There(thing);
                Some(thing)
            }
            _ => None,
        }
    }
}
