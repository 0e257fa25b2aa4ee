//! Lookup of contents: sectors of a device, through the loop devices that files back.

use super::extents::{ExtentSource, FileKey, FoundExtent};
use super::file_attribution::FileAttribution;
use super::model::{BlockContents, Lookup, StackedLocation};
use crate::anomaly::Link;
use crate::event::block::DevicePosition;
use crate::units::SECTOR_BYTES;

/// Limit of loop devices on files on loop devices.
const DEPTH_MAX: usize = 8;

/// Inode of the ext4 journal (`fs/ext4/ext4.h`).
const EXT4_JOURNAL_INO: u64 = 8;

impl FileAttribution {
    /// Returns the contents of the sectors of a file that backs a loop device: lengths in sectors,
    /// and the stacked devices, the nearest first. Any other contents give a single length without
    /// stacked devices.
    pub(super) fn above(
        &self,
        contents: &BlockContents,
        nr_sector: u64,
        look: Lookup,
        depth: usize,
    ) -> Vec<(u64, Vec<StackedLocation>)> {
        let place = match contents {
            BlockContents::File { key, offset: Some(offset), .. } if depth < DEPTH_MAX => {
                self.images.place(*key, *offset)
            }
            _ => None,
        };
        let Some(place) = place else { return vec![(nr_sector, Vec::new())] };
        let mut all = Vec::new();
        let mut sector = place.sector;
        for (length, contents) in self.contents(place, nr_sector, look) {
            let mut done = 0;
            for (length, mut above) in self.above(&contents, length, look, depth + 1) {
                let place = DevicePosition { dev: place.dev, sector: sector.saturating_add(done) };
                above.insert(0, StackedLocation { place, contents: contents.further(done) });
                all.push((length, above));
                done += length;
            }
            sector = sector.saturating_add(length);
        }
        all
    }

    /// Returns the contents of sectors of a device, as reported by file systems: lengths in
    /// sectors, and files.
    pub(super) fn contents(
        &self,
        place: DevicePosition,
        nr_sector: u64,
        look: Lookup,
    ) -> Vec<(u64, BlockContents)> {
        let begin = place.sector.saturating_mul(SECTOR_BYTES);
        let end = begin.saturating_add(nr_sector.saturating_mul(SECTOR_BYTES));
        let from_events = self.extents.find(place.dev, begin, end).into_iter();
        let known = from_events.flat_map(|run| {
            let by_events =
                run.of.and_then(|(key, offset, source)| self.by_events(key, offset, source, look));
            match by_events {
                Some(contents) => vec![(run, contents)],
                // The contents may have moved since.
                None => {
                    let at_the_end = self.at_the_end.find(place.dev, run.begin, run.end);
                    let contents = |found: FoundExtent| match found.of {
                        Some((key, offset, _)) => self.file(key, Some(offset), Link::Inferred),
                        None => BlockContents::Unknown,
                    };
                    at_the_end.into_iter().map(|it| (it, contents(it))).collect()
                }
            }
        });
        // A run may end inside a sector.
        let sectors = |it: FoundExtent| it.end / SECTOR_BYTES - it.begin / SECTOR_BYTES;
        known.map(|(it, contents)| (sectors(it), contents)).filter(|it| it.0 > 0).collect()
    }

    /// Returns the contents by the events since the recording began; `None`: they do not hold for
    /// this request.
    fn by_events(
        &self,
        key: FileKey,
        offset: u64,
        source: ExtentSource,
        look: Lookup,
    ) -> Option<BlockContents> {
        if source == ExtentSource::Blocks && key.1 == EXT4_JOURNAL_INO {
            return Some(BlockContents::Journal);
        }
        let is_stale =
            source != ExtentSource::Blocks && look.was_in_memory && !self.reports_writeback;
        let is_certain = source != ExtentSource::Shared && look.at >= self.mounts_change_until;
        let link = if is_certain { Link::Exact } else { Link::Inferred };
        (!is_stale).then(|| self.file(key, Some(offset), link))
    }
}
