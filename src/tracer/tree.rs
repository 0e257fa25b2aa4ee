//! Process mode: which records are of the traced tree.
//!
//! The events are system-wide, so that forks, switches and closing cost the program nothing, and what others do is
//! dropped here. The choice is coarse on purpose: it keeps every record of every process that was in the tree at any
//! time of a round. Who was in it at which moment is decided where the records are in order.
//!
//! A child's first record can be taken from its CPU's ring before the parent's FORK record is taken from another. But
//! the FORK was *written* before: so it is there at the latest in the round after, and a round is held back until the
//! next one has been looked through.

use rustc_hash::FxHashSet;

use crate::event::decode::common_type;
use crate::record::parse::Body;
use crate::record::{RecordKind, SampleLayout};
use crate::units::{KernelTime, Pid};

/// The processes of the tree, as far as the records tell.
#[derive(Debug)]
pub struct Tree {
    members: FxHashSet<i32>,
    /// Tracepoints whose records concern everybody (`block:*`, `io_uring:*`): the current task says nothing.
    global: FxHashSet<u16>,
    /// True if births, names and ends of all tasks are kept: anybody may be the one who asked for a request.
    all_tasks: bool,
    /// Births seen since the last [`Self::learn`].
    births: Vec<(KernelTime, i32, i32)>,
}

impl Tree {
    /// A tree that grows from these processes.
    pub fn new(
        roots: impl IntoIterator<Item = i32>,
        global: impl IntoIterator<Item = u16>,
        all_tasks: bool,
    ) -> Self {
        Self {
            members: roots.into_iter().collect(),
            global: global.into_iter().collect(),
            all_tasks,
            births: Vec::new(),
        }
    }

    /// Looks at a record for a birth.
    pub fn note(&mut self, record: &RecordKind<'_>, layout: &SampleLayout) {
        if record.kind != crate::record::abi::record_type::FORK {
            return;
        }
        if let Ok(parsed) = record.parse(layout)
            && let Body::Fork { pid, ppid, .. } = parsed.body
            && pid != ppid
        {
            self.births.push((parsed.time, ppid.0, pid.0));
        }
    }

    /// Takes the noted births into the tree, in their order in time.
    pub fn learn(&mut self) {
        self.births.sort_by_key(|it| it.0);
        for (_, parent, child) in self.births.drain(..) {
            if self.members.contains(&parent) {
                self.members.insert(child);
            }
        }
    }

    /// True if the process was in the tree at any time so far.
    pub fn has(&self, pid: Pid) -> bool {
        self.members.contains(&pid.0)
    }

    /// True if the record is of the tree, or may concern it.
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
        // Births and ends of tasks are written by the parent or the task itself: its own pid decides.
        record.task(layout).is_some_and(|(pid, _)| self.members.contains(&pid.0))
            || self.is_about_member(record, layout)
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
            Ok(Body::Comm { pid, .. } | Body::Exit { pid, .. }) => self.members.contains(&pid.0),
            Ok(Body::Fork { pid, ppid, .. }) => {
                self.members.contains(&pid.0) || self.members.contains(&ppid.0)
            }
            _ => false,
        }
    }
}
