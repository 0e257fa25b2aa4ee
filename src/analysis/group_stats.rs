//! Sums over operations, for any grouping.

use super::completed_op::CompletedOp;
use super::histogram::Histogram;
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

impl GroupStats {
    /// Adds an operation.
    pub fn add(&mut self, done: &CompletedOp<'_>) {
        self.add_side(done, done.read(), done.written());
    }

    /// Adds an operation of which only these bytes belong here.
    pub fn add_side(&mut self, done: &CompletedOp<'_>, read: u64, written: u64) {
        self.count += 1;
        self.errors += u64::from(done.errno.is_some());
        self.read = self.read.saturating_add(read);
        self.written = self.written.saturating_add(written);
        self.time.add(done.ns());
        match done.io {
            IoClass::File => self.own += 1,
            IoClass::Waiting => self.waited = self.waited.saturating_add(done.ns()),
            IoClass::Unknown => {
                self.untyped += 1;
                self.untyped_ns = self.untyped_ns.saturating_add(done.ns());
            }
            IoClass::Nothing => {
                self.without_io += 1;
                self.without_io_ns = self.without_io_ns.saturating_add(done.ns());
            }
        }
        if done.bytes > 0 {
            self.sizes.add(done.bytes);
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
