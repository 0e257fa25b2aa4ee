//! Fold of one interval.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::amounts::TopAmounts;
use super::interval::{TopFile, TopInterval, TopOperation, TopPair, TopProcess};
use crate::analysis::bounded_map::BoundedMap;
use crate::analysis::completed_op::{CompletedOp, NamedPath, OpKind};
use crate::analysis::process_names::ProcessNames;
use crate::analysis::recent_rows::{OpRows, RecentRows};
use crate::anomaly::AnomalyKind;
use crate::event::syscall_table::CallClass;
use crate::operation::block::{BlockRequest, BlockStep, DiskstatsClass};
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, SECTOR_BYTES};

/// Number of operations that an interval keeps, the last ones.
const OPERATIONS_MAX: usize = 4096;

/// Fold of the current interval. A closed interval goes to `close`, which returns the pair whose
/// operations alone are kept from then on; `None`: those of all pairs.
pub struct TopFold<F> {
    length_ns: u64,
    /// Number of intervals after which no interval ends before the recording.
    count_max: Option<u64>,
    closed: u64,
    start: KernelTime,
    processes: BoundedMap<ProcessKey, TopAmounts>,
    pairs: BoundedMap<TopPair, TopAmounts>,
    calls: BoundedMap<(OpKind, IoClass), TopAmounts>,
    devices: BTreeMap<DevId, TopAmounts>,
    all: TopAmounts,
    recent: RecentRows<OpRows>,
    names: ProcessNames,
    ended: Vec<ProcessKey>,
    /// Last operations on files, with the numbers of their rows.
    operations: VecDeque<(usize, TopOperation)>,
    focus: Option<TopPair>,
    /// Row of the pair in focus, once it has one.
    focus_row: Option<usize>,
    lost: u64,
    close: F,
}

impl<F> std::fmt::Debug for TopFold<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopFold").field("start", &self.start).finish_non_exhaustive()
    }
}

impl<E, F: FnMut(TopInterval) -> Result<Option<TopPair>, E>> TopFold<F> {
    /// Creates the fold of a recording that began at `start`; `count_max`: the last interval ends
    /// with the recording.
    pub fn new(start: KernelTime, length_ns: u64, count_max: Option<u64>, close: F) -> Self {
        Self {
            length_ns: length_ns.max(1),
            count_max,
            closed: 0,
            start,
            processes: BoundedMap::default(),
            pairs: BoundedMap::default(),
            calls: BoundedMap::default(),
            devices: BTreeMap::new(),
            all: TopAmounts::default(),
            recent: RecentRows::default(),
            names: ProcessNames::default(),
            ended: Vec::new(),
            operations: VecDeque::new(),
            focus: None,
            focus_row: None,
            lost: 0,
            close,
        }
    }

    /// Closes the last interval at the end of the recording.
    ///
    /// # Errors
    ///
    /// Those of `close`.
    pub fn finish(mut self, end: KernelTime) -> Result<(), E> {
        self.advance(end)?;
        let last = self.count_max.is_none_or(|count_max| self.closed < count_max);
        if last && (end > self.start || self.all.count > 0 || self.closed == 0) {
            self.close_at(end.max(self.start))?;
        }
        Ok(())
    }

    /// Closes all intervals that have ended by this time.
    fn advance(&mut self, time: KernelTime) -> Result<(), E> {
        loop {
            let end = KernelTime(self.start.0.saturating_add(self.length_ns));
            let is_last = self.count_max.is_some_and(|count_max| self.closed + 1 >= count_max);
            if time < end || is_last {
                return Ok(());
            }
            self.close_at(end)?;
        }
    }

    fn close_at(&mut self, end: KernelTime) -> Result<(), E> {
        let processes = std::mem::take(&mut self.processes);
        let pairs = std::mem::take(&mut self.pairs);
        let calls = std::mem::take(&mut self.calls);
        self.recent = RecentRows::default();
        let others = |amounts: Option<&TopAmounts>| amounts.copied().unwrap_or_default();
        let by_row: FxHashMap<usize, &TopPair> =
            pairs.keys().map(|(pair, row)| (row, pair)).collect();
        let named = |(row, operation): (usize, TopOperation)| {
            Some(((*by_row.get(&row)?).clone(), operation))
        };
        let operations = self.operations.drain(..).filter_map(named).collect();
        let infos = processes.keys().filter_map(|(process, _)| self.names.info(*process));
        let interval = TopInterval {
            start: self.start,
            end,
            all: std::mem::take(&mut self.all),
            known: infos.map(TopProcess::of).collect(),
            other_processes: others(processes.others()),
            processes: processes.iter().map(|(key, row)| (*key, *row)).collect(),
            other_pairs: others(pairs.others()),
            pairs: pairs.iter().map(|(key, row)| (key.clone(), *row)).collect(),
            calls: calls.iter().map(|(key, row)| (*key, *row)).collect(),
            devices: std::mem::take(&mut self.devices).into_iter().collect(),
            ended: std::mem::take(&mut self.ended),
            operations,
            lost: std::mem::take(&mut self.lost),
        };
        interval.ended.iter().for_each(|process| self.names.forget(*process));
        self.start = end;
        self.closed += 1;
        self.focus = (self.close)(interval)?;
        self.focus_row = None;
        Ok(())
    }
}

impl<F> TopFold<F> {
    fn done(&mut self, done: &CompletedOp<'_>) {
        let moved = done.moved();
        let rows = self.rows_of(done);
        let amounts = TopAmounts::of(done, moved);
        self.all.merge(&amounts);
        let call = (done.what, done.io);
        self.calls.row(&call, || call).merge(&amounts);
        self.processes.at(rows.process).merge(&amounts);
        let is_transfer = done.class == CallClass::Transfer;
        let of_name = if is_transfer { [done.bytes, 0] } else { moved };
        let nameless = is_transfer || done.is_nameless();
        let row = match rows.file {
            None if nameless => Some(self.pair(done, None)),
            row => row,
        };
        if let Some(row) = row {
            self.pairs.at(row).merge(&TopAmounts::of(done, of_name));
            self.keep(done, row);
        }
        if is_transfer {
            let row = self.pair(done, done.target.as_ref());
            self.pairs.at(row).merge(&TopAmounts::of(done, [0, done.bytes]));
        }
    }

    /// Returns the number of the row of a file; without a name, of the files of its class.
    fn pair(&mut self, done: &CompletedOp<'_>, name: Option<&NamedPath<'_>>) -> usize {
        let file = name.map_or(TopFile::Nameless(done.io), TopFile::of);
        let pair = TopPair { process: done.process, file };
        let row = self.pairs.place(&pair, || pair.clone());
        if self.focus.as_ref() == Some(&pair) {
            self.focus_row = Some(row);
        }
        row
    }

    fn rows_of(&mut self, done: &CompletedOp<'_>) -> OpRows {
        if let Some(rows) = self.recent.find(done) {
            return rows;
        }
        let process = self.processes.place(&done.process, || self.names.of_new_row(done.process));
        let rows =
            OpRows { process, file: done.name.as_ref().map(|name| self.pair(done, Some(name))) };
        self.recent.keep(done, rows);
        rows
    }

    /// Keeps an operation on a file, unless only those of another row are wanted.
    fn keep(&mut self, done: &CompletedOp<'_>, row: usize) {
        if self.focus.is_some() && self.focus_row != Some(row) {
            return;
        }
        if self.operations.len() >= OPERATIONS_MAX {
            self.operations.pop_front();
        }
        let operation = TopOperation {
            what: done.what,
            tid: done.tid,
            end: done.end,
            ns: done.ns(),
            offset: done.offset,
            bytes: done.bytes,
            errno: done.errno,
        };
        self.operations.push_back((row, operation));
    }

    fn request(&mut self, request: &BlockRequest) {
        let Some(class) = request.diskstats_class() else { return };
        let bytes = request.diskstats_sectors().saturating_mul(SECTOR_BYTES);
        let times = request.issued.zip(request.completed);
        let io_ns = times.map_or(0, |(issued, completed)| completed.0.saturating_sub(issued.0));
        let [read, written] = match class {
            DiskstatsClass::Read => [bytes, 0],
            DiskstatsClass::Write => [0, bytes],
            DiskstatsClass::Discard | DiskstatsClass::Flush => [0, 0],
        };
        let amounts = TopAmounts {
            count: 1,
            errors: u64::from(request.error.is_some()),
            read,
            written,
            io_count: u64::from(times.is_some()),
            io_ns,
            ..TopAmounts::default()
        };
        self.devices.entry(request.dev).or_default().merge(&amounts);
    }
}

impl<E, F: FnMut(TopInterval) -> Result<Option<TopPair>, E>> Sink for TopFold<F> {
    type Error = E;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), E> {
        self.advance(time)?;
        match step {
            Step::SyscallEnded(..) | Step::AsyncEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.done(&done);
                }
            }
            Step::Block { step: BlockStep::Ended(request), .. } => self.request(request),
            Step::Anomaly(anomaly) if anomaly.kind == AnomalyKind::Lost => {
                self.lost = self.lost.saturating_add(anomaly.count);
            }
            _ => {
                self.names.look(step);
                if let Step::ProcessEnded(process) = step
                    && self.names.info(process.key).is_some()
                {
                    self.ended.push(process.key);
                }
            }
        }
        Ok(())
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), E> {
        self.advance(time)
    }
}
