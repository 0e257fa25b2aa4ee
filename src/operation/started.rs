//! Processes in the audit: the programs that they became, and whether they were waited for.
//!
//! Input: programs from `sched_process_exec`, ends of waits, ends and clone flags of processes.
//! Output: counts by program, and the processes whose accounting did not go to a parent. Files are
//! not examined here.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::process::Waiter;
use crate::event::SysExit;
use crate::units::{KernelTime, Pid};

/// Limit of programs that are counted by their paths; further ones are counted as unnamed.
const PROGRAMS_MAX: usize = 1 << 14;

/// Execs of the program of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execs {
    /// Number of execs.
    pub count: u64,
    /// Time of the first of them.
    pub first: KernelTime,
}

/// Programs of followed processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartedPrograms {
    /// By absolute path, not resolved.
    pub programs: BTreeMap<Vec<u8>, Execs>,
    /// Execs of programs whose path is not known.
    pub unnamed: u64,
    /// Execs that failed because no handler supported the format (`ENOEXEC`): the kernel has read
    /// the beginning of the file (`search_binary_handler()` in `fs/exec.c`).
    pub unknown_format: u64,
    /// Execs that failed for another reason: before or after the kernel has read from the file.
    pub failed: u64,
    /// Processes that were ended by a signal that may write a core dump.
    pub core_signals: u64,
}

impl StartedPrograms {
    /// Counts an exec that failed. Returns false for other ends of calls.
    pub(super) fn ends_failed_exec(&mut self, exit: &SysExit) -> bool {
        let failed = exit.call.call().is_exec() && exit.ret < 0;
        let is_unknown = exit.ret == -i64::from(libc::ENOEXEC);
        self.unknown_format += u64::from(failed && is_unknown);
        self.failed += u64::from(failed && !is_unknown);
        failed
    }

    /// Counts a process that became this program.
    pub(super) fn program(&mut self, path: Option<Vec<u8>>, now: KernelTime) {
        let is_known = path.as_ref().is_some_and(|it| self.programs.contains_key(it));
        match path.filter(|_| is_known || self.programs.len() < PROGRAMS_MAX) {
            Some(path) => {
                let none = Execs { count: 0, first: now };
                self.programs.entry(path).or_insert(none).count += 1;
            }
            None => self.unnamed += 1,
        }
    }
}

/// Processes that have ended and were not waited for yet.
#[derive(Debug, Default)]
pub(super) struct Zombies {
    /// Expected waiters, by the number of the process that has ended.
    waiters: FxHashMap<i32, Waiter>,
    /// Successful waits without a known child, by waiter.
    unnamed_waits: FxHashMap<i32, u64>,
}

impl Zombies {
    /// Adds a process that has ended. Returns true if another one of this number was there, whose
    /// accounting the kernel discarded: a number is reused when its process is gone.
    pub(super) fn ended(&mut self, pid: Pid, waiter: Waiter) -> bool {
        self.waiters.insert(pid.0, waiter).is_some()
    }

    /// Handles a wait of this process that has taken a child, or was notified of a stop.
    /// `is_alive`: there is a process of that number. (In a pid namespace the result is a number of
    /// that namespace.)
    pub(super) fn waited(&mut self, waiter: Pid, child: Option<Pid>, is_alive: bool) {
        let expected = child.and_then(|it| self.waiters.get(&it.0)).map(|it| it.pid);
        match (child, expected) {
            (Some(child), Some(parent)) if parent == waiter => {
                self.waiters.remove(&child.0);
            }
            // Tracers of processes wait for them, too, before the parent does (`wait_task_zombie()`
            // in `kernel/exit.c`).
            (Some(_), Some(_)) => {}
            _ if is_alive => {}
            _ => *self.unnamed_waits.entry(waiter.0).or_default() += 1,
        }
    }

    /// Returns the number of processes left, minus those that waits without a known child may have
    /// taken.
    pub(super) fn left(&self) -> u64 {
        let mut by_waiter: FxHashMap<i32, u64> = FxHashMap::default();
        self.waiters.values().for_each(|it| *by_waiter.entry(it.pid.0).or_default() += 1);
        let taken = |waiter: &i32| self.unnamed_waits.get(waiter).copied().unwrap_or(0);
        by_waiter.iter().map(|(waiter, count)| count.saturating_sub(taken(waiter))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_taken_by_the_waits_of_their_parent() {
        let mut zombies = Zombies::default();
        let waiter = |pid: i32| Waiter { pid: Pid(pid), key: None };
        assert!(!zombies.ended(Pid(7), waiter(1)));
        assert!(!zombies.ended(Pid(8), waiter(1)));
        assert!(!zombies.ended(Pid(9), waiter(2)));
        zombies.waited(Pid(3), Some(Pid(7)), false);
        zombies.waited(Pid(1), Some(Pid(77)), true);
        assert_eq!(zombies.left(), 3);
        zombies.waited(Pid(1), Some(Pid(7)), false);
        assert_eq!(zombies.left(), 2);
        zombies.waited(Pid(2), None, false);
        assert_eq!(zombies.left(), 1);
        // Of another pid namespace.
        zombies.waited(Pid(1), Some(Pid(2)), false);
        assert_eq!(zombies.left(), 0);
        assert!(zombies.ended(Pid(8), waiter(1)));
    }

    #[test]
    fn programs_are_counted_by_their_paths() {
        let mut started = StartedPrograms::default();
        for (path, now) in [(Some("/a"), 3), (None, 4), (Some("/a"), 5)] {
            started.program(path.map(Into::into), KernelTime(now));
        }
        let first = Execs { count: 2, first: KernelTime(3) };
        assert_eq!((started.programs.get(b"/a".as_slice()), started.unnamed), (Some(&first), 1));
    }
}
