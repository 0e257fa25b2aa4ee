//! The slowest operations on files, each with its time by layer and the block requests that its
//! thread waited for.
//!
//! A request belongs to the system call during which its thread queued the bio, if the request had
//! ended when the call did. Asynchronous operations have no requests here.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::convert::Infallible;

use rustc_hash::FxHashMap;

use super::commit_waits::CommitTable;
use super::completed_op::{CompletedOp, OpKind};
use super::layer_split::Split;
use super::process_names::ProcessNames;
use super::summary::file_key;
use crate::event::block::RequestOp;
use crate::operation::access::is_passed_on;
use crate::operation::attribution::{BlockContents, Piece};
use crate::operation::block::{BlockRequest, BlockStep, RequestEnd, RequestId};
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid, Tid};

/// Largest number of operations that are kept.
const KEPT_MAX: usize = 1000;

/// Largest number of requests that are kept of an operation.
const REQUESTS_MAX: usize = 16;

/// Largest number of further requests of a thread that are counted.
const MORE_MAX: usize = 1 << 16;

/// One slow operation.
#[derive(Clone, Debug)]
pub struct SlowOperation {
    /// Kind of the operation.
    pub what: OpKind,
    /// Process of the operation.
    pub process: ProcessKey,
    /// Number of its process.
    pub pid: Pid,
    /// Number of its thread.
    pub tid: Tid,
    /// Key of its file ([`file_key`]), if its name is known.
    pub file: Option<Vec<u8>>,
    /// Time of its beginning.
    pub start: KernelTime,
    /// Duration of the operation, ns.
    pub ns: u64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Position of its first byte, if it is known.
    pub offset: Option<u64>,
    /// Error number, if it failed.
    pub errno: Option<i32>,
    /// Time of the operation by layer.
    pub split: Split,
    /// Requests that it waited for, the last [`REQUESTS_MAX`] of them.
    pub requests: Vec<SlowRequest>,
    /// Number of further requests.
    pub more_requests: u64,
    /// Numbers of the commits of journals that it waited for.
    pub commits: Vec<u64>,
}

/// A request that an operation waited for.
#[derive(Clone, Debug)]
pub struct SlowRequest {
    /// Device of the request.
    pub dev: DevId,
    /// Time at which its thread queued the bio.
    pub queued: KernelTime,
    /// Operation of the request.
    pub op: RequestOp,
    /// First sector.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Time before the driver (Q to D), ns.
    pub queue_ns: Option<u64>,
    /// Time in driver and device (D to C), ns.
    pub device_ns: Option<u64>,
    /// Requests that the device had not completed when it got this one.
    pub ahead: Option<u64>,
    /// Contents of its sectors: a word, or the path of a file.
    pub contents: Vec<u8>,
}

/// Requests of a thread that have ended since its last call: the last [`REQUESTS_MAX`] of them.
#[derive(Clone, Debug, Default)]
struct ThreadRequests {
    requests: VecDeque<SlowRequest>,
    /// Times at which earlier ones were queued.
    more: VecDeque<KernelTime>,
}

impl ThreadRequests {
    fn push(&mut self, request: SlowRequest) {
        self.requests.push_back(request);
        if self.requests.len() > REQUESTS_MAX {
            let earlier = self.requests.pop_front().map(|request| request.queued);
            self.more.extend(earlier);
        }
        if self.more.len() > MORE_MAX {
            self.more.pop_front();
        }
    }
}

/// Operations in the order of their durations; those of equal durations in that of their ends.
type Ranked = BinaryHeap<Reverse<(u64, Reverse<u64>)>>;

/// Fold of the slowest operations.
#[derive(Debug, Default)]
pub struct Slowest {
    ranks: Ranked,
    kept: FxHashMap<u64, SlowOperation>,
    /// Number of operations on files.
    pub operations: u64,
    /// Time of all operations on files, ns.
    pub all_ns: u64,
    threads: FxHashMap<Tid, ThreadRequests>,
    /// Requests in each device.
    in_device: BTreeMap<DevId, u64>,
    /// For requests in a device, those that were there before.
    ahead: FxHashMap<RequestId, u64>,
    /// Commits of journals.
    pub commits: CommitTable,
    /// Names of processes.
    pub names: ProcessNames,
}

impl Slowest {
    /// Returns the operations that were kept, the slowest first.
    pub fn ranked(&self) -> Vec<&SlowOperation> {
        let mut ranks: Vec<_> = self.ranks.iter().map(|Reverse(rank)| *rank).collect();
        ranks.sort_unstable_by_key(|rank| Reverse(*rank));
        ranks.iter().filter_map(|(_, Reverse(number))| self.kept.get(number)).collect()
    }

    /// Adds the operation that this step ends.
    pub(super) fn done(&mut self, step: &Step<'_>, done: &CompletedOp<'_>) {
        let of_thread = match step {
            Step::SyscallEnded(..) => self.threads.remove(&done.tid).unwrap_or_default(),
            _ => ThreadRequests::default(),
        };
        let commits = self.commits.waited(step, done);
        if !commits.is_empty() {
            self.names.keep(done.process);
        }
        if done.io != IoClass::File {
            return;
        }
        let number = self.operations;
        self.operations += 1;
        self.all_ns = self.all_ns.saturating_add(done.ns());
        let slowest = self.ranks.peek().map_or(0, |Reverse((ns, _))| *ns);
        if self.ranks.len() >= KEPT_MAX {
            if done.ns() <= slowest {
                return;
            }
            if let Some(Reverse((_, Reverse(number)))) = self.ranks.pop() {
                self.kept.remove(&number);
            }
        }
        let mut split = Split::default();
        let mut waited = ThreadRequests::default();
        if let Step::SyscallEnded(operation, _) = step {
            split.add(operation);
            waited = of_thread;
            waited.requests.retain(|request| request.queued >= done.start);
            waited.more.retain(|queued| *queued >= done.start);
        }
        self.commits.keep(&commits);
        self.names.keep(done.process);
        self.ranks.push(Reverse((done.ns(), Reverse(number))));
        let slow = SlowOperation {
            what: done.what,
            process: done.process,
            pid: done.pid,
            tid: done.tid,
            file: done.name.as_ref().map(file_key),
            start: done.start,
            ns: done.ns(),
            bytes: done.bytes,
            offset: done.offset,
            errno: done.errno,
            split,
            requests: waited.requests.into(),
            more_requests: waited.more.len() as u64,
            commits,
        };
        self.kept.insert(number, slow);
    }

    fn ended(&mut self, request: &BlockRequest, pieces: &[Piece]) {
        let ahead = self.left(request);
        // Other requests have the bytes of absorbed ones, and other devices those that were passed
        // on.
        if request.ending != Some(RequestEnd::Completed) || is_passed_on(request) {
            return;
        }
        let between =
            |from: Option<KernelTime>, to: Option<KernelTime>| Some(to?.0.saturating_sub(from?.0));
        let mut owners: Vec<Tid> = Vec::new();
        for piece in pieces {
            let (tid, queued) = (piece.queued.tid, piece.queued.time);
            // A thread of which nothing is recorded makes no call that would take them.
            if piece.for_others || owners.contains(&tid) {
                continue;
            }
            owners.push(tid);
            let thread = self.threads.entry(tid).or_default();
            thread.push(SlowRequest {
                dev: request.dev,
                queued,
                op: request.op,
                sector: request.sector,
                bytes: request.bytes(),
                queue_ns: between(request.begin(), request.issued),
                device_ns: between(request.issued, request.completed),
                ahead,
                contents: contents(&piece.contents),
            });
        }
    }

    /// Counts a request that the device has got.
    fn entered(&mut self, request: &BlockRequest) {
        if let Entry::Vacant(entry) = self.ahead.entry(request.id) {
            let in_device = self.in_device.entry(request.dev).or_default();
            entry.insert(*in_device);
            *in_device += 1;
        }
    }

    /// Counts a request that has left the device. Returns the number of requests that were there
    /// before it.
    fn left(&mut self, request: &BlockRequest) -> Option<u64> {
        let ahead = self.ahead.remove(&request.id)?;
        if let Some(in_device) = self.in_device.get_mut(&request.dev) {
            *in_device = in_device.saturating_sub(1);
        }
        Some(ahead)
    }
}

fn contents(contents: &BlockContents) -> Vec<u8> {
    match contents {
        BlockContents::File { file: Some(file), .. } if file.path.is_some() => {
            file.path.as_ref().map(|path| path.bytes.clone()).unwrap_or_default()
        }
        other => format!("({})", other.as_str()).into_bytes(),
    }
}

impl Sink for Slowest {
    type Error = Infallible;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.done(step, &done);
                }
            }
            Step::Block { step: BlockStep::Issued(request), .. } => self.entered(request),
            Step::Block { step: BlockStep::Requeued(request), .. } => {
                self.left(request);
            }
            Step::Block { step: BlockStep::Ended(request), pieces, .. } => {
                self.ended(request, pieces);
            }
            Step::Committed(commit) => self.commits.add(commit),
            Step::ThreadEnded(thread) => {
                self.threads.remove(&thread.tid);
            }
            _ => self.names.look(step),
        }
        Ok(())
    }
}
