//! Call chains of block requests and system calls: their number, bytes and time.
//!
//! For a block request each bio counts by itself, with the call chain that queued it at the
//! request's device. The bios of a stacked device are included, and so are those that its driver
//! sends to the underlying devices, each with a stack of its own.

use std::collections::BTreeMap;
use std::convert::Infallible;

use rustc_hash::FxHashMap;

use super::bounded_map::BoundedMap;
use super::completed_op::{CompletedOp, OpKind};
use crate::event::block::Comm;
use crate::event::callchain::{CallChain, ChainId};
use crate::operation::block::{BlockRequest, BlockStep, DiskstatsClass, RequestEnd, RequestPart};
use crate::operation::model::{SyscallOperation, ThreadInfo, ThreadKey};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid, SECTOR_BYTES};

/// Subject of a stack: an operation, or a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StackSubject {
    /// Bios of this device.
    Device(DevId),
    /// Operations of this kind.
    Call(OpKind),
}

/// Key of a row of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackKey {
    /// Subject of the stack.
    pub of: StackSubject,
    /// Name of the thread; `None` if unknown.
    pub comm: Option<Comm>,
    /// Process, if rows are separated by process.
    pub pid: Option<Pid>,
    /// Call chain; `None` if it was not recorded, or lost.
    pub chain: Option<ChainId>,
}

/// Sum over bios or calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSum {
    /// Number of bios or calls.
    pub count: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes discarded.
    pub discarded: u64,
    /// Time from the queue to the end, or from entry to exit, ns; simultaneous ones count each.
    pub time: u64,
}

impl StackSum {
    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
        self.discarded = self.discarded.saturating_add(other.discarded);
        self.time = self.time.saturating_add(other.time);
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> u64 {
        self.read.saturating_add(self.written).saturating_add(self.discarded)
    }
}

/// Selection of the stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StacksOf {
    /// True for system calls, false for block requests.
    pub calls: bool,
    /// True if processes of the same name have rows of their own.
    pub by_process: bool,
}

/// Fold of the stacks.
#[derive(Clone, Debug, Default)]
pub struct IoStacks {
    /// Selection of the stacks.
    pub which: StacksOf,
    /// Sums by subject, thread and call chain.
    pub rows: BoundedMap<StackKey, StackSum>,
    /// Sums by subject, over all threads.
    pub totals: BTreeMap<StackSubject, StackSum>,
    /// Call chains that were seen.
    pub chains: FxHashMap<ChainId, CallChain>,
    /// Bios whose end was not seen: they have no time.
    pub unended: u64,
    /// Bios that did not become a request of their device: they are in no row.
    pub stillborn: u64,
    /// Driver commands, which no disk counts: they are in no row.
    pub commands: u64,
    names: FxHashMap<ThreadKey, Comm>,
}

impl IoStacks {
    /// Creates an empty fold.
    pub fn new(which: StacksOf) -> Self {
        Self { which, ..Self::default() }
    }

    fn add(&mut self, key: StackKey, sum: &StackSum) {
        let key = StackKey { pid: key.pid.filter(|_| self.which.by_process), ..key };
        self.rows.row(&key, || key).merge(sum);
        self.totals.entry(key.of).or_default().merge(sum);
    }

    fn request(&mut self, request: &BlockRequest, thread: Option<&ThreadInfo>) {
        // An absorbed request is part of another one.
        if matches!(request.ending, Some(RequestEnd::Absorbed { into: Some(_), .. })) {
            return;
        }
        if request.is_stillborn {
            self.stillborn += 1;
            return;
        }
        let Some(class) = request.diskstats_class_of_kind() else {
            self.commands += 1;
            return;
        };
        let before = self.totals.get(&StackSubject::Device(request.dev)).map_or(0, |it| it.count);
        self.bios(request, class, thread);
        if request.completed.is_none() {
            let after =
                self.totals.get(&StackSubject::Device(request.dev)).map_or(0, |it| it.count);
            self.unended += after - before;
        }
    }

    fn bios(&mut self, request: &BlockRequest, class: DiskstatsClass, thread: Option<&ThreadInfo>) {
        let of = StackSubject::Device(request.dev);
        let known = thread.filter(|it| !it.comm.is_empty());
        let name_of = |tid| known.filter(|it| it.tid == tid).map(|it| Comm::new(&it.comm));
        for part in request.parts.iter() {
            let here = &part.here;
            let comm = here.comm.or_else(|| name_of(here.at.tid));
            let key = StackKey { of, comm, pid: Some(here.at.pid), chain: here.chain };
            self.add(key, &sum_of(request, class, bytes_of(part), Some(here.at.time)));
        }
        // The rest are bios that were not seen.
        let seen: u64 = request.parts.iter().map(bytes_of).sum();
        let unseen = request.bytes().saturating_sub(seen);
        if unseen > 0 {
            let by = request.submitter;
            let comm = by.and_then(|it| name_of(it.tid));
            let key = StackKey { of, comm, pid: by.map(|it| it.pid), chain: None };
            self.add(key, &sum_of(request, class, unseen, request.begin()));
        }
    }

    fn call(&mut self, operation: &SyscallOperation, done: &CompletedOp<'_>) {
        let comm = self.names.get(&operation.thread).copied();
        let pid = Some(operation.pid);
        let key = StackKey { of: StackSubject::Call(done.what), comm, pid, chain: operation.chain };
        let ([read, written], time) = (done.moved(), done.ns());
        self.add(key, &StackSum { count: 1, read, written, discarded: 0, time });
    }
}

fn bytes_of(part: &RequestPart) -> u64 {
    u64::from(part.nr_sector) * SECTOR_BYTES
}

/// Returns the sum of one bio, classified as `/proc/diskstats` does.
fn sum_of(
    request: &BlockRequest,
    class: DiskstatsClass,
    bytes: u64,
    queued: Option<KernelTime>,
) -> StackSum {
    let times = queued.zip(request.completed);
    let time = times.map_or(0, |(from, to)| to.0.saturating_sub(from.0));
    let sum = StackSum { count: 1, time, ..StackSum::default() };
    match class {
        DiskstatsClass::Read => StackSum { read: bytes, ..sum },
        DiskstatsClass::Write => StackSum { written: bytes, ..sum },
        DiskstatsClass::Discard => StackSum { discarded: bytes, ..sum },
        DiskstatsClass::Flush => sum,
    }
}

impl Sink for IoStacks {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::ChainSeen(chain) => {
                self.chains.insert(chain.id, (*chain).clone());
            }
            Step::Block { step: BlockStep::Ended(request), thread, .. } if !self.which.calls => {
                self.request(request, *thread);
            }
            // The names of some threads are not known yet.
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread)
                if self.which.calls && !thread.comm.is_empty() =>
            {
                self.names.insert(thread.key, Comm::new(&thread.comm));
            }
            Step::ThreadEnded(thread) => drop(self.names.remove(&thread.key)),
            Step::SyscallEnded(operation, _) if self.which.calls => {
                if let Some(done) = CompletedOp::of(step) {
                    self.call(operation, &done);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
