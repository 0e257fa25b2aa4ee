//! Namespace: model of the files and directories before the first operation, with names as they are
//! now, and as they were.
//!
//! ```text
//!   as it was (firsts)            now (nodes)
//!   /── a ── x                    /── b ── x ···► firsts: a/x
//!       (looked up: there)            └─ y  made by the program
//! ```
//!
//! An operation shows something of the start only where no earlier operation has changed the name:
//! a file that is opened was there, a file that is not found was not. A node refers to the initial
//! entry of what is at its place now, however often that was renamed since. Where the program has
//! made or removed something, the node refers to none.

mod contents;
mod entries;
mod forget;
mod forgotten_numbers;
mod fs_model;
mod inode_table;
mod inodes;
mod known;
mod links;
mod model;

pub use self::entries::{Gap, ListedEntry};
pub use self::fs_model::FsModel;
pub use self::inode_table::ShownFile;
pub use self::model::{EntryKind, FileId, NodeId, OpNodes, PlaceKeys};

#[cfg(test)]
mod tests;
