//! Extents of files as known during the recording: decides whether a location belongs to a file
//! that the program has opened.
//!
//! Input are file-system events, output are marks of their records. Extents of files that the
//! program has not opened are stored here, within limits. They are written as facts when a request
//! of the program is at such a location.

use rangemap::RangeMap;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

use super::marks::Mark;
use crate::capture::fact::{Fact, Text};
use crate::capture::header::Disk;
use crate::event::FileStat;
use crate::event::block::DevicePosition;
use crate::event::fs::{AddressUnit, Extent, FsEvent};
use crate::units::{DevId, KernelTime, Pid, SECTOR_BYTES};

/// File system and inode.
type InodeKey = (DevId, u64);

/// A part of a file in which the distance between two bytes is the same on the device and in the
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlaceRun {
    file: InodeKey,
    unit: AddressUnit,
    is_shared: bool,
    /// Address on the device minus offset in the file, in bytes, modulo 2^64.
    shift: u64,
    /// True if the log has the extent.
    is_reported: bool,
}

/// A loop device.
#[derive(Debug)]
struct Image {
    dev: DevId,
    /// Offset of the device in its file, in bytes.
    offset: u64,
    /// Partitions: first sector, end sector (exclusive), number.
    partitions: Vec<(u64, u64, DevId)>,
}

/// Largest number of runs that are remembered: some 100 bytes each.
const RUNS_MAX: usize = 1 << 19;

/// Largest number of files that are remembered as opened by the program.
const FILES_MAX: usize = 1 << 20;

/// Largest depth of loop devices on files on loop devices; deeper ones are not examined.
const DEPTH_MAX: usize = 8;

/// Known extents of files.
#[derive(Debug, Default)]
pub(super) struct FilePlaces {
    block_bytes: FxHashMap<DevId, u64>,
    runs: FxHashMap<DevId, RangeMap<u64, PlaceRun>>,
    count: usize,
    /// Number of runs that were dropped for want of room.
    pub(super) given_up: u64,
    /// Files that the program has opened, and the time of the last open. An open may become known
    /// earlier or later than the records of its time.
    files: FxHashMap<InodeKey, KernelTime>,
    /// Devices on which the program has opened files, and devices that it has opened.
    devices: FxHashSet<DevId>,
    /// True if any file may have been opened by the program.
    is_any: bool,
    /// Devices that were used through their own inodes.
    used: FxHashSet<DevId>,
    images: FxHashMap<InodeKey, Image>,
    /// True if extents reported by iomap also hold for writeback, because tracepoints report those
    /// of writeback.
    has_writeback_reports: bool,
    /// Facts to be written.
    facts: Vec<Fact>,
}

impl FilePlaces {
    pub(super) fn new(has_writeback_reports: bool) -> Self {
        Self { has_writeback_reports, ..Self::default() }
    }

    /// Adds these disks to the known ones.
    pub(super) fn add_disks(&mut self, disks: &[Disk]) {
        self.images.extend(disks.iter().filter_map(image));
    }

    /// Replaces the known disks by these.
    pub(super) fn has_only_disks(&mut self, disks: &[Disk]) {
        self.images.clear();
        self.add_disks(disks);
    }

    /// Replaces the mounts by those of a text of [`Text::BLOCKS`].
    pub(super) fn mounted(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let line = |line: &str| {
            let (dev, bytes) = line.split_once(' ')?;
            Some((DevId::parse(dev)?, bytes.parse().ok()?))
        };
        let now: FxHashMap<DevId, u64> = text.lines().filter_map(line).collect();
        let before = std::mem::replace(&mut self.block_bytes, now);
        let mut changed: Vec<DevId> =
            before.keys().chain(self.block_bytes.keys()).copied().collect();
        changed.retain(|it| before.get(it) != self.block_bytes.get(it));
        for dev in changed {
            self.count -= self.runs.remove(&dev).map_or(0, |it| it.len());
        }
    }

    /// Records that the program had opened a file by this time. Returns false for a block device:
    /// the caller determines which one.
    pub(super) fn opened(&mut self, time: KernelTime, stat: &FileStat) -> bool {
        match stat.mode & libc::S_IFMT {
            libc::S_IFBLK => return false,
            libc::S_IFREG => {}
            _ => return true,
        }
        if let Some(key) = stat.inode() {
            self.has_file(time, key);
        }
        // On file systems without a device of their own (btrfs, overlay, network) addresses are not
        // locations on a device.
        if stat.dev.major() != 0 {
            self.devices.insert(stat.dev);
        }
        true
    }

    /// Records that the program works with this file.
    fn has_file(&mut self, time: KernelTime, key: InodeKey) {
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&key) {
            self.is_any = true;
            return;
        }
        let last = self.files.entry(key).or_insert(time);
        *last = time.max(*last);
    }

    /// Records that the program has opened a block device; `None`: unknown which.
    pub(super) fn opened_device(&mut self, dev: Option<DevId>) {
        match dev {
            Some(dev) => drop(self.devices.insert(dev)),
            None => self.is_any = true,
        }
    }

    /// Drops all extents after records were lost, as readers of the log do.
    pub(super) fn records_lost(&mut self) {
        self.runs.clear();
        self.used.clear();
        self.count = 0;
    }

    /// Learns from a file-system event at this time; `by_own` is true if its thread is followed.
    pub(super) fn learn(&mut self, time: KernelTime, event: &FsEvent, by_own: bool) -> Mark {
        let all = self.is_any;
        let mark = |is_kept: bool| if is_kept || all { Mark::Kept } else { Mark::Dropped };
        match event {
            FsEvent::NoExtent => mark(by_own),
            FsEvent::Extent(it) if is_device(it) => mark(self.used.insert(it.on) || by_own),
            FsEvent::Extent(it) => {
                // If no open is known, the program has received the descriptor from another
                // program.
                if by_own {
                    self.has_file(time, (it.dev, it.ino));
                }
                mark(self.learn_extent(it, by_own))
            }
            FsEvent::Freed { dev, block, count } => mark(self.free(*dev, *block, *count) || by_own),
            FsEvent::Evicted { dev, ino } => mark(self.evict(time, (*dev, *ino)) || by_own),
        }
    }

    /// Handles an evicted inode, whose number may be reused for another file. Returns true if the
    /// log needs the event.
    fn evict(&mut self, time: KernelTime, file: InodeKey) -> bool {
        let Some(opened) = self.files.get(&file) else { return false };
        // A later open refers to the next file with this number.
        if *opened < time {
            self.files.remove(&file);
        }
        true
    }

    /// Stores an extent. Returns true if the log needs the event.
    fn learn_extent(&mut self, extent: &Extent, by_own: bool) -> bool {
        let unit = match extent.unit {
            AddressUnit::Bytes => Some(1),
            AddressUnit::Blocks => self.block_bytes.get(&extent.dev).copied(),
        };
        let Some(unit) = unit else { return true };
        let begin = extent.address.saturating_mul(unit);
        let end = begin.saturating_add(extent.length.saturating_mul(unit));
        let file = (extent.dev, extent.ino);
        let shift = begin.wrapping_sub(extent.offset.saturating_mul(unit));
        let is_own = by_own || self.files.contains_key(&file);
        let mut run = PlaceRun {
            file,
            unit: extent.unit,
            is_shared: extent.is_shared,
            shift,
            is_reported: true,
        };
        if begin >= end {
            return is_own;
        }
        if self.count >= RUNS_MAX {
            self.drop_unreported();
        }
        let runs = self.runs.entry(extent.on).or_default();
        let reported = |of: &&PlaceRun| of.is_reported;
        let differs =
            runs.overlapping(begin..end).map(|it| it.1).filter(reported).any(|it| *it != run);
        let gap = runs.gaps(&(begin..end)).next().is_some();
        let has_unreported = runs.overlapping(begin..end).any(|it| !it.1.is_reported);
        if !is_own && !differs && !gap && !has_unreported {
            return false;
        }
        // An extent that replaces one that the log has is logged, too.
        run.is_reported = is_own || differs;
        self.count -= runs.len();
        runs.insert(begin..end, run);
        self.count += runs.len();
        run.is_reported
    }

    /// Removes freed blocks. Returns true if the log needs the event.
    fn free(&mut self, dev: DevId, block: u64, count: u64) -> bool {
        let Some(&unit) = self.block_bytes.get(&dev) else { return true };
        let begin = block.saturating_mul(unit);
        let end = begin.saturating_add(count.saturating_mul(unit));
        let Some(runs) = self.runs.get_mut(&dev).filter(|_| begin < end) else { return false };
        let is_reported = runs.overlapping(begin..end).any(|it| it.1.is_reported);
        self.count -= runs.len();
        runs.remove(begin..end);
        self.count += runs.len();
        is_reported
    }

    /// Makes room by dropping the extents that the log does not have.
    fn drop_unreported(&mut self) {
        let mut left = 0;
        for runs in self.runs.values_mut() {
            let before = runs.len();
            *runs = runs
                .iter()
                .filter(|it| it.1.is_reported)
                .map(|(at, it)| (at.clone(), *it))
                .collect();
            self.given_up += (before - runs.len()) as u64;
            left += runs.len();
        }
        self.count = left;
        if left >= RUNS_MAX / 2 {
            // The extents in the log are the program's own. A reader has room for more, and drops
            // none of them.
            self.given_up += left as u64;
            self.is_any = true;
            self.records_lost();
        }
    }

    /// True if some of these sectors may belong to a file that the program has opened.
    pub(super) fn hold_own(&self, place: DevicePosition, nr_sector: u64) -> bool {
        self.is_any || self.hold(place, nr_sector, 0)
    }

    fn hold(&self, place: DevicePosition, nr_sector: u64, depth: usize) -> bool {
        let begin = place.sector.saturating_mul(SECTOR_BYTES);
        let end = begin.saturating_add(nr_sector.saturating_mul(SECTOR_BYTES));
        if begin >= end || depth >= DEPTH_MAX {
            return depth >= DEPTH_MAX;
        }
        let is_unknown_own = self.devices.contains(&place.dev);
        let Some(runs) = self.runs.get(&place.dev) else { return is_unknown_own };
        if is_unknown_own && runs.gaps(&(begin..end)).next().is_some() {
            return true;
        }
        runs.overlapping(begin..end).any(|(at, run)| {
            if run.unit == AddressUnit::Bytes && !self.has_writeback_reports && is_unknown_own {
                return true;
            }
            if self.files.contains_key(&run.file) {
                return true;
            }
            let (from, to) = (at.start.max(begin), at.end.min(end));
            self.images.get(&run.file).is_some_and(|image| {
                let above = image.place(from.wrapping_sub(run.shift));
                self.hold(above, (to - from).div_ceil(SECTOR_BYTES), depth + 1)
            })
        })
    }

    /// Writes the known extents at the location of a request that is in the log.
    pub(super) fn write_extents(
        &mut self,
        time: KernelTime,
        place: DevicePosition,
        nr_sector: u64,
    ) {
        self.write_extents_at(time, place, nr_sector, 0);
    }

    fn write_extents_at(
        &mut self,
        time: KernelTime,
        place: DevicePosition,
        nr_sector: u64,
        depth: usize,
    ) {
        let begin = place.sector.saturating_mul(SECTOR_BYTES);
        let end = begin.saturating_add(nr_sector.saturating_mul(SECTOR_BYTES));
        let Some(runs) = self.runs.get(&place.dev).filter(|_| begin < end) else { return };
        let found: Vec<_> =
            runs.overlapping(begin..end).map(|(at, it)| (at.clone(), *it)).collect();
        for (at, run) in found {
            if !run.is_reported {
                self.facts.extend(self.fact(time, place.dev, &at, run));
                if let Some(runs) = self.runs.get_mut(&place.dev) {
                    self.count -= runs.len();
                    runs.insert(at.clone(), PlaceRun { is_reported: true, ..run });
                    self.count += runs.len();
                }
            }
            let (from, to) = (at.start.max(begin), at.end.min(end));
            let above = self.images.get(&run.file).map(|it| it.place(from.wrapping_sub(run.shift)));
            if let Some(above) = above.filter(|_| depth < DEPTH_MAX) {
                self.write_extents_at(time, above, (to - from).div_ceil(SECTOR_BYTES), depth + 1);
            }
        }
    }

    /// Returns a run as a text of [`Text::PLACES`], with a time just before this one.
    fn fact(&self, time: KernelTime, on: DevId, at: &Range<u64>, run: PlaceRun) -> Option<Fact> {
        let (begin, end) = (at.start, at.end);
        let (word, unit) = match run.unit {
            AddressUnit::Bytes => ("bytes", 1),
            AddressUnit::Blocks => ("blocks", *self.block_bytes.get(&run.file.0)?),
        };
        let offset = begin.wrapping_sub(run.shift) / unit;
        let (dev, ino) = run.file;
        let (length, address, shared) =
            ((end - begin) / unit, begin / unit, u8::from(run.is_shared));
        let text = format!("{dev} {ino} {on} {word} {offset} {length} {address} {shared}\n");
        let time = KernelTime(time.0.saturating_sub(1));
        Some(Fact::Text { time, which: Text::PLACES, pid: Pid(0), text: text.into_bytes() })
    }

    /// Returns the facts to write before the next records.
    pub(super) fn take_facts(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.facts)
    }
}

impl Image {
    /// Returns the location of a byte of the file on the device, or on a partition of it.
    fn place(&self, offset: u64) -> DevicePosition {
        let sector = offset.saturating_sub(self.offset) / SECTOR_BYTES;
        let holds = |it: &&(u64, u64, DevId)| it.0 <= sector && sector < it.1;
        match self.partitions.iter().find(holds) {
            Some((start, _, dev)) => DevicePosition { dev: *dev, sector: sector - start },
            None => DevicePosition { dev: self.dev, sector },
        }
    }
}

fn image(disk: &Disk) -> Option<(InodeKey, Image)> {
    let file = disk.loop_file.as_ref()?;
    let offset = disk.attributes.get("loop/offset").and_then(|it| it.parse().ok());
    let partitions = disk.partitions.iter().filter_map(|partition| {
        let start = partition.start_sectors?;
        let end = start.checked_add(partition.sectors?)?;
        Some((start, end, DevId::parse(&partition.dev)?))
    });
    let image = Image {
        dev: DevId::parse(&disk.dev)?,
        offset: offset.unwrap_or(0),
        partitions: partitions.collect(),
    };
    Some(((DevId::parse(&file.dev)?, file.ino), image))
}

/// True if the extent belongs to a block device's own inode (`operation::attribution`).
fn is_device(extent: &Extent) -> bool {
    extent.dev.major() == 0
        && extent.ino == u64::from(extent.on.0)
        && extent.offset == extent.address
}
