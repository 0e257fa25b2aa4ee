//! Use of disks: bytes and requests by the process that caused them, and by the file in their
//! sectors. The sums over all causes, and over all contents, are those of `/proc/diskstats`.
//!
//! A request counts for the process and the file of most of its bytes. Bytes that several processes
//! wrote last are divided equally among these processes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;

use rustc_hash::FxHashMap;

use super::bounded_map::BoundedMap;
use super::completed_op::NamedPath;
use super::process_names::ProcessNames;
use super::summary::file_key;
use crate::anomaly::Link;
use crate::operation::attribution::{BlockContents, FileKey, LastWriter, Piece};
use crate::operation::block::{BlockRequest, BlockStep, DiskstatsClass};
use crate::operation::model::{ProcessKey, ThreadInfo};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid, SECTOR_BYTES};

/// Cause of bytes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskCause {
    /// A process: it queued the bio, or wrote the bytes last that a kernel thread wrote back.
    Process(ProcessKey),
    /// A process that did nothing else in the recording.
    Unseen(Pid),
    /// The kernel's own: journals and metadata of file systems, flushes.
    Kernel,
    /// Another process, or not known.
    Unknown,
}

/// Contents of sectors of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskContents {
    /// A file.
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
    /// Bytes that another thread wrote than the one that had put them into memory. Part of
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

/// Contents of a disk with a name.
#[derive(Clone, Debug, Default)]
pub struct ContentsUse {
    /// Key of the file's name ([`file_key`]), if it is known.
    pub name: Option<Vec<u8>>,
    /// Requests of these contents.
    pub used: DiskUse,
}

/// Fold of the use of disks.
#[derive(Clone, Debug, Default)]
pub struct DiskUses {
    /// All requests by disk.
    pub disks: BTreeMap<DevId, DiskUse>,
    /// Requests by disk and cause.
    pub causes: BoundedMap<(DevId, DiskCause), DiskUse>,
    /// Requests by disk and contents.
    pub contents: BoundedMap<(DevId, DiskContents), ContentsUse>,
    /// Names of processes.
    pub names: ProcessNames,
    /// Last process of each number.
    processes: FxHashMap<Pid, ProcessKey>,
}

/// A number of bytes of a request.
struct CausedBytes {
    cause: DiskCause,
    bytes: u64,
    link: Link,
    is_written_back: bool,
}

impl CausedBytes {
    /// No bytes, of the kernel.
    fn none() -> Self {
        Self { cause: DiskCause::Kernel, bytes: 0, link: Link::Exact, is_written_back: false }
    }
}

impl DiskUses {
    fn request(&mut self, request: &BlockRequest, thread: Option<&ThreadInfo>, pieces: &[Piece]) {
        let Some(class) = request.diskstats_class() else { return };
        let mut left = request.diskstats_sectors().saturating_mul(SECTOR_BYTES);
        let whole = DiskAmount { requests: 1, bytes: left };
        self.disks.entry(request.dev).or_default().add(class, whole);
        let mut causes: Vec<CausedBytes> = Vec::new();
        let mut contents: Vec<(Option<&BlockContents>, u64)> = Vec::new();
        for piece in pieces {
            let bytes = piece.nr_sector.saturating_mul(SECTOR_BYTES).min(left);
            left -= bytes;
            causes.extend(self.causes_of(piece, bytes));
            contents.push((Some(&piece.contents), bytes));
        }
        if left > 0 || pieces.is_empty() {
            causes.push(match class {
                // The block layer issues it when a request demands one.
                DiskstatsClass::Flush => CausedBytes::none(),
                _ => self.cause_without_piece(thread, left),
            });
            contents.push((None, left));
        }
        self.add_causes(request.dev, class, &causes);
        self.add_contents(request.dev, class, &contents);
    }

    /// Returns the causes of a piece; their bytes add up to `bytes`.
    fn causes_of(&self, piece: &Piece, bytes: u64) -> Vec<CausedBytes> {
        let caused =
            |cause, bytes, link| CausedBytes { cause, bytes, link, is_written_back: false };
        match (piece.program(), piece.writers.as_slice()) {
            (Some(_), writers @ [_, ..]) => {
                let count = writers.len() as u64;
                let (each, rest) = (bytes / count, bytes % count);
                let shares = (0..count).map(|place| each + u64::from(place < rest));
                let written = |(writer, bytes): (&LastWriter, u64)| {
                    let cause = DiskCause::Process(writer.process);
                    CausedBytes { cause, bytes, link: Link::Inferred, is_written_back: true }
                };
                writers.iter().zip(shares).map(written).collect()
            }
            (Some(Link::Exact), []) => {
                let pid = piece.queued.pid;
                let process = self.processes.get(&pid);
                let cause = process.map_or(DiskCause::Unseen(pid), |key| DiskCause::Process(*key));
                vec![caused(cause, bytes, Link::Exact)]
            }
            (Some(_), []) => vec![caused(DiskCause::Unknown, bytes, Link::Unknown)],
            (None, _) => vec![caused(DiskCause::Kernel, bytes, Link::Exact)],
        }
    }

    /// Returns the cause of bytes whose bios were not seen; of a request without bytes, the thread
    /// that queued it.
    fn cause_without_piece(&self, thread: Option<&ThreadInfo>, bytes: u64) -> CausedBytes {
        let info = thread.and_then(|thread| self.names.info(thread.process));
        let (cause, link) = match info {
            Some(info) if info.is_kernel => (DiskCause::Kernel, Link::Exact),
            Some(info) if bytes == 0 => (DiskCause::Process(info.key), Link::Exact),
            _ => (DiskCause::Unknown, Link::Unknown),
        };
        CausedBytes { cause, bytes, link, is_written_back: false }
    }

    fn add_causes(&mut self, dev: DevId, class: DiskstatsClass, causes: &[CausedBytes]) {
        let largest = largest(causes.iter().map(|caused| caused.bytes));
        for (place, caused) in causes.iter().enumerate() {
            let key = (dev, caused.cause);
            let names = &mut self.names;
            let row = self.causes.row(&key, || {
                if let DiskCause::Process(process) = caused.cause {
                    names.keep(process);
                }
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
            let nothing = if *bytes == 0 { DiskContents::Nothing } else { DiskContents::Unknown };
            let key = (dev, contents.map_or(nothing, DiskContents::of));
            let row = self.contents.row(&key, || key);
            let requests = u64::from(Some(place) == largest);
            let link = contents.map_or(Link::Unknown, BlockContents::link);
            row.used.add_part(class, DiskAmount { requests, bytes: *bytes }, link);
            if let Some(BlockContents::File { file: Some(file), .. }) = contents
                && let Some(path) = &file.path
                && row.name.is_none()
            {
                row.name = Some(file_key(&NamedPath::of(path)));
            }
        }
    }
}

/// Returns the place of the first of the largest numbers.
fn largest(bytes: impl Iterator<Item = u64>) -> Option<usize> {
    bytes.enumerate().min_by_key(|(_, bytes)| Reverse(*bytes)).map(|(place, _)| place)
}

impl Sink for DiskUses {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        if let Step::Block { step: BlockStep::Ended(request), thread, pieces } = step {
            self.request(request, *thread, pieces);
            return Ok(());
        }
        if let Step::ProcessSeen(process) = step {
            self.processes.insert(process.pid, process.key);
        }
        self.names.look(step);
        Ok(())
    }
}
