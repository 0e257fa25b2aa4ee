//! Events: decoded samples of tracepoints, in the kernel's terms.
//!
//! Input: the payload of a tracepoint, from any source, and the `format` text that describes it.
//! Output: an [`Event`], or the reason why there is none. Nothing here depends on rings, files or
//! the order of events.

pub mod async_table;
pub mod block;
pub mod block_shape;
pub mod callchain;
pub mod decode;
pub mod fault;
pub mod file_io;
pub mod fs;
pub mod identity;
pub mod layer;
mod model;
mod open_flags;
pub mod probe_events;
mod probe_names;
pub mod registers;
mod syscall_rows;
pub mod syscall_strings;
pub mod syscall_table;
pub mod task;
pub mod uring;

pub use model::{
    Event, EventKind, FileStat, Name, ProbeObservation, ReadNames, SeenFd, StringFrom, SysEnter,
    SysExit,
};
pub use open_flags::{AccessMode, OpenFlags};
