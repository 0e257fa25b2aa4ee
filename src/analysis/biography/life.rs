//! Life of a file: its names, its events, and its bytes.

use super::written_bytes::{ByteFates, WrittenBytes};
use crate::analysis::completed_op::CompletedOp;
use crate::analysis::summary::file_key;
use crate::anomaly::Link;
use crate::event::syscall_table::CallClass;
use crate::operation::attribution::FileKey;
use crate::operation::model::ProcessKey;
use crate::units::{KernelTime, Pid};

/// Largest number of events of a life; later ones are counted.
const EVENTS_MAX: usize = 256;

/// Largest number of births and ends beyond that limit.
const BORDERS_MAX: usize = 16;

/// Kind of an event in the life of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LifeStep {
    /// Birth: the file was made.
    Born,
    /// The file was opened.
    Opened,
    /// Bytes were read.
    Read,
    /// Bytes were written.
    Written,
    /// The file was mapped into memory.
    Mapped,
    /// An open made the file, or emptied one that existed.
    BornOrTruncated,
    /// The file was cut off at, or extended to, a length.
    Truncated,
    /// Space was allocated or freed.
    Allocated,
    /// A process waited until its data was on the disk.
    Synced,
    /// A name was replaced by another one.
    Renamed,
    /// A further name was added.
    Linked,
    /// A name was removed, and others remain.
    Unlinked,
    /// The last known name was given to another file.
    Replaced,
    /// The last known name was removed.
    Removed,
}

impl LifeStep {
    /// Returns the word in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Born => "born",
            Self::Opened => "opened",
            Self::Read => "read",
            Self::Written => "written",
            Self::Mapped => "mapped",
            Self::BornOrTruncated => "born or truncated",
            Self::Truncated => "truncated",
            Self::Allocated => "allocated",
            Self::Synced => "synced",
            Self::Renamed => "renamed",
            Self::Linked => "linked",
            Self::Unlinked => "unlinked",
            Self::Replaced => "replaced",
            Self::Removed => "removed",
        }
    }

    /// Returns true for the begin and the end of a life.
    fn is_border(self) -> bool {
        matches!(self, Self::Born | Self::BornOrTruncated | Self::Removed | Self::Replaced)
    }

    /// Returns true for steps of which several by one process are one row.
    fn is_repeated(self) -> bool {
        use LifeStep::{Mapped, Opened, Read, Synced, Written};
        matches!(self, Opened | Read | Written | Mapped | Synced)
    }
}

/// Event in the life of a file, or several of the same kind by one process.
#[derive(Clone, Debug)]
pub struct LifeEvent {
    /// Kind of the event.
    pub what: LifeStep,
    /// Process whose call it was.
    pub process: ProcessKey,
    /// Number of that process.
    pub pid: Pid,
    /// Begin of the first call.
    pub first: KernelTime,
    /// End of the last call.
    pub last: KernelTime,
    /// Number of calls.
    pub count: u64,
    /// Bytes that they moved; of a truncation the new length.
    pub bytes: u64,
    /// Name of the file in that event ([`file_key`]).
    pub name: Option<Vec<u8>>,
    /// New name of a rename or link.
    pub new_name: Option<Vec<u8>>,
    /// Certainty of the event: a birth may be inferred from an earlier absence.
    pub link: Link,
}

/// Life of one file.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// Device and inode, if they are known.
    pub inode: Option<FileKey>,
    /// Names that it has now.
    pub names: Vec<Vec<u8>>,
    /// Last name that it had.
    pub last_name: Option<Vec<u8>>,
    /// Events in the order of their first calls' ends.
    pub events: Vec<LifeEvent>,
    /// Number of calls beyond the limit of events.
    pub more_events: u64,
    /// Bytes that were read.
    pub read: u64,
    /// Bytes that were written.
    pub written: u64,
    /// True if its last known name is gone.
    pub is_gone: bool,
    pub(super) is_chosen: bool,
    pub(super) bytes: WrittenBytes,
}

impl Life {
    /// Returns what became of the written bytes.
    pub fn fates(&self) -> ByteFates {
        self.bytes.fates(self.is_gone)
    }

    /// Returns the first event of a kind.
    pub fn first(&self, what: LifeStep) -> Option<&LifeEvent> {
        self.events.iter().find(|event| event.what == what)
    }

    fn has_more_borders(&self) -> bool {
        self.events.len() >= EVENTS_MAX + BORDERS_MAX
    }

    pub(super) fn add(&mut self, event: LifeEvent) {
        let since_change = self.events.iter_mut().rev().take_while(|of| of.what.is_repeated());
        let mut same =
            since_change.filter(|of| of.what == event.what && of.process == event.process);
        if event.what.is_repeated()
            && let Some(known) = same.next()
        {
            known.last = event.last;
            known.count += event.count;
            known.bytes = known.bytes.saturating_add(event.bytes);
        } else if self.events.len() < EVENTS_MAX
            || event.what.is_border() && !self.has_more_borders()
        {
            self.events.push(event);
        } else {
            self.more_events += 1;
        }
    }
}

/// Event of an operation, as an exact one.
pub(super) fn event_of(what: LifeStep, done: &CompletedOp<'_>) -> LifeEvent {
    LifeEvent {
        what,
        process: done.process,
        pid: done.pid,
        first: done.start,
        last: done.end,
        count: 1,
        bytes: 0,
        name: done.name.filter(|_| done.class == CallClass::Open).map(|name| file_key(&name)),
        new_name: None,
        link: Link::Exact,
    }
}
