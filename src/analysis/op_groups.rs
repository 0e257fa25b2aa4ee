//! Sums over operations by thread, or by file: each operation is in one group, so that the sums of
//! all groups are those of the recording.
//!
//! A transfer is in the group of the file that it reads; the group of the file that it writes has
//! the written bytes only.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::bounded_map::BoundedMap;
use super::completed_op::CompletedOp;
use super::group_stats::{GroupStats, OpAmounts};
use super::job_keys::CaptureKeys;
use crate::event::syscall_table::CallClass;
use crate::operation::Step;
use crate::operation::io_class::IoClass;
use crate::operation::model::{ThreadInfo, ThreadKey};
use crate::units::{DevId, Pid};

/// Dimension of groups that are no groups of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpDimension {
    /// Thread of the operation.
    Thread,
    /// Directory of the file.
    Directory,
    /// Mount of the file.
    Mount,
    /// Device of the file.
    Device,
}

/// Key of a group; directories, mounts and devices are groups of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpGroupKey {
    /// A thread.
    Thread(ThreadKey),
    /// Number of the file's row in the table of files, and its device number.
    File(usize, Option<DevId>),
    /// Files, pipes and similar without a name.
    Nameless(IoClass),
    /// No file.
    NoFile,
}

/// Rows of the files of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileRows {
    /// Row of the file with the name of the operation.
    pub(super) named: Option<usize>,
    /// Row of the file that a transfer writes.
    pub(super) target: Option<usize>,
}

/// A thread with a group.
#[derive(Clone, Debug)]
pub struct GroupedThread {
    /// The thread with its last name.
    pub info: ThreadInfo,
    /// Number of its process.
    pub pid: Pid,
}

/// Groups of operations.
#[derive(Clone, Debug)]
pub struct OpGroups {
    dimension: OpDimension,
    /// Sums of the groups.
    pub sums: BoundedMap<OpGroupKey, GroupStats>,
    /// Threads with a group.
    pub threads: FxHashMap<ThreadKey, GroupedThread>,
    /// Threads that run and have no group yet.
    alive: FxHashMap<ThreadKey, ThreadInfo>,
}

impl OpGroups {
    /// Returns groups of this dimension.
    pub fn new(dimension: OpDimension) -> Self {
        let (sums, threads, alive) = Default::default();
        Self { dimension, sums, threads, alive }
    }

    /// Returns the dimension of the groups.
    pub fn dimension(&self) -> OpDimension {
        self.dimension
    }

    /// Adds an operation.
    pub(super) fn add(&mut self, done: &CompletedOp<'_>, op: &OpAmounts, rows: FileRows) {
        if self.dimension == OpDimension::Thread {
            self.add_of_thread(done, op);
            return;
        }
        let is_transfer = done.class == CallClass::Transfer;
        let without_name = match done.is_nameless() || is_transfer {
            true => OpGroupKey::Nameless(done.io),
            false => OpGroupKey::NoFile,
        };
        let named = rows.named.map(|row| OpGroupKey::File(row, done.dev_of_name()));
        self.sum(named.unwrap_or(without_name)).add(op, done.sides());
        if is_transfer {
            let target = rows.target.map(|row| OpGroupKey::File(row, None));
            let sum = self.sum(target.unwrap_or(without_name));
            sum.written = sum.written.saturating_add(done.bytes);
        }
    }

    fn sum(&mut self, key: OpGroupKey) -> &mut GroupStats {
        self.sums.row(&key, || key)
    }

    fn add_of_thread(&mut self, done: &CompletedOp<'_>, op: &OpAmounts) {
        let key = OpGroupKey::Thread(done.thread);
        let (alive, threads) = (&mut self.alive, &mut self.threads);
        let sum = self.sums.row(&key, || {
            if let Some(info) = alive.remove(&done.thread) {
                threads.insert(done.thread, GroupedThread { info, pid: done.pid });
            }
            key
        });
        sum.add(op, done.moved());
    }

    /// Adds the groups of one more capture; `files` has the rows of its files in this fold.
    pub(super) fn absorb(
        &mut self,
        other: &Self,
        files: &BTreeMap<usize, usize>,
        keys: &mut CaptureKeys<'_>,
    ) {
        for (key, sum) in other.sums.iter() {
            let key = match *key {
                OpGroupKey::File(row, dev) => OpGroupKey::File(
                    files.get(&row).copied().unwrap_or(usize::MAX),
                    dev.map(|dev| keys.file_system(dev)),
                ),
                OpGroupKey::Thread(thread) => {
                    let of_job = keys.thread(thread);
                    if let Some(known) = other.threads.get(&thread) {
                        let process = keys.process(known.info.process);
                        let info = ThreadInfo { key: of_job, process, ..known.info.clone() };
                        self.threads.insert(of_job, GroupedThread { info, pid: known.pid });
                    }
                    OpGroupKey::Thread(of_job)
                }
                OpGroupKey::Nameless(_) | OpGroupKey::NoFile => *key,
            };
            self.sum(key).merge(sum);
        }
        if let Some(sum) = other.sums.others() {
            self.sums.at(usize::MAX).merge(sum);
        }
    }

    /// Takes the names in a step.
    pub(super) fn look(&mut self, step: &Step<'_>) {
        match step {
            _ if self.dimension != OpDimension::Thread => {}
            Step::ThreadSeen(info) | Step::ThreadRenamed(info) => {
                match self.threads.get_mut(&info.key) {
                    Some(thread) => thread.info = (*info).clone(),
                    None => drop(self.alive.insert(info.key, (*info).clone())),
                }
            }
            Step::ThreadEnded(info) => drop(self.alive.remove(&info.key)),
            _ => {}
        }
    }
}
