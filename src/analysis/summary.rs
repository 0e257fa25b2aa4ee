//! Summary by operation, process, file and device: counts, bytes and times.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::bounded_map::BoundedMap;
use super::completed_op::{CompletedOp, NamedPath, OpKind};
pub use super::file_key::{KeyParts, file_key, place_of};
use super::group_stats::{GroupStats, OpAmounts};
use super::histogram::Histogram;
use super::job_keys::{Absorb, CaptureKeys};
use super::op_groups::{FileRows, OpDimension, OpGroups};
use super::op_kind_rows::OpKindRows;
use super::process_names::ProcessNames;
use super::recent_rows::{OpRows, RecentRows};
use crate::event::block::RequestOp;
use crate::event::syscall_table::CallClass;
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::block::{BlockRequest, BlockStep, RequestEnd};
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid};

/// Operations of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessSummary {
    /// Process number.
    pub pid: Pid,
    /// Sum of its operations.
    pub tally: GroupStats,
}

/// Requests of one kind to one device.
#[derive(Clone, Debug, Default)]
pub struct DeviceSummary {
    /// Requests completed.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bios and requests merged into others.
    pub merges: u64,
    /// Bytes that completed.
    pub bytes: u64,
    /// Time before the driver received them (Q or G to D), ns.
    pub queue: Histogram,
    /// Time in the driver and the device (D to C), ns.
    pub device: Histogram,
}

impl DeviceSummary {
    /// Adds other requests.
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.merges += other.merges;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.queue.merge(&other.queue);
        self.device.merge(&other.device);
    }
}

/// Asynchronous operations without a result: they are in no other sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnfetchedAsync {
    /// Number of these operations.
    pub count: u64,
    /// Bytes that they requested, as far as that is known.
    pub requested: u64,
    /// Operations whose requested bytes are unknown.
    pub unknown: u64,
}

impl UnfetchedAsync {
    fn add(&mut self, operation: &AsyncOperation) {
        self.count += 1;
        self.requested = self.requested.saturating_add(operation.bytes_requested.unwrap_or(0));
        let is_unknown = operation.opcode.has_bytes() && operation.bytes_requested.is_none();
        self.unknown += u64::from(is_unknown);
    }
}

/// Fold of the summary.
#[derive(Clone, Debug, Default)]
pub struct IoSummary {
    /// Sums by operation and class of I/O.
    by_call: OpKindRows<GroupStats>,
    /// Sums by process.
    pub processes: BoundedMap<ProcessKey, ProcessSummary>,
    /// Sums by file.
    pub files: BoundedMap<Vec<u8>, GroupStats>,
    /// Operations without a known name: on files, pipes and similar, descriptors of unknown type.
    pub nameless: BTreeMap<IoClass, GroupStats>,
    /// Asynchronous operations whose result was not seen, and the bytes that they requested.
    pub unseen: UnfetchedAsync,
    /// Sums of requests by device and kind.
    pub devices: BTreeMap<(DevId, RequestOp), DeviceSummary>,
    /// Failed operations by their error.
    pub errors: BTreeMap<(OpKind, IoClass, i32), u64>,
    /// Page faults on files.
    pub faults: u64,
    /// Names of processes.
    pub names: ProcessNames,
    /// Sums in a further dimension, if one is wanted.
    pub groups: Option<OpGroups>,
    /// Rows of operations that may occur again.
    recent: RecentRows<OpRows>,
}

impl IoSummary {
    /// Returns a fold that also sums in a further dimension, if one is wanted.
    pub fn in_dimension(dimension: Option<OpDimension>) -> Self {
        Self { groups: dimension.map(OpGroups::new), ..Self::default() }
    }

    /// Returns the sum over all operations.
    pub fn all(&self) -> GroupStats {
        let mut all = GroupStats::default();
        self.calls().into_iter().for_each(|(_, sum)| all.merge(sum));
        all
    }

    /// Returns the sums by operation and class of I/O, in the order of these keys.
    pub fn calls(&self) -> Vec<((OpKind, IoClass), &GroupStats)> {
        self.by_call.sorted()
    }

    /// Returns the sum of one kind of operation in one class of I/O, if there was any.
    pub fn call(&self, what: OpKind, io: IoClass) -> Option<&GroupStats> {
        self.by_call.get(what, io)
    }

    /// Adds an operation.
    pub(super) fn done(&mut self, done: &CompletedOp<'_>) {
        let (op, moved) = (OpAmounts::of(done), done.moved());
        let rows = self.rows_of(done);
        self.by_call.row(done.what, done.io).add(&op, moved);
        if let Some(errno) = done.errno {
            *self.errors.entry((done.what, done.io, errno)).or_default() += 1;
        }
        let process = self.processes.at(rows.process);
        process.pid = done.pid;
        process.tally.add(&op, moved);
        let is_transfer = done.class == CallClass::Transfer;
        let of_name = if is_transfer { [done.bytes, 0] } else { moved };
        match (&done.name, rows.file) {
            (Some(name), Some(row)) => self.on_file(row, name, &op, of_name),
            _ if is_transfer || done.is_nameless() => {
                self.nameless.entry(done.io).or_default().add(&op, of_name);
            }
            _ => {}
        }
        let target = done.target.as_ref().filter(|_| is_transfer);
        let target_row = target.map(|target| place_of(&mut self.files, target));
        match (target, target_row) {
            (Some(target), Some(row)) => self.on_file(row, target, &op, [0, done.bytes]),
            _ if is_transfer => {
                self.nameless.entry(done.io).or_default().add(&op, [0, done.bytes]);
            }
            _ => {}
        }
        if let Some(groups) = &mut self.groups {
            groups.add(done, &op, FileRows { named: rows.file, target: target_row });
        }
    }

    /// Returns the rows of an operation, of its name in the case of a file.
    fn rows_of(&mut self, done: &CompletedOp<'_>) -> OpRows {
        self.recent.rows(done, || OpRows {
            process: self.processes.place(&done.process, || self.names.of_new_row(done.process)),
            file: done.name.as_ref().map(|name| place_of(&mut self.files, name)),
        })
    }

    fn on_file(&mut self, row: usize, name: &NamedPath<'_>, op: &OpAmounts, moved: [u64; 2]) {
        let row = self.files.at(row);
        row.add(op, moved);
        row.doubtful += u64::from(name.is_doubtful);
    }

    fn request(&mut self, request: &BlockRequest) {
        if request.ending != Some(RequestEnd::Completed) {
            return;
        }
        let row = self.devices.entry((request.dev, request.op)).or_default();
        row.errors += u64::from(request.error.is_some());
        if request.is_stillborn {
            // The device did not get the request, and its counters do not include it.
            return;
        }
        row.requests += 1;
        row.merges += u64::from(request.merges);
        row.bytes = row.bytes.saturating_add(request.bytes_done);
        if let (Some(begin), Some(issued)) = (request.begin(), request.issued) {
            row.queue.add(issued.0.saturating_sub(begin.0));
        }
        if let (Some(issued), Some(completed)) = (request.issued, request.completed) {
            row.device.add(completed.0.saturating_sub(issued.0));
        }
    }
}

impl Absorb for IoSummary {
    fn absorb(&mut self, other: Self, keys: &mut CaptureKeys<'_>) {
        for ((what, io), sum) in other.by_call.sorted() {
            self.by_call.row(what, io).merge(sum);
        }
        for (process, sum) in other.processes.iter() {
            let key = keys.process(*process);
            let (names, row) = (&mut self.names, self.processes.place(&key, || key));
            if row != usize::MAX {
                names.absorb(*process, &other.names, keys);
            }
            let row = self.processes.at(row);
            row.pid = sum.pid;
            row.tally.merge(&sum.tally);
        }
        if let Some(sum) = other.processes.others() {
            self.processes.at(usize::MAX).tally.merge(&sum.tally);
        }
        let mut files: BTreeMap<usize, usize> = BTreeMap::new();
        for (key, place) in other.files.keys() {
            let key = keys.file(key);
            files.insert(place, self.files.place(key.as_slice(), || key.clone()));
        }
        for (place, row) in &files {
            if let Some(sum) = other.files.row_at(*place) {
                self.files.at(*row).merge(sum);
            }
        }
        if let Some(sum) = other.files.others() {
            self.files.at(usize::MAX).merge(sum);
        }
        for (io, sum) in &other.nameless {
            self.nameless.entry(*io).or_default().merge(sum);
        }
        self.unseen.count += other.unseen.count;
        self.unseen.requested = self.unseen.requested.saturating_add(other.unseen.requested);
        self.unseen.unknown += other.unseen.unknown;
        for ((dev, op), sum) in &other.devices {
            self.devices.entry((keys.device(*dev), *op)).or_default().merge(sum);
        }
        for (key, count) in &other.errors {
            *self.errors.entry(*key).or_default() += count;
        }
        self.faults += other.faults;
        if let (Some(groups), Some(others)) = (&mut self.groups, &other.groups) {
            groups.absorb(others, &files, keys);
        }
    }
}

impl Sink for IoSummary {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.done(&done);
                }
            }
            Step::AsyncUnfinished(operation, _) => self.unseen.add(operation),
            Step::Fault(_) => self.faults += 1,
            Step::Block { step: BlockStep::Ended(request), .. } => self.request(request),
            _ => {
                self.names.look(step);
                self.groups.iter_mut().for_each(|groups| groups.look(step));
            }
        }
        Ok(())
    }
}
