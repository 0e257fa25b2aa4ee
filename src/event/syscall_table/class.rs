//! Classes of system calls, and the groups by which users select them.

/// Class of a call, which determines the descriptor model and the OTF2 record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallClass {
    /// Creates a descriptor for a file.
    Open,
    /// Closes a descriptor.
    Close,
    /// Closes a range of descriptors.
    CloseRange,
    /// Moves bytes from a file.
    Read,
    /// Moves bytes to a file.
    Write,
    /// Moves the file position.
    Seek,
    /// Creates a second descriptor for an open file.
    Dup,
    /// Queries or changes properties of a descriptor.
    Control,
    /// Writes cached data to the device.
    Sync,
    /// Moves bytes from one descriptor to another inside the kernel.
    Transfer,
    /// Moves bytes into or between pipes inside the kernel.
    Pipe,
    /// Creates a descriptor for an object without a path; the value is its name in `/proc/PID/fd`,
    /// as far as that is always the same.
    Make(&'static str),
    /// Creates two descriptors and stores them in memory.
    MakePair,
    /// Creates files.
    Name,
    /// Gives files other names.
    Rename,
    /// Removes files.
    Remove,
    /// Changes the length or the allocated space of a file.
    Resize,
    /// Changes the directory at which relative paths begin.
    Place,
    /// Changes the directory at which absolute paths begin.
    Root,
    /// Changes the targets of paths, for all processes with the same mounts.
    Mount,
    /// Leaves objects shared with other threads (descriptors, directories, mounts), or joins
    /// others.
    Unshare,
    /// Queries a file.
    Stat,
    /// Changes the attributes of a file.
    Attribute,
    /// Lists a directory.
    List,
    /// Announces future accesses.
    Advise,
    /// Locks a file.
    Lock,
    /// Requests a specific operation of a device or file system.
    Ioctl,
    /// Maps files into memory.
    Map,
    /// Requests asynchronous I/O.
    Async,
    /// Sends or receives data.
    Socket,
    /// Creates processes and programs.
    Process,
    /// Changes the user of a process.
    User,
}

/// Groups ([`CallClass::group`]) that are recorded by default; `-e %GROUP` selects others.
pub const DEFAULT_GROUPS: &[&str] = &["data", "desc", "sync", "name", "async", "user"];

/// Groups with descriptions of their calls.
pub const GROUPS: &[(&str, &str)] = &[
    ("data", "moves bytes of files and pipes"),
    ("desc", "creates, copies, moves and closes descriptors"),
    ("sync", "writes cached data to the device"),
    ("name", "creates, removes, renames and resizes files; changes the roots and targets of paths"),
    ("stat", "queries files, lists directories"),
    (
        "attr",
        "changes attributes of files: mode, owner, times, extended attributes, locks; advice; ioctl",
    ),
    ("map", "maps files into memory"),
    ("async", "requests asynchronous I/O"),
    ("socket", "sends and receives data"),
    ("process", "creates processes and programs"),
    ("user", "changes the user of a process"),
];

impl CallClass {
    /// Returns true if the call changes the set of descriptors.
    pub fn changes_descriptors(self) -> bool {
        use CallClass::{Close, CloseRange, Dup, Make, MakePair, Open};
        matches!(self, Open | Close | CloseRange | Dup | Make(_) | MakePair)
    }

    /// Returns true if results are bytes that were moved between memory and a file, or between
    /// files.
    pub fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Transfer)
    }

    /// Returns the group of the class, one of [`GROUPS`].
    pub fn group(self) -> &'static str {
        match self {
            Self::Read | Self::Write | Self::Transfer | Self::Pipe => "data",
            Self::Open
            | Self::Close
            | Self::CloseRange
            | Self::Seek
            | Self::Dup
            | Self::Control
            | Self::Make(_)
            | Self::MakePair => "desc",
            Self::Sync => "sync",
            Self::Name
            | Self::Rename
            | Self::Remove
            | Self::Resize
            | Self::Place
            | Self::Root
            | Self::Mount
            | Self::Unshare => "name",
            Self::Stat | Self::List => "stat",
            Self::Attribute | Self::Advise | Self::Lock | Self::Ioctl => "attr",
            Self::Map => "map",
            Self::Async => "async",
            Self::Socket => "socket",
            Self::Process => "process",
            Self::User => "user",
        }
    }
}
