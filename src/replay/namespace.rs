//! Which files and directories were there before the first operation: names as they are now, and as they were.
//!
//! ```text
//!   as it was (firsts)            now (nodes)
//!   /── a ── x                    /── b ── x ···► firsts: a/x
//!       (asked for: there)            └─ y  made by the program
//! ```
//!
//! What an operation finds says something about the start only where nobody has changed the name before: a file that is
//! opened was there, one that is not found was not. A node leads to what was at its place at the start, however often it
//! has been renamed since; where the program has made or removed something it leads nowhere.

mod contents;
mod entries;
mod forget;
mod inodes;
mod known;
mod links;

use std::ops::Range;
use std::rc::Rc;

use rustc_hash::FxHashMap;

pub use self::entries::{Entry, Gap};
use self::forget::{Numbers, key};
use self::inodes::Inodes;
pub use self::inodes::Shown;
use super::hole_map::{Kind, Layout, Part};
use super::initial_size::Size;

/// A place in the tree of names as they are now. Dense from 0, which is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// Numbers of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Its own.
    pub place: u64,
    /// That of the directory that it is in.
    pub within: u64,
}

/// A place in the tree of names as they were. Dense from 0, which is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct FirstId(u32);

/// A file, whatever its names are. Dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Something; nothing has shown what.
    Any,
    /// A directory.
    Directory,
    /// A regular file.
    File(FileId),
    /// A symbolic link, which contains so many bytes; 0: not known how many.
    Link(u64),
}

/// What is known of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has asked.
    Unasked,
    /// Nothing is there.
    Absent,
    /// This is there.
    There(EntryKind),
}

impl State {
    /// The file that is there.
    fn file(self) -> Option<FileId> {
        match self {
            Self::There(EntryKind::File(file)) => Some(file),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Node {
    parent: NodeId,
    /// A number that the place has, also if it is forgotten and comes again.
    key: u64,
    /// A number for what is there, from which those of the places in it come: it goes where that goes.
    inside: u64,
    children: FxHashMap<Box<[u8]>, NodeId>,
    now: State,
    /// What was at its place at the start; `None`: it has come about since.
    first: Option<FirstId>,
    /// What a link contains, if that is known.
    text: Option<Rc<[u8]>>,
}

#[derive(Debug)]
struct InitialEntry {
    parent: FirstId,
    children: FxHashMap<Box<[u8]>, FirstId>,
    state: State,
    /// A number for its path.
    key: u64,
    /// What is at its place now is something else, or nothing, which is not kept.
    is_gone: bool,
    /// Something in it was asked for that is not kept.
    was_asked: bool,
    /// Permissions, if something has shown them.
    mode: Option<u32>,
    /// It may be executed by somebody.
    is_executable: bool,
    /// It is not empty, whatever is asked for in it.
    has_more: bool,
    /// It may have been made by an open that makes what is not there: only its contents can tell.
    perhaps: bool,
    /// What a link contains, if that is known.
    text: Option<Rc<[u8]>>,
}

/// The names.
#[derive(Debug)]
pub struct FsModel {
    nodes: Vec<Node>,
    firsts: Vec<InitialEntry>,
    sizes: FxHashMap<FileId, Size>,
    /// Of files that somebody has asked where they have data.
    layouts: FxHashMap<FileId, Layout>,
    inodes: Inodes,
    /// How many files there have been.
    files: u32,
    /// Places that may be used again.
    spare_nodes: Vec<NodeId>,
    spare_firsts: Vec<FirstId>,
    /// What is forgotten of names that were absent, and of those that may be directories.
    absent: Numbers,
    asked: Numbers,
    /// Operations that found something else than those before them had left.
    pub unexplained: u64,
}

impl Default for FsModel {
    fn default() -> Self {
        let root = Node {
            parent: NodeId(0),
            key: 0,
            inside: 0,
            children: FxHashMap::default(),
            now: State::There(EntryKind::Directory),
            first: Some(FirstId(0)),
            text: None,
        };
        let mut first = InitialEntry::new(FirstId(0), 0);
        first.state = State::There(EntryKind::Directory);
        Self {
            nodes: vec![root],
            firsts: vec![first],
            sizes: FxHashMap::default(),
            layouts: FxHashMap::default(),
            inodes: Inodes::default(),
            files: 0,
            spare_nodes: Vec::new(),
            spare_firsts: Vec::new(),
            absent: Numbers::default(),
            asked: Numbers::default(),
            unexplained: 0,
        }
    }
}

impl InitialEntry {
    fn new(parent: FirstId, key: u64) -> Self {
        Self {
            parent,
            children: FxHashMap::default(),
            state: State::Unasked,
            key,
            is_gone: false,
            was_asked: false,
            mode: None,
            is_executable: false,
            has_more: false,
            perhaps: false,
            text: None,
        }
    }
}

impl FsModel {
    /// A path was followed, to its end or until something was not there: what `.` and `..` stood in are directories, if they were there.
    pub fn passed(&mut self, path: &[u8], to_its_end: bool) {
        let mut at = NodeId(0);
        for part in path.split(|it| *it == b'/') {
            at = self.behind(at, &mut Vec::new());
            at = match part {
                b"" => at,
                b"." | b".." => {
                    if at != NodeId(0) && (to_its_end || self.thing(at) == Some(EntryKind::Any)) {
                        self.was_there(at, EntryKind::Directory);
                    }
                    if part == b"." { at } else { self.node(at).parent }
                }
                name => self.child(at, name),
            };
        }
    }

    /// The directories that lead to a place, the root left out, and the place itself, from the inside to the outside.
    pub fn way(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(node), |&it| Some(self.node(it).parent))
            .take_while(|it| *it != NodeId(0))
    }

    /// Numbers of a place and of the directory that it is in: the same whenever these operations are seen, whatever was forgotten meanwhile. (Two
    /// places may have one number where directories were renamed.)
    pub fn keys(&self, node: NodeId) -> Keys {
        let it = self.node(node);
        Keys { place: it.key, within: self.node(it.parent).inside }
    }

    /// The number of the directory that is there.
    pub fn inside(&self, node: NodeId) -> u64 {
        self.node(node).inside
    }

    /// The places in it that anybody has asked for.
    pub fn within(&self, node: NodeId) -> Vec<NodeId> {
        let mut all: Vec<NodeId> = self.node(node).children.values().copied().collect();
        all.sort_unstable();
        all
    }

    /// What is there, as far as known.
    pub fn thing(&self, node: NodeId) -> Option<EntryKind> {
        match self.node(node).now {
            State::There(it) => Some(it),
            _ => None,
        }
    }

    /// True if nothing is there, for all that is known.
    pub fn is_absent(&self, node: NodeId) -> bool {
        self.way(node).any(|it| self.node(it).now == State::Absent)
    }

    /// The same, and no link on the way there can lead to another place.
    pub fn is_known_absent(&self, node: NodeId) -> bool {
        let is_link = |it| matches!(self.thing(it), Some(EntryKind::Link(_)));
        self.is_absent(node) && !self.way(node).any(is_link)
    }

    /// True if nobody has asked for it.
    pub fn is_unasked(&self, node: NodeId) -> bool {
        self.node(node).now == State::Unasked && !self.is_absent(node)
    }

    /// Something was found there.
    pub fn was_there(&mut self, node: NodeId, kind: EntryKind) {
        if self.thing(node).is_none() {
            self.leads_to_parent(node);
        }
        let now = match self.node(node).now {
            State::Unasked => kind,
            State::There(EntryKind::Any) => kind,
            State::There(EntryKind::Link(0)) if matches!(kind, EntryKind::Link(_)) => kind,
            State::There(it) => return self.agrees(it, kind),
            State::Absent => {
                self.unexplained += 1;
                return;
            }
        };
        self.set(node, State::There(now));
    }

    /// The file that was found there; made known if nothing was known of it.
    pub fn file_there(&mut self, node: NodeId) -> Option<FileId> {
        match self.node(node).now {
            State::There(EntryKind::File(file)) => return Some(file),
            State::Unasked | State::There(EntryKind::Any) => {}
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

    /// A file that was opened in a way that makes what is not there, and nobody had asked before: it was there if it shows
    /// contents that the program has not put there.
    pub fn perhaps_made(&mut self, node: NodeId) -> FileId {
        let file = self.new_file(Size::THERE);
        if let Some(first) = self.node(node).first {
            self.first_mut(first).perhaps = true;
        }
        self.was_there(node, EntryKind::File(file));
        file
    }

    /// Nothing was found there, or on the way to it; `follows`: or behind it, if it is a link.
    pub fn was_absent(&mut self, node: NodeId, follows: bool) {
        match self.node(node).now {
            _ if self.is_absent(node) => {}
            State::Unasked => self.set(node, State::Absent),
            State::There(EntryKind::Link(_)) if follows => {}
            _ => self.unexplained += 1,
        }
    }

    /// The program has made something there.
    pub fn made(&mut self, node: NodeId, thing: EntryKind) {
        self.leads_to_parent(node);
        match self.node(node).now {
            State::Unasked => self.set(node, State::Absent),
            State::There(_) => self.unexplained += 1,
            State::Absent => {}
        }
        self.clear(node);
        self.put(node, State::There(thing));
    }

    /// A file that has been made, of no name or of this one.
    pub fn made_file(&mut self, node: Option<NodeId>) -> FileId {
        let file = self.new_file(Size::MADE);
        if let Some(node) = node {
            self.made(node, EntryKind::File(file));
        }
        file
    }

    /// The program has removed what was there.
    pub fn removed(&mut self, node: NodeId, kind: EntryKind) {
        self.was_there(node, kind);
        self.clear(node);
        self.put(node, State::Absent);
    }

    /// What was at the first place is at the second now, and the other way round if they were exchanged.
    pub fn renamed(&mut self, from: NodeId, to: NodeId, exchanged: bool) {
        self.was_there(from, EntryKind::Any);
        self.leads_to_parent(to);
        // Two names of the same file both stay (rename(2)).
        let of_one = matches!(self.thing(from), Some(EntryKind::File(_)));
        let is_same = of_one && self.thing(from) == self.thing(to);
        if from == to || is_same || self.way(to).any(|it| it == from) {
            return;
        }
        if exchanged {
            self.was_there(to, EntryKind::Any);
        } else if self.node(to).now == State::Unasked {
            self.set(to, State::Absent);
        }
        self.swap(from, to);
        if !exchanged {
            self.clear(from);
            self.put(from, State::Absent);
        }
    }

    /// A second name for what is at the first place.
    pub fn linked(&mut self, from: NodeId, to: NodeId) {
        let file = self.file_there(from);
        let thing =
            file.map(EntryKind::File).or_else(|| self.thing(from)).unwrap_or(EntryKind::Any);
        self.made(to, thing);
        self.node_mut(to).text = self.node(from).text.clone();
    }

    /// Permissions of what is there.
    pub fn has_mode(&mut self, node: NodeId, mode: u32) {
        if let Some(first) = self.node(node).first {
            self.first_mut(first).mode.get_or_insert(mode);
        }
    }

    /// Somebody may execute what is there.
    pub fn is_executable(&mut self, node: NodeId) {
        if let Some(first) = self.node(node).first {
            self.first_mut(first).is_executable = true;
        }
    }

    /// What is known of a file's length.
    pub fn size(&self, file: FileId) -> &Size {
        &self.sizes[&file]
    }

    /// The same, to learn more.
    pub fn size_mut(&mut self, file: FileId) -> &mut Size {
        self.sizes.get_mut(&file).expect("it has a name, or somebody has it open")
    }

    /// Somebody was told that a part of a file is so; it was so at the start if nobody has changed it.
    pub fn has_part(&mut self, file: FileId, range: Range<u64>, kind: Kind) {
        for it in self.sizes[&file].of_start(range) {
            self.layouts.entry(file).or_default().learn(it, kind);
        }
    }

    /// Where a file had data and holes, as far as known.
    pub fn parts(&self, file: FileId) -> impl Iterator<Item = Part> {
        let bytes = self.size(file).first();
        self.layouts.get(&file).into_iter().flat_map(move |it| it.parts(bytes))
    }

    fn child(&mut self, at: NodeId, name: &[u8]) -> NodeId {
        if let Some(child) = self.node(at).children.get(name) {
            return *child;
        }
        let first = self.node(at).first.and_then(|it| self.first_child(it, name));
        // What the program has made is empty until it puts something in.
        let now = first.map_or(State::Absent, |it| self.first(it).state);
        let text = first.and_then(|it| self.first(it).text.clone());
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

    /// What was there at the start; `None`: nothing of that is there now.
    fn first_child(&mut self, at: FirstId, name: &[u8]) -> Option<FirstId> {
        if let Some(child) = self.first(at).children.get(name) {
            return (!self.first(*child).is_gone).then_some(*child);
        }
        let key = key(self.first(at).key, name);
        if self.absent.has(key) {
            return None;
        }
        let first = InitialEntry { was_asked: self.asked.has(key), ..InitialEntry::new(at, key) };
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

    fn new_file(&mut self, size: Size) -> FileId {
        let id = FileId(self.files);
        self.files = self.files.checked_add(1).expect("fewer files than bytes");
        self.sizes.insert(id, size);
        id
    }

    /// Something is there, so what leads to it are directories.
    fn leads_to_parent(&mut self, node: NodeId) {
        let above: Vec<NodeId> = self.way(node).skip(1).collect();
        for it in above {
            match self.node(it).now {
                State::There(EntryKind::Directory) => break,
                State::Unasked | State::There(EntryKind::Any) => {
                    self.set(it, State::There(EntryKind::Directory));
                }
                // Nothing had shown what it was when it was opened.
                State::There(EntryKind::File(_)) if self.node(it).first.is_some() => {
                    self.set(it, State::There(EntryKind::Directory));
                }
                // A link may lead to one.
                State::There(EntryKind::Link(_)) => {}
                _ => self.unexplained += 1,
            }
        }
    }

    /// It is so, and was so at the start, if nobody has changed it.
    fn set(&mut self, node: NodeId, state: State) {
        self.put(node, state);
        if let Some(first) = self.node(node).first {
            self.explains_contents(first, state);
            self.first_mut(first).state = state;
        }
    }

    /// What is here now is not what was here at the start.
    fn clear(&mut self, node: NodeId) {
        let node = self.node_mut(node);
        (node.first, node.text, node.inside) = (None, None, node.key);
        node.children.clear();
    }

    fn swap(&mut self, one: NodeId, other: NodeId) {
        let take = |it: &mut Node| {
            (std::mem::take(&mut it.children), it.now, (it.first.take(), it.text.take(), it.inside))
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

    /// What is known already, against what was found now.
    fn agrees(&mut self, known: EntryKind, found: EntryKind) {
        use EntryKind::{Any, Directory, File, Link};
        let is_same = match (known, found) {
            (_, Any) | (Directory, Directory) | (Link(_), _) => true,
            (File(known), File(found)) => known == found,
            _ => false,
        };
        self.unexplained += u64::from(!is_same);
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    fn first(&self, id: FirstId) -> &InitialEntry {
        &self.firsts[id.0 as usize]
    }

    fn first_mut(&mut self, id: FirstId) -> &mut InitialEntry {
        &mut self.firsts[id.0 as usize]
    }
}

#[cfg(test)]
mod tests;
