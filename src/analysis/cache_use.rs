//! Use of the page cache: bytes that reads got from memory, and those that a disk read for them.
//!
//! No event reports a hit. It follows from two facts: the bytes that a call has read of a file, and
//! the parts of the file that a disk has read before. A part that a disk has read is *fresh* until
//! a call reads it. Bytes of a call in a fresh part came from the disk: the call *waited* for them
//! if its own thread queued the request during the call, otherwise they were *read ahead*. All
//! other bytes were in memory. Fresh parts that no call has read by the end are *unused*; a program
//! may have used them through a mapping.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;

use rangemap::RangeMap;
use rustc_hash::FxHashMap;

use super::bounded_map::BoundedMap;
use super::completed_op::{CompletedOp, OpKind};
use super::filter::{Filter, Picker};
use super::process_names::ProcessNames;
use super::recent_rows::{OpRows, RecentRows};
use super::summary::place_of;
use crate::capture::header::Header;
use crate::event::FileStat;
use crate::event::block::RequestOp;
use crate::event::syscall_table::CallClass;
use crate::operation::access::is_passed_on;
use crate::operation::attribution::{
    BlockContents, FileKey, Piece, device_file, device_names, device_of,
};
use crate::operation::block::{BlockRequest, BlockStep, RequestEnd};
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;
use crate::operation::mount_table::MountTable;
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid, SECTOR_BYTES, Tid};

/// Largest number of fresh parts of all files.
const PARTS_MAX: usize = 1 << 18;

/// Largest number of files that disks have read.
const FILES_MAX: usize = 1 << 18;

/// Reads of files, by the place from which their bytes came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Number of reads.
    pub reads: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Bytes that were in memory.
    pub memory: u64,
    /// Bytes for which the call waited.
    pub waited: u64,
    /// Bytes that a disk had read before the call.
    pub ahead: u64,
    /// Bytes of reads past the cache (`O_DIRECT`).
    pub direct: u64,
    /// Bytes of files on file systems without a device of their own: in memory (tmpfs), on another
    /// machine (NFS), made by a program (FUSE), or on other file systems (overlay).
    pub elsewhere: u64,
    /// Bytes of unknown origin: their file or offset is not known, or no block requests were
    /// recorded.
    pub unknown: u64,
}

impl CacheUse {
    /// Adds other reads.
    pub fn merge(&mut self, other: &Self) {
        self.change(other, u64::saturating_add);
    }

    /// Removes reads that were added.
    pub fn subtract(&mut self, other: &Self) {
        self.change(other, u64::saturating_sub);
    }

    fn change(&mut self, other: &Self, change: impl Fn(u64, u64) -> u64) {
        let sums = [
            (&mut self.reads, other.reads),
            (&mut self.bytes, other.bytes),
            (&mut self.memory, other.memory),
            (&mut self.waited, other.waited),
            (&mut self.ahead, other.ahead),
            (&mut self.direct, other.direct),
            (&mut self.elsewhere, other.elsewhere),
            (&mut self.unknown, other.unknown),
        ];
        for (sum, operand) in sums {
            *sum = change(*sum, operand);
        }
    }
}

/// Reads of a file, and what disks have read of it.
#[derive(Clone, Debug, Default)]
pub struct FileCacheUse {
    /// Reads by calls.
    pub used: CacheUse,
    /// File that had the name last.
    pub key: Option<FileKey>,
}

/// Reads of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessCacheUse {
    /// Reads by calls.
    pub used: CacheUse,
    /// Process number.
    pub pid: Pid,
}

/// Reads of a file by disks.
#[derive(Clone, Debug, Default)]
struct DiskReads {
    /// All bytes.
    bytes: u64,
    /// Parts that no call has read yet.
    fresh: RangeMap<u64, QueuedBy>,
    /// Bytes that a disk has read again before a call had read them.
    in_vain: u64,
}

/// Thread and time at which a part was requested of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueuedBy {
    tid: Tid,
    time: KernelTime,
}

/// Fold of the use of the page cache.
#[derive(Debug)]
pub struct CacheUses {
    page_bytes: u64,
    /// Bit of `O_DIRECT` on the machine of the recording.
    direct_flag: u32,
    /// True if block requests were recorded.
    has_requests: bool,
    /// True if those of some disks only were recorded.
    is_of_some_disks: bool,
    /// Block devices by the names of their nodes.
    devices: FxHashMap<Vec<u8>, DevId>,
    /// Mounts at the start of the recording.
    mounts: MountTable,
    /// Bytes read from file systems without a device of their own, by the file system.
    pub by_file_system: BTreeMap<DevId, u64>,
    /// Reads by operation.
    pub calls: BoundedMap<OpKind, CacheUse>,
    /// Reads by process.
    pub processes: BoundedMap<ProcessKey, ProcessCacheUse>,
    /// Reads by file ([`super::summary::file_key`]).
    pub files: BoundedMap<Vec<u8>, FileCacheUse>,
    /// Names of processes.
    pub names: ProcessNames,
    on_disk: FxHashMap<FileKey, DiskReads>,
    parts: usize,
    /// Bytes of disks whose file is not known, or journals and metadata.
    pub disk_others: u64,
    /// Bytes of fresh parts that were forgotten for want of room.
    pub forgotten: u64,
    /// Rows of operations that may occur again.
    recent: RecentRows<OpRows>,
}

impl CacheUses {
    /// Creates the fold for a recording with this header; `direct_flag` is the bit of `O_DIRECT` on
    /// its machine.
    pub fn new(header: &Header, direct_flag: u32) -> Self {
        Self {
            page_bytes: header.host.page_bytes.max(1),
            direct_flag,
            has_requests: header.tracepoints.iter().any(|point| point.system == "block"),
            is_of_some_disks: !header.device_filter.is_empty(),
            devices: header.disks.iter().flat_map(device_names).collect(),
            mounts: MountTable::default(),
            by_file_system: BTreeMap::new(),
            calls: BoundedMap::default(),
            processes: BoundedMap::default(),
            files: BoundedMap::default(),
            names: ProcessNames::default(),
            on_disk: FxHashMap::default(),
            parts: 0,
            disk_others: 0,
            forgotten: 0,
            recent: RecentRows::default(),
        }
    }

    /// Returns the bytes that disks have read of a file, and those of them that no call has read.
    pub fn of_disk(&self, key: FileKey) -> [u64; 2] {
        self.on_disk.get(&key).map_or([0; 2], |reads| {
            let unused = reads.fresh.iter().map(|(range, _)| range.end - range.start);
            [reads.bytes, unused.sum::<u64>().saturating_add(reads.in_vain)]
        })
    }

    /// Returns these sums of all files.
    pub fn of_disks(&self) -> [u64; 2] {
        let all = self.on_disk.keys().map(|key| self.of_disk(*key));
        all.fold([0; 2], |[bytes, unused], [more, more_unused]| {
            [bytes.saturating_add(more), unused.saturating_add(more_unused)]
        })
    }

    /// Adds the parts of files that a disk has read.
    fn disk_read(&mut self, request: &BlockRequest, pieces: &[Piece]) {
        let is_read = request.op == RequestOp::Read && request.error.is_none();
        let is_done = request.ending == Some(RequestEnd::Completed) && !is_passed_on(request);
        if !is_read || !is_done {
            return;
        }
        for piece in pieces {
            let bytes = piece.nr_sector.saturating_mul(SECTOR_BYTES);
            // The kernel reads a file below a loop device for that device.
            if !piece.above.is_empty() {
                continue;
            }
            let BlockContents::File { key, offset: Some(offset), .. } = &piece.contents else {
                self.disk_others = self.disk_others.saturating_add(bytes);
                continue;
            };
            if self.on_disk.len() >= FILES_MAX && !self.on_disk.contains_key(key) {
                self.forgotten = self.forgotten.saturating_add(bytes);
                continue;
            }
            let reads = self.on_disk.entry(*key).or_default();
            reads.bytes = reads.bytes.saturating_add(bytes);
            if self.parts >= PARTS_MAX {
                self.forgotten = self.forgotten.saturating_add(bytes);
                continue;
            }
            let by = QueuedBy { tid: piece.queued.tid, time: piece.queued.time };
            let end = offset.saturating_add(bytes);
            if *offset < end {
                let before = reads.fresh.len();
                let again = reads.fresh.overlapping(*offset..end);
                let again = again.map(|(part, _)| part.end.min(end) - part.start.max(*offset));
                reads.in_vain = reads.in_vain.saturating_add(again.sum());
                reads.fresh.insert(*offset..end, by);
                self.parts = (self.parts + reads.fresh.len()).saturating_sub(before);
            }
        }
    }

    /// Takes a fresh part of a file: pages of which a call has used a byte. Returns the bytes of
    /// the range for which the call waited, and those that were read ahead.
    fn take(&mut self, key: FileKey, range: &Range<u64>, done: &CompletedOp<'_>) -> [u64; 2] {
        let (mut waited, mut ahead) = (0, 0);
        let Some(reads) = self.on_disk.get_mut(&key) else { return [0; 2] };
        if reads.fresh.is_empty() {
            return [0; 2];
        }
        for (part, by) in reads.fresh.overlapping(range.clone()) {
            let bytes = part.end.min(range.end).saturating_sub(part.start.max(range.start));
            let is_own = by.tid == done.tid && by.time >= done.start;
            *(if is_own { &mut waited } else { &mut ahead }) += bytes;
        }
        let before = reads.fresh.len();
        let page = self.page_bytes;
        let end = range.end.checked_next_multiple_of(page).unwrap_or(u64::MAX);
        reads.fresh.remove(range.start / page * page..end);
        self.parts = (self.parts + reads.fresh.len()).saturating_sub(before);
        [waited, ahead]
    }

    /// Returns the key of the file in requests.
    fn key(&self, stat: &FileStat, done: &CompletedOp<'_>) -> Option<FileKey> {
        if stat.mode & libc::S_IFMT != libc::S_IFBLK {
            return stat.inode();
        }
        let name = done.file?.path.as_ref()?.bytes.strip_prefix(b"/dev/")?;
        self.devices.get(name).map(|dev| device_file(*dev))
    }

    /// True if the requests of a file were recorded.
    fn has_requests_of(&self, key: FileKey) -> bool {
        self.has_requests && (!self.is_of_some_disks || self.on_disk.contains_key(&key))
    }

    /// True for a file on a file system without a device of its own.
    fn is_elsewhere(&self, key: FileKey) -> bool {
        key.0.major() == 0 && device_of(key).is_none() && !self.on_disk.contains_key(&key)
    }

    /// Returns the file system without a device on which a file of unknown device is, by its path.
    fn elsewhere_by_path(&self, done: &CompletedOp<'_>) -> Option<DevId> {
        let path = done.file.filter(|file| file.stat.is_none())?.path.as_ref()?;
        let found = self.mounts.of_file(&path.bytes, path.mounts, None)?;
        found.mount.has_no_device().then_some(found.mount.dev)
    }

    /// Takes an operation. Its bytes count only if it is selected; the parts of files that it has
    /// read are used in any case.
    pub(super) fn done(&mut self, done: &CompletedOp<'_>, is_selected: bool) {
        let is_read = matches!(done.class, CallClass::Read | CallClass::Transfer);
        let is_write = done.class == CallClass::Write;
        if done.bytes == 0 || done.io != IoClass::File || !(is_read || is_write) {
            return;
        }
        let stat = done.file.and_then(|file| file.stat).filter(FileStat::has_position);
        let key = stat.and_then(|stat| self.key(&stat, done));
        let range = done.offset.map(|offset| offset..offset.saturating_add(done.bytes));
        let place = key.zip(range).filter(|(_, range)| range.start < range.end);
        if is_write {
            // What was read in order to change a part of a page is used.
            if let Some((key, range)) = place {
                self.take(key, &range, done);
            }
            return;
        }
        let bytes = done.bytes;
        let mut used = CacheUse { reads: 1, bytes, ..CacheUse::default() };
        let flags = done.file.and_then(|file| file.flags).unwrap_or(0);
        let device = done.file.and_then(|file| file.stat).filter(is_character_device);
        let elsewhere = match (device, &place) {
            (Some(device), _) => device.inode().map(|key| key.0),
            (None, Some((key, _))) if self.has_requests_of(*key) => {
                self.is_elsewhere(*key).then_some(key.0)
            }
            _ => self.elsewhere_by_path(done),
        };
        match place {
            _ if elsewhere.is_some() => used.elsewhere = bytes,
            Some((key, _)) if !self.has_requests_of(key) => used.unknown = bytes,
            Some((key, range)) => {
                let [waited, ahead] = self.take(key, &range, done);
                if flags & self.direct_flag != 0 {
                    used.direct = bytes;
                } else {
                    used.waited = waited;
                    used.ahead = ahead;
                    used.memory = bytes.saturating_sub(waited).saturating_sub(ahead);
                }
            }
            None => used.unknown = bytes,
        }
        if let Some(file_system) = elsewhere.filter(|_| is_selected) {
            let sum = self.by_file_system.entry(file_system).or_default();
            *sum = sum.saturating_add(bytes);
        }
        if is_selected {
            self.count(done, key, &used);
        }
    }

    fn count(&mut self, done: &CompletedOp<'_>, key: Option<FileKey>, used: &CacheUse) {
        self.calls.row(&done.what, || done.what).merge(used);
        let rows = self.rows_of(done);
        let process = self.processes.at(rows.process);
        process.pid = done.pid;
        process.used.merge(used);
        if let Some(place) = rows.file {
            let row = self.files.at(place);
            row.used.merge(used);
            row.key = key.or(row.key);
        }
    }
}

impl CacheUses {
    /// Returns the rows of an operation.
    fn rows_of(&mut self, done: &CompletedOp<'_>) -> OpRows {
        self.recent.rows(done, || OpRows {
            process: self.processes.place(&done.process, || self.names.of_new_row(done.process)),
            file: done.name.as_ref().map(|name| place_of(&mut self.files, name)),
        })
    }
}

/// True for `/dev/zero` and the like, which no page cache holds.
fn is_character_device(stat: &FileStat) -> bool {
    stat.mode & libc::S_IFMT == libc::S_IFCHR
}

/// Cache use of selected operations: the others use what disks have read, too.
#[derive(Debug)]
pub struct SelectedCacheUses {
    /// Picker that selects.
    pub picker: Picker,
    /// Fold of all steps.
    pub fold: CacheUses,
}

impl SelectedCacheUses {
    /// Creates it for a filter.
    pub fn new(filter: Filter, fold: CacheUses) -> Self {
        Self { picker: Picker::new(filter), fold }
    }
}

impl Sink for SelectedCacheUses {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        let is_selected = self.picker.wants(step);
        self.fold.take_step(step, is_selected);
        Ok(())
    }
}

impl CacheUses {
    /// Takes a step; only selected reads count.
    pub(super) fn take_step(&mut self, step: &Step<'_>, is_selected: bool) {
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.done(&done, is_selected);
                }
            }
            Step::Block { step: BlockStep::Ended(request), pieces, .. } => {
                self.disk_read(request, pieces);
            }
            Step::MountsSeen(table) => self.mounts = (*table).clone(),
            _ => self.names.look(step),
        }
    }
}

impl Sink for CacheUses {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        self.take_step(step, true);
        Ok(())
    }
}
