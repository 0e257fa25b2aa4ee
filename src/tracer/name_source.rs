//! Sources of file names, best first.

use super::name_readers::PRIORITY;
use crate::event::syscall_table::Call;
use crate::sys::thread;

/// Source of file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSource {
    /// Probes inside the kernel, whose samples carry the path; and a snapshot of the files open
    /// before.
    Kprobe,
    /// Probes in libraries, right before calls that open, rename or remove files, and a listener to
    /// opens (fanotify), which identifies the opened files; real-time readers for other calls; and
    /// the snapshot. None of the probed calls wakes a thread of the tracer.
    UprobeFanotify,
    /// Probes in libraries, right before the calls, and readers that look at opened files; and the
    /// snapshot.
    Uprobe,
    /// Real-time readers, at the moment of each call; and the snapshot.
    Reader,
    /// A listener to opens (fanotify), which needs no real-time priority; and the snapshot.
    Fanotify,
    /// Strings in the entries of calls (from Linux 6.19 on); and the snapshot.
    Event,
    /// Readers with ordinary priority, which look at files soon after the open; and the snapshot.
    Links,
    /// Only the snapshot.
    Snapshot,
    /// No source.
    Off,
}

impl NameSource {
    /// Returns the name of the source in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kprobe => "kprobe",
            Self::UprobeFanotify => "uprobe+fanotify",
            Self::Uprobe => "uprobe",
            Self::Reader => "reader",
            Self::Fanotify => "fanotify",
            Self::Event => "event",
            Self::Links => "links",
            Self::Snapshot => "snapshot",
            Self::Off => "off",
        }
    }

    /// True if the memory of calls is read that cannot be interpreted without it.
    pub fn reads(self) -> bool {
        let probes = matches!(self, Self::Kprobe | Self::Uprobe | Self::UprobeFanotify);
        let may_read = probes || self == Self::Reader;
        may_read && thread::fifo_allowed(PRIORITY)
    }

    /// True if opened files are read.
    pub fn links(self) -> bool {
        self == Self::Links || self == Self::Uprobe && self.reads()
    }

    /// True if the paths of arguments are read.
    pub fn reads_paths(self) -> bool {
        !self.links() && self != Self::Uprobe
    }

    /// True if the probes of this source show the paths of this call.
    pub fn probes_show(self, call: &Call) -> bool {
        let leaves_others = self == Self::UprobeFanotify && self.reads();
        call.has_path() && (!leaves_others || call.bears_on_opens())
    }

    /// Names the calls that [`Self::probes_show`] is true for.
    pub fn probed_calls(self) -> &'static str {
        let leaves_others = self == Self::UprobeFanotify && self.reads();
        if leaves_others { "opens, renames and removals" } else { "calls" }
    }

    /// True if a listener reports opens.
    pub fn listens(self) -> bool {
        matches!(self, Self::Fanotify | Self::UprobeFanotify)
    }

    /// True if the numbers are read of the two descriptors that a call makes: at once, or else soon
    /// after, with their targets.
    pub fn reads_pairs(self) -> bool {
        self.reads() || self.listens() || matches!(self, Self::Reader | Self::Links)
    }

    /// True if the readers have ordinary priority and therefore read late.
    pub fn reads_late(self) -> bool {
        self == Self::Links || self.listens() && !thread::fifo_allowed(PRIORITY)
    }

    /// True if calls with a path have a ring of their own.
    pub fn has_ring(self) -> bool {
        let reads_others = self == Self::UprobeFanotify && self.reads();
        reads_others || matches!(self, Self::Reader | Self::Event | Self::Links)
    }
}

/// Source of file names that the user requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSourceOption {
    /// The best available source.
    Auto,
    /// Probes inside the kernel; where they do not show all paths, only the snapshot. Neither lets
    /// a call wait.
    Cheap,
    /// One source.
    Only(NameSource),
}
