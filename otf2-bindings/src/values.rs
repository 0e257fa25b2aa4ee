//! The enumerations of OTF2 as open newtypes: a value without a name here passes through.
//!
//! Each row is `NAME = C constant;`. `tests/abi.rs` checks that the two names of a row belong
//! together and, through `constants.rs`, that the value is that of the header.

use std::ops::{BitOr, BitOrAssign};

use crate::constants as c;

/// An enumeration with one value at a time.
macro_rules! values {
    ($($(#[$doc:meta])* $name:ident($repr:ty) { $($(#[$vdoc:meta])* $value:ident = $c:ident;)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) $repr);

        impl $name {
            $($(#[$vdoc])* pub const $value: Self = Self(c::$c);)*

            /// The number in the archive.
            #[must_use]
            pub const fn value(self) -> $repr {
                self.0
            }
        }
    )* };
}

/// A set of bits.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident($repr:ty) { $($(#[$vdoc:meta])* $value:ident = $c:ident;)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) $repr);

        impl $name {
            /// No flag.
            pub const NONE: Self = Self(0);
            $($(#[$vdoc])* pub const $value: Self = Self(c::$c);)*

            /// The number in the archive.
            #[must_use]
            pub const fn bits(self) -> $repr {
                self.0
            }

            /// The flags of both, where `|` cannot be used.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// True if all flags of `other` are set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        impl BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }
    )* };
}

values! {
    /// The type of an attribute.
    AttributeType(u8) {
        /// Unsigned, 32 bits.
        UINT32 = OTF2_TYPE_UINT32;
        /// Unsigned, 64 bits.
        UINT64 = OTF2_TYPE_UINT64;
        /// Signed, 32 bits.
        INT32 = OTF2_TYPE_INT32;
        /// Signed, 64 bits.
        INT64 = OTF2_TYPE_INT64;
        /// Floating point, 64 bits.
        DOUBLE = OTF2_TYPE_DOUBLE;
        /// A string reference.
        STRING = OTF2_TYPE_STRING;
    }
    /// Kind of shared resource of a system tree node.
    SystemTreeDomain(u8) {
        /// Everything below is connected by a network.
        MACHINE = OTF2_SYSTEM_TREE_DOMAIN_MACHINE;
        /// One node: everything below shares memory.
        SHARED_MEMORY = OTF2_SYSTEM_TREE_DOMAIN_SHARED_MEMORY;
        /// A NUMA domain.
        NUMA = OTF2_SYSTEM_TREE_DOMAIN_NUMA;
        /// A processor socket.
        SOCKET = OTF2_SYSTEM_TREE_DOMAIN_SOCKET;
        /// A shared cache.
        CACHE = OTF2_SYSTEM_TREE_DOMAIN_CACHE;
        /// A core.
        CORE = OTF2_SYSTEM_TREE_DOMAIN_CORE;
        /// A hardware thread.
        PU = OTF2_SYSTEM_TREE_DOMAIN_PU;
        /// An accelerator.
        ACCELERATOR_DEVICE = OTF2_SYSTEM_TREE_DOMAIN_ACCELERATOR_DEVICE;
        /// A network device.
        NETWORKING_DEVICE = OTF2_SYSTEM_TREE_DOMAIN_NETWORKING_DEVICE;
    }
    /// Kind of a location group.
    LocationGroupType(u8) {
        /// Unknown kind.
        UNKNOWN = OTF2_LOCATION_GROUP_TYPE_UNKNOWN;
        /// A process.
        PROCESS = OTF2_LOCATION_GROUP_TYPE_PROCESS;
    }
    /// Kind of a location.
    LocationType(u8) {
        /// Unknown kind.
        UNKNOWN = OTF2_LOCATION_TYPE_UNKNOWN;
        /// A thread, or anything with a call stack of its own.
        CPU_THREAD = OTF2_LOCATION_TYPE_CPU_THREAD;
        /// A source of metric values only.
        METRIC = OTF2_LOCATION_TYPE_METRIC;
    }
    /// Role of a region's code.
    RegionRole(u8) {
        /// Unknown role.
        UNKNOWN = OTF2_REGION_ROLE_UNKNOWN;
        /// A function.
        FUNCTION = OTF2_REGION_ROLE_FUNCTION;
        /// A wrapper of an interface function.
        WRAPPER = OTF2_REGION_ROLE_WRAPPER;
        /// Any piece of code.
        CODE = OTF2_REGION_ROLE_CODE;
        /// Moves file data.
        FILE_IO = OTF2_REGION_ROLE_FILE_IO;
        /// Made by the tool, not by the program.
        ARTIFICIAL = OTF2_REGION_ROLE_ARTIFICIAL;
        /// A file operation that moves no file data.
        FILE_IO_METADATA = OTF2_REGION_ROLE_FILE_IO_METADATA;
    }
    /// Paradigm that defines a region.
    Paradigm(u8) {
        /// Unknown paradigm.
        UNKNOWN = OTF2_PARADIGM_UNKNOWN;
        /// The user, by hand.
        USER = OTF2_PARADIGM_USER;
        /// The compiler.
        COMPILER = OTF2_PARADIGM_COMPILER;
        /// The measurement system (some viewers show such regions badly).
        MEASUREMENT_SYSTEM = OTF2_PARADIGM_MEASUREMENT_SYSTEM;
        /// POSIX threads.
        PTHREAD = OTF2_PARADIGM_PTHREAD;
        /// A piece of hardware.
        HARDWARE = OTF2_PARADIGM_HARDWARE;
        /// A sampled call stack.
        SAMPLING = OTF2_PARADIGM_SAMPLING;
        /// No paradigm: for example an I/O function.
        NONE = OTF2_PARADIGM_NONE;
    }
    /// Class of an I/O paradigm: whether its handles belong to one process or to many.
    IoParadigmClass(u8) {
        /// A handle belongs to one process.
        SERIAL = OTF2_IO_PARADIGM_CLASS_SERIAL;
        /// A handle belongs to a communicator.
        PARALLEL = OTF2_IO_PARADIGM_CLASS_PARALLEL;
    }
    /// The name of a property of an I/O paradigm.
    IoParadigmProperty(u8) {
        /// The version of the implementation, a string.
        VERSION = OTF2_IO_PARADIGM_PROPERTY_VERSION;
    }
    /// Permitted accesses of a handle.
    IoAccessMode(u8) {
        /// Flag `O_RDONLY`.
        READ_ONLY = OTF2_IO_ACCESS_MODE_READ_ONLY;
        /// Flag `O_WRONLY`.
        WRITE_ONLY = OTF2_IO_ACCESS_MODE_WRITE_ONLY;
        /// Flag `O_RDWR`.
        READ_WRITE = OTF2_IO_ACCESS_MODE_READ_WRITE;
        /// `O_EXEC` of POSIX.
        EXECUTE_ONLY = OTF2_IO_ACCESS_MODE_EXECUTE_ONLY;
        /// `O_SEARCH` of POSIX.
        SEARCH_ONLY = OTF2_IO_ACCESS_MODE_SEARCH_ONLY;
    }
    /// Origin of the offset of a seek.
    SeekOption(u8) {
        /// Option `SEEK_SET`.
        FROM_START = OTF2_IO_SEEK_FROM_START;
        /// Option `SEEK_CUR`.
        FROM_CURRENT = OTF2_IO_SEEK_FROM_CURRENT;
        /// Option `SEEK_END`.
        FROM_END = OTF2_IO_SEEK_FROM_END;
        /// Option `SEEK_DATA`.
        DATA = OTF2_IO_SEEK_DATA;
        /// Option `SEEK_HOLE`.
        HOLE = OTF2_IO_SEEK_HOLE;
    }
    /// The direction of an I/O operation.
    IoOperationMode(u8) {
        /// From the file.
        READ = OTF2_IO_OPERATION_MODE_READ;
        /// To the file.
        WRITE = OTF2_IO_OPERATION_MODE_WRITE;
        /// Written data to the device (`fsync`).
        FLUSH = OTF2_IO_OPERATION_MODE_FLUSH;
    }
    /// Source of a metric member.
    MetricType(u8) {
        /// Anything else.
        OTHER = OTF2_METRIC_TYPE_OTHER;
        /// Values of PAPI.
        PAPI = OTF2_METRIC_TYPE_PAPI;
        /// Values of `getrusage`.
        RUSAGE = OTF2_METRIC_TYPE_RUSAGE;
        /// The user.
        USER = OTF2_METRIC_TYPE_USER;
    }
    /// Meaning of a metric value, and the time for which it is valid.
    MetricMode(u8) {
        /// Grows since the start; valid at this time.
        ACCUMULATED_START = OTF2_METRIC_ACCUMULATED_START;
        /// Accumulated, at this point.
        ACCUMULATED_POINT = OTF2_METRIC_ACCUMULATED_POINT;
        /// Accumulated, since the last value.
        ACCUMULATED_LAST = OTF2_METRIC_ACCUMULATED_LAST;
        /// Accumulated, until the next value.
        ACCUMULATED_NEXT = OTF2_METRIC_ACCUMULATED_NEXT;
        /// Valid at this point only.
        ABSOLUTE_POINT = OTF2_METRIC_ABSOLUTE_POINT;
        /// Valid since the last value.
        ABSOLUTE_LAST = OTF2_METRIC_ABSOLUTE_LAST;
        /// Valid until the next value.
        ABSOLUTE_NEXT = OTF2_METRIC_ABSOLUTE_NEXT;
        /// A change, at this point.
        RELATIVE_POINT = OTF2_METRIC_RELATIVE_POINT;
        /// A change, since the last value.
        RELATIVE_LAST = OTF2_METRIC_RELATIVE_LAST;
        /// A change, until the next value.
        RELATIVE_NEXT = OTF2_METRIC_RELATIVE_NEXT;
    }
    /// Times at which a metric class is recorded.
    MetricOccurrence(u8) {
        /// At every enter and leave.
        SYNCHRONOUS_STRICT = OTF2_METRIC_SYNCHRONOUS_STRICT;
        /// At some enters and leaves.
        SYNCHRONOUS = OTF2_METRIC_SYNCHRONOUS;
        /// At any time.
        ASYNCHRONOUS = OTF2_METRIC_ASYNCHRONOUS;
    }
    /// Subject of a metric instance.
    MetricScope(u8) {
        /// A location.
        LOCATION = OTF2_SCOPE_LOCATION;
        /// A location group.
        LOCATION_GROUP = OTF2_SCOPE_LOCATION_GROUP;
        /// A system tree node.
        SYSTEM_TREE_NODE = OTF2_SCOPE_SYSTEM_TREE_NODE;
        /// A group of locations.
        GROUP = OTF2_SCOPE_GROUP;
    }
    /// The base of the exponent of a metric member.
    MetricBase(u8) {
        /// Base 2.
        BINARY = OTF2_BASE_BINARY;
        /// Base 10.
        DECIMAL = OTF2_BASE_DECIMAL;
    }
    /// The kind of location that records a metric class.
    RecorderKind(u8) {
        /// Unknown kind.
        UNKNOWN = OTF2_RECORDER_KIND_UNKNOWN;
        /// None in particular.
        ABSTRACT = OTF2_RECORDER_KIND_ABSTRACT;
        /// A CPU thread.
        CPU = OTF2_RECORDER_KIND_CPU;
        /// A GPU.
        GPU = OTF2_RECORDER_KIND_GPU;
    }
}

flags! {
    /// Flags of a region.
    RegionFlags(u32) {
        /// Each run counts as a region of its own.
        DYNAMIC = OTF2_REGION_FLAG_DYNAMIC;
        /// The region is a phase of the program.
        PHASE = OTF2_REGION_FLAG_PHASE;
    }
    /// Flags of an I/O paradigm.
    IoParadigmFlags(u32) {
        /// Served by the operating system.
        OS = OTF2_IO_PARADIGM_FLAG_OS;
    }
    /// Flags of an I/O handle definition.
    IoHandleFlags(u32) {
        /// Open before the first event; needs an `io_pre_created_handle_state`.
        PRE_CREATED = OTF2_IO_HANDLE_FLAG_PRE_CREATED;
        /// Stands for all handles of the paradigm.
        ALL_PROXY = OTF2_IO_HANDLE_FLAG_ALL_PROXY;
    }
    /// Requested behaviour of the open of a handle.
    IoCreationFlags(u32) {
        /// Flag `O_CREAT`.
        CREATE = OTF2_IO_CREATION_FLAG_CREATE;
        /// Flag `O_TRUNC`.
        TRUNCATE = OTF2_IO_CREATION_FLAG_TRUNCATE;
        /// Flag `O_DIRECTORY`.
        DIRECTORY = OTF2_IO_CREATION_FLAG_DIRECTORY;
        /// Flag `O_EXCL`.
        EXCLUSIVE = OTF2_IO_CREATION_FLAG_EXCLUSIVE;
        /// Flag `O_NOCTTY`.
        NO_CONTROLLING_TERMINAL = OTF2_IO_CREATION_FLAG_NO_CONTROLLING_TERMINAL;
        /// Flag `O_NOFOLLOW`.
        NO_FOLLOW = OTF2_IO_CREATION_FLAG_NO_FOLLOW;
        /// Flag `O_PATH`.
        PATH = OTF2_IO_CREATION_FLAG_PATH;
        /// Flag `O_TMPFILE`.
        TEMPORARY_FILE = OTF2_IO_CREATION_FLAG_TEMPORARY_FILE;
        /// Flag `O_LARGEFILE`.
        LARGEFILE = OTF2_IO_CREATION_FLAG_LARGEFILE;
        /// Reserved for MPI-IO: no seeking.
        NO_SEEK = OTF2_IO_CREATION_FLAG_NO_SEEK;
        /// Reserved for MPI-IO: opened once.
        UNIQUE = OTF2_IO_CREATION_FLAG_UNIQUE;
    }
    /// Flags of an open handle.
    IoStatusFlags(u32) {
        /// Flag `O_CLOEXEC`.
        CLOSE_ON_EXEC = OTF2_IO_STATUS_FLAG_CLOSE_ON_EXEC;
        /// Flag `O_APPEND`.
        APPEND = OTF2_IO_STATUS_FLAG_APPEND;
        /// Flag `O_NONBLOCK`.
        NON_BLOCKING = OTF2_IO_STATUS_FLAG_NON_BLOCKING;
        /// Flag `O_ASYNC`.
        ASYNC = OTF2_IO_STATUS_FLAG_ASYNC;
        /// Flag `O_SYNC`.
        SYNC = OTF2_IO_STATUS_FLAG_SYNC;
        /// Flag `O_DSYNC`.
        DATA_SYNC = OTF2_IO_STATUS_FLAG_DATA_SYNC;
        /// Flag `O_DIRECT`.
        AVOID_CACHING = OTF2_IO_STATUS_FLAG_AVOID_CACHING;
        /// Flag `O_NOATIME`.
        NO_ACCESS_TIME = OTF2_IO_STATUS_FLAG_NO_ACCESS_TIME;
        /// Deleted when closed (MPI-IO).
        DELETE_ON_CLOSE = OTF2_IO_STATUS_FLAG_DELETE_ON_CLOSE;
    }
    /// Flags of an I/O operation.
    IoOperationFlags(u32) {
        /// Goes on after the call that began it: begin, issued, complete.
        NON_BLOCKING = OTF2_IO_OPERATION_FLAG_NON_BLOCKING;
        /// Done by many processes together.
        COLLECTIVE = OTF2_IO_OPERATION_FLAG_COLLECTIVE;
    }
}
