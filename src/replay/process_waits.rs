//! Parents that go on when their children are through: nobody records the waiting (`wait4`), but who begins something behind the end of
//! a child may have waited for it, and mostly has.
//!
//! ```text
//!   parent   ──[ fork ]·····························[ open result ]──   waits for the child's last operation
//!   child            └──[ open result ]─[ write ]─┘
//! ```

use rustc_hash::FxHashMap;

use super::dependencies::{OpId, TimedOp, WaitSet};
use crate::operation::model::ProcessKey;
use crate::units::KernelTime;

#[derive(Debug)]
struct Family {
    parent: Option<ProcessKey>,
    born: KernelTime,
    /// The last operations of its threads that have ended.
    own: Vec<(KernelTime, TimedOp)>,
    /// The last operations of its children that have ended.
    children: Vec<(KernelTime, TimedOp)>,
}

/// All processes that are there.
#[derive(Debug, Default)]
pub(super) struct ProcessWaits(FxHashMap<ProcessKey, Family>);

impl ProcessWaits {
    fn of(&mut self, process: ProcessKey) -> &mut Family {
        let (own, children) = Default::default();
        let new = Family { parent: None, born: KernelTime(0), own, children };
        self.0.entry(process).or_insert(new)
    }

    /// A process has a child.
    pub(super) fn born(&mut self, parent: ProcessKey, child: ProcessKey, now: KernelTime) {
        let family = self.of(child);
        (family.parent, family.born) = (Some(parent), now);
    }

    /// A thread has ended, which had done this last.
    pub(super) fn thread_ended(&mut self, process: ProcessKey, now: KernelTime, last: TimedOp) {
        self.of(process).own.push((now, last));
    }

    /// A process has ended.
    pub(super) fn process_ended(&mut self, process: ProcessKey) {
        let Some(Family { parent: Some(parent), born, own, children }) = self.0.remove(&process)
        else {
            return;
        };
        let over = &mut self.of(parent).children;
        if !own.is_empty() {
            // Its first operation has waited for those who had ended when it was born.
            over.retain(|it| it.0 > born);
        }
        over.extend(own.into_iter().chain(children));
    }

    /// Those children of a process that ended before this time go into `before`.
    pub(super) fn over(&self, process: ProcessKey, start: KernelTime, before: &mut WaitSet) {
        let family = self.0.get(&process);
        let children = family.into_iter().flat_map(|it| &it.children);
        children.filter(|it| it.0 <= start).for_each(|it| before.add(it.1.at));
    }

    /// The same of those of its parent: who is born behind their end. The one that ended last.
    pub(super) fn siblings(
        &self,
        process: ProcessKey,
        start: KernelTime,
        before: &mut WaitSet,
    ) -> Option<OpId> {
        let parent = self.0.get(&process)?.parent?;
        self.over(parent, start, before);
        let over = self.0.get(&parent)?.children.iter().filter(|it| it.0 <= start);
        over.max_by_key(|it| it.0).map(|it| it.1.at)
    }

    /// The same for an operation: none of the process's later ones has to wait for them.
    pub(super) fn waited(&mut self, process: ProcessKey, start: KernelTime, before: &mut WaitSet) {
        self.over(process, start, before);
        if let Some(family) = self.0.get_mut(&process) {
            family.children.retain(|it| it.0 > start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::dependencies::Worker;

    const PARENT: ProcessKey = ProcessKey(1);
    const CHILD: ProcessKey = ProcessKey(2);
    const SECOND: ProcessKey = ProcessKey(3);

    fn last(worker: u32) -> TimedOp {
        TimedOp { at: OpId { worker: Worker(worker), number: 9 }, start: 0, end: 0 }
    }

    fn workers(before: &WaitSet) -> Vec<u32> {
        before.all().iter().map(|it| it.worker.0).collect()
    }

    #[test]
    fn who_begins_behind_the_end_of_a_child_waits_for_it() {
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

    /// Fails if a parent that does nothing between two children hides the first from the second, or remembers all it ever had.
    #[test]
    fn a_child_waits_for_those_before_it() {
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
