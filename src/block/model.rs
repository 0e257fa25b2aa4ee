//! What a block request is, and the steps in which requests are told.

use std::fmt;
use std::sync::Arc;

use super::{BlockAnomaly, Part};
use crate::event::block::{BlockPoint, RequestOp, Rwbs};
use crate::units::{CpuId, DevId, KernelTime, Pid, SECTOR_BYTES, Tid};

/// When and where an event was recorded, and which task it interrupted or served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// When, by the kernel's clock.
    pub time: KernelTime,
    /// The CPU whose ring held it.
    pub cpu: CpuId,
    /// The process of the task that was running.
    pub pid: Pid,
    /// The task that was running.
    pub tid: Tid,
}

/// Number of a request: dense from 0 in the order in which requests were first seen, over all devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// One request to one block device; or one bio, if the device has no requests (dm, md, zram).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// Its number.
    pub id: RequestId,
    /// The whole disk.
    pub dev: DevId,
    /// The operation, as the kernel counts it: the empty write that asks for a flush is a write, the flush is the device's command.
    pub op: RequestOp,
    /// The letters when it was first seen: the flush machinery takes `F`s away before issue.
    pub rwbs: Rwbs,
    /// First sector (512 bytes each); lower than at first if something was merged in front.
    pub sector: u64,
    /// Length in sectors (512 bytes each), with all that was merged into it.
    pub nr_sector: u32,
    /// Bytes that completions reported done, failed ones included (as `/proc/diskstats` counts them).
    pub bytes_done: u64,
    /// The event that showed it first. [`BlockPoint::BioQueue`]: it is a bio. Any but these and [`BlockPoint::GetRq`]: it is older
    /// than the capture, or the kernel made it.
    pub first_seen: BlockPoint,
    /// When it was allocated for a task's bio.
    pub queued: Option<KernelTime>,
    /// When it first went into the I/O scheduler.
    pub inserted: Option<KernelTime>,
    /// When it first went to the driver.
    pub issued: Option<KernelTime>,
    /// When it last went to the driver, if it went there more than once.
    pub reissued: Option<KernelTime>,
    /// When the data of a write was done that then waited for the end of its flush sequence.
    pub data_completed: Option<KernelTime>,
    /// When it was done, flushes included.
    pub completed: Option<KernelTime>,
    /// Who asked for it.
    pub submitter: Option<Submitter>,
    /// First error number (positive) that a completion reported.
    pub error: Option<i32>,
    /// Bios and requests merged into it, and into those before: `/proc/diskstats` counts the same.
    pub merges: u32,
    /// How often the driver gave it back.
    pub requeues: u32,
    /// Its part in flushing the device's cache.
    pub flush: FlushRole,
    /// What no event said.
    pub inferred: Inferred,
    /// A bio that failed before it became a request of its device.
    pub is_stillborn: bool,
    /// How it ended; `None` while it is in flight.
    pub ending: Option<Ending>,
    /// The bios that it came in, as far as they were seen: in the order in which they became part of it.
    pub parts: Arc<Vec<Part>>,
}

impl BlockRequest {
    /// When the first bio of it was handed to the block layer, at the uppermost device.
    pub fn bio_queued(&self) -> Option<KernelTime> {
        self.parts.iter().map(|it| it.queued.time).min()
    }

    /// The first time that is known of it.
    pub fn begin(&self) -> Option<KernelTime> {
        self.bio_queued().or(self.queued).or(self.inserted).or(self.issued)
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.nr_sector) * SECTOR_BYTES
    }

    /// True for a write of data: the empty write that asks for a flush moves none.
    pub fn writes_data(&self) -> bool {
        self.op == RequestOp::Write && self.flush != FlushRole::Demand
    }

    /// Where `/proc/diskstats` counts it as one completed request; `None` if it does not.
    ///
    /// The rules are those of `blk_account_io_done()` and `blk_account_io_flush()` (`block/blk-mq.c`,
    /// `block/blk-flush.c`): requests that completed count, with or without error, absorbed ones do not. Flushes
    /// that the flush machinery sends are counted in a class of their own; the empty write that asked for one
    /// counts as a write. Every operation but reads, discards and flushes is a write: the lowest bit of its number says so
    /// (`op_stat_group()` in `include/linux/blk_types.h`). That of zone opens did not before Linux 6.18, nor that of zone finishes before
    /// 6.16; these kernels count them as reads, and have no letters that would tell them from others.
    pub fn diskstats_class(&self) -> Option<DiskstatsClass> {
        let is_counted = self.ending == Some(Ending::Completed) && !self.is_stillborn;
        self.diskstats_class_of_kind().filter(|_| is_counted)
    }

    /// The class in which it counts if it completes; `None`: in none.
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
            // Driver commands are not counted, and have no bio that a request would be allocated for.
            RequestOp::Other => {
                let has_bio = matches!(self.first_seen, BlockPoint::GetRq | BlockPoint::BioQueue);
                has_bio.then_some(DiskstatsClass::Write)
            }
        }
    }

    /// Sectors (512 bytes each) that `/proc/diskstats` adds to that class for it.
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

/// Who asked for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitter {
    /// The process.
    pub pid: Pid,
    /// The thread; a kernel worker if writeback asked.
    pub tid: Tid,
    /// How this is known.
    pub source: SubmitterSource,
}

/// How a submitter is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubmitterSource {
    /// The task queued its (first) bio, at the uppermost device: certain.
    Bio,
    /// The task was running when the request was allocated: certain, but for what drivers of stacked devices pass on.
    GetRq,
    /// The task was running at the insert: mostly the one that asked, but a worker may insert for others.
    Insert,
}

/// A request's part in flushing the device's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushRole {
    /// None.
    None,
    /// A write that is done only when flushes before or after it are; these come out as requests of their own.
    Sequence,
    /// A task's demand for a flush, without data. Never issued itself: the flush sent for it is another request.
    Demand,
    /// A flush as the device gets it, sent by the kernel's flush machinery.
    Device {
        /// The oldest request that waited for a flush when this one was issued; `None` if none was known.
        serves: Option<FlushLink>,
    },
}

/// Which request a flush is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushLink {
    /// One request that waited for it, the oldest.
    pub request: RequestId,
    /// How many requests waited at the issue: 1 = the link is certain, more = the flush served one or several of them.
    pub waiting: u32,
}

/// What was concluded and not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inferred {
    /// Its place or length at insert or issue differed from what the merge events add up to.
    pub extent: bool,
    /// It went to the driver or the scheduler again without a requeue event.
    pub requeue: bool,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The driver, or the end of its flush sequence, reported it done.
    Completed,
    /// It became part of another request.
    Absorbed {
        /// That request; `None`: not known.
        into: Option<RequestId>,
        /// When.
        at: KernelTime,
        /// True if there was no merge event: the other request had grown over its place.
        inferred: bool,
    },
    /// Its end was not seen.
    Unfinished(Unfinished),
}

/// Why a request's end was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unfinished {
    /// The capture ended first.
    CaptureEnd,
    /// Too many were in flight, and this was the device's oldest.
    GivenUp,
}

/// What happened to a request, told at the time of the event that made it happen.
#[derive(Clone, Copy, Debug)]
pub enum BlockStep<'a> {
    /// It begins: always the first step of a request.
    Queued(&'a BlockRequest),
    /// A bio or another request was merged into it.
    Merged(&'a BlockRequest),
    /// It went into the I/O scheduler; again after a requeue.
    Inserted(&'a BlockRequest),
    /// It went to the driver; again after each requeue.
    Issued(&'a BlockRequest),
    /// The driver gave it back.
    Requeued(&'a BlockRequest),
    /// A part of it is done, or its data is but not its flush sequence.
    Progressed(&'a BlockRequest),
    /// It is over, see [`BlockRequest::ending`]: always the last step of a request.
    Ended(&'a BlockRequest),
    /// An event that could not be used as it should.
    Anomaly(&'a BlockAnomaly),
}
