//! Fold that evaluates triggers.
//!
//! A call is compared at its end, and before that when it has taken too long already: a call that
//! never ends is an incident, too. Windows are divided into slots, and a statistic is compared at
//! the end of each slot; one that stays beyond its limit fires once.
//!
//! Calls on pipes, sockets and terminals do not count: they wait for other programs.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::grammar::{CallSet, Metric, Statistic, Trigger, TriggerSource};
use crate::analysis::completed_op::{CompletedOp, OpKind};
use crate::analysis::histogram::Histogram;
use crate::anomaly::AnomalyKind;
use crate::event::syscall_table::CallId;
use crate::operation::block::{BlockRequest, BlockStep};
use crate::operation::io_class::IoClass;
use crate::operation::model::{SyscallOperation, ThreadInfo};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime, Pid, Tid};

/// Slots of a window.
const SLOTS: u64 = 10;

/// Length of the interval of `device.await`, ns.
const AWAIT_NS: u64 = 1_000_000_000;

/// Largest number of calls in progress that are known at a time; a call that begins beyond that is
/// compared at its end only.
const RUNNING_MAX: usize = 1 << 16;

/// Largest number of threads whose names are known.
const NAMES_MAX: usize = 1 << 16;

/// Longest path that is kept of an operation, bytes.
const PATH_BYTES_MAX: usize = 4096;

/// A trigger that has fired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Firing {
    /// Index of the trigger.
    pub trigger: usize,
    /// Time of the event.
    pub time: KernelTime,
    /// Value beyond the limit.
    pub value: u64,
    /// Operation of the value.
    pub subject: FiringSubject,
    /// True if the operation had no end yet.
    pub is_running: bool,
}

/// Operation or device of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FiringSubject {
    /// Name of the call.
    pub call: Option<String>,
    /// Device of the request.
    pub dev: Option<DevId>,
    /// Process and thread of the call.
    pub task: Option<(Pid, Tid)>,
    /// Name of the thread.
    pub comm: Vec<u8>,
    /// Path of the file, if it is certain.
    pub path: Option<Vec<u8>>,
}

/// Fold of triggers. Each firing goes to `fired`.
pub struct TriggerFold<F> {
    triggers: Vec<(Trigger, TriggerState)>,
    /// Calls whose begin must be known, by the triggers of single calls.
    watched: Vec<CallId>,
    running: FxHashMap<Tid, RunningCall>,
    names: FxHashMap<Tid, Vec<u8>>,
    /// Time of the latest step.
    evaluated_until: KernelTime,
    /// Time until which steps come again, from another reader.
    repeated_until: KernelTime,
    fired: F,
}

/// Values of a trigger so far.
enum TriggerState {
    /// Each value is compared by itself.
    Single,
    /// Sums of each device in the current interval.
    Await { since: Option<KernelTime>, devices: BTreeMap<DevId, (u64, u64)>, over: Vec<DevId> },
    /// Distributions of the slots, the current one last.
    Window { since: Option<KernelTime>, slots: VecDeque<Histogram>, is_over: bool },
}

/// A call in progress.
struct RunningCall {
    call: CallId,
    start: KernelTime,
    pid: Pid,
    path: Option<Vec<u8>>,
    /// Triggers that have fired for it.
    fired: Vec<usize>,
}

impl<F> std::fmt::Debug for TriggerFold<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TriggerFold").field("watched", &self.watched).finish_non_exhaustive()
    }
}

impl TriggerState {
    fn of(metric: &Metric) -> Self {
        match metric {
            Metric::Call(_) | Metric::Request | Metric::Lost => Self::Single,
            Metric::Await => {
                Self::Await { since: None, devices: BTreeMap::new(), over: Vec::new() }
            }
            Metric::Window { .. } => {
                Self::Window { since: None, slots: VecDeque::new(), is_over: false }
            }
        }
    }
}

impl<F: FnMut(Firing)> TriggerFold<F> {
    /// Creates the fold of these triggers.
    pub fn new(triggers: &[Trigger], fired: F) -> Self {
        let single = triggers.iter().filter_map(|trigger| match &trigger.metric {
            Metric::Call(set) => Some(set.calls.clone()),
            _ => None,
        });
        let watched = single.flatten().collect();
        let state = |trigger: &Trigger| (trigger.clone(), TriggerState::of(&trigger.metric));
        let triggers = triggers.iter().map(state).collect();
        Self {
            triggers,
            watched,
            running: FxHashMap::default(),
            names: FxHashMap::default(),
            evaluated_until: KernelTime::MIN,
            repeated_until: KernelTime::MIN,
            fired,
        }
    }

    /// Returns the time until which all steps were seen.
    pub fn evaluated_until(&self) -> KernelTime {
        self.evaluated_until
    }

    /// Prepares for another reader of the same recording, whose first steps were evaluated already.
    pub fn renew(&mut self) {
        self.repeated_until = self.evaluated_until;
    }

    /// Returns true if no call is in progress that a trigger compares.
    pub fn is_quiet(&self) -> bool {
        self.running.is_empty()
    }

    /// Takes a step that was evaluated already, from another reader of the same recording: only the
    /// state after it counts.
    fn repeated(&mut self, step: &Step<'_>) {
        match step {
            Step::SyscallBegun(operation) => self.begun(operation),
            Step::SyscallEnded(operation, _) | Step::SyscallUnfinished(operation, _) => {
                self.running.remove(&operation.tid);
            }
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) => self.named(thread),
            _ => {}
        }
    }

    fn begun(&mut self, operation: &SyscallOperation) {
        let is_waiting = operation.io_class() == IoClass::Waiting;
        let has_room = self.running.len() < RUNNING_MAX;
        if is_waiting || !has_room || !self.watched.contains(&operation.call) {
            return;
        }
        let path = operation.file.as_ref().and_then(|file| file.path.as_ref());
        let path = path.filter(|path| !path.source.is_doubtful());
        let running = RunningCall {
            call: operation.call,
            start: operation.start,
            pid: operation.pid,
            path: path.map(|path| shortened(&path.bytes)),
            fired: Vec::new(),
        };
        self.running.insert(operation.tid, running);
    }

    fn ended(&mut self, done: &CompletedOp<'_>) {
        let fired = match self.watched.is_empty() {
            true => Vec::new(),
            false => self.running.remove(&done.tid).map_or_else(Vec::new, |call| call.fired),
        };
        let OpKind::Call(call) = done.what else { return };
        if done.io == IoClass::Waiting {
            return;
        }
        let ns = done.end.0.saturating_sub(done.start.0);
        for (place, (trigger, state)) in self.triggers.iter_mut().enumerate() {
            match (&trigger.metric, state) {
                (Metric::Call(set), _)
                    if set.calls.contains(&call)
                        && ns > trigger.limit
                        && !fired.contains(&place) =>
                {
                    let subject = subject_of(done, call, &self.names);
                    let (time, is_running) = (done.end, false);
                    let (trigger, value) = (place, ns);
                    (self.fired)(Firing { trigger, time, value, subject, is_running });
                }
                (
                    Metric::Window { source: TriggerSource::Calls(set), .. },
                    TriggerState::Window { slots, .. },
                ) if set.calls.contains(&call) => {
                    add(slots, ns);
                }
                _ => {}
            }
        }
    }

    fn request(&mut self, request: &BlockRequest) {
        let Some((issued, completed)) = request.issued.zip(request.completed) else { return };
        let ns = completed.0.saturating_sub(issued.0);
        for (place, (trigger, state)) in self.triggers.iter_mut().enumerate() {
            match (&trigger.metric, state) {
                (Metric::Request, _) if ns > trigger.limit => {
                    let subject =
                        FiringSubject { dev: Some(request.dev), ..FiringSubject::default() };
                    let (trigger, time, value) = (place, completed, ns);
                    (self.fired)(Firing { trigger, time, value, subject, is_running: false });
                }
                (Metric::Await, TriggerState::Await { devices, .. }) => {
                    let (count, sum) = devices.entry(request.dev).or_default();
                    *count += 1;
                    *sum = sum.saturating_add(ns);
                }
                (
                    Metric::Window { source: TriggerSource::Device, .. },
                    TriggerState::Window { slots, .. },
                ) => {
                    add(slots, ns);
                }
                _ => {}
            }
        }
    }

    fn lost(&mut self, time: KernelTime, count: u64) {
        for (place, (trigger, _)) in self.triggers.iter().enumerate() {
            if trigger.metric == Metric::Lost && count > trigger.limit {
                let firing = Firing { trigger: place, time, value: count, ..Firing::default() };
                (self.fired)(firing);
            }
        }
    }

    /// Compares what ends by this time.
    fn advance(&mut self, time: KernelTime) {
        for (place, (trigger, state)) in self.triggers.iter_mut().enumerate() {
            let (length_ns, statistic) = match &trigger.metric {
                Metric::Await => (AWAIT_NS, None),
                Metric::Window { window_ns, statistic, .. } => {
                    (window_ns / SLOTS, Some(*statistic))
                }
                _ => continue,
            };
            let (TriggerState::Await { since, .. } | TriggerState::Window { since, .. }) = state
            else {
                continue;
            };
            let from = *since.get_or_insert(time);
            if time.0.saturating_sub(from.0) < length_ns {
                continue;
            }
            *since = Some(time);
            for (value, dev) in closed(state, statistic, trigger.limit) {
                let subject = subject_of_window(&trigger.metric, dev);
                let (trigger, is_running) = (place, false);
                (self.fired)(Firing { trigger, time, value, subject, is_running });
            }
        }
    }

    /// Compares the calls in progress at this time.
    fn check_running(&mut self, time: KernelTime) {
        for (tid, running) in &mut self.running {
            let ns = time.0.saturating_sub(running.start.0);
            for (place, (trigger, _)) in self.triggers.iter().enumerate() {
                let Metric::Call(set) = &trigger.metric else { continue };
                let is_over = ns > trigger.limit && set.calls.contains(&running.call);
                if !is_over || running.fired.contains(&place) {
                    continue;
                }
                running.fired.push(place);
                let subject = FiringSubject {
                    call: Some(running.call.call().name.to_owned()),
                    dev: None,
                    task: Some((running.pid, *tid)),
                    comm: self.names.get(tid).cloned().unwrap_or_default(),
                    path: running.path.clone(),
                };
                let (trigger, value) = (place, ns);
                (self.fired)(Firing { trigger, time, value, subject, is_running: true });
            }
        }
    }

    fn named(&mut self, thread: &ThreadInfo) {
        if self.names.len() < NAMES_MAX || self.names.contains_key(&thread.tid) {
            self.names.insert(thread.tid, thread.comm.clone());
        }
    }
}

/// Adds to the current slot.
fn add(slots: &mut VecDeque<Histogram>, ns: u64) {
    if slots.is_empty() {
        slots.push_back(Histogram::default());
    }
    slots.iter_mut().last().into_iter().for_each(|slot| slot.add(ns));
}

/// Ends the current slot or interval. Returns the values that have exceeded the limit since, with
/// their devices: a value that stays beyond it is one event.
fn closed(
    state: &mut TriggerState,
    statistic: Option<Statistic>,
    limit: u64,
) -> Vec<(u64, Option<DevId>)> {
    match state {
        TriggerState::Single => Vec::new(),
        TriggerState::Await { devices, over, .. } => {
            let means = std::mem::take(devices).into_iter();
            let means = means.map(|(dev, (count, sum))| (sum.checked_div(count).unwrap_or(0), dev));
            let above: Vec<(u64, DevId)> = means.filter(|(mean, _)| *mean > limit).collect();
            let before = std::mem::replace(over, above.iter().map(|(_, dev)| *dev).collect());
            let new = above.into_iter().filter(|(_, dev)| !before.contains(dev));
            new.map(|(mean, dev)| (mean, Some(dev))).collect()
        }
        TriggerState::Window { slots, is_over, .. } => {
            let mut all = Histogram::default();
            slots.iter().for_each(|slot| all.merge(slot));
            slots.push_back(Histogram::default());
            while slots.len() as u64 > SLOTS {
                slots.pop_front();
            }
            let value = statistic.and_then(|statistic| value_of(&all, statistic));
            let above = value.filter(|value| *value > limit);
            let was_over = std::mem::replace(is_over, above.is_some());
            above.filter(|_| !was_over).map(|value| (value, None)).into_iter().collect()
        }
    }
}

/// Returns the statistic of a distribution; `None` if it has too few values for a percentile, of
/// which the largest one alone would decide.
fn value_of(all: &Histogram, statistic: Statistic) -> Option<u64> {
    match statistic {
        Statistic::Percentile(per_mille) => {
            let is_enough = all.count().saturating_mul(1000 - per_mille) >= 1000;
            is_enough.then(|| all.percentile(per_mille)).flatten()
        }
        Statistic::Max => (all.count() > 0).then(|| all.max()),
        Statistic::Mean => all.sum().checked_div(all.count()),
        Statistic::Count => Some(all.count()),
    }
}

fn subject_of_window(metric: &Metric, dev: Option<DevId>) -> FiringSubject {
    let call = match metric {
        Metric::Window { source: TriggerSource::Calls(CallSet { word, .. }), .. } => {
            Some(word.clone())
        }
        _ => None,
    };
    FiringSubject { call, dev, ..FiringSubject::default() }
}

fn subject_of(
    done: &CompletedOp<'_>,
    call: CallId,
    names: &FxHashMap<Tid, Vec<u8>>,
) -> FiringSubject {
    FiringSubject {
        call: Some(call.call().name.to_owned()),
        dev: None,
        task: Some((done.pid, done.tid)),
        comm: names.get(&done.tid).cloned().unwrap_or_default(),
        path: done.name.filter(|name| !name.is_doubtful).map(|name| shortened(name.path)),
    }
}

fn shortened(path: &[u8]) -> Vec<u8> {
    path.get(..path.len().min(PATH_BYTES_MAX)).unwrap_or_default().to_vec()
}

impl<F: FnMut(Firing)> Sink for TriggerFold<F> {
    type Error = std::convert::Infallible;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Self::Error> {
        if time <= self.repeated_until {
            self.repeated(step);
            return Ok(());
        }
        self.evaluated_until = self.evaluated_until.max(time);
        self.advance(time);
        match step {
            Step::SyscallBegun(operation) => self.begun(operation),
            Step::SyscallEnded(..) => {
                if let Some(done) = CompletedOp::of(step) {
                    self.ended(&done);
                }
            }
            Step::SyscallUnfinished(operation, _) => {
                self.running.remove(&operation.tid);
            }
            Step::Block { step: BlockStep::Ended(request), .. } => self.request(request),
            Step::ThreadSeen(thread) | Step::ThreadRenamed(thread) => self.named(thread),
            Step::ThreadEnded(thread) => {
                self.running.remove(&thread.tid);
                self.names.remove(&thread.tid);
            }
            Step::Anomaly(anomaly) if anomaly.kind == AnomalyKind::Lost => {
                self.lost(time, anomaly.count);
            }
            _ => {}
        }
        Ok(())
    }

    fn complete_until(&mut self, time: KernelTime) -> Result<(), Self::Error> {
        if time <= self.repeated_until {
            return Ok(());
        }
        self.evaluated_until = self.evaluated_until.max(time);
        self.advance(time);
        self.check_running(time);
        Ok(())
    }
}
