//! What stands behind a block request: files, places in them, and who wrote what is written now.
//!
//! In: the parts of requests (`operation::block`), what file systems say ([`FsEvent`]), files that are opened and written. Out:
//! [`Piece`]s. Each says how it is known: by what the file system has said since the recording began (exact), by what it said at
//! the end, the call that the thread was inside, who wrote these bytes last (inferred), or not at all.

mod extents;
mod loop_devices;
mod named;
mod writers;

use std::cell::RefCell;
use std::rc::Rc;
use std::str::SplitWhitespace;

use rustc_hash::{FxHashMap, FxHashSet};

use self::extents::{ExtentSource, Extents, Found, is_device};
pub use self::extents::{FileKey, device_file, device_of};
use self::loop_devices::LoopDevices;
pub use self::loop_devices::StackedLocation;
use self::named::{NameChanges, NamedFile};
use self::writers::Writers;
pub use self::writers::{Writer, WriterRef};
use super::block::{At, BlockRequest, Part};
use super::file_names::{Change, Span, Spot};
use super::model::{FilePath, Mounts, OpenFile, ProcessKey};
use crate::anomaly::Link;
use crate::capture::header::Disk;
use crate::event::FileStat;
use crate::event::block::{Place, RequestOp};
use crate::event::fs::{Extent, FsEvent, Unit};
use crate::units::{DevId, KernelTime, SECTOR_BYTES};

/// What lies in the sectors.
#[derive(Clone, Debug)]
pub enum BlockContents {
    /// A part of a file.
    File {
        /// The file.
        key: FileKey,
        /// Where in it, in bytes; `None`: not known.
        offset: Option<u64>,
        /// As it was opened last, if that was seen, under the name that it has when the request is queued.
        file: Option<Rc<OpenFile>>,
        /// How this is known.
        link: Link,
    },
    /// The journal of the file system, or what it puts in its place before a commit.
    Journal,
    /// The file system's own.
    Metadata,
    /// No contents: a flush, or a discard of what belongs to nothing.
    Nothing,
    /// Not known.
    Unknown,
}

impl BlockContents {
    /// The word for what is no file.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::Journal => "journal",
            Self::Metadata => "metadata",
            Self::Nothing => "nothing",
            Self::Unknown => "unknown",
        }
    }

    /// True if the other is what comes so many sectors further on.
    fn goes_on(&self, nr_sector: u64, other: &Self) -> bool {
        match (self.further(nr_sector), other) {
            (
                Self::File { key, offset, link, .. },
                Self::File { key: key2, offset: offset2, link: link2, .. },
            ) => (key, offset, link) == (*key2, *offset2, *link2),
            (first, second) => first.as_str() == second.as_str(),
        }
    }

    /// The same, so many sectors further on.
    fn further(&self, nr_sector: u64) -> Self {
        match self {
            Self::File { key, offset: Some(offset), file, link } => {
                let offset = Some(offset.saturating_add(nr_sector.saturating_mul(SECTOR_BYTES)));
                Self::File { key: *key, offset, file: file.clone(), link: *link }
            }
            other => other.clone(),
        }
    }

    /// How it is known.
    pub fn link(&self) -> Link {
        match self {
            Self::File { link, .. } => *link,
            Self::Journal | Self::Metadata | Self::Nothing => Link::Exact,
            Self::Unknown => Link::Unknown,
        }
    }
}

/// A piece of a request: from one bio, of one file.
#[derive(Clone, Debug)]
pub struct Piece {
    /// First sector on the request's device.
    pub sector: u64,
    /// Length in sectors.
    pub nr_sector: u64,
    /// When its bio was queued, and by whom.
    pub queued: At,
    /// The devices above, the nearest first.
    pub levels: Rc<[Place]>,
    /// What lies there.
    pub behind: BlockContents,
    /// If that is the file of a loop device: where it is on that device and what lies there, the nearest first.
    pub above: Vec<StackedLocation>,
    /// It may be another program's: its bio was queued by one of the kernel's own threads, by one that is not followed, or by one
    /// that brings to the device what is not known to be of a recorded write.
    pub for_others: bool,
    /// Who wrote this last, if another brings it to the device.
    pub writers: Vec<Writer>,
}

impl Piece {
    /// How it is known which program wanted it; `None`: none did, it is the kernel's own.
    pub fn program(&self) -> Option<Link> {
        let is_own = matches!(
            self.behind,
            BlockContents::Journal | BlockContents::Metadata | BlockContents::Nothing
        );
        match (self.for_others, self.writers.as_slice()) {
            (_, [_, ..]) => Some(Link::Inferred),
            (false, []) => Some(Link::Exact),
            (true, []) if is_own => None,
            (true, []) => Some(Link::Unknown),
        }
    }
}

/// What the thread that queues a bio is doing.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubmitContext<'a> {
    /// The file of the system call that it is inside.
    pub file: Option<&'a Rc<OpenFile>>,
    /// It is one of the kernel's own threads, or not one of those followed.
    pub for_others: bool,
    /// The process, if what it writes now was in memory before, so that others may have put it there: it is inside a call that is
    /// no write (`sync`, `fsync`, but also a `close`, by which ext4 writes out what has replaced a file), or inside none that is
    /// recorded (an `ioctl` that clones or maps a file, a `chmod` by which an overlay copies it, the end of the process).
    pub brings: Option<ProcessKey>,
}

impl SubmitContext<'_> {
    fn was_in_memory(&self) -> bool {
        self.for_others || self.brings.is_some()
    }
}

/// When, and for what, it is asked what lies somewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    at: KernelTime,
    /// It is written, and was in memory before.
    was_in_memory: bool,
}

/// Files and what is known of their places.
#[derive(Debug, Default)]
pub struct FileAttribution {
    extents: Extents,
    /// Where files lay at the end, by their file systems.
    at_the_end: Extents,
    /// As they were opened last.
    opened: FxHashMap<FileKey, RefCell<NamedFile>>,
    /// What has become of their names.
    changes: NameChanges,
    /// Files were opened in other mounts than the tracer's, or under names whose directory is not known.
    is_elsewhere: bool,
    writers: Writers,
    images: LoopDevices,
    /// Block devices by their names.
    devices: FxHashMap<Vec<u8>, DevId>,
    /// Devices that somebody uses by their nodes.
    used_directly: FxHashSet<DevId>,
    /// Devices with a file system that is mounted.
    mounted: FxHashMap<DevId, Option<u64>>,
    /// Until this time something may be mounted elsewhere than is known.
    mounts_change_until: KernelTime,
    /// File systems that use iomap say where what they write back goes.
    writeback_is_told: bool,
    /// Files that were forgotten for want of room.
    given_up: u64,
    /// What was found for parts of requests that are not over.
    pieces: FxHashMap<u64, Vec<Piece>>,
}

/// The file that ext4 has its journal in (`fs/ext4/ext4.h`).
const EXT4_JOURNAL_INO: u64 = 8;

/// So long after a mount or unmount it is known for certain what is mounted (the tracer is woken, and looks).
const MOUNTS_TOLD_NS: u64 = 1_000_000_000;

/// Files that are remembered by inode.
const FILES_MAX: usize = 1 << 20;

impl FileAttribution {
    /// These are the disks.
    pub fn has_disks<'a>(&mut self, disks: impl Iterator<Item = &'a Disk> + Clone) {
        self.devices = disks.clone().flat_map(names).collect();
        self.images = LoopDevices::of(disks);
    }

    /// Where a file lay at the end: a text of [`Text::EXTENTS`](crate::capture::fact::Text::EXTENTS).
    pub fn lay_at_the_end(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let mut lines = text.lines().map(str::split_whitespace);
        let file = |mut it: SplitWhitespace<'_>| {
            Some((DevId::parse(it.next()?)?, it.next()?.parse().ok()?))
        };
        let Some((dev, ino)) = lines.next().and_then(file) else { return };
        for line in lines {
            let numbers: Vec<u64> = line.filter_map(|it| it.parse().ok()).collect();
            if let &[offset, address, length] = numbers.as_slice() {
                let unit = Unit::Bytes;
                let (on, is_shared) = (dev, false);
                let it = Extent { dev, ino, on, unit, offset, length, address, is_shared };
                self.at_the_end.learn(&it);
            }
        }
    }

    /// What is mounted now: devices, and how large their blocks are if events count in them. Of all others nothing is known any
    /// more.
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

    /// Something was mounted or unmounted; what it was is told soon.
    pub fn mounts_change(&mut self, at: KernelTime) {
        self.mounts_change_until = KernelTime(at.0.saturating_add(MOUNTS_TOLD_NS));
    }

    /// File systems that use iomap say where what they write back goes.
    pub fn tells_writeback(&mut self) {
        self.writeback_is_told = true;
    }

    /// What a file system says.
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

    /// A file was opened, or found open; its name was read at this time at the latest.
    pub fn opened(&mut self, file: &Rc<OpenFile>, read: KernelTime) {
        let Some(key) = self.key_of(file) else { return };
        if let (Some(dev), true) = (device_of(key), self.used_directly.len() < FILES_MAX) {
            self.used_directly.insert(dev);
        }
        if self.opened.len() >= FILES_MAX {
            self.given_up += self.opened.len() as u64;
            self.opened.clear();
        }
        let is_elsewhere = |it: &FilePath| it.mounts != Mounts::OWN || !it.bytes.starts_with(b"/");
        self.is_elsewhere |= file.path.as_ref().is_some_and(is_elsewhere);
        let named = NamedFile::new(file, read, &self.changes);
        self.opened.insert(key, RefCell::new(named));
    }

    /// A call has changed names.
    pub fn names_changed(&mut self, change: &Change, span: Span) {
        let is_own = change.places().all(|it| it.mounts == Mounts::OWN);
        let one_space = is_own && !self.is_elsewhere;
        self.room_for_changes().changed(change, span, one_space);
    }

    /// A call has given something another name, and it is not known where; `parts`: the last parts of both names, if known.
    pub fn renamed_somewhere(&mut self, parts: Option<[&[u8]; 2]>) {
        self.room_for_changes().renamed_somewhere(parts);
    }

    /// Something was mounted at a place (`None`: anywhere) in these mounts (`None`: in all), or taken away from there.
    pub fn covered(&mut self, spot: Option<&Spot>, only: Option<Mounts>) {
        self.room_for_changes().covered(spot, only);
    }

    /// What was at a place (`None`: anywhere) is somewhere else now, or nowhere.
    pub fn displaced(&mut self, spot: Option<&Spot>, only: Option<Mounts>) {
        self.room_for_changes().displaced(spot, only);
    }

    fn room_for_changes(&mut self) -> &mut NameChanges {
        if self.changes.is_full() {
            self.opened.values().for_each(|it| drop(it.borrow_mut().now(&self.changes)));
            self.changes.forget();
        }
        &mut self.changes
    }

    /// A write of so many bytes at `offset`; `None`: its place is not known.
    pub fn wrote(&mut self, by: WriterRef<'_>, file: &OpenFile, offset: Option<u64>, bytes: u64) {
        if let Some(key) = self.key_of(file) {
            self.writers.wrote(key, by, offset, bytes);
        }
    }

    /// Records were lost: extents may have changed, files been replaced, others have written.
    pub fn records_lost(&mut self) {
        self.extents.forget();
        self.opened.clear();
        self.writers.forget();
    }

    /// Extents in blocks of a size that is not known; runs, files and writers that were given up.
    pub fn not_kept(&self) -> (u64, u64) {
        let runs = self.extents.given_up + self.at_the_end.given_up;
        let given_up = [runs, self.writers.given_up, self.given_up];
        (self.extents.unsized_, given_up.iter().sum())
    }

    /// Looks at a part of a request, if that was not done when it was part of another. True if somebody is known to have
    /// written some of it.
    pub fn look(&mut self, part: &Part, request: &BlockRequest, doing: SubmitContext<'_>) -> bool {
        if !self.pieces.contains_key(&part.number) {
            let pieces = self.pieces_of(part, request, doing);
            self.pieces.insert(part.number, pieces);
        }
        self.pieces[&part.number].iter().any(|it| !it.writers.is_empty())
    }

    /// The pieces of a request, by sector, as few as can be.
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

    /// A request is over, and not part of another.
    pub fn forget(&mut self, request: &BlockRequest) {
        for part in request.parts.iter() {
            self.pieces.remove(&part.number);
        }
    }

    fn pieces_of(
        &self,
        part: &Part,
        request: &BlockRequest,
        doing: SubmitContext<'_>,
    ) -> Vec<Piece> {
        let is_discard = matches!(request.op, RequestOp::Discard | RequestOp::SecureErase);
        let nr_sector = u64::from(part.nr_sector);
        let top = part.top(request.dev);
        let was_in_memory = request.writes_data() && doing.was_in_memory();
        let look = Lookup { at: part.queued.time, was_in_memory };
        let contents = match nr_sector == 0 || is_discard {
            true => vec![(nr_sector, BlockContents::Nothing)],
            false => self.contents(top, nr_sector, look),
        };
        let mut pieces = Vec::new();
        let mut sector = part.sector;
        for (length, behind) in contents {
            let behind = match behind {
                BlockContents::Journal | BlockContents::Nothing => behind,
                // By the file system's own word, whatever lay there before.
                _ if request.rwbs.is_meta() => BlockContents::Metadata,
                BlockContents::Unknown => self.by_call(
                    Place { dev: top.dev, sector: top.sector.saturating_add(sector - part.sector) },
                    doing,
                ),
                known => known,
            };
            let mut done = 0;
            for (length, above) in self.above(&behind, length, look, 0) {
                let place = (sector.saturating_add(done), length);
                let behind = behind.further(done);
                pieces.push(self.piece((part, request), place, (behind, above), doing));
                done += length;
            }
            // Whatever a damaged log says.
            sector = sector.saturating_add(length);
        }
        pieces
    }

    fn piece(
        &self,
        (part, request): (&Part, &BlockRequest),
        (sector, nr_sector): (u64, u64),
        (behind, above): (BlockContents, Vec<StackedLocation>),
        doing: SubmitContext<'_>,
    ) -> Piece {
        let by = sector - part.sector;
        let levels = part.levels.iter();
        let was_in_memory = request.writes_data() && doing.was_in_memory();
        let writers = match was_in_memory {
            true => self.writers_of(&behind, nr_sector),
            false => Vec::new(),
        };
        // Of a flush without contents the thread is the one that wants it.
        let is_brought = was_in_memory && !matches!(behind, BlockContents::Nothing);
        let for_others = doing.for_others || is_brought && writers.is_empty();
        let only_itself = writers.iter().all(|it| Some(it.process) == doing.brings);
        Piece {
            sector,
            nr_sector,
            queued: part.queued,
            levels: levels
                .map(|it| Place { dev: it.dev, sector: it.sector.saturating_add(by) })
                .collect(),
            for_others,
            writers: if only_itself { Vec::new() } else { writers },
            behind,
            above,
        }
    }

    fn file(&self, key: FileKey, offset: Option<u64>, link: Link) -> BlockContents {
        let named = self.opened.get(&key);
        let file = named.map(|it| it.borrow_mut().now(&self.changes));
        BlockContents::File { key, offset, file, link }
    }

    /// The file of the call that the thread is inside, if it is on that device: it may as well be metadata. Where no file system
    /// is known, it is the device itself, if somebody has opened that.
    fn by_call(&self, top: Place, doing: SubmitContext<'_>) -> BlockContents {
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

    /// What has contents on a device: regular files, and the devices themselves.
    fn key_of(&self, file: &OpenFile) -> Option<FileKey> {
        let stat = file.stat.as_ref()?;
        if stat.mode & libc::S_IFMT != libc::S_IFBLK {
            return regular(stat);
        }
        let name = file.path.as_ref()?.bytes.strip_prefix(b"/dev/")?;
        self.devices.get(name).map(|it| device_file(*it))
    }

    fn writers_of(&self, behind: &BlockContents, nr_sector: u64) -> Vec<Writer> {
        match behind {
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

/// A disk and its partitions, as their nodes in `/dev` are called.
fn names(disk: &Disk) -> impl Iterator<Item = (Vec<u8>, DevId)> {
    let partitions = disk.partitions.iter().map(|it| (&it.name, &it.dev));
    let all = std::iter::once((&disk.name, &disk.dev)).chain(partitions);
    all.filter_map(|(name, dev)| Some((name.as_bytes().to_vec(), DevId::parse(dev)?)))
}

/// The second goes on where the first ends, on all devices and in all files.
fn continues(first: &Piece, second: &Piece) -> bool {
    let length = first.nr_sector;
    let next = |it: &Place| Place { dev: it.dev, sector: it.sector.saturating_add(length) };
    let above = first.above.len() == second.above.len()
        && first.above.iter().zip(&second.above).all(|(first, second)| {
            next(&first.place) == second.place && first.behind.goes_on(length, &second.behind)
        });
    above
        && first.behind.goes_on(length, &second.behind)
        && first.sector.saturating_add(length) == second.sector
        && (first.queued.pid, first.queued.tid) == (second.queued.pid, second.queued.tid)
        && first.levels.iter().map(next).eq(second.levels.iter().copied())
        && first.writers == second.writers
}
