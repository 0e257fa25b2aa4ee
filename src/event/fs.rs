//! Reports of file systems about the extents of files, and about the eviction of inodes.
//!
//! Input: `ext4:*`, `iomap:*` (xfs and others, and ext4's direct I/O) and `xfs:*` tracepoints.
//! Addresses are those of the device that contains the file system: in its blocks (ext4), or in
//! bytes (iomap).

use crate::tracefs::{BindError, EventFormat, IntField};
use crate::units::DevId;

/// Content of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsPoint {
    /// Extent of some blocks of a file, with a status (`fs/ext4/extents_status.h`); a lookup also
    /// reports whether it found one.
    Ext4Extent,
    /// Blocks that were freed.
    Ext4Freed,
    /// Extent of some bytes of a file (`include/linux/iomap.h`).
    Iomap,
    /// Eviction of an inode from memory: no process has the file open, and none of its data is
    /// still to be written. Its number may be given to another file next.
    Evicted,
}

/// System and name of the tracepoints (`include/trace/events/ext4.h`, `fs/iomap/trace.h`,
/// `fs/xfs/xfs_trace.h`). Kernels have those of their file systems; `iomap_apply_*` and
/// `iomap_writepage_map` are names of older ones.
pub const FS_POINTS: [(&str, &str, FsPoint); 11] = [
    ("ext4", "ext4_es_lookup_extent_exit", FsPoint::Ext4Extent),
    ("ext4", "ext4_es_insert_extent", FsPoint::Ext4Extent),
    ("ext4", "ext4_free_blocks", FsPoint::Ext4Freed),
    ("iomap", "iomap_iter_dstmap", FsPoint::Iomap),
    ("iomap", "iomap_iter_srcmap", FsPoint::Iomap),
    ("iomap", "iomap_apply_dstmap", FsPoint::Iomap),
    ("iomap", "iomap_apply_srcmap", FsPoint::Iomap),
    ("iomap", "iomap_writepage_map", FsPoint::Iomap),
    ("iomap", "iomap_add_to_ioend", FsPoint::Iomap),
    ("ext4", "ext4_evict_inode", FsPoint::Evicted),
    ("xfs", "xfs_destroy_inode", FsPoint::Evicted),
];

/// Tracepoints of iomap that report the targets of writeback; there are none before Linux 6.1.
pub const WRITEBACK_POINTS: [&str; 2] = ["iomap_writepage_map", "iomap_add_to_ioend"];

/// Unit of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressUnit {
    /// Unit of file system blocks.
    Blocks,
    /// Unit of single bytes.
    Bytes,
}

/// Contiguous extent of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Device of the file system, as in `st_dev`.
    pub dev: DevId,
    /// Inode of the file.
    pub ino: u64,
    /// Device to which the address refers.
    pub on: DevId,
    /// Unit of the next three fields.
    pub unit: AddressUnit,
    /// Offset from the start of the file.
    pub offset: u64,
    /// Length of the extent.
    pub length: u64,
    /// Address from the start of the device.
    pub address: u64,
    /// True if other files may share the extent (`IOMAP_F_SHARED`).
    pub is_shared: bool,
}

/// Event of a file system's tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsEvent {
    /// An extent of a file was reported.
    Extent(Extent),
    /// A lookup found no extent (a hole, or not allocated yet).
    NoExtent,
    /// Blocks were freed.
    Freed {
        /// Device of the file system.
        dev: DevId,
        /// First block.
        block: u64,
        /// Number of blocks.
        count: u64,
    },
    /// The inode was evicted from memory.
    Evicted {
        /// Device of the file system.
        dev: DevId,
        /// Inode of the file.
        ino: u64,
    },
}

/// Bits `EXTENT_STATUS_WRITTEN` and `EXTENT_STATUS_UNWRITTEN` (`fs/ext4/extents_status.h`): the
/// blocks have a place.
const EXT4_HAS_PLACE: u64 = 0b11;

/// Types `IOMAP_MAPPED` and `IOMAP_UNWRITTEN` (`include/linux/iomap.h`).
const IOMAP_HAS_PLACE: [u64; 2] = [2, 3];

/// Flag `IOMAP_F_SHARED` (`include/linux/iomap.h`).
const IOMAP_F_SHARED: u64 = 0x4;

/// Fields of one tracepoint.
#[derive(Debug)]
pub(super) enum FsShape {
    Ext4 { place: PlaceFields, status: IntField, found: Option<IntField>, dev: IntField },
    Iomap { place: PlaceFields, kind: IntField, flags: IntField, dev: IntField, on: IntField },
    Freed { dev: IntField, block: IntField, count: IntField },
    Evicted { dev: IntField, ino: IntField },
}

#[derive(Debug)]
pub(super) struct PlaceFields {
    ino: IntField,
    offset: IntField,
    length: IntField,
    address: IntField,
}

impl PlaceFields {
    fn of(format: &EventFormat, [offset, length, address]: [&str; 3]) -> Result<Self, BindError> {
        Ok(Self {
            ino: format.int("ino")?,
            offset: format.int(offset)?,
            length: format.int(length)?,
            address: format.int(address)?,
        })
    }

    fn read(&self, payload: &[u8], dev: DevId, on: DevId, unit: AddressUnit) -> Option<Extent> {
        Some(Extent {
            dev,
            ino: self.ino.read_u64(payload)?,
            on,
            unit,
            offset: self.offset.read_u64(payload)?,
            length: self.length.read_u64(payload)?,
            address: self.address.read_u64(payload)?,
            is_shared: false,
        })
    }
}

impl FsShape {
    pub(super) fn of(point: FsPoint, format: &EventFormat) -> Result<Self, BindError> {
        Ok(match point {
            FsPoint::Ext4Extent => Self::Ext4 {
                place: PlaceFields::of(format, ["lblk", "len", "pblk"])?,
                status: format.int("status")?,
                found: format.int_opt("found")?,
                dev: format.int("dev")?,
            },
            FsPoint::Ext4Freed => Self::Freed {
                dev: format.int("dev")?,
                block: format.int("block")?,
                count: format.int("count")?,
            },
            FsPoint::Iomap => Self::Iomap {
                place: PlaceFields::of(format, ["offset", "length", "addr"])?,
                kind: format.int("type")?,
                flags: format.int("flags")?,
                dev: format.int("dev")?,
                on: format.int("bdev")?,
            },
            FsPoint::Evicted => Self::Evicted { dev: format.int("dev")?, ino: format.int("ino")? },
        })
    }

    /// Reads an event; `None` if the payload is too short.
    pub(super) fn read(&self, payload: &[u8]) -> Option<FsEvent> {
        let device = |field: &IntField| u32::try_from(field.read_u64(payload)?).ok().map(DevId);
        match self {
            Self::Ext4 { place, status, found, dev } => {
                let is_found = found.as_ref().map_or(Some(1), |it| it.read_u64(payload))? != 0;
                let dev = device(dev)?;
                let extent = place.read(payload, dev, dev, AddressUnit::Blocks)?;
                let has_place = is_found && status.read_u64(payload)? & EXT4_HAS_PLACE != 0;
                Some(if has_place { FsEvent::Extent(extent) } else { FsEvent::NoExtent })
            }
            Self::Iomap { place, kind, flags, dev, on } => {
                let is_shared = flags.read_u64(payload)? & IOMAP_F_SHARED != 0;
                let extent = place.read(payload, device(dev)?, device(on)?, AddressUnit::Bytes)?;
                let has_place = IOMAP_HAS_PLACE.contains(&kind.read_u64(payload)?);
                let extent = Extent { is_shared, ..extent };
                Some(if has_place { FsEvent::Extent(extent) } else { FsEvent::NoExtent })
            }
            Self::Freed { dev, block, count } => Some(FsEvent::Freed {
                dev: device(dev)?,
                block: block.read_u64(payload)?,
                count: count.read_u64(payload)?,
            }),
            Self::Evicted { dev, ino } => {
                Some(FsEvent::Evicted { dev: device(dev)?, ino: ino.read_u64(payload)? })
            }
        }
    }
}
