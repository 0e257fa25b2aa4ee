//! A sink that believes nothing: what the documentation of [`Step`] promises is checked at each
//! step.

use std::collections::{BTreeMap, BTreeSet};

use iotrace_perf::anomaly::{AnomalyKind, Ledger};
use iotrace_perf::event::callchain::ChainId;
use iotrace_perf::operation::block::{BlockStep, RequestEnd, RequestId};
use iotrace_perf::operation::model::{ProcessInfo, SyscallOperation, ThreadInfo, Unfinished};
use iotrace_perf::operation::{Sink, Step};
use iotrace_perf::units::KernelTime;

/// Checks, then passes on.
pub(crate) struct Checked<S> {
    sink: S,
    now: KernelTime,
    processes: BTreeSet<u32>,
    /// Threads seen, and whether they live.
    threads: BTreeMap<u32, bool>,
    /// Begin of the open call of each thread.
    open: BTreeMap<u32, (u16, KernelTime)>,
    asynchronous: BTreeSet<u64>,
    requests: BTreeSet<RequestId>,
    requests_ended: BTreeSet<RequestId>,
    begun: u64,
    ended: u64,
    unfinished: BTreeMap<&'static str, u64>,
    anomalies: u64,
    /// Number of chains so far.
    chains: u32,
}

impl<S: Sink> Checked<S> {
    pub(crate) fn new(sink: S) -> Self {
        Self {
            sink,
            now: KernelTime::MIN,
            processes: BTreeSet::new(),
            threads: BTreeMap::new(),
            open: BTreeMap::new(),
            asynchronous: BTreeSet::new(),
            requests: BTreeSet::new(),
            requests_ended: BTreeSet::new(),
            begun: 0,
            ended: 0,
            unfinished: BTreeMap::new(),
            anomalies: 0,
            chains: 0,
        }
    }

    /// Nothing is left open, and the accounting matches the steps.
    #[track_caller]
    pub(crate) fn finish(self, ledger: &Ledger) -> S {
        assert_eq!(ledger.imbalances(), Vec::<String>::new());
        assert!(self.open.is_empty(), "calls that never ended: {:?}", self.open);
        assert_eq!(self.asynchronous, BTreeSet::new(), "asynchronous operations that never ended");
        assert_eq!(self.requests, self.requests_ended, "each request ends");
        assert_eq!(self.begun, ledger.entries, "entries");
        assert_eq!(self.ended, ledger.pairs, "pairs");
        let count = |why| self.unfinished.get(why).copied().unwrap_or(0);
        assert_eq!(
            (count("end"), count("thread"), count("lost")),
            (ledger.open_at_end, ledger.cut_off, ledger.lost_exits)
        );
        assert_eq!(self.anomalies, ledger.anomalous_total(), "anomalies");
        self.sink
    }

    fn begun(&mut self, time: KernelTime, operation: &SyscallOperation) {
        assert_eq!(
            self.threads.get(&operation.thread.0),
            Some(&true),
            "its thread was seen and lives: {operation:?}"
        );
        assert!(
            self.processes.contains(&operation.process.0),
            "its process was seen: {operation:?}"
        );
        assert_eq!((operation.start, operation.end, operation.ret), (time, None, None));
        let before = self.open.insert(operation.thread.0, (operation.call.0, operation.start));
        assert_eq!(before, None, "one call at a time: {operation:?}");
        self.begun += 1;
    }

    /// The end of the call that is open, and of no other.
    fn over(&mut self, operation: &SyscallOperation) {
        let open = self.open.remove(&operation.thread.0);
        assert_eq!(
            open,
            Some((operation.call.0, operation.start)),
            "what ends has begun: {operation:?}"
        );
    }

    fn process(&self, info: &ProcessInfo) {
        assert!(self.processes.contains(&info.key.0), "{info:?}");
    }

    fn thread(&self, info: &ThreadInfo) {
        assert_eq!(self.threads.get(&info.key.0), Some(&true), "seen and alive: {info:?}");
    }

    fn chain(&self, id: Option<ChainId>) {
        assert!(id.is_none_or(|it| it.0 < self.chains), "defined before it is used: {id:?}");
    }

    fn block(&mut self, step: &BlockStep<'_>) {
        let (request, ends) = match *step {
            BlockStep::Queued(it)
            | BlockStep::Merged(it)
            | BlockStep::Inserted(it)
            | BlockStep::Issued(it)
            | BlockStep::Requeued(it)
            | BlockStep::Progressed(it) => (it, false),
            BlockStep::Ended(it) => (it, true),
            BlockStep::Anomaly(it) => panic!("anomalies come as Step::Anomaly: {it:?}"),
        };
        assert!(!self.requests_ended.contains(&request.id), "a step after the end: {request:?}");
        self.requests.insert(request.id);
        request.parts.iter().for_each(|it| self.chain(it.here.chain));
        assert_eq!(request.ending.is_some(), ends, "{request:?}");
        if ends {
            self.requests_ended.insert(request.id);
        }
        if request.ending == Some(RequestEnd::Completed) {
            assert!(request.completed.is_some(), "{request:?}");
        }
    }
}

impl<S: Sink> Sink for Checked<S> {
    type Error = S::Error;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), S::Error> {
        assert!(time >= self.now, "time goes back from {:?} to {time:?}: {step:?}", self.now);
        self.now = time;
        match step {
            Step::Forked { .. } | Step::MountsSeen(_) => {}
            Step::ProcessSeen(info) => assert!(self.processes.insert(info.key.0), "once: {info:?}"),
            Step::ThreadSeen(info) => {
                assert!(self.processes.contains(&info.process.0), "it was seen before: {info:?}");
                assert_eq!(self.threads.insert(info.key.0, true), None, "once: {info:?}");
            }
            // The number of an ended process can become another's.
            Step::ProcessEnded(info) => assert!(self.processes.remove(&info.key.0), "{info:?}"),
            Step::UserChanged(info) | Step::Identified(info) => self.process(info),
            Step::Aside { thread, span, .. } => {
                assert!(span.begin <= span.end, "{span:?}");
                self.thread(thread);
            }
            Step::ThreadRenamed(info) => self.thread(info),
            Step::ThreadEnded(info) => {
                self.thread(info);
                assert!(!self.open.contains_key(&info.key.0), "its call ended before: {info:?}");
                self.threads.insert(info.key.0, false);
            }
            Step::SyscallBegun(operation) => self.begun(time, operation),
            Step::SyscallEnded(operation, _) => {
                self.over(operation);
                assert_eq!((operation.end, operation.ret.is_some()), (Some(time), true));
                for span in &operation.spans {
                    let is_inside = operation.start <= span.begin && span.end <= time;
                    assert!(is_inside && span.begin <= span.end, "{span:?} of {operation:?}");
                }
                self.chain(operation.chain);
                self.ended += 1;
            }
            Step::SyscallUnfinished(operation, why) => {
                self.over(operation);
                assert_eq!((operation.end, operation.ret), (None, None));
                let why = match why {
                    Unfinished::CaptureEnd => "end",
                    Unfinished::ThreadEnd => "thread",
                    Unfinished::ExitLost => "lost",
                };
                *self.unfinished.entry(why).or_default() += 1;
            }
            Step::DescriptorsClosed(process, fds) => {
                assert!(self.processes.contains(&process.0) && !fds.is_empty());
            }
            Step::Fault(it) => {
                assert_eq!(it.time, time);
                assert_eq!(self.threads.get(&it.thread.0), Some(&true), "{it:?}");
            }
            Step::AsyncBegun(it) => assert!(self.asynchronous.insert(it.id), "once: {it:?}"),
            Step::AsyncFile(it) => {
                assert!(self.asynchronous.contains(&it.id) && it.file.is_some(), "{it:?}");
            }
            Step::AsyncEnded(it, _) => {
                assert!(self.asynchronous.remove(&it.id), "what ends has begun: {it:?}");
                assert!(it.end >= Some(it.start) && it.result.is_some(), "{it:?}");
            }
            Step::AsyncUnfinished(it, _) => {
                assert!(self.asynchronous.remove(&it.id), "what ends has begun: {it:?}");
                assert_eq!((it.end, it.result), (None, None));
            }
            Step::Block { step, .. } => self.block(step),
            Step::Committed(commit) => assert!(commit.begin <= commit.end, "{commit:?}"),
            Step::ChainSeen(chain) => {
                assert_eq!(chain.id.0, self.chains, "numbers are dense");
                self.chains += 1;
            }
            // Damaged bytes are no records, of which the books are.
            Step::Anomaly(it) => self.anomalies += u64::from(it.kind != AnomalyKind::DamagedLog),
        }
        self.sink.step(time, step)
    }
}
