//! Initial files, and names of files, as a plan stores them.

use serde::{Deserialize, Serialize};

use super::limits::{self, FILES_MAX, PARTS_MAX};
use crate::replay::plan::hole_map::KnownRegion;

/// Payload of a FILES frame.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FilesFrame(
    #[serde(deserialize_with = "limits::at_most::<_, _, FILES_MAX>")] pub(super) Vec<FileBefore>,
);

/// Payload of a NAMES frame.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NamesFrame(
    #[serde(deserialize_with = "limits::at_most::<_, _, FILES_MAX>")] pub(super) Vec<(u32, Vec<u8>)>,
);

/// Initial file: must exist before the first operation. Directories precede their entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBefore {
    /// Path from the root.
    pub path: Vec<u8>,
    /// Type of the file.
    pub kind: FileKind,
    /// Size of a file, or length of a link's target, in bytes.
    pub size: u64,
    /// Permissions, if known.
    pub mode: Option<u32>,
    /// True for a directory that contains more than the plan lists.
    pub has_more: bool,
    /// Index in this list of the file that this is a second name of.
    pub same_as: Option<u32>,
    /// Data and holes of a file, as far as known, in order.
    #[serde(deserialize_with = "limits::at_most::<_, _, PARTS_MAX>")]
    pub parts: Vec<KnownRegion>,
    /// Target of a link, if it is known where the link led.
    pub text: Option<Vec<u8>>,
}

impl FileBefore {
    /// Creates an entry of which only path and type are known.
    pub fn new(path: &[u8], kind: FileKind) -> Self {
        let (path, parts) = (path.to_vec(), Vec::new());
        let (size, mode, has_more, same_as, text) = Default::default();
        Self { path, kind, size, mode, has_more, same_as, parts, text }
    }
}

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
}
