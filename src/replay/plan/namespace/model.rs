//! Places, entries and files of the namespace.

use std::rc::Rc;

use rustc_hash::FxHashMap;

/// Place in the tree of names as they are now. Dense from 0, which is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// Places to which the paths of an operation lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpNodes {
    /// Place of the first path; `None`: the operation has no path, or its place is unknown.
    pub first: Option<NodeId>,
    /// Place of the second path.
    pub second: Option<NodeId>,
}

/// Keys of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceKeys {
    /// Key of the place itself.
    pub place: u64,
    /// Key of the directory that contains the place.
    pub within: u64,
}

/// Place in the tree of names as they were. Dense from 0, which is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FirstId(pub(super) u32);

/// File, whatever its names are. Dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Kind of the entry at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// An entry of unknown kind.
    Any,
    /// A directory.
    Directory,
    /// A regular file.
    File(FileId),
    /// A symbolic link whose text has this many bytes; 0: the length is unknown.
    Link(u64),
}

/// Knowledge about a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceState {
    /// No operation has looked it up.
    Unasked,
    /// No entry is there.
    Absent,
    /// Entry of this kind.
    There(EntryKind),
}

impl PlaceState {
    /// Returns the file that is there.
    pub(super) fn file(self) -> Option<FileId> {
        match self {
            Self::There(EntryKind::File(file)) => Some(file),
            _ => None,
        }
    }
}

/// Place of a name now.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: NodeId,
    /// Number of the place. It is the same if the place is forgotten and comes again.
    pub(super) key: u64,
    /// Number of the entry that is there, from which the numbers of places inside the entry derive.
    /// The number moves with the entry.
    pub(super) inside: u64,
    pub(super) children: FxHashMap<Box<[u8]>, NodeId>,
    pub(super) now: PlaceState,
    /// Initial entry of what is there; `None`: that has come about since.
    pub(super) first: Option<FirstId>,
    /// Text of a link, if known.
    pub(super) text: Option<Rc<[u8]>>,
}

/// Place of a name at the start, and what is known of its entry.
#[derive(Debug)]
pub(super) struct InitialEntry {
    pub(super) parent: FirstId,
    pub(super) children: FxHashMap<Box<[u8]>, FirstId>,
    pub(super) state: PlaceState,
    /// Number of its path.
    pub(super) key: u64,
    /// The place now has another entry, or none, which is not kept.
    pub(super) is_gone: bool,
    /// A name inside it was looked up that is not kept.
    pub(super) had_lookups: bool,
    /// Permissions, if an operation has shown them.
    pub(super) mode: Option<u32>,
    /// Some user may execute it.
    pub(super) is_executable: bool,
    /// The entry is a directory that is not empty, whatever is looked up inside.
    pub(super) has_more: bool,
    /// The file may have been made by an open that creates missing files: only its contents show
    /// that.
    pub(super) perhaps: bool,
    /// Text of a link, if known.
    pub(super) text: Option<Rc<[u8]>>,
}

impl InitialEntry {
    pub(super) fn new(parent: FirstId, key: u64) -> Self {
        Self {
            parent,
            children: FxHashMap::default(),
            state: PlaceState::Unasked,
            key,
            is_gone: false,
            had_lookups: false,
            mode: None,
            is_executable: false,
            has_more: false,
            perhaps: false,
            text: None,
        }
    }
}
