//! Model of `top`: totals, histories, and processes that have ended.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::amounts::TopAmounts;
use super::interval::{TopFile, TopInterval, TopOperation, TopPair, TopProcess};
use super::rows::TopRows;
use crate::analysis::completed_op::OpKind;
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;
use crate::units::{DevId, KernelTime};

/// Time for which the row of a process stays after its end, ns.
pub const ENDED_NS: u64 = 10_000_000_000;

/// Number of the last operations that are kept.
const OPERATIONS_MAX: usize = 4096;

/// Facts about a recording that it begins with.
#[derive(Clone, Debug, Default)]
pub struct TopFacts {
    /// Scope of the recording, for people.
    pub scope: String,
    /// Wanted length of an interval, ns.
    pub length_ns: u64,
    /// Source of file names.
    pub names: String,
    /// Omissions of the recording, a sentence part each.
    pub omissions: Vec<String>,
    /// Names of disks.
    pub disks: Vec<(DevId, String)>,
    /// Begin of the first interval.
    pub start: KernelTime,
}

/// A process with its row.
#[derive(Clone, Debug)]
pub(super) struct KnownTopProcess {
    pub(super) process: TopProcess,
    /// Time of the end of the interval in which it ended.
    pub(super) ended: Option<KernelTime>,
}

/// All closed intervals.
#[derive(Clone, Debug, Default)]
pub struct TopModel {
    /// Facts about the recording.
    pub facts: TopFacts,
    /// Number of closed intervals.
    pub intervals: u64,
    /// Begin and end of the last interval.
    pub last: Option<[KernelTime; 2]>,
    /// Sum of the last interval.
    pub last_all: TopAmounts,
    /// Sum of all intervals.
    pub total_all: TopAmounts,
    /// Records that the kernel dropped.
    pub lost: u64,
    /// Records that the kernel dropped in the last interval.
    pub last_lost: u64,
    /// Time between the end of the last interval and its closing, ns.
    pub delay_ns: u64,
    /// Time of CPUs that this process used in the last interval, ns.
    pub own_cpu_ns: u64,
    pub(super) processes: TopRows<ProcessKey>,
    pub(super) pairs: TopRows<TopPair>,
    pub(super) files: TopRows<TopFile>,
    pub(super) calls: TopRows<(OpKind, IoClass)>,
    pub(super) devices: TopRows<DevId>,
    pub(super) cgroups: TopRows<Option<Arc<[u8]>>>,
    pub(super) known: FxHashMap<ProcessKey, KnownTopProcess>,
    pub(super) operations: VecDeque<(TopPair, TopOperation)>,
    focus: Option<TopPair>,
}

impl TopModel {
    /// Creates the model of a recording.
    pub fn new(facts: TopFacts) -> Self {
        Self { facts, ..Self::default() }
    }

    /// Adds a closed interval.
    pub fn close(&mut self, interval: TopInterval) {
        self.intervals += 1;
        self.last = Some([interval.start, interval.end]);
        self.last_all = interval.all;
        self.total_all.merge(&interval.all);
        self.last_lost = interval.lost;
        self.lost = self.lost.saturating_add(interval.lost);
        let files = sums(interval.pairs.iter().map(|(pair, row)| (pair.file.clone(), *row)));
        self.files.close(files, &interval.other_pairs);
        self.pairs.close(interval.pairs, &interval.other_pairs);
        self.calls.close(interval.calls, &TopAmounts::default());
        self.devices.close(interval.devices, &TopAmounts::default());
        for process in interval.known {
            let key = process.key;
            self.known.insert(key, KnownTopProcess { process, ended: None });
        }
        let groups = interval.processes.iter().map(|(key, row)| (self.cgroup(*key), *row));
        let groups = sums(groups);
        self.cgroups.close(groups, &interval.other_processes);
        self.processes.close(interval.processes, &interval.other_processes);
        for key in &interval.ended {
            if let Some(known) = self.known.get_mut(key) {
                known.ended = Some(interval.end);
            }
        }
        self.forget_ended(interval.end);
        let focus = self.focus.as_ref();
        let wanted = interval.operations.into_iter();
        self.operations.extend(wanted.filter(|(pair, _)| focus.is_none_or(|focus| focus == pair)));
        let excess = self.operations.len().saturating_sub(OPERATIONS_MAX);
        self.operations.drain(..excess);
    }

    fn cgroup(&self, process: ProcessKey) -> Option<Arc<[u8]>> {
        self.known.get(&process)?.process.cgroup.clone()
    }

    /// Removes processes that ended a while ago, and those without a row.
    fn forget_ended(&mut self, now: KernelTime) {
        let is_old = |known: &KnownTopProcess| {
            known.ended.is_some_and(|ended| now.0.saturating_sub(ended.0) >= ENDED_NS)
        };
        let old: Vec<ProcessKey> =
            self.known.iter().filter(|(_, known)| is_old(known)).map(|(key, _)| *key).collect();
        for key in &old {
            self.processes.remove(key);
            self.known.remove(key);
        }
        let processes = &self.processes;
        self.known.retain(|key, _| processes.has(key));
        let known = &self.known;
        self.pairs.retain(|pair| known.contains_key(&pair.process));
    }

    /// Keeps only the operations of this pair from now on; `None`: those of all pairs.
    pub fn set_focus(&mut self, focus: Option<TopPair>) {
        if let Some(focus) = &focus {
            self.operations.retain(|(pair, _)| pair == focus);
        }
        self.focus = focus;
    }

    /// Returns the pair whose operations alone are kept.
    pub fn focus(&self) -> Option<&TopPair> {
        self.focus.as_ref()
    }

    /// Returns the duration of the last interval, ns; `None`: there was none.
    pub fn last_ns(&self) -> Option<u64> {
        self.last.map(|[start, end]| end.0.saturating_sub(start.0).max(1))
    }

    /// Returns the duration of all intervals, ns.
    pub fn recorded_ns(&self) -> u64 {
        self.last.map_or(0, |[_, end]| end.0.saturating_sub(self.facts.start.0))
    }
}

/// Returns the sums by key.
fn sums<K: Eq + std::hash::Hash>(
    rows: impl Iterator<Item = (K, TopAmounts)>,
) -> FxHashMap<K, TopAmounts> {
    let mut sums: FxHashMap<K, TopAmounts> = FxHashMap::default();
    for (key, amounts) in rows {
        sums.entry(key).or_default().merge(&amounts);
    }
    sums
}
