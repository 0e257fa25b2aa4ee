//! Findings: the most important facts of a summary with their numbers, weighted by the time that
//! they concern.

use super::completed_op::OpKind;
use super::group_stats::GroupStats;
use super::summary::{IoSummary, ProcessSummary};
use crate::event::block::RequestOp;
use crate::operation::io_class::IoClass;
use crate::units::{DevId, Pid};

/// Number of findings that are reported.
pub const FINDINGS_MAX: usize = 3;

/// Limit of a small access in bytes: less than the smallest page size.
const SMALL_BYTES: u64 = 4096;

/// Minimum count for a finding.
const FEW: u64 = 100;

/// Finding of a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind of the finding, with its numbers.
    pub kind: FindingKind,
    /// Time that it concerns, ns.
    pub time_ns: u64,
}

/// Kinds of findings. Times are those of operations on files; waiting at pipes and sockets is not
/// included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Most of the time is that of one operation.
    Operation {
        /// Kind of the operation.
        what: OpKind,
        /// Number of operations of this kind.
        count: u64,
        /// Time of all operations, ns.
        all_ns: u64,
    },
    /// Most of the time is that of one file.
    File {
        /// Key of the file ([`super::summary::KeyParts`]).
        file: Vec<u8>,
        /// Operations on it.
        count: u64,
        /// Bytes read from it.
        read: u64,
        /// Bytes written to it.
        written: u64,
        /// Time of all operations, ns.
        all_ns: u64,
    },
    /// Among several processes, one takes most of the time.
    Process {
        /// Process number.
        pid: Pid,
        /// Process name.
        comm: Vec<u8>,
        /// Number of its operations.
        count: u64,
        /// Time of all operations, ns.
        all_ns: u64,
    },
    /// Many accesses move few bytes each.
    Small {
        /// Kind of the operation.
        what: OpKind,
        /// Number of operations of this kind.
        count: u64,
        /// Bytes moved in all.
        bytes: u64,
    },
    /// Many operations fail in the same way.
    Failing {
        /// Kind of the operation.
        what: OpKind,
        /// Error number of the failures.
        errno: i32,
        /// Number of failures.
        failed: u64,
        /// Number of all operations of this kind.
        count: u64,
    },
    /// A part of the time is of operations that may or may not be file I/O.
    Untyped {
        /// Operations on descriptors of unknown type.
        count: u64,
        /// Time of all operations of any class, ns.
        all_ns: u64,
    },
    /// Requests wait longer for the device than the device works on them.
    Queued {
        /// Device of the requests.
        dev: DevId,
        /// Number of requests.
        requests: u64,
        /// Time in the device, ns.
        device_ns: u64,
    },
}

impl Finding {
    /// Returns the word for its kind.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            FindingKind::Operation { .. } => "operation",
            FindingKind::File { .. } => "file",
            FindingKind::Process { .. } => "process",
            FindingKind::Small { .. } => "small",
            FindingKind::Failing { .. } => "failing",
            FindingKind::Untyped { .. } => "unknown-type",
            FindingKind::Queued { .. } => "queued",
        }
    }
}

/// Returns the most important findings, the one with most time first.
pub fn findings(summary: &IoSummary) -> Vec<Finding> {
    let finders = [operation, file, process, small, failing, untyped, queued];
    let mut found: Vec<Finding> = finders.iter().filter_map(|it| it(summary)).collect();
    found.sort_by_key(|it| std::cmp::Reverse(it.time_ns));
    found.truncate(FINDINGS_MAX);
    found
}

fn operation(summary: &IoSummary) -> Option<Finding> {
    let ((what, _), tally) = on_files(summary).max_by_key(|it| it.1.own_time())?;
    let all_ns = summary.all().own_time();
    let kind = FindingKind::Operation { what, count: tally.count, all_ns };
    some(kind, tally.own_time())
}

/// Returns the operations that are file I/O.
fn on_files(summary: &IoSummary) -> impl Iterator<Item = ((OpKind, IoClass), &GroupStats)> {
    summary.calls().into_iter().filter(|it| it.0.1 == IoClass::File)
}

fn untyped(summary: &IoSummary) -> Option<Finding> {
    let GroupStats { untyped, untyped_ns, ref time, .. } = summary.all();
    some(FindingKind::Untyped { count: untyped, all_ns: time.sum() }, untyped_ns)
}

fn file(summary: &IoSummary) -> Option<Finding> {
    let by_time = |it: &(&Vec<u8>, &GroupStats)| (it.1.own_time(), std::cmp::Reverse(it.0.clone()));
    let (file, tally) = summary.files.iter().max_by_key(by_time)?;
    let GroupStats { own: count, read, written, .. } = *tally;
    let all_ns = summary.all().own_time();
    some(FindingKind::File { file: file.clone(), count, read, written, all_ns }, tally.own_time())
}

fn process(summary: &IoSummary) -> Option<Finding> {
    let rows = || summary.processes.iter();
    let by_time =
        |(_, it): &(&_, &ProcessSummary)| (it.tally.own_time(), std::cmp::Reverse(it.pid));
    let (key, ProcessSummary { pid, tally }) = rows().max_by_key(by_time)?;
    let (comm, all_ns) = (summary.names.of(*key).to_vec(), summary.all().own_time());
    let kind = FindingKind::Process { pid: *pid, comm, count: tally.own, all_ns };
    some(kind, tally.own_time()).filter(|_| rows().count() > 1)
}

fn small(summary: &IoSummary) -> Option<Finding> {
    let small = |((what, _), tally): ((OpKind, IoClass), &GroupStats)| {
        let class = what.class();
        let (bytes, count) = (tally.sizes.sum(), tally.sizes.count());
        let is_small = class.moves_bytes() && count >= FEW && bytes / count < SMALL_BYTES;
        // With accesses of a page each, this share of the calls would not exist.
        let needed = bytes.div_ceil(SMALL_BYTES);
        let share = |ns: u64| u128::from(ns) * u128::from(count.saturating_sub(needed));
        let saved = share(tally.time.sum()).checked_div(u128::from(tally.count))?;
        let kind = FindingKind::Small { what, count, bytes };
        some(kind, u64::try_from(saved).unwrap_or(u64::MAX)).filter(|_| is_small)
    };
    on_files(summary).filter_map(small).max_by_key(|it| it.time_ns)
}

fn failing(summary: &IoSummary) -> Option<Finding> {
    let one = |(&(what, io, errno), &failed): (&(OpKind, IoClass, i32), &u64)| {
        let tally = summary.call(what, io).filter(|_| io == IoClass::File)?;
        let ns = u128::from(tally.time.sum()) * u128::from(failed);
        let ns = u64::try_from(ns / u128::from(tally.count.max(1))).unwrap_or(u64::MAX);
        // Programs use these errors to check for data.
        let is_usual = matches!(errno, libc::EAGAIN | libc::EINTR);
        let kind = FindingKind::Failing { what, errno, failed, count: tally.count };
        some(kind, ns).filter(|_| failed >= FEW && failed * 10 >= tally.count && !is_usual)
    };
    summary.errors.iter().filter_map(one).max_by_key(|it| it.time_ns)
}

fn queued(summary: &IoSummary) -> Option<Finding> {
    let devices = summary.devices.keys().map(|it| it.0);
    let one = |dev: DevId| {
        let its = summary.devices.range((dev, RequestOp::Read)..).take_while(|it| it.0.0 == dev);
        let sums = its.fold((0, 0_u64, 0_u64), |(requests, queue, device), (_, stats)| {
            let queue = queue.saturating_add(stats.queue.sum());
            (requests + stats.requests, queue, device.saturating_add(stats.device.sum()))
        });
        let (requests, queue_ns, device_ns) = sums;
        let kind = FindingKind::Queued { dev, requests, device_ns };
        some(kind, queue_ns).filter(|_| requests >= FEW && queue_ns > device_ns)
    };
    devices.filter_map(one).max_by_key(|it| it.time_ns)
}

fn some(kind: FindingKind, time_ns: u64) -> Option<Finding> {
    (time_ns > 0).then_some(Finding { kind, time_ns })
}
