//! Tracepoints of file systems about the I/O of the running thread.
//!
//! Only direct I/O has them: each such request has one. They give the offset of operations whose
//! offset no other event reports.

use crate::tracefs::{BindError, EventFormat, IntField};
use crate::units::DevId;

/// System, tracepoint, and the field with the position (`fs/iomap/trace.h`, since 6.6;
/// `fs/xfs/xfs_trace.h`).
pub const FILE_IO_POINTS: [(&str, &str, &str); 3] = [
    ("iomap", "iomap_dio_rw_begin", "pos"),
    ("xfs", "xfs_file_direct_read", "offset"),
    ("xfs", "xfs_file_direct_write", "offset"),
];

/// Start of a direct I/O request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIo {
    /// Device of the file system.
    pub dev: DevId,
    /// Inode of the file.
    pub ino: u64,
    /// Position in the file, in bytes.
    pub position: u64,
    /// Number of requested bytes.
    pub count: u64,
    /// True if it ends before its call does; its end is then reported too, if that is recorded
    /// ([`super::layer`]).
    pub is_span: bool,
}

/// Fields of one tracepoint.
#[derive(Debug)]
pub(super) struct FileIoShape {
    dev: IntField,
    ino: IntField,
    position: IntField,
    count: IntField,
    /// Field that reports whether the I/O continues without its call.
    aio: Option<IntField>,
}

impl FileIoShape {
    pub(super) fn of(
        system: &str,
        position: &str,
        format: &EventFormat,
    ) -> Result<Self, BindError> {
        Ok(Self {
            dev: format.int("dev")?,
            ino: format.int("ino")?,
            position: format.int(position)?,
            count: format.int("count")?,
            aio: if system == "iomap" { format.int_opt("aio")? } else { None },
        })
    }

    /// Reads an event; `None` if the payload is too short, or has a negative position.
    pub(super) fn read(&self, payload: &[u8]) -> Option<FileIo> {
        Some(FileIo {
            dev: DevId(u32::try_from(self.dev.read_u64(payload)?).ok()?),
            ino: self.ino.read_u64(payload)?,
            position: u64::try_from(self.position.read_i64(payload)?).ok()?,
            count: self.count.read_u64(payload)?,
            is_span: match &self.aio {
                Some(aio) => aio.read_u64(payload)? == 0,
                None => false,
            },
        })
    }
}
