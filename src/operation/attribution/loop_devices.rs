//! Loop devices: a request to a loop device becomes a request to a file on another device.
//!
//! Requests to both are reported, each on its own device. No event links them. The backing file of
//! the upper device is a file on the lower one, so the offset in that file gives the sector, and
//! thereby the contents.

use rustc_hash::FxHashMap;

use super::extents::FileKey;
use crate::capture::header::Disk;
use crate::event::block::DevicePosition;
use crate::units::{DevId, SECTOR_BYTES};

/// A loop device.
#[derive(Debug)]
struct LoopDevice {
    dev: DevId,
    /// Offset in the file at which the device begins, in bytes.
    offset: u64,
    /// Partitions of the device: first sector, sector after the last, number.
    partitions: Vec<(u64, u64, DevId)>,
}

/// Loop devices by their files.
#[derive(Debug, Default)]
pub(super) struct LoopDevices(FxHashMap<FileKey, LoopDevice>);

impl LoopDevices {
    /// Returns the loop devices among the disks whose backing files are known.
    pub(super) fn of<'a>(disks: impl Iterator<Item = &'a Disk>) -> Self {
        let image = |disk: &Disk| {
            let file = disk.loop_file.as_ref()?;
            let offset = disk.attributes.get("loop/offset").and_then(|it| it.parse().ok());
            let partition = |partition: &crate::capture::header::Partition| {
                let start = partition.start_sectors?;
                let end = start.checked_add(partition.sectors?)?;
                Some((start, end, DevId::parse(&partition.dev)?))
            };
            let image = LoopDevice {
                dev: DevId::parse(&disk.dev)?,
                offset: offset.unwrap_or(0),
                partitions: disk.partitions.iter().filter_map(partition).collect(),
            };
            Some(((DevId::parse(&file.dev)?, file.ino), image))
        };
        Self(disks.filter_map(image).collect())
    }

    /// Returns the location of a byte of a file on its loop device.
    pub(super) fn place(&self, key: FileKey, offset: u64) -> Option<DevicePosition> {
        let image = self.0.get(&key)?;
        let sector = offset.checked_sub(image.offset)? / SECTOR_BYTES;
        let holds = |it: &&(u64, u64, DevId)| it.0 <= sector && sector < it.1;
        Some(match image.partitions.iter().find(holds) {
            Some((start, _, dev)) => DevicePosition { dev: *dev, sector: sector - start },
            None => DevicePosition { dev: image.dev, sector },
        })
    }
}
