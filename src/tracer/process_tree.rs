//! Process tree: decides in process mode which records belong to the traced processes.
//!
//! The events are system-wide, so that forks, switches and closing cost the program nothing;
//! records of other processes are dropped here. The choice is coarse on purpose: it keeps every
//! record of every process that was in the tree at any time of a round. Exact membership at each
//! moment is decided where the records are in order.
//!
//! A child's first record can be taken from its CPU's ring before the parent's FORK record is taken
//! from another ring. But the FORK was *written* before. So it arrives at the latest in the
//! following round, and a round is held back until the next one has been searched for births.

use rustc_hash::FxHashSet;

use super::name_source::NameSource;
use super::options::Options;
use super::source::Source;
use crate::event::decode::common_type;
use crate::record::parse::RecordBody;
use crate::record::{RecordKind, SampleLayout};
use crate::sys::proc;
use crate::tracefs::{EventFormat, IntField};
use crate::units::{KernelTime, Pid, Tid};

/// Processes of the tree, as far as the records report them.
#[derive(Debug)]
pub struct Tree {
    members: FxHashSet<i32>,
    /// Threads of these processes.
    threads: FxHashSet<i32>,
    /// Tracepoints whose records may concern any process (`block:*`, `io_uring:*`): the current
    /// task is irrelevant.
    global: FxHashSet<u16>,
    /// True if births, names and ends of all tasks are kept: any task may have submitted a request.
    all_tasks: bool,
    /// Thread of the tracer that measures its own calls: its records are kept.
    meter: Option<Tid>,
    /// Number of this process, kept here: its query is a system call, and recorded ones are slow.
    own: Pid,
    /// True if children of the processes belong to the tree.
    follows_children: bool,
    /// Field `common_pid` of samples without a process, in a tree without children.
    common_pid: Option<IntField>,
    /// Births since the last [`Self::learn`]: time, parent, process and thread.
    births: Vec<(KernelTime, i32, [i32; 2])>,
}

impl Tree {
    /// Returns a tree that grows from these processes.
    pub fn new(
        roots: impl IntoIterator<Item = i32>,
        global: impl IntoIterator<Item = u16>,
        all_tasks: bool,
    ) -> Self {
        Self {
            members: roots.into_iter().collect(),
            threads: FxHashSet::default(),
            global: global.into_iter().collect(),
            all_tasks,
            meter: None,
            own: Pid(std::process::id().cast_signed()),
            follows_children: true,
            common_pid: None,
            births: Vec::new(),
        }
    }

    /// Sets the thread of the tracer that measures its own calls.
    pub(super) fn with_meter(self, meter: Option<Tid>) -> Self {
        Self { meter, ..self }
    }

    /// Returns a tree that grows from these processes, with the tracepoints that are recorded.
    pub(super) fn followed(
        options: &Options,
        names: NameSource,
        processes: &[Pid],
        source: &dyn Source,
    ) -> Self {
        let tracepoints = source.tracepoints().iter();
        let global = tracepoints.filter(|it| it.planned.concerns_any_process()).map(|it| it.id);
        let mut tree = Self::new(processes.iter().map(|it| it.0), global, options.all_block);
        tree.follows_children = options.follows_children;
        if !tree.follows_children {
            let format =
                source.tracepoints().first().map(|point| EventFormat::parse(&point.format));
            tree.common_pid = format.and_then(|format| format.ok()?.int("common_pid").ok());
        }
        if names.listens() || options.block || options.extents || !tree.follows_children {
            // Later births are recorded.
            tree.threads.extend(proc::threads(processes).iter().map(|it| it.0));
        }
        tree
    }

    /// Stores the birth that a record reports, if any.
    pub fn note(&mut self, record: &RecordKind<'_>, layout: &SampleLayout) {
        if record.kind != crate::record::abi::record_type::FORK {
            return;
        }
        if let Ok(parsed) = record.parse(layout)
            && let RecordBody::Fork { pid, tid, ppid, .. } = parsed.body
        {
            self.births.push((parsed.time, ppid.0, [pid.0, tid.0]));
        }
    }

    /// Adds the stored births to the tree, in their order in time.
    pub fn learn(&mut self) {
        self.births.sort_by_key(|it| it.0);
        for (_, parent, [child, thread]) in self.births.drain(..) {
            let joins = self.follows_children || child == parent;
            if joins && self.members.contains(&parent) {
                self.members.insert(child);
                self.threads.insert(thread);
            } else if !self.follows_children {
                // The number of a thread that has ended belongs to another process now.
                self.threads.remove(&thread);
            }
        }
    }

    /// Returns the processes that were in the tree at any time so far.
    pub(super) fn processes(&self) -> Vec<Pid> {
        self.members.iter().copied().map(Pid).collect()
    }

    /// True if the process was in the tree at any time so far.
    pub fn has(&self, pid: Pid) -> bool {
        self.members.contains(&pid.0)
    }

    /// True if the thread was in the tree at any time so far.
    pub fn has_thread(&self, tid: Tid) -> bool {
        self.threads.contains(&tid.0)
    }

    /// True if the task was in the tree at any time so far. `pid` is the task's process, if known.
    /// A thread that has executed a program has the number of its process.
    pub fn has_task(&self, pid: Pid, tid: Tid) -> bool {
        self.has(pid) || self.has_thread(tid) || self.members.contains(&tid.0)
    }

    /// True if children of the processes belong to the tree.
    pub(super) fn follows_children(&self) -> bool {
        self.follows_children
    }

    /// True if the sample of a page belongs to a thread of the tree, or may concern any process.
    pub(super) fn keeps_sample(&self, payload: &[u8]) -> bool {
        if common_type(payload).is_some_and(|id| self.global.contains(&id)) {
            return true;
        }
        let number = self.common_pid.as_ref().and_then(|field| field.read_i64(payload));
        let tid = number.and_then(|number| i32::try_from(number).ok()).map(Tid);
        tid.is_none_or(|tid| self.has_task(Pid(-1), tid) || self.meter == Some(tid))
    }

    /// True if the record belongs to the tree, or may concern it.
    pub fn keeps(&self, record: &RecordKind<'_>, layout: &SampleLayout) -> bool {
        if let Some(payload) = record.payload(layout)
            && let Some(id) = common_type(payload)
            && self.global.contains(&id)
        {
            return true;
        }
        if record.kind == crate::record::abi::record_type::LOST {
            return true;
        }
        // Births and ends of tasks are written by the parent or the task itself: the pid of the
        // record decides.
        let is_kept = |(pid, tid)| self.has(pid) || pid == self.own && self.meter == Some(tid);
        record.task(layout).is_some_and(is_kept) || self.is_about_member(record, layout)
    }

    fn is_about_member(&self, record: &RecordKind<'_>, layout: &SampleLayout) -> bool {
        use crate::record::abi::record_type;
        if !matches!(record.kind, record_type::COMM | record_type::EXIT | record_type::FORK) {
            return false;
        }
        if self.all_tasks {
            return true;
        }
        match record.parse(layout).map(|it| it.body) {
            Ok(RecordBody::Comm { pid, .. } | RecordBody::Exit { pid, .. }) => {
                self.members.contains(&pid.0)
            }
            Ok(RecordBody::Fork { pid, ppid, .. }) => {
                self.members.contains(&pid.0) || self.members.contains(&ppid.0)
            }
            _ => false,
        }
    }
}
