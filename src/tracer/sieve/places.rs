//! What is known while recording of where files lie: whether a place is a file's that the program has opened.
//!
//! In: what file systems say. Out: marks of these records. Of files that the program has not opened they stay here, bounded, and are
//! told as a fact when a request of the program's is at such a place.

use rangemap::RangeMap;
use rustc_hash::{FxHashMap, FxHashSet};

use super::marks::Mark;
use crate::capture::fact::{Fact, Text};
use crate::capture::header::Disk;
use crate::event::FileStat;
use crate::event::block::Place;
use crate::event::fs::{Extent, FsEvent, Unit};
use crate::units::{DevId, KernelTime, Pid, SECTOR_BYTES};

/// File system and inode.
type FileKey = (DevId, u64);

/// A part of a file, the same for all bytes that lie as far from one another on the device as in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    file: FileKey,
    unit: Unit,
    is_shared: bool,
    /// Place on the device less place in the file, in bytes, modulo 2^64.
    shift: u64,
    /// The log has it.
    is_told: bool,
}

/// A loop device.
#[derive(Debug)]
struct Image {
    dev: DevId,
    /// Where in the file it begins, in bytes.
    offset: u64,
    /// Its partitions: first sector, the one behind the last, number.
    partitions: Vec<(u64, u64, DevId)>,
}

/// Runs that are remembered: some 100 bytes each.
const RUNS_MAX: usize = 1 << 19;

/// Files that are remembered as opened by the program.
const FILES_MAX: usize = 1 << 20;

/// Loop devices on files on loop devices; more are not looked through.
const DEPTH_MAX: usize = 8;

/// Places of files.
#[derive(Debug, Default)]
pub(super) struct Places {
    block_bytes: FxHashMap<DevId, u64>,
    runs: FxHashMap<DevId, RangeMap<u64, Run>>,
    count: usize,
    /// Runs that were given up for want of room.
    pub(super) given_up: u64,
    /// Files that the program has opened, and when last. An open is known earlier or later than the records of its time.
    files: FxHashMap<FileKey, KernelTime>,
    /// Devices where it has opened some, or that it has opened themselves.
    devices: FxHashSet<DevId>,
    /// It may have opened any.
    is_any: bool,
    /// Devices that were used through their own inodes.
    used: FxHashSet<DevId>,
    images: FxHashMap<FileKey, Image>,
    /// Of what file systems say, what iomap says holds for writeback, too.
    writeback_is_told: bool,
    /// What is to be told.
    facts: Vec<Fact>,
}

impl Places {
    pub(super) fn new(writeback_is_told: bool) -> Self {
        Self { writeback_is_told, ..Self::default() }
    }

    /// There are these disks, besides those that are known.
    pub(super) fn add_disks(&mut self, disks: &[Disk]) {
        self.images.extend(disks.iter().filter_map(image));
    }

    /// From now on there are no other disks than these.
    pub(super) fn has_only_disks(&mut self, disks: &[Disk]) {
        self.images.clear();
        self.add_disks(disks);
    }

    /// What is mounted: a text of [`Text::BLOCKS`].
    pub(super) fn mounted(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let line = |it: &str| {
            let (dev, bytes) = it.split_once(' ')?;
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

    /// The program had opened a file by this time. False if that is a block device: which one is asked for.
    pub(super) fn opened(&mut self, time: KernelTime, stat: &FileStat) -> bool {
        match stat.mode & libc::S_IFMT {
            libc::S_IFBLK => return false,
            libc::S_IFREG => {}
            _ => return true,
        }
        if let Some(key) = stat.inode() {
            self.has_file(time, key);
        }
        // Without a device of its own (btrfs, overlay, network) addresses are no places on one.
        if stat.dev.major() != 0 {
            self.devices.insert(stat.dev);
        }
        true
    }

    /// The program works with this file.
    fn has_file(&mut self, time: KernelTime, key: FileKey) {
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&key) {
            self.is_any = true;
            return;
        }
        let last = self.files.entry(key).or_insert(time);
        *last = time.max(*last);
    }

    /// The program has opened a block device; `None`: it is not known which.
    pub(super) fn opened_device(&mut self, dev: Option<DevId>) {
        match dev {
            Some(dev) => drop(self.devices.insert(dev)),
            None => self.is_any = true,
        }
    }

    /// Records were lost: readers forget everything.
    pub(super) fn records_lost(&mut self) {
        self.runs.clear();
        self.used.clear();
        self.count = 0;
    }

    /// What a file system says at this time; `by_own`: in a thread that is followed.
    pub(super) fn learn(&mut self, time: KernelTime, event: &FsEvent, by_own: bool) -> Mark {
        let all = self.is_any;
        let mark = |is_kept: bool| if is_kept || all { Mark::Kept } else { Mark::Dropped };
        match event {
            FsEvent::NoExtent => mark(by_own),
            FsEvent::Extent(it) if is_device(it) => mark(self.used.insert(it.on) || by_own),
            FsEvent::Extent(it) => {
                // It got the descriptor from another program, if no open is known.
                if by_own {
                    self.has_file(time, (it.dev, it.ino));
                }
                mark(self.learn_extent(it, by_own))
            }
            FsEvent::Freed { dev, block, count } => mark(self.free(*dev, *block, *count) || by_own),
            FsEvent::Evicted { dev, ino } => mark(self.evict(time, (*dev, *ino)) || by_own),
        }
    }

    /// The inode is gone, and its number may be another file's. True if the log needs it.
    fn evict(&mut self, time: KernelTime, file: FileKey) -> bool {
        let Some(opened) = self.files.get(&file) else { return false };
        // An open after it is of the next file with this number.
        if *opened < time {
            self.files.remove(&file);
        }
        true
    }

    /// True if the log needs it.
    fn learn_extent(&mut self, it: &Extent, by_own: bool) -> bool {
        let unit = match it.unit {
            Unit::Bytes => Some(1),
            Unit::Blocks => self.block_bytes.get(&it.dev).copied(),
        };
        let Some(unit) = unit else { return true };
        let begin = it.address.saturating_mul(unit);
        let end = begin.saturating_add(it.length.saturating_mul(unit));
        let file = (it.dev, it.ino);
        let shift = begin.wrapping_sub(it.offset.saturating_mul(unit));
        let is_own = by_own || self.files.contains_key(&file);
        let mut run = Run { file, unit: it.unit, is_shared: it.is_shared, shift, is_told: true };
        if begin >= end {
            return is_own;
        }
        if self.count >= RUNS_MAX {
            self.forget_untold();
        }
        let runs = self.runs.entry(it.on).or_default();
        let told = |of: &&Run| of.is_told;
        let differs = runs.overlapping(begin..end).map(|it| it.1).filter(told).any(|it| *it != run);
        let gap = runs.gaps(&(begin..end)).next().is_some();
        let has_untold = runs.overlapping(begin..end).any(|it| !it.1.is_told);
        if !is_own && !differs && !gap && !has_untold {
            return false;
        }
        // What takes the place of something that the log has is told, too.
        run.is_told = is_own || differs;
        self.count -= runs.len();
        runs.insert(begin..end, run);
        self.count += runs.len();
        run.is_told
    }

    /// True if the log needs it.
    fn free(&mut self, dev: DevId, block: u64, count: u64) -> bool {
        let Some(&unit) = self.block_bytes.get(&dev) else { return true };
        let begin = block.saturating_mul(unit);
        let end = begin.saturating_add(count.saturating_mul(unit));
        let Some(runs) = self.runs.get_mut(&dev).filter(|_| begin < end) else { return false };
        let is_told = runs.overlapping(begin..end).any(|it| it.1.is_told);
        self.count -= runs.len();
        runs.remove(begin..end);
        self.count += runs.len();
        is_told
    }

    /// There is no room: what the log does not have is not known any more.
    fn forget_untold(&mut self) {
        let mut left = 0;
        for runs in self.runs.values_mut() {
            let before = runs.len();
            *runs =
                runs.iter().filter(|it| it.1.is_told).map(|(at, it)| (at.clone(), *it)).collect();
            self.given_up += (before - runs.len()) as u64;
            left += runs.len();
        }
        self.count = left;
        if left >= RUNS_MAX / 2 {
            // Those that the log has are the program's own; a reader has room for more, and forgets none of them.
            self.given_up += left as u64;
            self.is_any = true;
            self.records_lost();
        }
    }

    /// True if some of these sectors may be of a file that the program has opened.
    pub(super) fn hold_own(&self, place: Place, nr_sector: u64) -> bool {
        self.is_any || self.hold(place, nr_sector, 0)
    }

    fn hold(&self, place: Place, nr_sector: u64, depth: usize) -> bool {
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
            if run.unit == Unit::Bytes && !self.writeback_is_told && is_unknown_own {
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

    /// A request at this place is in the log: so is what is known of the place.
    pub(super) fn tell(&mut self, time: KernelTime, place: Place, nr_sector: u64) {
        self.tell_at(time, place, nr_sector, 0);
    }

    fn tell_at(&mut self, time: KernelTime, place: Place, nr_sector: u64, depth: usize) {
        let begin = place.sector.saturating_mul(SECTOR_BYTES);
        let end = begin.saturating_add(nr_sector.saturating_mul(SECTOR_BYTES));
        let Some(runs) = self.runs.get(&place.dev).filter(|_| begin < end) else { return };
        let found: Vec<_> =
            runs.overlapping(begin..end).map(|(at, it)| (at.clone(), *it)).collect();
        for (at, run) in found {
            if !run.is_told {
                self.facts.extend(self.fact(time, place.dev, (at.start, at.end), run));
                if let Some(runs) = self.runs.get_mut(&place.dev) {
                    self.count -= runs.len();
                    runs.insert(at.clone(), Run { is_told: true, ..run });
                    self.count += runs.len();
                }
            }
            let (from, to) = (at.start.max(begin), at.end.min(end));
            let above = self.images.get(&run.file).map(|it| it.place(from.wrapping_sub(run.shift)));
            if let Some(above) = above.filter(|_| depth < DEPTH_MAX) {
                self.tell_at(time, above, (to - from).div_ceil(SECTOR_BYTES), depth + 1);
            }
        }
    }

    /// A run as a text of [`Text::PLACES`], of just before this time.
    fn fact(
        &self,
        time: KernelTime,
        on: DevId,
        (begin, end): (u64, u64),
        run: Run,
    ) -> Option<Fact> {
        let (word, unit) = match run.unit {
            Unit::Bytes => ("bytes", 1),
            Unit::Blocks => ("blocks", *self.block_bytes.get(&run.file.0)?),
        };
        let offset = begin.wrapping_sub(run.shift) / unit;
        let (dev, ino) = run.file;
        let (length, address, shared) =
            ((end - begin) / unit, begin / unit, u8::from(run.is_shared));
        let text = format!("{dev} {ino} {on} {word} {offset} {length} {address} {shared}\n");
        let time = KernelTime(time.0.saturating_sub(1));
        Some(Fact::Text { time, which: Text::PLACES, pid: Pid(0), text: text.into_bytes() })
    }

    /// What is to be told with the next records.
    pub(super) fn take_facts(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.facts)
    }
}

impl Image {
    /// Where a byte of the file is on the device, or on a partition of it.
    fn place(&self, offset: u64) -> Place {
        let sector = offset.saturating_sub(self.offset) / SECTOR_BYTES;
        let holds = |it: &&(u64, u64, DevId)| it.0 <= sector && sector < it.1;
        match self.partitions.iter().find(holds) {
            Some((start, _, dev)) => Place { dev: *dev, sector: sector - start },
            None => Place { dev: self.dev, sector },
        }
    }
}

fn image(disk: &Disk) -> Option<(FileKey, Image)> {
    let file = disk.loop_file.as_ref()?;
    let offset = disk.attributes.get("loop/offset").and_then(|it| it.parse().ok());
    let partitions = disk.partitions.iter().filter_map(|it| {
        let start = it.start_sectors?;
        Some((start, start.checked_add(it.sectors?)?, DevId::parse(&it.dev)?))
    });
    let image = Image {
        dev: DevId::parse(&disk.dev)?,
        offset: offset.unwrap_or(0),
        partitions: partitions.collect(),
    };
    Some(((DevId::parse(&file.dev)?, file.ino), image))
}

/// What is said of a block device's own inode (`operation::behind`).
fn is_device(extent: &Extent) -> bool {
    extent.dev.major() == 0
        && extent.ino == u64::from(extent.on.0)
        && extent.offset == extent.address
}
