//! Model of all names and files, and the effects of operations on it.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::forgotten_numbers::{ForgottenNumbers, key};
use super::inode_table::Inodes;
use super::model::{EntryKind, FileId, FirstId, InitialEntry, Node, NodeId, PlaceKeys, PlaceState};
use crate::replay::plan::hole_map::{HoleMap, KnownRegion, RegionKind};
use crate::replay::plan::initial_size::Size;

/// Model of all names and files.
#[derive(Debug)]
pub struct FsModel {
    pub(super) nodes: Vec<Node>,
    pub(super) firsts: Vec<InitialEntry>,
    pub(super) sizes: FxHashMap<FileId, Size>,
    /// Layouts of files in which operations have sought data or holes.
    pub(super) layouts: FxHashMap<FileId, HoleMap>,
    pub(super) inodes: Inodes,
    /// Number of files so far.
    pub(super) files: u32,
    /// Places that can be reused.
    pub(super) spare_nodes: Vec<NodeId>,
    pub(super) spare_firsts: Vec<FirstId>,
    /// Forgotten names that were absent at the start.
    pub(super) absent: ForgottenNumbers,
    /// Forgotten names that may be directories.
    pub(super) maybe_directories: ForgottenNumbers,
    /// Number of operations that found something else than earlier operations had left.
    pub unexplained: u64,
}

impl Default for FsModel {
    fn default() -> Self {
        let root = Node {
            parent: NodeId(0),
            key: 0,
            inside: 0,
            children: FxHashMap::default(),
            now: PlaceState::There(EntryKind::Directory),
            first: Some(FirstId(0)),
            text: None,
        };
        let mut first = InitialEntry::new(FirstId(0), 0);
        first.state = PlaceState::There(EntryKind::Directory);
        Self {
            nodes: vec![root],
            firsts: vec![first],
            sizes: FxHashMap::default(),
            layouts: FxHashMap::default(),
            inodes: Inodes::default(),
            files: 0,
            spare_nodes: Vec::new(),
            spare_firsts: Vec::new(),
            absent: ForgottenNumbers::default(),
            maybe_directories: ForgottenNumbers::default(),
            unexplained: 0,
        }
    }
}

impl FsModel {
    /// Records that a path was followed, to its end or until an entry was missing. Entries inside
    /// which `.` and `..` were looked up are directories, if they were there.
    pub fn record_traversed_path(&mut self, path: &[u8], to_its_end: bool) {
        let mut at = NodeId(0);
        for part in path.split(|byte| *byte == b'/') {
            at = self.link_target(at, &mut Vec::new());
            at = match part {
                b"" => at,
                b"." | b".." => {
                    if at != NodeId(0)
                        && (to_its_end || self.entry_kind(at) == Some(EntryKind::Any))
                    {
                        self.was_there(at, EntryKind::Directory);
                    }
                    if part == b"." { at } else { self.node(at).parent }
                }
                name => self.child(at, name),
            };
        }
    }

    /// Returns a place and the directories that lead to it, without the root, from the inside to
    /// the outside.
    pub fn ancestors(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(node), |&place| Some(self.node(place).parent))
            .take_while(|place| *place != NodeId(0))
    }

    /// Returns the keys of a place and of the directory that contains it. They are the same
    /// whenever the same operations are processed, whatever was forgotten meanwhile. (Two places
    /// may have the same key where directories were renamed.)
    pub fn keys(&self, node: NodeId) -> PlaceKeys {
        let node = self.node(node);
        PlaceKeys { place: node.key, within: self.node(node.parent).inside }
    }

    /// Returns the number of the directory that is there.
    pub fn inside(&self, node: NodeId) -> u64 {
        self.node(node).inside
    }

    /// Returns the places inside a directory that operations have looked up.
    pub fn within(&self, node: NodeId) -> Vec<NodeId> {
        let mut all: Vec<NodeId> = self.node(node).children.values().copied().collect();
        all.sort_unstable();
        all
    }

    /// Returns the kind of the entry that is there, as far as known.
    pub fn entry_kind(&self, node: NodeId) -> Option<EntryKind> {
        match self.node(node).now {
            PlaceState::There(kind) => Some(kind),
            _ => None,
        }
    }

    /// Returns true if no entry is there, as far as known.
    pub fn is_absent(&self, node: NodeId) -> bool {
        self.ancestors(node).any(|place| self.node(place).now == PlaceState::Absent)
    }

    /// Returns true if no entry is there, and no link on the way can lead to another place.
    pub fn is_known_absent(&self, node: NodeId) -> bool {
        let is_link = |place| matches!(self.entry_kind(place), Some(EntryKind::Link(_)));
        self.is_absent(node) && !self.ancestors(node).any(is_link)
    }

    /// Returns true if no operation has looked up the place.
    pub fn is_unasked(&self, node: NodeId) -> bool {
        self.node(node).now == PlaceState::Unasked && !self.is_absent(node)
    }

    /// Records that an operation found an entry there.
    pub fn was_there(&mut self, node: NodeId, kind: EntryKind) {
        if self.entry_kind(node).is_none() {
            self.leads_to_parent(node);
        }
        let now = match self.node(node).now {
            PlaceState::Unasked => kind,
            PlaceState::There(EntryKind::Any) => kind,
            PlaceState::There(EntryKind::Link(0)) if matches!(kind, EntryKind::Link(_)) => kind,
            PlaceState::There(known) => return self.agrees(known, kind),
            PlaceState::Absent => {
                self.unexplained += 1;
                return;
            }
        };
        self.set(node, PlaceState::There(now));
    }

    /// Returns the file that an operation found there; a new one if nothing was known of the place.
    pub fn file_there(&mut self, node: NodeId) -> Option<FileId> {
        match self.node(node).now {
            PlaceState::There(EntryKind::File(file)) => return Some(file),
            PlaceState::Unasked | PlaceState::There(EntryKind::Any) => {}
            _ => {
                self.was_there(node, EntryKind::Any);
                return None;
            }
        }
        let made = self.node(node).first.is_none();
        let file = self.new_file(if made { Size::MADE } else { Size::THERE });
        self.was_there(node, EntryKind::File(file));
        Some(file)
    }

    /// Returns a file that was opened in a way that creates missing files, where no operation had
    /// looked before. The file was there if it shows contents that the program has not written.
    pub fn perhaps_made(&mut self, node: NodeId) -> FileId {
        let file = self.new_file(Size::THERE);
        if let Some(first) = self.node(node).first {
            self.first_mut(first).perhaps = true;
        }
        self.was_there(node, EntryKind::File(file));
        file
    }

    /// Records that an operation found no entry there, or none on the way. `follows`: or none where
    /// a link leads that is there.
    pub fn was_absent(&mut self, node: NodeId, follows: bool) {
        match self.node(node).now {
            _ if self.is_absent(node) => {}
            PlaceState::Unasked => self.set(node, PlaceState::Absent),
            PlaceState::There(EntryKind::Link(_)) if follows => {}
            _ => self.unexplained += 1,
        }
    }

    /// Records that the program has made an entry there.
    pub fn create_entry(&mut self, node: NodeId, kind: EntryKind) {
        self.leads_to_parent(node);
        match self.node(node).now {
            PlaceState::Unasked => self.set(node, PlaceState::Absent),
            PlaceState::There(_) => self.unexplained += 1,
            PlaceState::Absent => {}
        }
        self.clear(node);
        self.put(node, PlaceState::There(kind));
    }

    /// Returns a file that the program has made, with this name or without one.
    pub fn create_file(&mut self, node: Option<NodeId>) -> FileId {
        let file = self.new_file(Size::MADE);
        if let Some(node) = node {
            self.create_entry(node, EntryKind::File(file));
        }
        file
    }

    /// Records that the program has removed the entry that was there.
    pub fn removed(&mut self, node: NodeId, kind: EntryKind) {
        self.was_there(node, kind);
        self.clear(node);
        self.put(node, PlaceState::Absent);
    }

    /// Records a rename: the entry of the first place is at the second one now, and the other way
    /// round if they were exchanged.
    pub fn renamed(&mut self, from: NodeId, to: NodeId, exchanged: bool) {
        self.was_there(from, EntryKind::Any);
        self.leads_to_parent(to);
        // Two names of the same file both stay (rename(2)).
        let of_one = matches!(self.entry_kind(from), Some(EntryKind::File(_)));
        let is_same = of_one && self.entry_kind(from) == self.entry_kind(to);
        if from == to || is_same || self.ancestors(to).any(|place| place == from) {
            return;
        }
        if exchanged {
            self.was_there(to, EntryKind::Any);
        } else if self.node(to).now == PlaceState::Unasked {
            self.set(to, PlaceState::Absent);
        }
        self.swap(from, to);
        if !exchanged {
            self.clear(from);
            self.put(from, PlaceState::Absent);
        }
    }

    /// Records a second name for the entry at the first place.
    pub fn linked(&mut self, from: NodeId, to: NodeId) {
        let file = self.file_there(from);
        let kind =
            file.map(EntryKind::File).or_else(|| self.entry_kind(from)).unwrap_or(EntryKind::Any);
        self.create_entry(to, kind);
        self.node_mut(to).text = self.node(from).text.clone();
    }

    /// Records the permissions of the entry that is there.
    pub fn has_mode(&mut self, node: NodeId, mode: u32) {
        if let Some(first) = self.node(node).first {
            self.first_mut(first).mode.get_or_insert(mode);
        }
    }

    /// Records that some user may execute the entry that is there.
    pub fn is_executable(&mut self, node: NodeId) {
        if let Some(first) = self.node(node).first {
            self.first_mut(first).is_executable = true;
        }
    }

    /// Returns the knowledge about a file's length.
    pub fn size(&self, file: FileId) -> &Size {
        &self.sizes[&file]
    }

    /// Returns the knowledge about a file's length, to be extended.
    pub fn size_mut(&mut self, file: FileId) -> &mut Size {
        self.sizes.get_mut(&file).expect("it has a name or a descriptor")
    }

    /// Records the kind of a part of a file. It was so at the start if the program has not changed
    /// the part.
    pub fn has_part(&mut self, file: FileId, range: Range<u64>, kind: RegionKind) {
        for part in self.sizes[&file].of_start(range) {
            self.layouts.entry(file).or_default().learn(part, kind);
        }
    }

    /// Returns the data and holes of a file at the start, as far as known.
    pub fn parts(&self, file: FileId) -> impl Iterator<Item = KnownRegion> {
        let bytes = self.size(file).first();
        self.layouts.get(&file).into_iter().flat_map(move |layout| layout.parts(bytes))
    }

    pub(super) fn child(&mut self, at: NodeId, name: &[u8]) -> NodeId {
        if let Some(child) = self.node(at).children.get(name) {
            return *child;
        }
        let first = self.node(at).first.and_then(|first| self.first_child(first, name));
        // A directory that the program has made is empty until the program makes something inside.
        let now = first.map_or(PlaceState::Absent, |first| self.first(first).state);
        let text = first.and_then(|first| self.first(first).text.clone());
        let key = key(self.node(at).inside, name);
        let children = FxHashMap::default();
        let node = Node { parent: at, key, inside: key, children, now, first, text };
        let id = match self.spare_nodes.pop() {
            Some(id) => {
                *self.node_mut(id) = node;
                id
            }
            None => {
                let id = NodeId(u32::try_from(self.nodes.len()).expect("fewer names than bytes"));
                self.nodes.push(node);
                id
            }
        };
        self.node_mut(at).children.insert(name.into(), id);
        id
    }

    /// Returns the entry that was there at the start; `None`: it is not there now.
    pub(super) fn first_child(&mut self, at: FirstId, name: &[u8]) -> Option<FirstId> {
        if let Some(child) = self.first(at).children.get(name) {
            return (!self.first(*child).is_gone).then_some(*child);
        }
        let key = key(self.first(at).key, name);
        if self.absent.has(key) {
            return None;
        }
        let first = InitialEntry {
            had_lookups: self.maybe_directories.has(key),
            ..InitialEntry::new(at, key)
        };
        let id = match self.spare_firsts.pop() {
            Some(id) => {
                *self.first_mut(id) = first;
                id
            }
            None => {
                let id = FirstId(u32::try_from(self.firsts.len()).expect("fewer names than bytes"));
                self.firsts.push(first);
                id
            }
        };
        self.first_mut(at).children.insert(name.into(), id);
        Some(id)
    }

    pub(super) fn new_file(&mut self, size: Size) -> FileId {
        let id = FileId(self.files);
        self.files = self.files.checked_add(1).expect("fewer files than bytes");
        self.sizes.insert(id, size);
        id
    }

    /// Records that the way to an entry consists of directories.
    fn leads_to_parent(&mut self, node: NodeId) {
        let above: Vec<NodeId> = self.ancestors(node).skip(1).collect();
        for place in above {
            match self.node(place).now {
                PlaceState::There(EntryKind::Directory) => break,
                PlaceState::Unasked | PlaceState::There(EntryKind::Any) => {
                    self.set(place, PlaceState::There(EntryKind::Directory));
                }
                // The kind of the entry was unknown when the entry was opened.
                PlaceState::There(EntryKind::File(_)) if self.node(place).first.is_some() => {
                    self.set(place, PlaceState::There(EntryKind::Directory));
                }
                // A link may lead to a directory.
                PlaceState::There(EntryKind::Link(_)) => {}
                _ => self.unexplained += 1,
            }
        }
    }

    /// Sets the state of a place, now and, if the program has not changed the place, at the start.
    pub(super) fn set(&mut self, node: NodeId, state: PlaceState) {
        self.put(node, state);
        if let Some(first) = self.node(node).first {
            self.explains_contents(first, state);
            self.first_mut(first).state = state;
        }
    }

    /// Separates a place from its initial entry: something else is there now.
    pub(super) fn clear(&mut self, node: NodeId) {
        let node = self.node_mut(node);
        (node.first, node.text, node.inside) = (None, None, node.key);
        node.children.clear();
    }

    fn swap(&mut self, one: NodeId, other: NodeId) {
        let take = |node: &mut Node| {
            let moved = (node.first.take(), node.text.take(), node.inside);
            (std::mem::take(&mut node.children), node.now, moved)
        };
        let of_one = take(self.node_mut(one));
        let of_other = take(self.node_mut(other));
        for (at, (children, now, (first, text, inside))) in [(one, of_other), (other, of_one)] {
            for child in children.values() {
                self.node_mut(*child).parent = at;
            }
            let node = self.node_mut(at);
            (node.children, node.now) = (children, now);
            (node.first, node.text, node.inside) = (first, text, inside);
        }
    }

    /// Counts a contradiction between the known kind and the one found now.
    fn agrees(&mut self, known: EntryKind, found: EntryKind) {
        use EntryKind::{Any, Directory, File, Link};
        let is_same = match (known, found) {
            (_, Any) | (Directory, Directory) | (Link(_), _) => true,
            (File(known), File(found)) => known == found,
            _ => false,
        };
        self.unexplained += u64::from(!is_same);
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    pub(super) fn first(&self, id: FirstId) -> &InitialEntry {
        &self.firsts[id.0 as usize]
    }

    pub(super) fn first_mut(&mut self, id: FirstId) -> &mut InitialEntry {
        &mut self.firsts[id.0 as usize]
    }
}
