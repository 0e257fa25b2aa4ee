//! Use of disks: bytes and requests by the process that caused them, and by the file in their
//! sectors. The sums over all causes, and over all contents, are those of `/proc/diskstats`.
//!
//! A request counts for the process and the file of most of its bytes. Bytes that several processes
//! wrote last are divided equally among these processes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;

use super::bounded_map::BoundedMap;
use super::completed_op::NamedPath;
use super::request_owners::{CausedBytes, DiskCause, RequestOwners};
use super::summary::place_of;
use crate::anomaly::Link;
use crate::operation::attribution::{BlockContents, FileKey, Piece};
use crate::operation::block::{BlockRequest, BlockStep, DiskstatsClass};
use crate::operation::model::ThreadInfo;
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, SECTOR_BYTES};

/// Contents of sectors of a disk that have no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskContents {
    /// A file whose name is not known.
    File(FileKey),
    /// Journal of a file system.
    Journal,
    /// A file system's own data.
    Metadata,
    /// No contents: a flush, or a discard of sectors that belong to nothing.
    Nothing,
    /// Not known.
    Unknown,
}

impl DiskContents {
    fn of(contents: &BlockContents) -> Self {
        match contents {
            BlockContents::File { key, .. } => Self::File(*key),
            BlockContents::Journal => Self::Journal,
            BlockContents::Metadata => Self::Metadata,
            BlockContents::Nothing => Self::Nothing,
            BlockContents::Unknown => Self::Unknown,
        }
    }
}

/// Requests and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskAmount {
    /// Number of requests.
    pub requests: u64,
    /// Bytes that completed.
    pub bytes: u64,
}

impl DiskAmount {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Requests of a disk, in the classes of `/proc/diskstats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Requests that read.
    pub read: DiskAmount,
    /// Requests that write.
    pub written: DiskAmount,
    /// Requests that discard.
    pub discarded: DiskAmount,
    /// Flushes that the device got.
    pub flushes: u64,
    /// Bytes that another process wrote than the one that had put them into memory. Part of
    /// `written`.
    pub written_back: u64,
    /// Bytes by the certainty of the row's key: exact, inferred, unknown.
    pub by_link: [u64; 3],
}

impl DiskUse {
    /// Adds requests of a class.
    pub fn add(&mut self, class: DiskstatsClass, amount: DiskAmount) {
        match class {
            DiskstatsClass::Read => self.read.add(amount),
            DiskstatsClass::Write => self.written.add(amount),
            DiskstatsClass::Discard => self.discarded.add(amount),
            DiskstatsClass::Flush => self.flushes += amount.requests,
        }
    }

    fn add_part(&mut self, class: DiskstatsClass, amount: DiskAmount, link: Link) {
        self.add(class, amount);
        let [exact, inferred, unknown] = &mut self.by_link;
        let sum = match link {
            Link::Exact => exact,
            Link::Inferred => inferred,
            Link::Unknown => unknown,
        };
        *sum = sum.saturating_add(amount.bytes);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.read.add(other.read);
        self.written.add(other.written);
        self.discarded.add(other.discarded);
        self.flushes += other.flushes;
        self.written_back = self.written_back.saturating_add(other.written_back);
        for (sum, more) in self.by_link.iter_mut().zip(other.by_link) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the requests of all classes.
    pub fn requests(&self) -> u64 {
        let flushes = DiskAmount { requests: self.flushes, bytes: 0 };
        self.all(flushes).requests
    }

    /// Returns the bytes of all classes.
    pub fn bytes(&self) -> u64 {
        self.all(DiskAmount::default()).bytes
    }

    fn all(&self, first: DiskAmount) -> DiskAmount {
        let mut all = first;
        [self.read, self.written, self.discarded].into_iter().for_each(|amount| all.add(amount));
        all
    }
}

/// Fold of the use of disks.
#[derive(Clone, Debug, Default)]
pub struct DiskUses {
    /// All requests by disk.
    pub disks: BTreeMap<DevId, DiskUse>,
    /// Requests by disk and cause.
    pub causes: BoundedMap<(DevId, DiskCause), DiskUse>,
    /// Requests by disk and contents without a name.
    pub contents: BoundedMap<(DevId, DiskContents), DiskUse>,
    /// Requests by disk and file ([`super::summary::file_key`]).
    pub files: BTreeMap<DevId, BoundedMap<Vec<u8>, DiskUse>>,
    /// Processes that may own requests.
    pub owners: RequestOwners,
}

impl DiskUses {
    fn request(&mut self, request: &BlockRequest, thread: Option<&ThreadInfo>, pieces: &[Piece]) {
        let Some(class) = request.diskstats_class() else { return };
        let mut left = request.diskstats_sectors().saturating_mul(SECTOR_BYTES);
        let whole = DiskAmount { requests: 1, bytes: left };
        self.disks.entry(request.dev).or_default().add(class, whole);
        let causes = self.owners.causes(left, class, thread, pieces);
        let mut contents: Vec<(Option<&BlockContents>, u64)> = Vec::new();
        for piece in pieces {
            let bytes = piece.nr_sector.saturating_mul(SECTOR_BYTES).min(left);
            left -= bytes;
            contents.push((Some(&piece.contents), bytes));
        }
        if left > 0 || pieces.is_empty() {
            contents.push((None, left));
        }
        self.add_causes(request.dev, class, &causes);
        self.add_contents(request.dev, class, &contents);
    }

    fn add_causes(&mut self, dev: DevId, class: DiskstatsClass, causes: &[CausedBytes<'_>]) {
        let largest = largest(causes.iter().map(|caused| caused.bytes));
        for (place, caused) in causes.iter().enumerate() {
            let key = (dev, caused.cause);
            let owners = &mut self.owners;
            let row = self.causes.row(&key, || {
                owners.keep(caused);
                key
            });
            let requests = u64::from(Some(place) == largest);
            row.add_part(class, DiskAmount { requests, bytes: caused.bytes }, caused.link);
            if caused.is_written_back {
                row.written_back = row.written_back.saturating_add(caused.bytes);
            }
        }
    }

    fn add_contents(
        &mut self,
        dev: DevId,
        class: DiskstatsClass,
        all: &[(Option<&BlockContents>, u64)],
    ) {
        let largest = largest(all.iter().map(|(_, bytes)| *bytes));
        for (place, (contents, bytes)) in all.iter().enumerate() {
            let requests = u64::from(Some(place) == largest);
            let amount = DiskAmount { requests, bytes: *bytes };
            let link = contents.map_or(Link::Unknown, BlockContents::link);
            if let Some(BlockContents::File { file: Some(file), .. }) = contents
                && let Some(path) = &file.path
            {
                let files = self.files.entry(dev).or_default();
                let row = place_of(files, &NamedPath::of(path));
                files.at(row).add_part(class, amount, link);
                continue;
            }
            let nothing = if *bytes == 0 { DiskContents::Nothing } else { DiskContents::Unknown };
            let key = (dev, contents.map_or(nothing, DiskContents::of));
            self.contents.row(&key, || key).add_part(class, amount, link);
        }
    }
}

/// Returns the place of the first of the largest numbers.
fn largest(bytes: impl Iterator<Item = u64>) -> Option<usize> {
    bytes.enumerate().min_by_key(|(_, bytes)| Reverse(*bytes)).map(|(place, _)| place)
}

impl Sink for DiskUses {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        if let Step::Block { step: BlockStep::Ended(request), thread, pieces } = step {
            self.request(request, *thread, pieces);
            return Ok(());
        }
        self.owners.look(step);
        Ok(())
    }
}
