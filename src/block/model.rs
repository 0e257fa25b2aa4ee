//! Block requests: their attributes, times and ends.

use std::sync::Arc;

use super::request_id::RequestId;
use super::request_part::RequestPart;
use crate::event::block::{BlockPoint, RequestOp, Rwbs};
use crate::units::{DevId, KernelTime, Pid, SECTOR_BYTES, Tid};

/// One request to one block device, or one bio if the device has no requests (dm, md, zram).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// Number of the request.
    pub id: RequestId,
    /// Whole disk.
    pub dev: DevId,
    /// Operation as the kernel counts it. The empty write that demands a flush is a write; the
    /// flush is the device's command.
    pub op: RequestOp,
    /// Operation letters of the first event: the flush machinery removes `F`s before issue.
    pub rwbs: Rwbs,
    /// First sector (512 bytes each); lower than at first if a bio was merged in front.
    pub sector: u64,
    /// Length in sectors (512 bytes each), merged bios and requests included.
    pub nr_sector: u32,
    /// Bytes that completions reported, failed ones included (as `/proc/diskstats` counts them).
    pub bytes_done: u64,
    /// First event of the request. [`BlockPoint::BioQueue`]: the request is a bio. Any other event
    /// but [`BlockPoint::GetRq`]: the request is older than the capture, or the kernel created it.
    pub first_seen: BlockPoint,
    /// Time of its allocation for a task's bio.
    pub queued: Option<KernelTime>,
    /// Time of its first insertion into the I/O scheduler.
    pub inserted: Option<KernelTime>,
    /// Time of its first issue to the driver.
    pub issued: Option<KernelTime>,
    /// Time of its last issue to the driver, if it was issued more than once.
    pub reissued: Option<KernelTime>,
    /// Time when the data of a write was completed that then waited for the end of its flush
    /// sequence.
    pub data_completed: Option<KernelTime>,
    /// Time of its completion, flushes included.
    pub completed: Option<KernelTime>,
    /// Task that submitted it.
    pub submitter: Option<Submitter>,
    /// First error number (positive) that a completion reported.
    pub error: Option<i32>,
    /// Bios and requests merged into it, and into those before: `/proc/diskstats` counts the same.
    pub merges: u32,
    /// Number of times that the driver returned it.
    pub requeues: u32,
    /// Role in flushing the device's cache.
    pub flush: FlushRole,
    /// Facts that were inferred without an event.
    pub inferred: Inferred,
    /// True for a bio that failed before it became a request of its device.
    pub is_stillborn: bool,
    /// End of the request; `None` while it is in flight.
    pub ending: Option<RequestEnd>,
    /// Bios that became part of it, as far as they were seen, in the order in which they did.
    pub parts: Arc<Vec<RequestPart>>,
}

impl BlockRequest {
    /// Returns the time when its first bio was handed to the block layer, at the uppermost device.
    pub fn bio_queued(&self) -> Option<KernelTime> {
        self.parts.iter().map(|it| it.queued.time).min()
    }

    /// Returns its first known time.
    pub fn begin(&self) -> Option<KernelTime> {
        self.bio_queued().or(self.queued).or(self.inserted).or(self.issued)
    }

    /// Returns its length in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.nr_sector) * SECTOR_BYTES
    }

    /// Returns true for a write of data: the empty write that demands a flush moves none.
    pub fn writes_data(&self) -> bool {
        self.op == RequestOp::Write && self.flush != FlushRole::Demand
    }

    /// Returns the class in which `/proc/diskstats` counts it as one completed request; `None` if
    /// it is not counted.
    ///
    /// The rules are those of `blk_account_io_done()` and `blk_account_io_flush()`
    /// (`block/blk-mq.c`, `block/blk-flush.c`). Completed requests count, with or without error;
    /// absorbed ones do not. Flushes sent by the flush machinery are counted in a class of their
    /// own; the empty write that demanded one counts as a write.
    ///
    /// Every operation except reads, discards and flushes is a write: the lowest bit of its number
    /// marks writes (`op_stat_group()` in `include/linux/blk_types.h`). The bit was not set for
    /// zone opens before Linux 6.18, nor for zone finishes before 6.16. These kernels count them as
    /// reads, and have no letters that would distinguish them from others.
    pub fn diskstats_class(&self) -> Option<DiskstatsClass> {
        let is_counted = self.ending == Some(RequestEnd::Completed) && !self.is_stillborn;
        self.diskstats_class_of_kind().filter(|_| is_counted)
    }

    /// Returns the class in which it counts if it completes; `None` if it does not count.
    pub fn diskstats_class_of_kind(&self) -> Option<DiskstatsClass> {
        if matches!(self.flush, FlushRole::Device { .. }) {
            return Some(DiskstatsClass::Flush);
        }
        match self.op {
            RequestOp::Read => Some(DiskstatsClass::Read),
            RequestOp::Discard => Some(DiskstatsClass::Discard),
            RequestOp::Write
            | RequestOp::Flush
            | RequestOp::SecureErase
            | RequestOp::WriteZeroes
            | RequestOp::ZoneAppend
            | RequestOp::ZoneReset
            | RequestOp::ZoneResetAll
            | RequestOp::ZoneOpen
            | RequestOp::ZoneClose
            | RequestOp::ZoneFinish => Some(DiskstatsClass::Write),
            // Driver commands are not counted, and have no bio for which a request would be
            // allocated.
            RequestOp::Other => {
                let has_bio = matches!(self.first_seen, BlockPoint::GetRq | BlockPoint::BioQueue);
                has_bio.then_some(DiskstatsClass::Write)
            }
        }
    }

    /// Returns the sectors (512 bytes each) that `/proc/diskstats` adds to that class for it.
    pub fn diskstats_sectors(&self) -> u64 {
        self.bytes_done / SECTOR_BYTES
    }
}

/// Classes of requests in `/proc/diskstats` (`Documentation/admin-guide/iostats.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskstatsClass {
    /// Fields 1 to 4.
    Read,
    /// Fields 5 to 8.
    Write,
    /// Fields 12 to 15.
    Discard,
    /// Fields 16 and 17: no sectors, no merges.
    Flush,
}

impl DiskstatsClass {
    /// Returns the word in outputs for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::Flush => "flush",
        }
    }
}

/// Task that submitted a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitter {
    /// Process of the task.
    pub pid: Pid,
    /// Thread; a kernel worker if writeback submitted the request.
    pub tid: Tid,
    /// Source of this knowledge.
    pub source: SubmitterSource,
}

/// Source from which a submitter is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubmitterSource {
    /// The task queued its (first) bio, at the uppermost device: certain.
    Bio,
    /// The task was running when the request was allocated: certain, except for bios that drivers
    /// of stacked devices pass on.
    GetRq,
    /// The task was running at the insert: usually the submitter, but a worker may insert for
    /// others.
    Insert,
}

/// Role of a request in flushing the device's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushRole {
    /// No role.
    None,
    /// Write that completes only after flushes before or after it; these are reported as requests
    /// of their own.
    Sequence,
    /// Demand of a task for a flush, without data. It is never issued itself: the flush sent for it
    /// is another request.
    Demand,
    /// Flush as the device receives it, sent by the kernel's flush machinery.
    Device {
        /// Oldest request that waited for a flush when this one was issued; `None` if none was
        /// known.
        serves: Option<FlushLink>,
    },
}

/// Link from a flush to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushLink {
    /// Oldest of the requests that waited for it.
    pub request: RequestId,
    /// Number of requests that waited at the issue. 1 = the link is certain; more = the flush
    /// served one or several of them.
    pub waiting: u32,
}

/// Facts that were inferred, not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inferred {
    /// The place or length at insert or issue differed from the sum of the merge events.
    pub extent: bool,
    /// The request went to the driver or the scheduler again without a requeue event.
    pub requeue: bool,
}

/// End of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// The driver, or the end of its flush sequence, reported its completion.
    Completed,
    /// The request became part of another one.
    Absorbed {
        /// Absorbing request; `None` if it is unknown.
        into: Option<RequestId>,
        /// Time of the merge.
        at: KernelTime,
        /// True if there was no merge event: the other request had grown over its place.
        inferred: bool,
    },
    /// The end of the request was not seen.
    Unfinished(UnfinishedRequest),
}

impl RequestEnd {
    /// Returns the word in outputs for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Absorbed { .. } => "absorbed",
            Self::Unfinished(_) => "unfinished",
        }
    }
}

/// Reason why the end of a request was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnfinishedRequest {
    /// The capture ended before the request.
    CaptureEnd,
    /// Too many requests were in flight, and this was the oldest of the device.
    GivenUp,
}
