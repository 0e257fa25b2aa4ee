//! Loop devices: what is asked of one is asked of a file on another device.
//!
//! The requests of both are told, each on its own device. No event links them: the lower one's file is the upper one's device, so
//! what lies in the file is found by the place in it.

use rustc_hash::FxHashMap;

use super::{
    BlockContents, EXT4_JOURNAL_INO, ExtentSource, FileAttribution, FileKey, Found, Lookup,
};
use crate::anomaly::Link;
use crate::capture::header::Disk;
use crate::event::block::Place;
use crate::units::{DevId, SECTOR_BYTES};

/// A loop device.
#[derive(Debug)]
struct LoopDevice {
    dev: DevId,
    /// Where in the file it begins, in bytes.
    offset: u64,
    /// Its partitions: first sector, the one behind the last, number.
    partitions: Vec<(u64, u64, DevId)>,
}

/// Loop devices by their files.
#[derive(Debug, Default)]
pub(super) struct LoopDevices(FxHashMap<FileKey, LoopDevice>);

/// A device that lies in a file, and what lies there.
#[derive(Clone, Debug)]
pub struct StackedLocation {
    /// Where on the device: on a partition of it, if there is one.
    pub place: Place,
    /// What lies there.
    pub behind: BlockContents,
}

/// Loop devices on files on loop devices; more are not looked through.
const DEPTH_MAX: usize = 8;

impl LoopDevices {
    /// Those among the disks whose files are known.
    pub(super) fn of<'a>(disks: impl Iterator<Item = &'a Disk>) -> Self {
        let image = |disk: &Disk| {
            let file = disk.loop_file.as_ref()?;
            let offset = disk.attributes.get("loop/offset").and_then(|it| it.parse().ok());
            let partition = |it: &crate::capture::header::Partition| {
                let start = it.start_sectors?;
                Some((start, start.checked_add(it.sectors?)?, DevId::parse(&it.dev)?))
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

    /// Where a byte of a file is on its loop device.
    fn place(&self, key: FileKey, offset: u64) -> Option<Place> {
        let image = self.0.get(&key)?;
        let sector = offset.checked_sub(image.offset)? / SECTOR_BYTES;
        let holds = |it: &&(u64, u64, DevId)| it.0 <= sector && sector < it.1;
        Some(match image.partitions.iter().find(holds) {
            Some((start, _, dev)) => Place { dev: *dev, sector: sector - start },
            None => Place { dev: image.dev, sector },
        })
    }
}

impl FileAttribution {
    /// What lies in the sectors of a file that is a loop device: lengths in sectors, and the devices, the nearest first. Without
    /// one it is a single length with nothing.
    pub(super) fn above(
        &self,
        behind: &BlockContents,
        nr_sector: u64,
        look: Lookup,
        depth: usize,
    ) -> Vec<(u64, Vec<StackedLocation>)> {
        let place = match behind {
            BlockContents::File { key, offset: Some(offset), .. } if depth < DEPTH_MAX => {
                self.images.place(*key, *offset)
            }
            _ => None,
        };
        let Some(place) = place else { return vec![(nr_sector, Vec::new())] };
        let mut all = Vec::new();
        let mut sector = place.sector;
        for (length, behind) in self.contents(place, nr_sector, look) {
            let mut done = 0;
            for (length, mut above) in self.above(&behind, length, look, depth + 1) {
                let place = Place { dev: place.dev, sector: sector.saturating_add(done) };
                above.insert(0, StackedLocation { place, behind: behind.further(done) });
                all.push((length, above));
                done += length;
            }
            sector = sector.saturating_add(length);
        }
        all
    }

    /// What file systems say of sectors of a device: lengths in sectors, and files.
    pub(super) fn contents(
        &self,
        place: Place,
        nr_sector: u64,
        look: Lookup,
    ) -> Vec<(u64, BlockContents)> {
        let begin = place.sector.saturating_mul(SECTOR_BYTES);
        let end = begin.saturating_add(nr_sector.saturating_mul(SECTOR_BYTES));
        let told = self.extents.find(place.dev, begin, end).into_iter();
        let known = told.flat_map(|it| match it.of.and_then(|of| self.by_events(of, look)) {
            Some(behind) => vec![(it, behind)],
            // It may have moved since.
            None => {
                let asked = self.at_the_end.find(place.dev, it.begin, it.end).into_iter();
                let behind = |it: Found| match it.of {
                    Some((key, offset, _)) => self.file(key, Some(offset), Link::Inferred),
                    None => BlockContents::Unknown,
                };
                asked.map(|it| (it, behind(it))).collect()
            }
        });
        // A run may end inside a sector.
        let sectors = |it: Found| it.end / SECTOR_BYTES - it.begin / SECTOR_BYTES;
        known.map(|(it, behind)| (sectors(it), behind)).filter(|it| it.0 > 0).collect()
    }

    /// What lies there by what was said since the recording began; `None`: that does not hold for this.
    fn by_events(
        &self,
        (key, offset, told): (FileKey, u64, ExtentSource),
        look: Lookup,
    ) -> Option<BlockContents> {
        if told == ExtentSource::Blocks && key.1 == EXT4_JOURNAL_INO {
            return Some(BlockContents::Journal);
        }
        let is_stale =
            told != ExtentSource::Blocks && look.was_in_memory && !self.writeback_is_told;
        let is_certain = told != ExtentSource::Shared && look.at >= self.mounts_change_until;
        let link = if is_certain { Link::Exact } else { Link::Inferred };
        (!is_stale).then(|| self.file(key, Some(offset), link))
    }
}
