//! Files, their extents and writers, and the pieces of requests that follow from them.

use std::cell::RefCell;
use std::str::SplitWhitespace;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::extents::{Extents, FileKey, device_file, device_of, is_device};
use super::loop_devices::LoopDevices;
use super::model::{BlockContents, Lookup, Piece, StackedLocation, SubmitContext};
use super::named::{NameChanges, NamedFile};
use super::writers::{LastWriter, WriterRef, Writers};
use crate::anomaly::Link;
use crate::block::{BlockRequest, RequestPart};
use crate::capture::header::Disk;
use crate::event::FileStat;
use crate::event::block::{DevicePosition, RequestOp};
use crate::event::fs::{AddressUnit, Extent, FsEvent};
use crate::operation::file_names::{CallSpan, NameChange, NamedPlace};
use crate::operation::model::{FilePath, MountNamespace, OpenFile};
use crate::units::{DevId, KernelTime, SECTOR_BYTES};

/// Sectors of a part that have the same contents.
#[derive(Debug)]
struct Sectors {
    first: u64,
    count: u64,
    contents: BlockContents,
    above: Vec<StackedLocation>,
}

/// Files, and what is known of their locations.
#[derive(Debug, Default)]
pub struct FileAttribution {
    pub(super) extents: Extents,
    /// Extents at the end of the recording, as reported by the file systems.
    pub(super) at_the_end: Extents,
    /// Files as they were last opened.
    opened: FxHashMap<FileKey, RefCell<NamedFile>>,
    /// Changes of their names.
    changes: NameChanges,
    /// True if files were opened in other mounts than the tracer's, or under names whose directory
    /// is not known.
    is_elsewhere: bool,
    writers: Writers,
    pub(super) images: LoopDevices,
    /// Block devices by their names.
    devices: FxHashMap<Vec<u8>, DevId>,
    /// Devices that are used directly by their nodes.
    used_directly: FxHashSet<DevId>,
    /// Devices with a mounted file system, and its block size if events count in blocks.
    mounted: FxHashMap<DevId, Option<u64>>,
    /// Until this time mounts may differ from the known ones.
    pub(super) mounts_change_until: KernelTime,
    /// True if file systems that use iomap report the targets of their writeback.
    pub(super) reports_writeback: bool,
    /// Files that were evicted for want of room.
    given_up: u64,
    /// Pieces of the parts of requests that are not over.
    pieces: FxHashMap<u64, Vec<Piece>>,
}

/// Time after a mount or unmount until the mounts are known for certain (the tracer is woken, and
/// reads them).
const MOUNTS_REPORT_NS: u64 = 1_000_000_000;

/// Limit of files that are remembered by inode.
const FILES_MAX: usize = 1 << 20;

impl FileAttribution {
    /// Sets the disks.
    pub fn has_disks<'a>(&mut self, disks: impl Iterator<Item = &'a Disk> + Clone) {
        self.devices = disks.clone().flat_map(device_names).collect();
        self.images = LoopDevices::of(disks);
    }

    /// Adds final extents of a file: a text of
    /// [`Text::EXTENTS`](crate::capture::fact::Text::EXTENTS).
    pub fn load_final_extents(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let mut lines = text.lines().map(str::split_whitespace);
        let file = |mut words: SplitWhitespace<'_>| {
            Some((DevId::parse(words.next()?)?, words.next()?.parse().ok()?))
        };
        let Some((dev, ino)) = lines.next().and_then(file) else { return };
        for line in lines {
            let numbers: Vec<u64> = line.filter_map(|it| it.parse().ok()).collect();
            if let &[offset, address, length] = numbers.as_slice() {
                let unit = AddressUnit::Bytes;
                let (on, is_shared) = (dev, false);
                let it = Extent { dev, ino, on, unit, offset, length, address, is_shared };
                self.at_the_end.learn(&it);
            }
        }
    }

    /// Sets the mounted devices, each with its block size if events count in blocks. Everything
    /// that is known of changed devices is forgotten.
    pub fn file_systems(&mut self, all: &[(DevId, Option<u64>)]) {
        let now: FxHashMap<DevId, Option<u64>> = all.iter().copied().collect();
        let before = std::mem::replace(&mut self.mounted, now);
        let mut changed: Vec<DevId> = before.keys().chain(self.mounted.keys()).copied().collect();
        changed.retain(|it| before.get(it) != self.mounted.get(it));
        for dev in changed {
            self.extents.forget_device(dev);
            self.writers.forget_device(dev);
            self.opened.retain(|key, _| key.0 != dev);
        }
        let sizes = self.mounted.iter().filter_map(|(dev, bytes)| Some((*dev, (*bytes)?)));
        sizes.for_each(|(dev, bytes)| self.extents.has_blocks(dev, bytes));
        self.mounts_change_until = KernelTime::MIN;
    }

    /// Notes a mount or unmount; the new mounts are reported soon.
    pub fn mounts_change(&mut self, at: KernelTime) {
        self.mounts_change_until = KernelTime(at.0.saturating_add(MOUNTS_REPORT_NS));
    }

    /// Notes that file systems that use iomap report the targets of their writeback.
    pub fn reports_writeback(&mut self) {
        self.reports_writeback = true;
    }

    /// Takes a report of a file system.
    pub fn learn(&mut self, event: &FsEvent) {
        match event {
            FsEvent::Extent(extent) if is_device(extent) => {
                self.used_directly.insert(extent.on);
            }
            FsEvent::Extent(extent) => self.extents.learn(extent),
            FsEvent::NoExtent => {}
            FsEvent::Freed { dev, block, count } => self.extents.free(*dev, *block, *count),
            FsEvent::Evicted { dev, ino } => {
                self.opened.remove(&(*dev, *ino));
                self.writers.forget_file((*dev, *ino));
            }
        }
    }

    /// Notes a file that was opened, or found open; its name was read at this time at the latest.
    pub fn opened(&mut self, file: &Arc<OpenFile>, read: KernelTime) {
        let Some(key) = self.key_of(file) else { return };
        if let (Some(dev), true) = (device_of(key), self.used_directly.len() < FILES_MAX) {
            self.used_directly.insert(dev);
        }
        if self.opened.len() >= FILES_MAX {
            self.given_up += self.opened.len() as u64;
            self.opened.clear();
        }
        let is_elsewhere =
            |it: &FilePath| it.mounts != MountNamespace::OWN || !it.bytes.starts_with(b"/");
        self.is_elsewhere |= file.path.as_ref().is_some_and(is_elsewhere);
        let named = NamedFile::new(file, read, &self.changes);
        self.opened.insert(key, RefCell::new(named));
    }

    /// Notes a call that has changed names.
    pub fn names_changed(&mut self, change: &NameChange, span: CallSpan) {
        let is_own = change.places().all(|it| it.mounts == MountNamespace::OWN);
        let one_space = is_own && !self.is_elsewhere;
        self.room_for_changes().changed(change, span, one_space);
    }

    /// Notes a rename with unknown paths; `parts`: the last parts of both names, if known.
    pub fn renamed_somewhere(&mut self, parts: Option<[&[u8]; 2]>) {
        self.room_for_changes().renamed_somewhere(parts);
    }

    /// Notes a mount at a place (`None`: anywhere) in these mounts (`None`: in all), or its end.
    pub fn covered(&mut self, spot: Option<&NamedPlace>, only: Option<MountNamespace>) {
        self.room_for_changes().covered(spot, only);
    }

    /// Notes that the files at a place (`None`: anywhere) are at another place now, or at none.
    pub fn displaced(&mut self, spot: Option<&NamedPlace>, only: Option<MountNamespace>) {
        self.room_for_changes().displaced(spot, only);
    }

    fn room_for_changes(&mut self) -> &mut NameChanges {
        if self.changes.is_full() {
            self.opened.values().for_each(|it| drop(it.borrow_mut().now(&self.changes)));
            self.changes.forget();
        }
        &mut self.changes
    }

    /// Notes a write of `bytes` bytes at `offset`; `None`: the offset is not known.
    pub fn wrote(&mut self, by: WriterRef<'_>, file: &OpenFile, offset: Option<u64>, bytes: u64) {
        if let Some(key) = self.key_of(file) {
            self.writers.wrote(key, by, offset, bytes);
        }
    }

    /// Handles lost records: extents may have changed, files may have been replaced, other
    /// processes may have written.
    pub fn records_lost(&mut self) {
        self.extents.forget();
        self.opened.clear();
        self.writers.forget();
    }

    /// Returns the number of extents in blocks of unknown size, and of evicted runs, files and
    /// writers.
    pub fn dropped_counts(&self) -> (u64, u64) {
        let runs = self.extents.given_up + self.at_the_end.given_up;
        let given_up = [runs, self.writers.given_up, self.given_up];
        (self.extents.unsized_, given_up.iter().sum())
    }

    /// Determines the pieces of a part of a request, unless they were determined while it was part
    /// of another request. Returns true if a writer of some of it is known.
    pub fn look(
        &mut self,
        part: &RequestPart,
        request: &BlockRequest,
        doing: SubmitContext<'_>,
    ) -> bool {
        if !self.pieces.contains_key(&part.number) {
            let pieces = self.pieces_of(part, request, doing);
            self.pieces.insert(part.number, pieces);
        }
        self.pieces[&part.number].iter().any(|it| !it.writers.is_empty())
    }

    /// Returns the pieces of a request, by sector, as few as possible.
    pub fn pieces(&self, request: &BlockRequest) -> Vec<Piece> {
        let found = request.parts.iter().filter_map(|it| self.pieces.get(&it.number));
        let mut all: Vec<&Piece> = found.flatten().collect();
        all.sort_by_key(|it| it.sector);
        let mut joined: Vec<Piece> = Vec::new();
        for piece in all {
            match joined.last_mut() {
                Some(last) if continues(last, piece) => {
                    last.nr_sector = last.nr_sector.saturating_add(piece.nr_sector);
                    last.queued = if piece.queued.time < last.queued.time {
                        piece.queued
                    } else {
                        last.queued
                    };
                }
                _ => joined.push(piece.clone()),
            }
        }
        joined
    }

    /// Forgets a request that is over, and not part of another.
    pub fn forget(&mut self, request: &BlockRequest) {
        for part in request.parts.iter() {
            self.pieces.remove(&part.number);
        }
    }

    fn pieces_of(
        &self,
        part: &RequestPart,
        request: &BlockRequest,
        doing: SubmitContext<'_>,
    ) -> Vec<Piece> {
        let is_discard = matches!(request.op, RequestOp::Discard | RequestOp::SecureErase);
        let nr_sector = u64::from(part.nr_sector);
        let top = part.top(request.dev);
        let was_in_memory = request.writes_data() && doing.was_in_memory();
        let look = Lookup { at: part.queued.time, was_in_memory };
        let runs = match nr_sector == 0 || is_discard {
            true => vec![(nr_sector, BlockContents::Nothing)],
            false => self.contents(top, nr_sector, look),
        };
        let mut pieces = Vec::new();
        let mut sector = part.sector;
        for (length, contents) in runs {
            let contents = match contents {
                BlockContents::Journal | BlockContents::Nothing => contents,
                // Reported by the file system itself, whatever was there before.
                _ if request.rwbs.is_meta() => BlockContents::Metadata,
                BlockContents::Unknown => self.by_call(
                    DevicePosition {
                        dev: top.dev,
                        sector: top.sector.saturating_add(sector - part.sector),
                    },
                    doing,
                ),
                known => known,
            };
            let mut done = 0;
            for (length, above) in self.above(&contents, length, look, 0) {
                let sectors = Sectors {
                    first: sector.saturating_add(done),
                    count: length,
                    contents: contents.further(done),
                    above,
                };
                pieces.push(self.piece(part, request, sectors, doing));
                done += length;
            }
            // A damaged log may have any length.
            sector = sector.saturating_add(length);
        }
        pieces
    }

    fn piece(
        &self,
        part: &RequestPart,
        request: &BlockRequest,
        sectors: Sectors,
        doing: SubmitContext<'_>,
    ) -> Piece {
        let Sectors { first: sector, count: nr_sector, contents, above } = sectors;
        let by = sector - part.sector;
        let levels = part.levels.iter();
        let was_in_memory = request.writes_data() && doing.was_in_memory();
        let writers = match was_in_memory {
            true => self.writers_of(&contents, nr_sector),
            false => Vec::new(),
        };
        // A flush without contents is wanted by the thread that submits it.
        let is_brought = was_in_memory && !matches!(contents, BlockContents::Nothing);
        let for_others = doing.for_others || is_brought && writers.is_empty();
        let only_itself = writers.iter().all(|it| Some(it.process) == doing.brings);
        Piece {
            sector,
            nr_sector,
            queued: part.queued,
            levels: levels
                .map(|it| DevicePosition { dev: it.dev, sector: it.sector.saturating_add(by) })
                .collect(),
            for_others,
            writers: if only_itself { Vec::new() } else { writers },
            contents,
            above,
        }
    }

    pub(super) fn file(&self, key: FileKey, offset: Option<u64>, link: Link) -> BlockContents {
        let named = self.opened.get(&key);
        let file = named.map(|it| it.borrow_mut().now(&self.changes));
        BlockContents::File { key, offset, file, link }
    }

    /// Returns the file of the call that the thread is inside, if it is on that device (the request
    /// may as well be metadata). On a device without a known file system, the contents are the
    /// device itself, if its node has been opened.
    fn by_call(&self, top: DevicePosition, doing: SubmitContext<'_>) -> BlockContents {
        let stat = doing.file.and_then(|it| it.stat);
        let itself = device_file(top.dev);
        if let Some(key) = stat.filter(|it| it.dev == top.dev).as_ref().and_then(regular) {
            return self.file(key, None, Link::Inferred);
        }
        if self.used_directly.contains(&top.dev) && !self.mounted.contains_key(&top.dev) {
            let offset = top.sector.saturating_mul(SECTOR_BYTES);
            return self.file(itself, Some(offset), Link::Inferred);
        }
        BlockContents::Unknown
    }

    /// Returns the key of a file with contents on a device: a regular file, or the device itself.
    fn key_of(&self, file: &OpenFile) -> Option<FileKey> {
        let stat = file.stat.as_ref()?;
        if stat.mode & libc::S_IFMT != libc::S_IFBLK {
            return regular(stat);
        }
        let name = file.path.as_ref()?.bytes.strip_prefix(b"/dev/")?;
        self.devices.get(name).map(|it| device_file(*it))
    }

    fn writers_of(&self, contents: &BlockContents, nr_sector: u64) -> Vec<LastWriter> {
        match contents {
            BlockContents::File { key, offset: Some(offset), .. } => {
                let end = offset.saturating_add(nr_sector.saturating_mul(SECTOR_BYTES));
                self.writers.of(*key, *offset, end)
            }
            _ => Vec::new(),
        }
    }
}

fn regular(stat: &FileStat) -> Option<FileKey> {
    stat.inode().filter(|_| stat.mode & libc::S_IFMT == libc::S_IFREG)
}

/// Returns the names in `/dev` of a disk and its partitions.
pub fn device_names(disk: &Disk) -> impl Iterator<Item = (Vec<u8>, DevId)> {
    let partitions = disk.partitions.iter().map(|it| (&it.name, &it.dev));
    let all = std::iter::once((&disk.name, &disk.dev)).chain(partitions);
    all.filter_map(|(name, dev)| Some((name.as_bytes().to_vec(), DevId::parse(dev)?)))
}

/// Returns true if the second piece continues the first, on all devices and in all files.
fn continues(first: &Piece, second: &Piece) -> bool {
    let length = first.nr_sector;
    let next = |position: &DevicePosition| DevicePosition {
        dev: position.dev,
        sector: position.sector.saturating_add(length),
    };
    let above = first.above.len() == second.above.len()
        && first.above.iter().zip(&second.above).all(|(first, second)| {
            next(&first.place) == second.place
                && first.contents.continues_at(length, &second.contents)
        });
    above
        && first.contents.continues_at(length, &second.contents)
        && first.sector.saturating_add(length) == second.sector
        && (first.queued.pid, first.queued.tid) == (second.queued.pid, second.queued.tid)
        && first.levels.iter().map(next).eq(second.levels.iter().copied())
        && first.writers == second.writers
}
