//! Caches with several settings of the read-ahead, and what the log knows of files and disks.

use std::collections::BTreeSet;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::read_ahead::{FileAdvice, ReadAheadCache, ReadAheadFile, ReadAheadTotals, ReadSpan};
use crate::capture::header::Header;
use crate::operation::model::OpenFile;
use crate::operation::mount_table::MountTable;
use crate::units::DevId;

/// Default read-ahead of a disk (`VM_READAHEAD_PAGES`).
const SETTING_BYTES: u64 = 128 << 10;

/// Default largest request of a disk (`BLK_DEF_MAX_SECTORS_CAP` until Linux 6.15).
const REQUEST_BYTES: u64 = 1280 << 10;

/// Largest value of both that is believed: that of `--read-ahead`.
const LIMIT_MAX: u64 = 1 << 30;

/// File systems with folios of several pages, and the kernel since which they have them.
const LARGE_FOLIOS: [(&str, (u32, u32)); 2] = [("ext4", (6, 16)), ("xfs", (5, 18))];

/// Option of an ext4 without such folios.
const JOURNAL: &str = "data=journal";

/// Properties of a disk that read-ahead depends on, in bytes.
#[derive(Clone, Copy, Debug)]
struct DiskLimits {
    request: Option<u64>,
    setting: Option<u64>,
}

/// File as the log shows it so far.
#[derive(Clone, Copy, Debug)]
struct FollowedFile {
    file: ReadAheadFile,
    /// Length in bytes; `None`: not known.
    length: Option<u64>,
    /// Newest open file; `None`: none was seen.
    newest: Option<u64>,
}

/// Bytes that a call has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachedBytes {
    /// Number of the file.
    pub(super) number: u32,
    /// Position of the first byte.
    pub(super) offset: u64,
    /// Number of bytes; not 0.
    pub(super) bytes: u64,
    /// Bytes that were asked for; `None`: not known.
    pub(super) wanted: Option<u64>,
    /// True for a transfer to another file.
    pub(super) is_transfer: bool,
}

/// Prediction for one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictedReadAhead {
    /// Read-ahead in bytes; `None`: that of the recording, and disks have different ones.
    pub setting_bytes: Option<u64>,
    /// True for that of the recording.
    pub is_recorded: bool,
    /// Sums over the reads.
    pub totals: ReadAheadTotals,
}

/// Caches by the setting of the read-ahead.
#[derive(Clone, Debug)]
pub struct ReadAheads {
    page_bytes: u64,
    /// Settings that were asked for, in bytes.
    sizes: Vec<u64>,
    /// Cache with the setting of the recording, and one for each of `sizes`.
    caches: Vec<ReadAheadCache>,
    files: FxHashMap<u32, FollowedFile>,
    disks: FxHashMap<DevId, DiskLimits>,
    /// Settings of the disks of files that were read.
    recorded: BTreeSet<Option<u64>>,
    /// Names of file systems with folios of several pages.
    large_folio_types: Vec<&'static str>,
    /// Such file systems.
    large_folio_devs: FxHashSet<DevId>,
    /// True if a cache was full: it has missed calls since.
    was_full: bool,
    /// Calls that read through the cache.
    pub reads: u64,
    /// Bytes of these calls.
    pub read_bytes: u64,
    /// Calls that were not followed, as there were too many pages.
    pub left_out: u64,
    /// Reads of files whose length is not known.
    pub without_length: u64,
}

impl ReadAheads {
    /// Creates caches for these sizes of the read-ahead; none if there is no size.
    pub(super) fn new(header: &Header, page_bytes: u64, sizes: &[u64]) -> Self {
        let page_bytes = page_bytes.max(1);
        let settings = sizes.first().map(|_| None).into_iter();
        let settings = settings.chain(sizes.iter().copied().map(Some));
        let caches = settings.map(|setting| ReadAheadCache::new(page_bytes, setting)).collect();
        let kernel = kernel_version(&header.host.kernel_release);
        let large = LARGE_FOLIOS.iter().filter(|(_, since)| kernel >= Some(*since));
        Self {
            page_bytes,
            sizes: sizes.to_vec(),
            caches,
            files: FxHashMap::default(),
            disks: disks(header),
            recorded: BTreeSet::new(),
            large_folio_types: large.map(|(name, _)| *name).collect(),
            large_folio_devs: FxHashSet::default(),
            was_full: false,
            reads: 0,
            read_bytes: 0,
            left_out: 0,
            without_length: 0,
        }
    }

    /// Returns true if a prediction is wanted.
    pub fn is_wanted(&self) -> bool {
        !self.caches.is_empty()
    }

    /// Returns the predictions: that for the setting of the recording first, if the log has it.
    pub fn predictions(&self) -> Vec<PredictedReadAhead> {
        let recorded = match self.recorded.iter().copied().collect::<Vec<_>>().as_slice() {
            [] | [None] => None,
            [one] => Some(*one),
            _ => Some(None),
        };
        let recorded = recorded.map(|setting| (setting, true));
        let given = self.sizes.iter().map(|bytes| Some((Some(*bytes), false)));
        let settings = std::iter::once(recorded).chain(given);
        let rows = settings.zip(&self.caches).filter_map(|(setting, cache)| {
            let (setting_bytes, is_recorded) = setting?;
            Some(PredictedReadAhead { setting_bytes, is_recorded, totals: cache.totals })
        });
        rows.collect()
    }

    /// Returns true while no cache has been full.
    fn takes_more(&mut self) -> bool {
        self.was_full |= self.caches.iter().any(ReadAheadCache::is_full);
        !self.was_full
    }

    /// Takes the mounts of the recording.
    pub(super) fn mounted(&mut self, table: &MountTable) {
        let types = &self.large_folio_types;
        let mounts = table.mounts().iter();
        let large = mounts.filter(|mount| {
            types.contains(&mount.fs_type.as_str()) && !mount.fs_options.contains(JOURNAL)
        });
        self.large_folio_devs.extend(large.map(|mount| mount.dev));
    }

    /// Takes bytes that a call has read.
    pub(super) fn read(&mut self, open: &OpenFile, moved: CachedBytes) {
        if !self.is_wanted() {
            return;
        }
        if !self.takes_more() {
            self.left_out += 1;
            return;
        }
        let end = moved.offset.saturating_add(moved.bytes);
        let page_bytes = self.page_bytes;
        let followed = self.follow(open, moved.number, end);
        if followed.length.is_none() {
            if moved.wanted.is_some_and(|wanted| wanted > moved.bytes) {
                followed.learn_length(Some(end), page_bytes);
            } else {
                self.without_length += 1;
            }
        }
        let Some(followed) = self.files.get(&moved.number) else { return };
        self.reads += 1;
        self.read_bytes = self.read_bytes.saturating_add(moved.bytes);
        let disk = open.stat.and_then(|stat| self.disks.get(&stat.dev));
        self.recorded.insert(disk.and_then(|disk| disk.setting));
        let CachedBytes { offset, bytes, is_transfer, .. } = moved;
        let wanted = moved.wanted.unwrap_or(bytes);
        let span = ReadSpan { description: open.id, offset, bytes, wanted, is_transfer };
        self.caches.iter_mut().for_each(|cache| cache.read(&followed.file, span));
    }

    /// Takes bytes that a call has read in parts of this size: each counts as a read.
    pub(super) fn read_in_parts(&mut self, open: &OpenFile, moved: CachedBytes, part: u64) {
        let end = moved.offset.saturating_add(moved.bytes);
        let mut offset = moved.offset;
        while offset < end {
            let bytes = part.max(1).min(end - offset);
            self.read(open, CachedBytes { offset, bytes, ..moved });
            offset += bytes;
        }
    }

    /// Takes bytes that a call has written.
    pub(super) fn written(&mut self, open: &OpenFile, moved: CachedBytes) {
        if !self.is_wanted() || !self.takes_more() {
            return;
        }
        let end = moved.offset.saturating_add(moved.bytes);
        self.follow(open, moved.number, end);
        let pages = moved.offset / self.page_bytes..end.div_ceil(self.page_bytes);
        self.caches.iter_mut().for_each(|cache| cache.written(moved.number, pages.clone()));
    }

    /// Takes advice about an open file.
    pub(super) fn advised(&mut self, open: &OpenFile, advice: FileAdvice) {
        self.caches.iter_mut().for_each(|cache| cache.advised(open.id, advice));
    }

    /// Takes the wish of a program for bytes of a file.
    pub(super) fn wished(&mut self, open: &OpenFile, number: u32, bytes: Range<u64>) {
        if !self.is_wanted() || !self.takes_more() {
            return;
        }
        self.follow(open, number, 0);
        let Some(followed) = self.files.get(&number) else { return };
        let pages = bytes.start / self.page_bytes..bytes.end.div_ceil(self.page_bytes);
        for cache in &mut self.caches {
            cache.wished(&followed.file, open.id, pages.clone());
        }
    }

    /// Removes pages of a file from memory.
    pub(super) fn remove(&mut self, number: u32, pages: &Range<u64>) {
        self.caches.iter_mut().for_each(|cache| cache.remove(number, pages));
    }

    /// Takes the new length of a file.
    pub(super) fn resized(&mut self, number: u32, length: u64) {
        if let Some(followed) = self.files.get_mut(&number) {
            followed.learn_length(Some(length), self.page_bytes);
        }
    }

    /// Returns a file, which has at least this number of bytes if its length is known.
    fn follow(&mut self, open: &OpenFile, number: u32, bytes: u64) -> &mut FollowedFile {
        let (page_bytes, disks, large) = (self.page_bytes, &self.disks, &self.large_folio_devs);
        let followed = self.files.entry(number).or_insert_with(|| {
            let disk = open.stat.and_then(|stat| disks.get(&stat.dev));
            let pages = |bytes: Option<u64>, default: u64| bytes.unwrap_or(default) / page_bytes;
            let file = ReadAheadFile {
                number,
                pages: None,
                request_pages: pages(disk.and_then(|disk| disk.request), REQUEST_BYTES),
                recorded_pages: pages(disk.and_then(|disk| disk.setting), SETTING_BYTES),
                has_large_folios: open.stat.is_some_and(|stat| large.contains(&stat.dev)),
            };
            FollowedFile { file, length: None, newest: None }
        });
        // The size is that at the open: an older one may have changed since.
        let is_newer = followed.newest < Some(open.id);
        followed.newest = followed.newest.max(Some(open.id));
        let is_regular = |mode: u32| mode & libc::S_IFMT == libc::S_IFREG;
        let size = open.stat.filter(|stat| is_newer && is_regular(stat.mode));
        let length = followed.length.max(size.map(|stat| stat.size));
        followed.learn_length(length.map(|length| length.max(bytes)), page_bytes);
        followed
    }
}

impl FollowedFile {
    fn learn_length(&mut self, length: Option<u64>, page_bytes: u64) {
        self.length = length;
        self.file.pages = length.map(|length| length.div_ceil(page_bytes));
    }
}

/// Returns the properties of disks and their partitions.
fn disks(header: &Header) -> FxHashMap<DevId, DiskLimits> {
    let mut limits = FxHashMap::default();
    for disk in &header.disks {
        let bytes = |attribute: &str| {
            let kilobytes: u64 = disk.attributes.get(attribute)?.parse().ok()?;
            kilobytes.checked_mul(1024).map(|bytes| bytes.min(LIMIT_MAX))
        };
        let limit = DiskLimits {
            request: bytes("queue/max_sectors_kb"),
            setting: bytes("queue/read_ahead_kb"),
        };
        let partitions = disk.partitions.iter().map(|partition| partition.dev.as_str());
        let devs = std::iter::once(disk.dev.as_str()).chain(partitions);
        limits.extend(devs.filter_map(DevId::parse).map(|dev| (dev, limit)));
    }
    limits
}

/// Returns the first two numbers of a kernel's release: `6.18.3-arch1`.
fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
