//! Process waits: parents that continue after their children have ended. The capture has no record
//! of the waiting (`wait4`), but an operation that a parent begins after the end of a child may
//! have waited for the child, and mostly has.
//!
//! ```text
//!   parent   ──[ fork ]·····························[ open result ]──   waits for the last
//!   child            └──[ open result ]─[ write ]─┘                     operation of the child
//! ```

use rustc_hash::FxHashMap;

use super::dependencies::{OpId, TimedOp, WaitSet};
use crate::operation::model::ProcessKey;
use crate::units::KernelTime;

#[derive(Debug)]
struct ProcessFamily {
    parent: Option<ProcessKey>,
    born: KernelTime,
    /// Last operations of its threads that have ended.
    own: Vec<(KernelTime, TimedOp)>,
    /// Last operations of its children that have ended.
    children: Vec<(KernelTime, TimedOp)>,
}

/// All living processes.
#[derive(Debug, Default)]
pub(super) struct ProcessWaits(FxHashMap<ProcessKey, ProcessFamily>);

impl ProcessWaits {
    fn of(&mut self, process: ProcessKey) -> &mut ProcessFamily {
        let (own, children) = Default::default();
        let new = ProcessFamily { parent: None, born: KernelTime(0), own, children };
        self.0.entry(process).or_insert(new)
    }

    /// Records the birth of a child process.
    pub(super) fn born(&mut self, parent: ProcessKey, child: ProcessKey, now: KernelTime) {
        let family = self.of(child);
        (family.parent, family.born) = (Some(parent), now);
    }

    /// Records the end of a thread with its last operation.
    pub(super) fn thread_ended(&mut self, process: ProcessKey, now: KernelTime, last: TimedOp) {
        self.of(process).own.push((now, last));
    }

    /// Records the end of a process.
    pub(super) fn process_ended(&mut self, process: ProcessKey) {
        let Some(ProcessFamily { parent: Some(parent), born, own, children }) =
            self.0.remove(&process)
        else {
            return;
        };
        let over = &mut self.of(parent).children;
        if !own.is_empty() {
            // The first operation of the process has waited for the children that had ended at the
            // birth of the process.
            over.retain(|(ended, _)| *ended > born);
        }
        over.extend(own.into_iter().chain(children));
    }

    /// Adds the last operations of a process's children that ended by `start` to `before`.
    pub(super) fn over(&self, process: ProcessKey, start: KernelTime, before: &mut WaitSet) {
        let family = self.0.get(&process);
        let children = family.into_iter().flat_map(|family| &family.children);
        let over = children.filter(|(ended, _)| *ended <= start);
        over.for_each(|(_, last)| before.add(last.at));
    }

    /// Adds the last operations of the parent's children that ended by `start` to `before`: a
    /// process born then comes after their end. Returns the one that ended last.
    pub(super) fn siblings(
        &self,
        process: ProcessKey,
        start: KernelTime,
        before: &mut WaitSet,
    ) -> Option<OpId> {
        let parent = self.0.get(&process)?.parent?;
        self.over(parent, start, before);
        let over = self.0.get(&parent)?.children.iter().filter(|(ended, _)| *ended <= start);
        over.max_by_key(|(ended, _)| *ended).map(|(_, last)| last.at)
    }

    /// Adds the last operations of a process's children that ended by `start` to `before`, and
    /// forgets them: later operations of the process need not wait for them.
    pub(super) fn waited(&mut self, process: ProcessKey, start: KernelTime, before: &mut WaitSet) {
        self.over(process, start, before);
        if let Some(family) = self.0.get_mut(&process) {
            family.children.retain(|(ended, _)| *ended > start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::plan::dependencies::Worker;

    const PARENT: ProcessKey = ProcessKey(1);
    const CHILD: ProcessKey = ProcessKey(2);
    const SECOND: ProcessKey = ProcessKey(3);

    fn last(worker: u32) -> TimedOp {
        TimedOp { at: OpId { worker: Worker(worker), number: 9 }, ..TimedOp::default() }
    }

    fn workers(before: &WaitSet) -> Vec<u32> {
        before.all().iter().map(|op| op.worker.0).collect()
    }

    #[test]
    fn operation_after_a_child_exit_waits_for_it() {
        let mut families = ProcessWaits::default();
        families.born(PARENT, CHILD, KernelTime(10));
        families.thread_ended(CHILD, KernelTime(20), last(5));
        families.process_ended(CHILD);
        let waits = |families: &mut ProcessWaits, start| {
            let mut before = WaitSet::default();
            families.waited(PARENT, KernelTime(start), &mut before);
            workers(&before)
        };
        assert_eq!(waits(&mut families, 19), Vec::<u32>::new());
        assert_eq!(waits(&mut families, 20), [5]);
        assert_eq!(waits(&mut families, 30), Vec::<u32>::new());
    }

    /// Fails if a parent that is idle between two children hides the first from the second, or
    /// keeps all children it ever had.
    #[test]
    fn child_waits_for_earlier_operations_of_its_parent() {
        let mut families = ProcessWaits::default();
        families.born(PARENT, CHILD, KernelTime(10));
        families.thread_ended(CHILD, KernelTime(20), last(5));
        families.process_ended(CHILD);
        families.born(PARENT, SECOND, KernelTime(30));
        let mut before = WaitSet::default();
        families.over(PARENT, KernelTime(30), &mut before);
        assert_eq!(workers(&before), [5]);
        families.thread_ended(SECOND, KernelTime(40), last(6));
        families.process_ended(SECOND);
        let mut before = WaitSet::default();
        families.over(PARENT, KernelTime(50), &mut before);
        assert_eq!(workers(&before), [6]);
    }
}
