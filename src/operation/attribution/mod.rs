//! Attribution: files, offsets in them, and writers of the data of a block request.
//!
//! Input: the parts of requests (`crate::block`), the reports of file systems
//! ([`FsEvent`](crate::event::fs::FsEvent)), and the files that are opened and written. Output:
//! [`Piece`]s. Each piece has the way in which it is known:
//! - reports of the file system since the recording began (exact),
//! - its report at the end, the call that the thread was inside, or the last writers of these bytes
//!   (inferred),
//! - or not known at all.

mod extents;
mod file_attribution;
mod lookup;
mod loop_devices;
mod model;
mod named;
mod writers;

pub use extents::{FileKey, device_file, device_of};
pub use file_attribution::{FileAttribution, device_names};
pub use model::{BlockContents, Piece, StackedLocation, SubmitContext};
pub use writers::{LastWriter, WriterRef};
