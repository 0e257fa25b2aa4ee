//! What file systems say about the I/O of the thread that is running, in tracepoints of their own.
//!
//! Only direct I/O: each such request has one. They tell where an operation works whose offset nothing else tells.

use crate::tracefs::{BindError, EventFormat, IntField};
use crate::units::DevId;

/// System, tracepoint, and the field that has the position (`fs/iomap/trace.h`, since 6.6; `fs/xfs/xfs_trace.h`).
pub const FILE_IO_POINTS: [(&str, &str, &str); 3] = [
    ("iomap", "iomap_dio_rw_begin", "pos"),
    ("xfs", "xfs_file_direct_read", "offset"),
    ("xfs", "xfs_file_direct_write", "offset"),
];

/// One hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIo {
    /// The file system's device.
    pub dev: DevId,
    /// The file.
    pub ino: u64,
    /// Where in the file, in bytes.
    pub position: u64,
    /// Bytes asked for.
    pub count: u64,
    /// It ends before its call does, and its end is told, too, if that is recorded ([`super::layer`]).
    pub is_span: bool,
}

/// Where the fields of one tracepoint are.
#[derive(Debug)]
pub(super) struct FileIoShape {
    dev: IntField,
    ino: IntField,
    position: IntField,
    count: IntField,
    /// Where it is told whether it goes on without its call.
    aio: Option<IntField>,
}

impl FileIoShape {
    pub(super) fn of(
        (system, _, position): &(&str, &str, &str),
        format: &EventFormat,
    ) -> Result<Self, BindError> {
        Ok(Self {
            dev: format.int("dev")?,
            ino: format.int("ino")?,
            position: format.int(position)?,
            count: format.int("count")?,
            aio: if *system == "iomap" { format.int_opt("aio")? } else { None },
        })
    }

    /// None: the payload is too short, or has a negative position.
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
