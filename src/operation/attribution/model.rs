//! Types of attribution: contents of sectors, pieces of requests, and circumstances of a lookup.

use std::sync::Arc;

use super::extents::FileKey;
use super::writers::LastWriter;
use crate::anomaly::Link;
use crate::block::EventContext;
use crate::event::block::DevicePosition;
use crate::operation::model::{OpenFile, ProcessKey};
use crate::units::{KernelTime, SECTOR_BYTES};

/// Contents of a range of sectors.
#[derive(Clone, Debug)]
pub enum BlockContents {
    /// A part of a file.
    File {
        /// The file.
        key: FileKey,
        /// Offset in the file, in bytes; `None`: not known.
        offset: Option<u64>,
        /// The file as it was last opened, if that was seen, with its name at the time when the
        /// request is queued.
        file: Option<Arc<OpenFile>>,
        /// Certainty of the attribution.
        link: Link,
    },
    /// The journal of the file system, or what it writes to its place before a commit.
    Journal,
    /// The file system's own data.
    Metadata,
    /// No contents: a flush, or a discard of sectors that belong to nothing.
    Nothing,
    /// Not known.
    Unknown,
}

impl BlockContents {
    /// Returns the word for the kind of contents.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::Journal => "journal",
            Self::Metadata => "metadata",
            Self::Nothing => "nothing",
            Self::Unknown => "unknown",
        }
    }

    /// Returns true if `other` is the contents `nr_sector` sectors further on.
    pub(super) fn continues_at(&self, nr_sector: u64, other: &Self) -> bool {
        match (self.further(nr_sector), other) {
            (
                Self::File { key, offset, link, .. },
                Self::File { key: key2, offset: offset2, link: link2, .. },
            ) => (key, offset, link) == (*key2, *offset2, *link2),
            (first, second) => first.as_str() == second.as_str(),
        }
    }

    /// Returns these contents `nr_sector` sectors further on.
    pub(super) fn further(&self, nr_sector: u64) -> Self {
        match self {
            Self::File { key, offset: Some(offset), file, link } => {
                let offset = Some(offset.saturating_add(nr_sector.saturating_mul(SECTOR_BYTES)));
                Self::File { key: *key, offset, file: file.clone(), link: *link }
            }
            other => other.clone(),
        }
    }

    /// Returns the certainty of the attribution.
    pub fn link(&self) -> Link {
        match self {
            Self::File { link, .. } => *link,
            Self::Journal | Self::Metadata | Self::Nothing => Link::Exact,
            Self::Unknown => Link::Unknown,
        }
    }
}

/// A piece of a request: from one bio, of one file.
#[derive(Clone, Debug)]
pub struct Piece {
    /// First sector on the request's device.
    pub sector: u64,
    /// Length in sectors.
    pub nr_sector: u64,
    /// Submitter of its bio, and the time of queueing.
    pub queued: EventContext,
    /// Devices above, the nearest first.
    pub levels: Arc<[DevicePosition]>,
    /// Contents of its sectors.
    pub contents: BlockContents,
    /// Locations on the loop device whose backing file the contents are, if there is one, with
    /// their contents, the nearest first.
    pub above: Vec<StackedLocation>,
    /// True if the piece may belong to another program. Its bio was queued by a kernel thread, by a
    /// thread that is not followed, or by one that writes back data without a known recorded write.
    pub for_others: bool,
    /// Last writers of these bytes, if another thread writes them back.
    pub writers: Vec<LastWriter>,
}

impl Piece {
    /// Returns the certainty of the requesting program; `None`: there is none, the piece is the
    /// kernel's own.
    pub fn program(&self) -> Option<Link> {
        let is_own = matches!(
            self.contents,
            BlockContents::Journal | BlockContents::Metadata | BlockContents::Nothing
        );
        match (self.for_others, self.writers.as_slice()) {
            (_, [_, ..]) => Some(Link::Inferred),
            (false, []) => Some(Link::Exact),
            (true, []) if is_own => None,
            (true, []) => Some(Link::Unknown),
        }
    }
}

/// Location on a device that is stored in a file, and its contents.
#[derive(Clone, Debug)]
pub struct StackedLocation {
    /// Sector on the device: on a partition of it, if there is one.
    pub place: DevicePosition,
    /// Contents of the sectors.
    pub contents: BlockContents,
}

/// State of the thread that queues a bio.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubmitContext<'a> {
    /// File of the system call that the thread is inside.
    pub file: Option<&'a Arc<OpenFile>>,
    /// True for a kernel thread, or a thread that is not followed.
    pub for_others: bool,
    /// The process, if the data that it writes now was in memory before, so that other processes
    /// may have written it there. The process is inside a call that is not a write (`sync`,
    /// `fsync`, but also a `close`, by which ext4 writes out a file that has replaced another), or
    /// inside none that is recorded (an `ioctl` that clones or maps a file, a `chmod` by which an
    /// overlay copies it, the end of the process).
    pub brings: Option<ProcessKey>,
}

impl SubmitContext<'_> {
    pub(super) fn was_in_memory(&self) -> bool {
        self.for_others || self.brings.is_some()
    }
}

/// Time and purpose of a lookup of contents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    /// Time of the lookup.
    pub(super) at: KernelTime,
    /// True if the request writes data that was in memory before.
    pub(super) was_in_memory: bool,
}
