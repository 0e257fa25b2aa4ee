//! References to definitions: one type per kind, so that none is taken for another.
//!
//! The ids of a kind are dense and begin at 0. Events carry references before the definitions are
//! written, so the caller numbers its regions, files and handles itself (usually the index in its
//! own table) and defines them in ascending order in `Archive::finish`. Strings and locations are
//! numbered by the archive.

/// One reference type with a public constructor from the id.
macro_rules! reference {
    ($($(#[$doc:meta])* $name:ident($repr:ty);)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($repr);

        impl $name {
            /// The reference with this id; ids of a kind are dense and begin at 0.
            #[must_use]
            pub const fn new(id: $repr) -> Self {
                Self(id)
            }

            /// The number in the archive.
            #[must_use]
            pub const fn id(self) -> $repr {
                self.0
            }
        }
    )* };
}

reference! {
    /// A node of the system tree: machine, node, disk.
    SystemTreeNodeRef(u32);
    /// A location group: a process.
    LocationGroupRef(u32);
    /// A region: what `enter` and `leave` name.
    RegionRef(u32);
    /// An I/O paradigm such as POSIX; at most 255 of them.
    IoParadigmRef(u8);
    /// A regular file or a directory (one id space for both).
    IoFileRef(u32);
    /// An I/O handle.
    IoHandleRef(u32);
    /// A name and type of additional event values.
    AttributeRef(u32);
    /// One quantity of a metric class.
    MetricMemberRef(u32);
    /// A metric class or a metric instance (one id space for both).
    MetricRef(u32);
}

/// A string of the archive, from [`Archive::intern`](crate::Archive::intern).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringRef(u32);

impl StringRef {
    pub(crate) const fn new(id: u32) -> Self {
        Self(id)
    }

    /// The number in the archive; dense from 0 in the order of interning.
    #[must_use]
    pub const fn id(self) -> u32 {
        self.0
    }
}

/// A location: a thread or a device with its own stream of events, from
/// [`EvtWriter::location`](crate::EvtWriter::location).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocationRef(u64);

impl LocationRef {
    pub(crate) const fn new(id: u64) -> Self {
        Self(id)
    }

    /// The number in the archive; dense from 0 in the order of `event_writer` calls.
    #[must_use]
    pub const fn id(self) -> u64 {
        self.0
    }
}
