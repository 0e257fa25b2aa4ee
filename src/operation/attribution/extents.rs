//! Extents: locations of the contents of files on a device, as far as its file system has reported
//! them.

use rangemap::RangeMap;
use rustc_hash::FxHashMap;

use crate::event::fs::{AddressUnit, Extent};
use crate::units::DevId;

/// File: its file system, as in `st_dev`, and its inode number; or [`device_file`].
pub type FileKey = (DevId, u64);

/// Returns the key of a block device as a file, whichever node it was opened by: offsets in it are
/// the places on the device.
pub fn device_file(dev: DevId) -> FileKey {
    (DevId(0), dev.0.into())
}

/// Returns the device, if the key is that of one.
pub fn device_of(key: FileKey) -> Option<DevId> {
    let (dev, ino) = key;
    u32::try_from(ino).ok().filter(|_| dev == DevId(0)).map(DevId)
}

/// Returns true for an extent of a block device as a file. The kernel has an inode for each block
/// device in a file system of its own, which has no device; the inode number is that of the device
/// (`bdev_add()` in block/bdev.c, from Linux 5.11 on). Such an extent concerns all contents of the
/// device, of whatever kind.
pub(super) fn is_device(extent: &Extent) -> bool {
    extent.dev.major() == 0
        && extent.ino == u64::from(extent.on.0)
        && extent.offset == extent.address
}

/// Source of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtentSource {
    /// ext4, which also reports the end of an extent's validity.
    Blocks,
    /// iomap: the extent holds for the next read or write.
    Mapping,
    /// iomap, for an extent that may be shared with other files.
    Shared,
}

/// A part of a file's contents. Equal for all bytes that have the same distance from each other on
/// the device and in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExtentRun {
    file: FileKey,
    source: ExtentSource,
    /// Place on the device minus offset in the file, in bytes, modulo 2^64.
    shift: u64,
}

/// Contents of a range of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundExtent {
    /// First byte on the device.
    pub begin: u64,
    /// Byte after the last.
    pub end: u64,
    /// File, offset in it in bytes, and source of the extent; `None`: not known.
    pub of: Option<(FileKey, u64, ExtentSource)>,
}

/// Extents of all devices.
#[derive(Debug, Default)]
pub(super) struct Extents {
    /// Bytes of a block, by file system.
    block_bytes: FxHashMap<DevId, u64>,
    /// Runs by device and by bytes on the device.
    runs: FxHashMap<DevId, RangeMap<u64, ExtentRun>>,
    count: usize,
    /// Extents in blocks whose size is not known.
    pub unsized_: u64,
    /// Runs that were evicted for want of room.
    pub given_up: u64,
}

/// Limit of remembered runs: some 100 bytes each.
const RUNS_MAX: usize = 1 << 22;

impl Extents {
    /// Sets the block size of a file system.
    pub(super) fn has_blocks(&mut self, dev: DevId, bytes: u64) {
        self.block_bytes.insert(dev, bytes);
    }

    /// Forgets a device: it has another file system now, or none.
    pub(super) fn forget_device(&mut self, dev: DevId) {
        self.block_bytes.remove(&dev);
        self.count -= self.runs.remove(&dev).map_or(0, |it| it.len());
    }

    /// Records an extent. The previous contents of its range are not valid any more.
    pub(super) fn learn(&mut self, extent: &Extent) {
        let unit = match extent.unit {
            AddressUnit::Bytes => Some(1),
            AddressUnit::Blocks => self.block_bytes.get(&extent.dev).copied(),
        };
        let Some(unit) = unit else {
            self.unsized_ += 1;
            return;
        };
        let bytes = |units: u64| units.saturating_mul(unit);
        let begin = bytes(extent.address);
        let end = begin.saturating_add(bytes(extent.length));
        let shift = begin.wrapping_sub(bytes(extent.offset));
        if self.count >= RUNS_MAX {
            self.given_up += self.count as u64;
            self.forget();
        }
        let source = match (extent.unit, extent.is_shared) {
            (AddressUnit::Blocks, _) => ExtentSource::Blocks,
            (AddressUnit::Bytes, false) => ExtentSource::Mapping,
            (AddressUnit::Bytes, true) => ExtentSource::Shared,
        };
        let run = ExtentRun { file: (extent.dev, extent.ino), source, shift };
        self.change(extent.on, begin, end, |runs| runs.insert(begin..end, run));
    }

    /// Removes blocks that belong to no file any more.
    pub(super) fn free(&mut self, dev: DevId, block: u64, count: u64) {
        if let Some(&unit) = self.block_bytes.get(&dev) {
            let begin = block.saturating_mul(unit);
            let end = begin.saturating_add(count.saturating_mul(unit));
            self.change(dev, begin, end, |runs| runs.remove(begin..end));
        }
    }

    /// Forgets everything: any extent may have been freed and reused unseen.
    pub(super) fn forget(&mut self) {
        self.runs.clear();
        self.count = 0;
    }

    /// Returns the contents of `[begin, end)` of a device, in order and without gaps.
    pub(super) fn find(&self, dev: DevId, begin: u64, end: u64) -> Vec<FoundExtent> {
        let mut found = Vec::new();
        let mut at = begin;
        let runs = self.runs.get(&dev).filter(|_| begin < end);
        for (range, run) in runs.into_iter().flat_map(|it| it.overlapping(begin..end)) {
            let (from, to) = (range.start.max(begin), range.end.min(end));
            if at < from {
                found.push(FoundExtent { begin: at, end: from, of: None });
            }
            let of = Some((run.file, from.wrapping_sub(run.shift), run.source));
            found.push(FoundExtent { begin: from, end: to, of });
            at = to;
        }
        if at < end {
            found.push(FoundExtent { begin: at, end, of: None });
        }
        found
    }

    /// Changes a range that is not empty, and updates the count.
    fn change(
        &mut self,
        dev: DevId,
        begin: u64,
        end: u64,
        change: impl FnOnce(&mut RangeMap<u64, ExtentRun>),
    ) {
        if begin < end {
            let runs = self.runs.entry(dev).or_default();
            self.count -= runs.len();
            change(runs);
            self.count += runs.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: DevId = DevId(7);

    fn extents(list: &[(u64, u64, u64, u64)]) -> Extents {
        let mut extents = Extents::default();
        extents.has_blocks(DEV, 1024);
        for &(ino, offset, length, address) in list {
            let unit = AddressUnit::Blocks;
            let is_shared = false;
            let extent =
                Extent { dev: DEV, ino, on: DEV, unit, offset, length, address, is_shared };
            extents.learn(&extent);
        }
        extents
    }

    /// Returns `begin-end` of each piece in blocks, with `inode@offset`.
    fn text(extents: &Extents, begin: u64, end: u64) -> String {
        let piece = |found: FoundExtent| {
            let of = found.of.map(|((_, ino), offset, _)| format!("{ino}@{}", offset / 1024));
            let of = of.as_deref().unwrap_or("?");
            format!("{}-{}:{of}", found.begin / 1024, found.end / 1024)
        };
        let found = extents.find(DEV, begin * 1024, end * 1024);
        found.into_iter().map(piece).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn latest_extent_wins() {
        let all = extents(&[(1, 0, 10, 100), (2, 5, 2, 103)]);
        assert_eq!(text(&all, 99, 111), "99-100:? 100-103:1@0 103-105:2@5 105-110:1@5 110-111:?");
        assert_eq!(text(&all, 104, 106), "104-105:2@6 105-106:1@5");
        assert_eq!(text(&all, 3, 3), "");
        assert_eq!(all.count, 3);
    }

    #[test]
    fn repeated_extent_is_one_run() {
        let all = extents(&[(1, 0, 10, 100), (1, 2, 3, 102), (1, 0, 10, 100)]);
        assert_eq!((text(&all, 100, 110), all.count), ("100-110:1@0".to_owned(), 1));
    }

    #[test]
    fn freed_extent_has_no_file() {
        let mut all = extents(&[(1, 0, 10, 100)]);
        all.free(DEV, 104, 2);
        assert_eq!(text(&all, 100, 110), "100-104:1@0 104-106:? 106-110:1@6");
        all.free(DEV, 0, u64::MAX);
        assert_eq!((text(&all, 100, 110), all.count), ("100-110:?".to_owned(), 0));
    }

    #[test]
    fn device_node_is_its_own_file() {
        let (unit, dev, on, ino) = (AddressUnit::Bytes, DevId(3), DEV, u64::from(DEV.0));
        let (offset, length, address, is_shared) = (512, 512, 512, false);
        let it = Extent { dev, ino, on, unit, offset, length, address, is_shared };
        assert!(is_device(&it) && !is_device(&Extent { offset: 0, ..it }));
        assert_eq!(device_of(device_file(DEV)), Some(DEV));
        assert_eq!(device_of((dev, ino)), None);
    }

    #[test]
    fn extents_of_another_file_system_are_unknown() {
        let mut all = extents(&[(1, 0, 10, 100)]);
        all.forget_device(DEV);
        assert_eq!((text(&all, 100, 110), all.count), ("100-110:?".to_owned(), 0));
        let (unit, dev, on, ino) = (AddressUnit::Blocks, DEV, DEV, 1);
        let (offset, length, address, is_shared) = (0, 10, 100, false);
        all.learn(&Extent { dev, ino, on, unit, offset, length, address, is_shared });
        assert_eq!(all.unsized_, 1, "the block size is not known any more");
    }

    #[test]
    fn blocks_of_unknown_size_are_counted() {
        let mut extents = Extents::default();
        let (unit, on) = (AddressUnit::Blocks, DEV);
        let (offset, length, address, is_shared) = (0, 1, 1, false);
        extents.learn(&Extent { dev: DEV, ino: 1, on, unit, offset, length, address, is_shared });
        assert_eq!((extents.unsized_, extents.count), (1, 0));
    }

    proptest::proptest! {
        #[test]
        fn any_extents_never_overlap_and_leave_no_gap(
            list in proptest::collection::vec((0u64..3, 0u64..20, 0u64..9, 0u64..20), 0..20),
            begin in 0u64..20,
            length in 0u64..20,
        ) {
            let all = extents(&list);
            let found = all.find(DEV, begin, begin + length);
            let mut at = begin;
            for it in found {
                proptest::prop_assert!(it.begin == at && it.end > it.begin);
                at = it.end;
            }
            proptest::prop_assert_eq!(at, begin + length);
            proptest::prop_assert_eq!(all.count, all.runs.values().map(RangeMap::len).sum::<usize>());
        }
    }
}
