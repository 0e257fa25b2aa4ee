//! Commits of journals that slow operations waited for, and the other operations that waited for
//! the same commits.

use std::collections::{BTreeMap, VecDeque};

use super::completed_op::{CompletedOp, OpKind};
use crate::event::layer::COMMIT;
use crate::operation::Step;
use crate::operation::model::ProcessKey;
use crate::operation::span::{JournalCommit, Span};
use crate::units::{DevId, Pid};

/// Largest number of commits of a device that are looked at: one call may have waited for this
/// many.
const RECENT_MAX: usize = 256;

/// Largest number of operations that are kept of a commit.
const WAITERS_MAX: usize = 8;

/// Largest number of commits of slow operations that are kept.
const KEPT_MAX: usize = 4096;

/// Operation that waited for a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitWaiter {
    /// Kind of the operation.
    pub what: OpKind,
    /// Process of the operation.
    pub process: ProcessKey,
    /// Number of its process.
    pub pid: Pid,
    /// Name of its process when it waited.
    pub comm: Vec<u8>,
}

/// A commit with the operations that waited for it.
#[derive(Clone, Debug)]
pub struct CommitWaits {
    /// The commit.
    pub commit: JournalCommit,
    /// First operations that waited for it, in the order of their ends.
    pub waiters: Vec<CommitWaiter>,
    /// Number of all operations that waited for it.
    pub count: u64,
    /// True if a slow operation waited for it.
    is_kept: bool,
}

/// Commits of journals, recent ones and those of slow operations.
#[derive(Clone, Debug, Default)]
pub struct CommitTable {
    /// Numbers of the recent commits of each device.
    recent: BTreeMap<DevId, VecDeque<u64>>,
    commits: BTreeMap<u64, CommitWaits>,
    /// Numbers of earlier commits of slow operations.
    kept: VecDeque<u64>,
    next: u64,
    /// Commits of slow operations that were dropped for lack of room.
    pub left_out: u64,
}

impl CommitTable {
    /// Returns a commit by its number; `None`: it was dropped for lack of room.
    pub fn get(&self, number: u64) -> Option<&CommitWaits> {
        self.commits.get(&number)
    }

    /// Adds a commit that has ended.
    pub(super) fn add(&mut self, commit: &JournalCommit) {
        let number = self.next;
        self.next += 1;
        let (commit, waiters) = (commit.clone(), Vec::new());
        let of_device = self.recent.entry(commit.dev).or_default();
        of_device.push_back(number);
        let oldest = if of_device.len() > RECENT_MAX { of_device.pop_front() } else { None };
        self.commits.insert(number, CommitWaits { commit, waiters, count: 0, is_kept: false });
        let Some(oldest) = oldest else { return };
        if self.commits.get(&oldest).is_some_and(|waits| waits.is_kept) {
            self.kept.push_back(oldest);
        } else {
            self.commits.remove(&oldest);
        }
        if self.kept.len() > KEPT_MAX
            && let Some(first) = self.kept.pop_front()
        {
            self.commits.remove(&first);
            self.left_out += 1;
        }
    }

    /// Adds an operation to the commits that it waited for, and returns their numbers.
    pub(super) fn waited(
        &mut self,
        step: &Step<'_>,
        done: &CompletedOp<'_>,
        comm: &[u8],
    ) -> Vec<u64> {
        let Step::SyscallEnded(operation, _) = step else { return Vec::new() };
        let is_commit = |span: &&Span| span.what == COMMIT;
        let mut waits: Vec<&Span> = operation.spans.iter().filter(is_commit).collect();
        if waits.is_empty() {
            return Vec::new();
        }
        let dev = operation.file.as_ref().and_then(|file| file.stat).map(|stat| stat.dev);
        let mut numbers = Vec::new();
        for (of, recent) in &self.recent {
            // `sync` waits for all devices.
            if dev.is_some_and(|dev| dev != *of) && operation.call.call().name != "sync" {
                continue;
            }
            for number in recent.iter().rev() {
                let Some(known) = self.commits.get_mut(number) else { continue };
                let times = [known.commit.begin.max(done.start), known.commit.end.min(done.end)];
                let Some(place) = waits.iter().position(|span| [span.begin, span.end] == times)
                else {
                    continue;
                };
                waits.swap_remove(place);
                known.count += 1;
                if known.waiters.len() < WAITERS_MAX {
                    let (what, process, pid) = (done.what, done.process, done.pid);
                    known.waiters.push(CommitWaiter { what, process, pid, comm: comm.to_vec() });
                }
                numbers.push(*number);
            }
        }
        numbers.sort_unstable();
        numbers
    }

    /// Keeps commits, because a slow operation waited for them.
    pub(super) fn keep(&mut self, numbers: &[u64]) {
        for number in numbers {
            if let Some(known) = self.commits.get_mut(number) {
                known.is_kept = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{KernelTime, Tid};

    #[test]
    fn only_commits_of_slow_operations_stay() {
        let mut table = CommitTable::default();
        let commit = |at: u64| JournalCommit {
            dev: DevId::new(8, 1),
            transaction: u32::try_from(at).ok(),
            tid: Tid(7),
            comm: None,
            begin: KernelTime(10 * at),
            end: KernelTime(10 * at + 5),
        };
        table.add(&commit(0));
        table.add(&commit(1));
        table.keep(&[1]);
        (2..400).for_each(|at| table.add(&commit(at)));
        assert_eq!(table.commits.len(), RECENT_MAX + 1);
        let transaction = |number| table.get(number).and_then(|waits| waits.commit.transaction);
        assert_eq!([transaction(0), transaction(1), transaction(399)], [None, Some(1), Some(399)]);
    }
}
