//! Through which functions block requests and system calls came about: how many, how many bytes, how long.
//!
//! Of a block request each bio counts for itself, with the functions that queued it at the request's device: those of a stacked
//! device are there, and those that its driver asks of the devices below, each with a stack of its own.

use std::collections::BTreeMap;
use std::convert::Infallible;

use rustc_hash::FxHashMap;

use super::done::{Done, What};
use super::keyed::Keyed;
use crate::event::block::Comm;
use crate::event::chain::{CallChain, ChainId};
use crate::operation::block::{BlockRequest, BlockStep, DiskstatsClass, Ending, Part};
use crate::operation::model::{SyscallOperation, ThreadInfo, ThreadKey};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid, SECTOR_BYTES};

/// What was asked, or of which device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Of {
    /// Bios of this device.
    Device(DevId),
    /// These operations.
    Call(What),
}

/// Whose stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackKey {
    /// What was asked.
    pub of: Of,
    /// Name of the thread; `None`: not known.
    pub comm: Option<Comm>,
    /// The process, if processes are told apart.
    pub pid: Option<Pid>,
    /// The functions; `None`: not recorded, or lost.
    pub chain: Option<ChainId>,
}

/// A sum over bios or calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSum {
    /// How many.
    pub count: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes discarded.
    pub discarded: u64,
    /// From the queue to the end, or from entry to exit, ns; of several at once each counts.
    pub time: u64,
}

impl StackSum {
    /// Takes in another one.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
        self.discarded = self.discarded.saturating_add(other.discarded);
        self.time = self.time.saturating_add(other.time);
    }

    /// All bytes.
    pub fn bytes(&self) -> u64 {
        self.read.saturating_add(self.written).saturating_add(self.discarded)
    }
}

/// Which stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StacksOf {
    /// Of system calls, not of block requests.
    pub calls: bool,
    /// Processes of the same name are told apart.
    pub by_process: bool,
}

/// The fold.
#[derive(Clone, Debug, Default)]
pub struct IoStacks {
    /// Which.
    pub which: StacksOf,
    /// By what was asked, by whom, and through which functions.
    pub rows: Keyed<StackKey, StackSum>,
    /// By what was asked, whoever did.
    pub totals: BTreeMap<Of, StackSum>,
    /// Those that were seen.
    pub chains: FxHashMap<ChainId, CallChain>,
    /// Bios whose end was not seen: they have no time.
    pub unended: u64,
    /// Bios that became no request of their device: they are in no row.
    pub stillborn: u64,
    /// Driver commands, that no disk counts: they are in no row.
    pub commands: u64,
    names: FxHashMap<ThreadKey, Comm>,
}

impl IoStacks {
    /// Nothing so far.
    pub fn new(which: StacksOf) -> Self {
        Self { which, ..Self::default() }
    }

    fn add(&mut self, key: StackKey, sum: &StackSum) {
        let key = StackKey { pid: key.pid.filter(|_| self.which.by_process), ..key };
        self.rows.row(&key, || key).merge(sum);
        self.totals.entry(key.of).or_default().merge(sum);
    }

    fn request(&mut self, request: &BlockRequest, thread: Option<&ThreadInfo>) {
        // What was absorbed is part of another request.
        if matches!(request.ending, Some(Ending::Absorbed { into: Some(_), .. })) {
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
        let before = self.totals.get(&Of::Device(request.dev)).map_or(0, |it| it.count);
        self.bios(request, class, thread);
        if request.completed.is_none() {
            let after = self.totals.get(&Of::Device(request.dev)).map_or(0, |it| it.count);
            self.unended += after - before;
        }
    }

    fn bios(&mut self, request: &BlockRequest, class: DiskstatsClass, thread: Option<&ThreadInfo>) {
        let of = Of::Device(request.dev);
        let known = thread.filter(|it| !it.comm.is_empty());
        let name_of = |tid| known.filter(|it| it.tid == tid).map(|it| Comm::new(&it.comm));
        for part in request.parts.iter() {
            let here = &part.here;
            let comm = here.comm.or_else(|| name_of(here.at.tid));
            let key = StackKey { of, comm, pid: Some(here.at.pid), chain: here.chain };
            self.add(key, &sum_of(request, class, bytes_of(part), Some(here.at.time)));
        }
        // Bios that were not seen.
        let seen: u64 = request.parts.iter().map(bytes_of).sum();
        let unseen = request.bytes().saturating_sub(seen);
        if unseen > 0 {
            let by = request.submitter;
            let comm = by.and_then(|it| name_of(it.tid));
            let key = StackKey { of, comm, pid: by.map(|it| it.pid), chain: None };
            self.add(key, &sum_of(request, class, unseen, request.begin()));
        }
    }

    fn call(&mut self, operation: &SyscallOperation, done: &Done<'_>) {
        let comm = self.names.get(&operation.thread).copied();
        let pid = Some(operation.pid);
        let key = StackKey { of: Of::Call(done.what), comm, pid, chain: operation.chain };
        let (read, written, time) = (done.read(), done.written(), done.ns());
        self.add(key, &StackSum { count: 1, read, written, discarded: 0, time });
    }
}

fn bytes_of(part: &Part) -> u64 {
    u64::from(part.nr_sector) * SECTOR_BYTES
}

/// One bio, sorted as `/proc/diskstats` does.
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

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::ChainSeen(chain) => {
                self.chains.insert(chain.id, (*chain).clone());
            }
            Step::Block { step: BlockStep::Ended(request), thread, .. } if !self.which.calls => {
                self.request(request, *thread);
            }
            // Of some threads nothing has told the name yet.
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread)
                if self.which.calls && !thread.comm.is_empty() =>
            {
                self.names.insert(thread.key, Comm::new(&thread.comm));
            }
            Step::ThreadEnded(thread) => drop(self.names.remove(&thread.key)),
            Step::SyscallEnded(operation, _) if self.which.calls => {
                if let Some(done) = Done::of(step) {
                    self.call(operation, &done);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
