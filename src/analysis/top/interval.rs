//! Closed interval.

use std::sync::Arc;

use super::amounts::TopAmounts;
use crate::analysis::completed_op::{NamedPath, OpKind};
use crate::analysis::summary::file_key;
use crate::operation::io_class::IoClass;
use crate::operation::model::{ProcessInfo, ProcessKey};
use crate::units::{DevId, KernelTime, Pid, Tid};

/// File of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TopFile {
    /// Key of a file ([`file_key`]).
    Named(Arc<[u8]>),
    /// Files of this class without a known name.
    Nameless(IoClass),
}

impl TopFile {
    /// Returns the file with this name.
    pub(super) fn of(name: &NamedPath<'_>) -> Self {
        Self::Named(file_key(name).into())
    }
}

/// Process and one of its files.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopPair {
    /// The process.
    pub process: ProcessKey,
    /// The file.
    pub file: TopFile,
}

/// Properties of a process, as they were at the end of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopProcess {
    /// Incarnation of the process.
    pub key: ProcessKey,
    /// Process number.
    pub pid: Pid,
    /// Name of its first thread.
    pub comm: Vec<u8>,
    /// Arguments, each with a NUL at its end; `None`: not known.
    pub command: Option<Arc<[u8]>>,
    /// Path of its control group; `None`: not known.
    pub cgroup: Option<Arc<[u8]>>,
}

impl TopProcess {
    /// Returns the properties of a process.
    pub(super) fn of(info: &ProcessInfo) -> Self {
        let (command, cgroup) = (info.command.clone(), info.cgroup.clone());
        Self { key: info.key, pid: info.pid, comm: info.comm.clone(), command, cgroup }
    }
}

/// Operation of a process on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopOperation {
    /// Kind of the operation.
    pub what: OpKind,
    /// Thread number.
    pub tid: Tid,
    /// Time of its end.
    pub end: KernelTime,
    /// Duration, ns.
    pub ns: u64,
    /// Position of its first byte, in bytes; `None`: not known, or there is none.
    pub offset: Option<u64>,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Error number (positive), if it failed.
    pub errno: Option<i32>,
}

/// Sums of one interval. Each row has at least one operation.
#[derive(Clone, Debug, Default)]
pub struct TopInterval {
    /// Begin of the interval.
    pub start: KernelTime,
    /// End of the interval.
    pub end: KernelTime,
    /// Sum of all operations.
    pub all: TopAmounts,
    /// Rows of processes.
    pub processes: Vec<(ProcessKey, TopAmounts)>,
    /// Operations of processes beyond the limit of an interval.
    pub other_processes: TopAmounts,
    /// Rows of the files of each process. A transfer counts for both of its files.
    pub pairs: Vec<(TopPair, TopAmounts)>,
    /// Operations on files beyond the limit of an interval.
    pub other_pairs: TopAmounts,
    /// Rows of kinds of operations.
    pub calls: Vec<((OpKind, IoClass), TopAmounts)>,
    /// Rows of devices: completed requests, and their time in driver and device.
    pub devices: Vec<(DevId, TopAmounts)>,
    /// Processes with rows.
    pub known: Vec<TopProcess>,
    /// Processes that have ended, of those that had a row in this interval or an earlier one.
    pub ended: Vec<ProcessKey>,
    /// Last operations on files, in the order of their ends.
    pub operations: Vec<(TopPair, TopOperation)>,
    /// Records that the kernel dropped.
    pub lost: u64,
}

impl TopInterval {
    /// Returns the duration, ns; at least 1.
    pub fn duration_ns(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0).max(1)
    }
}
