//! Reuse of numbers: tasks with the number of one that had just ended.
//!
//! A tracefs instance follows tasks by their numbers, and removes a number from its list when the
//! last task with that number is freed: some time after its end (`delayed_put_task_struct()`, after
//! a grace period of RCU). A new task with the number is not followed any more from then on, and
//! the rings have no sign of it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::event::task::TaskEvent;
use crate::units::{KernelTime, Tid};

/// Time after its end in which a task may still be freed, ns: grace periods take some hundredths of
/// a second, more on busy machines.
const FREED_NS_MAX: u64 = 1_000_000_000;

/// Numbers that were reused too early.
#[derive(Debug, Default)]
pub(super) struct PidReuse {
    ended: FxHashMap<Tid, KernelTime>,
    /// Ended tasks in the order of their ends.
    order: VecDeque<(KernelTime, Tid)>,
    /// Number of tasks that may not have been followed.
    pub(super) count: u64,
}

impl PidReuse {
    /// Records a birth or an end.
    pub(super) fn learn(&mut self, time: KernelTime, task: &TaskEvent) {
        match *task {
            TaskEvent::Exit { tid, .. } => {
                self.forget_before(time);
                self.ended.insert(tid, time);
                self.order.push_back((time, tid));
            }
            TaskEvent::Fork { tid, .. } => {
                self.forget_before(time);
                self.count += u64::from(self.ended.remove(&tid).is_some());
            }
            TaskEvent::Comm { .. } | TaskEvent::NewTask { .. } => {}
        }
    }

    fn forget_before(&mut self, time: KernelTime) {
        let is_old = |freed: &(KernelTime, Tid)| freed.0.0.saturating_add(FREED_NS_MAX) < time.0;
        while let Some((ended, tid)) = self.order.front().copied().filter(is_old) {
            self.order.pop_front();
            // The number may have been reused and its task ended again.
            if self.ended.get(&tid) == Some(&ended) {
                self.ended.remove(&tid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Pid;

    #[test]
    fn only_pids_of_recently_ended_processes_count() {
        let mut reused = PidReuse::default();
        let mut learn = |is_birth: bool, ms: u64, number: i32| {
            let (pid, tid, parent) = (Pid(number), Tid(number), 1);
            let task = if is_birth {
                TaskEvent::Fork { pid, tid, ppid: Pid(parent), ptid: Tid(parent) }
            } else {
                TaskEvent::Exit { pid, tid }
            };
            reused.learn(KernelTime(ms * 1_000_000), &task);
            reused.count
        };
        let (birth, end) = (true, false);
        learn(end, 10, 7);
        learn(end, 20, 8);
        assert_eq!(learn(birth, 30, 9), 0);
        assert_eq!(learn(birth, 1005, 7), 1);
        assert_eq!(learn(birth, 1006, 7), 1, "counted once");
        assert_eq!(learn(birth, 1021, 8), 1, "too long ago");
        learn(end, 1030, 8);
        learn(end, 2020, 8);
        assert_eq!(learn(birth, 2040, 8), 2);
    }
}
