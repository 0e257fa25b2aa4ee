//! Reasons why a case is not judged.

/// Reason why a case is not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DurabilityDoubt {
    /// The paths of a rename or link are not known.
    UnknownPath,
    /// The file is on another machine, or on a file system of a program.
    Remote,
    /// The file system is not in the table of mounts.
    UnknownMedium,
    /// A sync of an unknown file came between.
    UnknownSync,
    /// A write and a sync were at work at the same time.
    Overlap,
    /// The recording ended before the process.
    RecordingEnd,
    /// There was no room for more files or cases.
    NoRoom,
    /// A directory was synced that may be this one by another name.
    OtherDirectory,
    /// The directory above an unsynced file got another name.
    DirectoryRenamed,
    /// An unnamed file got a name, and the log does not tell which.
    UnknownSource,
    /// Less was written again than a failed sync may have lost.
    PartlyRewritten,
    /// A store through a mapping cannot be seen.
    UnseenStore,
}

impl DurabilityDoubt {
    /// Returns the reason as a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownPath => "the paths of the rename or link are not in this log",
            Self::Remote => "the file system is remote or a program's: a close may write the data",
            Self::UnknownMedium => "no mount of the file's device in this log: it may be in memory",
            Self::UnknownSync => "a sync of an unknown file came between",
            Self::Overlap => "a write and a sync of the file overlap",
            Self::RecordingEnd => "the recording ended before the process",
            Self::NoRoom => "more files or cases than this fold has room for",
            Self::OtherDirectory => {
                "a directory was synced that may be the file's by another name (link, mount)"
            }
            Self::DirectoryRenamed => "unsynced in a directory that was renamed",
            Self::UnknownSource => "linked by a descriptor that was copied or inherited",
            Self::PartlyRewritten => {
                "less was written again after the failed sync than it may have lost"
            }
            Self::UnseenStore => {
                "mapped shared and writable and not synced after; no fault shows a store"
            }
        }
    }
}
