//! Entries that were there at the start, for a replay to create.

use super::fs_model::FsModel;
use super::model::{EntryKind, FirstId, InitialEntry, NodeId, PlaceState};
use crate::replay::plan::initial_size::Size;
use crate::replay::plan::replay_paths::is_short;

/// Permissions of a file of which is only known that some user may execute it.
const EXECUTABLE_MODE: u32 = 0o755;

/// File or directory that was there at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Path from the root.
    pub path: Vec<u8>,
    /// Kind of the entry.
    pub thing: EntryKind,
    /// Permissions, if an operation has shown them.
    pub mode: Option<u32>,
    /// True for a directory that contains something besides the known entries.
    pub has_more: bool,
    /// Text of a link, if its target is known.
    pub text: Option<Vec<u8>>,
    /// Part of the entry that is unknown or is not created.
    pub gap: Option<Gap>,
}

/// Part of an entry that is unknown or is not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Target of a link through which something was found: the link becomes a directory.
    Target,
    /// Text of a link: no text of its length leads to its target, so it gets one of another length.
    Text,
    /// Deep contents of a directory: their paths from the root are longer than any that a call can
    /// be given. They are not created.
    Depth,
}

impl FsModel {
    /// Returns all initial entries, in the order of names, directories before their contents.
    pub fn entries(&self) -> Vec<ListedEntry> {
        let mut entries = Vec::new();
        let mut path = Vec::new();
        // Renames can make the tree deeper than a call stack.
        let mut open = vec![(0, None, self.in_order(FirstId(0)))];
        while let Some((length, directory, children)) = open.last_mut() {
            path.truncate(*length);
            let Some((name, child)) = children.next() else {
                open.pop();
                continue;
            };
            let first = self.first(child);
            let PlaceState::There(thing) = first.state else { continue };
            if first.perhaps
                && matches!(thing, EntryKind::File(file) if self.size(file).first() == 0)
            {
                continue;
            }
            path.push(b'/');
            path.extend_from_slice(name);
            if !is_short(&path) {
                let directory = directory.and_then(|place: usize| entries.get_mut(place));
                directory
                    .into_iter()
                    .for_each(|entry: &mut ListedEntry| entry.gap = Some(Gap::Depth));
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

    /// Returns the initial contents of a directory, in the order of names.
    fn in_order(&self, at: FirstId) -> std::vec::IntoIter<(&[u8], FirstId)> {
        let children = &self.first(at).children;
        let mut children: Vec<_> = children.iter().map(|(name, child)| (&**name, *child)).collect();
        children.sort_unstable();
        children.into_iter()
    }

    fn entry(&self, path: &[u8], first: &InitialEntry, thing: EntryKind) -> ListedEntry {
        let InitialEntry { has_more, ref children, ref text, .. } = *first;
        let mode = first.mode.or(first.is_executable.then_some(EXECUTABLE_MODE));
        let has_children = !children.is_empty() || first.had_lookups || has_more;
        let is_there = |child: &FirstId| matches!(self.first(*child).state, PlaceState::There(_));
        // Entries that were found through a link with an unknown target are children of the link.
        let text = text.as_ref();
        let (thing, gap) = match (thing, text) {
            (EntryKind::Any | EntryKind::Link(_), Some(text)) => {
                let bytes = text.len() as u64;
                let has_no_length = matches!(thing, EntryKind::Any | EntryKind::Link(0));
                let is_other = !has_no_length && thing != EntryKind::Link(bytes);
                (EntryKind::Link(bytes), is_other.then_some(Gap::Text))
            }
            (EntryKind::Link(_), None) if children.values().any(is_there) => {
                (EntryKind::Directory, Some(Gap::Target))
            }
            (EntryKind::Any, None) if has_children => (EntryKind::Directory, None),
            (known, _) => (known, None),
        };
        let text = text.filter(|_| matches!(thing, EntryKind::Link(_))).map(|text| text.to_vec());
        ListedEntry { path: path.to_vec(), thing, mode, has_more, text, gap }
    }

    /// Returns the initial path of what is here now; `None`: that has come about since.
    pub fn path_at_start(&self, node: NodeId) -> Option<Vec<u8>> {
        let mut at = self.node(node).first?;
        let mut names = Vec::new();
        while at != FirstId(0) {
            let parent = self.first(at).parent;
            let name = self.first(parent).children.iter().find(|(_, child)| **child == at)?.0;
            names.push(&**name);
            at = parent;
        }
        let names = names.iter().rev();
        let absolute: Vec<u8> = names.flat_map(|name| [b"/".as_slice(), name].concat()).collect();
        Some(if absolute.is_empty() { b"/".to_vec() } else { absolute })
    }

    /// Returns the path of a place now, from the root; `None`: the place is forgotten.
    pub fn path_now(&self, node: NodeId) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        for place in self.ancestors(node) {
            let siblings = &self.node(self.node(place).parent).children;
            names.push(&**siblings.iter().find(|(_, child)| **child == place)?.0);
        }
        Some(names.iter().rev().flat_map(|name| [b"/".as_slice(), name].concat()).collect())
    }

    /// Returns the entry that was at a path at the start, whatever has become of it: a directory,
    /// or a file, which is a new one if nothing was known of the place. `None`: the entry was of
    /// another kind, or there was none.
    pub fn initial_entry(&mut self, path: &[u8], kind: EntryKind) -> Option<EntryKind> {
        let mut at = FirstId(0);
        for part in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            if self.first(at).state == PlaceState::Absent {
                return None;
            }
            if matches!(
                self.first(at).state,
                PlaceState::Unasked | PlaceState::There(EntryKind::Any)
            ) {
                self.first_mut(at).state = PlaceState::There(EntryKind::Directory);
            }
            let known = self.first(at).children.get(part).copied();
            at = known.or_else(|| self.first_child(at, part))?;
        }
        match (self.first(at).state, kind) {
            (PlaceState::There(kind @ (EntryKind::File(_) | EntryKind::Directory)), _) => {
                Some(kind)
            }
            (PlaceState::Unasked | PlaceState::There(EntryKind::Any), kind) => {
                let thing = match kind {
                    EntryKind::Directory => kind,
                    _ => EntryKind::File(self.new_file(Size::THERE)),
                };
                self.first_mut(at).state = PlaceState::There(thing);
                Some(thing)
            }
            _ => None,
        }
    }
}
