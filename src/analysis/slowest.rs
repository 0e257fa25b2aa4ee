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
use super::filter::{Filter, Picker};
use super::job_keys::{Absorb, CaptureKeys};
use super::layer_split::Split;
use super::picked::Picked;
use super::process_names::ProcessNames;
use super::summary::{IoSummary, file_key};
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
    /// Names of processes: those of kept operations, and of processes that run.
    pub names: ProcessNames,
    /// Number of kept operations of each process.
    rows: FxHashMap<ProcessKey, usize>,
}

/// Slowest of the selected operations: the others may have waited for the same commits.
#[derive(Debug)]
pub struct SelectedSlowest {
    /// Picker that selects.
    pub picker: Picker,
    /// Fold of all steps.
    pub fold: Slowest,
    /// Sums of the selected operations on files, if they are wanted.
    pub sums: Option<IoSummary>,
}

impl SelectedSlowest {
    /// Creates it for a filter.
    pub fn new(filter: Filter, sums: Option<IoSummary>) -> Self {
        Self { picker: Picker::new(filter), fold: Slowest::default(), sums }
    }
}

impl Sink for SelectedSlowest {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        let is_selected = self.picker.wants(step);
        self.fold.take_step(step, is_selected);
        let is_on_file = || CompletedOp::of(step).is_none_or(|done| done.io == IoClass::File);
        match &mut self.sums {
            Some(sums) if is_selected && is_on_file() => sums.step(time, step),
            _ => Ok(()),
        }
    }
}

impl Slowest {
    /// Returns the operations that were kept, the slowest first.
    pub fn ranked(&self) -> Vec<&SlowOperation> {
        let mut ranks: Vec<_> = self.ranks.iter().map(|Reverse(rank)| *rank).collect();
        ranks.sort_unstable_by_key(|rank| Reverse(*rank));
        ranks.iter().filter_map(|(_, Reverse(number))| self.kept.get(number)).collect()
    }

    /// Adds the operation that this step ends. One that is not selected may have waited for a
    /// commit with a selected one.
    pub(super) fn done(&mut self, step: &Step<'_>, done: &CompletedOp<'_>, is_selected: bool) {
        let of_thread = match step {
            Step::SyscallEnded(..) => self.threads.remove(&done.tid).unwrap_or_default(),
            _ => ThreadRequests::default(),
        };
        let commits = match step {
            Step::SyscallEnded(operation, _) if !operation.spans.is_empty() => {
                self.commits.waited(step, done, self.names.of(done.process))
            }
            _ => Vec::new(),
        };
        if done.io != IoClass::File || !is_selected {
            return;
        }
        let number = self.operations;
        self.operations += 1;
        self.all_ns = self.all_ns.saturating_add(done.ns());
        if !self.makes_room(done.ns()) {
            return;
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
        *self.rows.entry(done.process).or_default() += 1;
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

    /// Makes room for an operation of this duration. Returns false if it is not among the slowest.
    fn makes_room(&mut self, ns: u64) -> bool {
        let slowest = self.ranks.peek().map_or(0, |Reverse((ns, _))| *ns);
        if self.ranks.len() >= KEPT_MAX {
            if ns <= slowest {
                return false;
            }
            if let Some(Reverse((_, Reverse(number)))) = self.ranks.pop() {
                self.drop_kept(number);
            }
        }
        true
    }

    /// Drops an operation, and the name of its process with the last one of that process.
    fn drop_kept(&mut self, number: u64) {
        let Some(slow) = self.kept.remove(&number) else { return };
        if let Entry::Occupied(mut rows) = self.rows.entry(slow.process) {
            *rows.get_mut() -= 1;
            if *rows.get() == 0 {
                rows.remove();
                self.names.release(slow.process);
            }
        }
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

impl Slowest {
    /// Takes a step. Block requests count whatever is selected: a selected operation may have
    /// waited for them.
    pub(super) fn take_step(&mut self, step: &Step<'_>, is_selected: bool) {
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.done(step, &done, is_selected);
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
    }
}

impl Absorb for Slowest {
    /// Adds the slowest operations of one more capture, with times on the clock of the job. The
    /// commits that they waited for stay behind: they are those of a host.
    fn absorb(&mut self, other: Self, keys: &mut CaptureKeys<'_>) {
        // Numbers of operations are those of the order in which they came.
        let first = self.operations;
        self.operations += other.operations;
        self.all_ns = self.all_ns.saturating_add(other.all_ns);
        let mut kept: Vec<(u64, SlowOperation)> = other.kept.into_iter().collect();
        kept.sort_unstable_by_key(|(number, _)| *number);
        for (number, slow) in kept {
            if !self.makes_room(slow.ns) {
                continue;
            }
            let process = keys.process(slow.process);
            self.names.absorb(slow.process, &other.names, keys);
            *self.rows.entry(process).or_default() += 1;
            let number = first + number;
            self.ranks.push(Reverse((slow.ns, Reverse(number))));
            let of_job = |request: SlowRequest, keys: &mut CaptureKeys<'_>| SlowRequest {
                dev: keys.device(request.dev),
                queued: keys.time(request.queued),
                ..request
            };
            let requests = slow.requests.into_iter();
            let slow = SlowOperation {
                process,
                file: slow.file.as_ref().map(|file| keys.file(file)),
                start: keys.time(slow.start),
                requests: requests.map(|request| of_job(request, keys)).collect(),
                commits: Vec::new(),
                ..slow
            };
            self.kept.insert(number, slow);
        }
    }
}

impl Absorb for SelectedSlowest {
    fn absorb(&mut self, other: Self, keys: &mut CaptureKeys<'_>) {
        self.fold.absorb(other.fold, keys);
        if let (Some(sums), Some(others)) = (&mut self.sums, other.sums) {
            sums.absorb(others, keys);
        }
    }
}

impl Picked for SelectedSlowest {
    fn picker(&self) -> &Picker {
        &self.picker
    }
}

impl Sink for Slowest {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        self.take_step(step, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::FileStat;
    use crate::event::layer::{COMMIT, Layer};
    use crate::operation::model::{OpenFile, ProcessInfo, SyscallOperation};
    use crate::operation::span::{JournalCommit, Span};
    use crate::operation::test_fixtures::call;

    fn process(number: u32) -> ProcessInfo {
        let comm = format!("p{number}").into_bytes();
        let pid = Pid(i32::try_from(number).expect("small"));
        ProcessInfo { comm, ..ProcessInfo::new(ProcessKey(number), pid) }
    }

    fn file() -> OpenFile {
        let dev = DevId::new(8, 1);
        OpenFile {
            id: 0,
            path: None,
            first_path: None,
            given: None,
            stat: Some(FileStat { mode: libc::S_IFREG, dev, ino: 7, size: 0 }),
            flags: None,
            pre_created: false,
        }
    }

    /// Returns an operation of a process that waited for the commit from 10 to 20.
    fn waiting(of: &ProcessInfo) -> SyscallOperation {
        let span = Span {
            layer: Layer::Journal,
            what: COMMIT,
            begin: KernelTime(10),
            end: KernelTime(20),
        };
        let operation = call("fsync", Arc::new(file()), [5, 25], None, 0);
        SyscallOperation { process: of.key, pid: of.pid, spans: vec![span], ..operation }
    }

    /// Fails if a filter leaves out those who waited for the same commit.
    #[test]
    fn filtered_report_counts_all_that_waited_for_a_commit() {
        let filter = Filter { pids: vec![Pid(2)], ..Filter::default() };
        let mut selected = SelectedSlowest::new(filter, None);
        let all = [1, 2, 3].map(process);
        let commit = JournalCommit {
            dev: DevId::new(8, 1),
            transaction: Some(7),
            tid: Tid(9),
            comm: None,
            begin: KernelTime(10),
            end: KernelTime(20),
        };
        let mut step = |step: &Step<'_>| {
            let Ok(()) = selected.step(KernelTime(25), step);
        };
        all.iter().for_each(|process| step(&Step::ProcessSeen(process)));
        step(&Step::Committed(&commit));
        for process in &all {
            step(&Step::SyscallEnded(&waiting(process), &[]));
            step(&Step::ProcessEnded(process));
        }
        let ranked = selected.fold.ranked();
        let pids: Vec<Pid> = ranked.iter().map(|slow| slow.pid).collect();
        assert_eq!(pids, [Pid(2)]);
        let waits = selected.fold.commits.get(ranked[0].commits[0]).expect("a commit");
        let comms: Vec<&[u8]> = waits.waiters.iter().map(|waiter| &*waiter.comm).collect();
        assert_eq!((waits.count, comms), (3, vec![&b"p1"[..], b"p2", b"p3"]));
        // Only the process of a row is still known.
        let known = [1, 2, 3].map(|key| selected.fold.names.of(ProcessKey(key)).to_vec());
        assert_eq!(known, [b"".to_vec(), b"p2".to_vec(), b"".to_vec()]);
    }

    /// Fails if names of processes without a kept operation stay.
    #[test]
    fn names_are_those_of_kept_operations() {
        let mut fold = Slowest::default();
        for number in 0..2 * u32::try_from(KEPT_MAX).expect("small") {
            let process = process(number);
            let of = SyscallOperation {
                end: Some(KernelTime(25 + u64::from(number))),
                ..waiting(&process)
            };
            for step in [
                Step::ProcessSeen(&process),
                Step::SyscallEnded(&of, &[]),
                Step::ProcessEnded(&process),
            ] {
                let Ok(()) = fold.step(KernelTime(25), &step);
            }
        }
        assert_eq!((fold.ranked().len(), fold.rows.len()), (KEPT_MAX, KEPT_MAX));
        assert!(
            fold.names.of(ProcessKey(0)).is_empty() && !fold.names.of(ProcessKey(1999)).is_empty()
        );
    }
}
