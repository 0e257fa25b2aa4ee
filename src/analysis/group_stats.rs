//! Sums over operations, for any grouping.

use super::completed_op::CompletedOp;
use super::histogram::{Histogram, PlacedValue};
use crate::operation::io_class::IoClass;

/// Sum over operations.
#[derive(Clone, Debug, Default)]
pub struct GroupStats {
    /// Operations that ended; page faults are not included.
    pub count: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Bytes read from files.
    pub read: u64,
    /// Bytes written to files.
    pub written: u64,
    /// Operations whose file's name is doubtful.
    pub doubtful: u64,
    /// Time of operations on pipes, sockets, terminals and similar, ns: mostly waiting for other
    /// programs. Part of `time`.
    pub waited: u64,
    /// Operations on descriptors of unknown type. Part of `count`.
    pub untyped: u64,
    /// Time of operations on descriptors of unknown type, ns. Part of `time`.
    pub untyped_ns: u64,
    /// Operations that are not I/O. Part of `count`.
    pub without_io: u64,
    /// Time of operations that are not I/O, ns. Part of `time`.
    pub without_io_ns: u64,
    /// Operations on files. Part of `count`.
    pub own: u64,
    /// Durations from beginning to end, ns.
    pub time: Histogram,
    /// Sizes of the operations that moved bytes.
    pub sizes: Histogram,
}

/// Amounts of an operation, for additions to several sums.
#[derive(Clone, Copy, Debug)]
pub struct OpAmounts {
    io: IoClass,
    has_failed: bool,
    ns: u64,
    bytes: u64,
    /// Duration and bytes with their places in a histogram.
    placed: (PlacedValue, PlacedValue),
}

impl OpAmounts {
    /// Returns the amounts of an operation.
    pub fn of(done: &CompletedOp<'_>) -> Self {
        let (ns, bytes) = (done.ns(), done.bytes);
        let placed = (PlacedValue::of(ns), PlacedValue::of(bytes));
        Self { io: done.io, has_failed: done.errno.is_some(), ns, bytes, placed }
    }
}

impl OpAmounts {
    /// Returns the duration and the bytes with their places in a histogram.
    pub(super) fn placed(&self) -> &(PlacedValue, PlacedValue) {
        &self.placed
    }
}

impl GroupStats {
    /// Adds an operation of which these bytes, read and written, belong here.
    pub fn add(&mut self, op: &OpAmounts, [read, written]: [u64; 2]) {
        self.count += 1;
        self.errors += u64::from(op.has_failed);
        self.read = self.read.saturating_add(read);
        self.written = self.written.saturating_add(written);
        self.time.add_placed(&op.placed.0);
        match op.io {
            IoClass::File => self.own += 1,
            IoClass::Waiting => self.waited = self.waited.saturating_add(op.ns),
            IoClass::Unknown => {
                self.untyped += 1;
                self.untyped_ns = self.untyped_ns.saturating_add(op.ns);
            }
            IoClass::Nothing => {
                self.without_io += 1;
                self.without_io_ns = self.without_io_ns.saturating_add(op.ns);
            }
        }
        if op.bytes > 0 {
            self.sizes.add_placed(&op.placed.1);
        }
    }

    /// Returns the time of the operations on files, ns.
    pub fn own_time(&self) -> u64 {
        let others = [self.waited, self.untyped_ns, self.without_io_ns];
        others.iter().fold(self.time.sum(), |left, it| left.saturating_sub(*it))
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.errors += other.errors;
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
        self.doubtful += other.doubtful;
        self.waited = self.waited.saturating_add(other.waited);
        self.untyped += other.untyped;
        self.untyped_ns = self.untyped_ns.saturating_add(other.untyped_ns);
        self.without_io += other.without_io;
        self.without_io_ns = self.without_io_ns.saturating_add(other.without_io_ns);
        self.own += other.own;
        self.time.merge(&other.time);
        self.sizes.merge(&other.sizes);
    }
}
