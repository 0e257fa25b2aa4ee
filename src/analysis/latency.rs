//! Latencies of operations by layer: system calls, asynchronous operations, layers at work inside
//! calls, and block requests.

use std::collections::BTreeMap;
use std::convert::Infallible;

use rustc_hash::FxHashMap;

use super::completed_op::{CompletedOp, OpKind};
use super::histogram::Histogram;
use super::job_keys::{Absorb, CaptureKeys};
use super::layer_split::Split;
use super::op_kind_rows::OpKindRows;
use crate::event::block::BlockPoint;
use crate::event::layer;
use crate::event::syscall_table::CallId;
use crate::operation::access::is_passed_on;
use crate::operation::block::{BlockRequest, BlockStep, FlushRole, RequestEnd};
use crate::operation::io_class::IoClass;
use crate::operation::span::Span;
use crate::operation::{Sink, Step};
use crate::units::KernelTime;

/// Suffix of the operation's name for bios that a stacked device (dm, md) passed on.
const PASSED_ON: &str = " (passed on)";

/// Layer in which time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LatencyLayer {
    /// From the entry of a system call to its exit.
    Syscall,
    /// From the kernel's acceptance of an asynchronous operation to its result.
    Async,
    /// Layers at work inside calls, and in threads of the kernel.
    Inside(layer::Layer),
    /// Block request: from the driver (D) to its completion (C), or from its first bio (Q) on.
    Block,
}

impl LatencyLayer {
    /// Returns the word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syscall => "syscall",
            Self::Async => "async",
            Self::Inside(it) => it.as_str(),
            Self::Block => "blk",
        }
    }
}

/// Measured layers, and the unit of histograms.
#[derive(Clone, Copy, Debug)]
pub struct LatencyOptions {
    /// System calls and asynchronous operations.
    pub syscalls: bool,
    /// The VFS, and the layers for which it waits: the page cache, throttling.
    pub vfs: bool,
    /// File systems and their journals.
    pub fs: bool,
    /// Block requests.
    pub block: bool,
    /// For block requests also the time in the queue.
    pub queued: bool,
    /// Length of a unit of the histograms, ns.
    pub unit_ns: u64,
}

/// Times of one kind of operation in one layer.
#[derive(Clone, Debug, Default)]
pub struct LatencyTimes {
    /// All times, ns.
    pub spread: Histogram,
    /// Number of times below 2 units, and from 2^n units up to 2^(n+1).
    pub octaves: Vec<u64>,
}

impl LatencyTimes {
    fn add(&mut self, ns: u64, unit_ns: u64) {
        self.spread.add(ns);
        let units = ns / unit_ns.max(1);
        let octave = usize::try_from(units.max(1).ilog2()).unwrap_or(0);
        if self.octaves.len() <= octave {
            self.octaves.resize(octave + 1, 0);
        }
        if let Some(it) = self.octaves.get_mut(octave) {
            *it += 1;
        }
    }
}

impl LatencyTimes {
    /// Adds other times, in the same unit.
    fn merge(&mut self, other: &Self) {
        self.spread.merge(&other.spread);
        if self.octaves.len() < other.octaves.len() {
            self.octaves.resize(other.octaves.len(), 0);
        }
        self.octaves.iter_mut().zip(&other.octaves).for_each(|(sum, count)| *sum += count);
    }
}

/// Key of a row: layer, operation, and for calls and asynchronous operations the class of I/O.
pub type RowKey = (LatencyLayer, String, Option<IoClass>);

/// Fold of the latencies.
#[derive(Debug)]
pub struct Latency {
    /// Measured layers.
    pub options: LatencyOptions,
    /// Times of block requests by layer and operation.
    pub times: BTreeMap<RowKey, LatencyTimes>,
    /// Times of system calls and asynchronous operations, before their names are formatted.
    operations: OpKindRows<LatencyTimes>,
    /// Times of layers inside calls and in kernel threads.
    spans: FxHashMap<(layer::Layer, &'static str), LatencyTimes>,
    /// Time of system calls by layer.
    splits: OpKindRows<Split>,
    /// Completed requests whose beginning is unknown.
    pub without_begin: u64,
}

impl Latency {
    /// Creates the fold for these layers.
    pub fn new(options: LatencyOptions) -> Self {
        Self {
            options,
            times: BTreeMap::new(),
            operations: OpKindRows::default(),
            spans: FxHashMap::default(),
            splits: OpKindRows::default(),
            without_begin: 0,
        }
    }

    /// Returns all rows.
    pub fn rows(&self) -> BTreeMap<RowKey, &LatencyTimes> {
        let layer = |what: &OpKind| match what {
            OpKind::Call(_) => LatencyLayer::Syscall,
            OpKind::Async(_) => LatencyLayer::Async,
        };
        let operations = self.operations.sorted().into_iter();
        let operations =
            operations.map(|((it, io), times)| ((layer(&it), it.to_string(), Some(io)), times));
        let spans = self.spans.iter().map(|((layer, what), times)| {
            ((LatencyLayer::Inside(*layer), (*what).to_owned(), None), times)
        });
        let times = self.times.iter().map(|(key, times)| (key.clone(), times));
        times.chain(operations).chain(spans).collect()
    }

    /// Returns the time of system calls by layer, for each call and class of I/O.
    pub fn splits(&self) -> Vec<((CallId, IoClass), &Split)> {
        let splits =
            self.splits.sorted().into_iter().filter_map(|((what, io), split)| match what {
                OpKind::Call(call) => Some(((call, io), split)),
                OpKind::Async(_) => None,
            });
        splits.collect()
    }

    /// Adds the operation that this step ends.
    pub(super) fn done(&mut self, step: &Step<'_>, done: &CompletedOp<'_>) {
        if let Step::SyscallEnded(operation, _) = step {
            operation.spans.iter().for_each(|span| self.span(span));
            self.splits.row(done.what, done.io).add(operation);
        }
        if self.options.syscalls {
            let times = self.operations.row(done.what, done.io);
            times.add(done.ns(), self.options.unit_ns);
        }
    }

    fn span(&mut self, span: &Span) {
        use layer::Layer::{Cache, Device, Fs, Journal, Queue, Throttle, Vfs};
        let is_wanted = match span.layer {
            Vfs | Cache | Throttle => self.options.vfs,
            Fs | Journal => self.options.fs,
            // Spans of requests are reported as requests.
            Queue | Device => false,
        };
        if is_wanted {
            let times = self.spans.entry((span.layer, span.what)).or_default();
            times.add(span.ns(), self.options.unit_ns);
        }
    }

    fn request(&mut self, request: &BlockRequest) {
        // The time of an absorbed request is part of the absorbing one's.
        let Some(completed) = request.completed else { return };
        if request.ending != Some(RequestEnd::Completed) {
            return;
        }
        let has_driver = request.issued.is_some();
        let is_bio = request.first_seen == BlockPoint::BioQueue;
        // A device without requests works on the bio itself.
        let begin = match self.options.queued || !has_driver && is_bio && request.nr_sector > 0 {
            true => request.begin(),
            false => request.issued,
        };
        let Some(begin) = begin else {
            self.without_begin += 1;
            return;
        };
        // The underlying devices report the same bytes.
        let of = if is_passed_on(request) { PASSED_ON } else { "" };
        let key = (LatencyLayer::Block, format!("{}{of}", word(request)), None);
        let unit = self.options.unit_ns;
        self.times.entry(key).or_default().add(completed.0.saturating_sub(begin.0), unit);
    }
}

/// Returns the word for the operation; the empty write that demands a flush waits for other work
/// than a write of data.
fn word(request: &BlockRequest) -> &'static str {
    match request.flush {
        FlushRole::Demand => "preflush",
        _ => request.op.as_str(),
    }
}

impl Absorb for Latency {
    fn absorb(&mut self, other: Self, _: &mut CaptureKeys<'_>) {
        for (key, times) in &other.times {
            self.times.entry(key.clone()).or_default().merge(times);
        }
        for ((what, io), times) in other.operations.sorted() {
            self.operations.row(what, io).merge(times);
        }
        for (key, times) in &other.spans {
            self.spans.entry(*key).or_default().merge(times);
        }
        for ((what, io), split) in other.splits.sorted() {
            self.splits.row(what, io).merge(split);
        }
        self.without_begin += other.without_begin;
    }
}

impl Sink for Latency {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        match step {
            Step::Aside { span, .. } => self.span(span),
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.done(step, &done);
                }
            }
            Step::Block { step: BlockStep::Ended(request), .. } if self.options.block => {
                self.request(request);
            }
            _ => {}
        }
        Ok(())
    }
}
