//! Amounts of a row.

use crate::analysis::completed_op::CompletedOp;
use crate::operation::io_class::IoClass;

/// Sums over operations, or over requests of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopAmounts {
    /// Operations that ended.
    pub count: u64,
    /// Operations that failed. Part of `count`.
    pub errors: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Operations on files. Part of `count`.
    pub io_count: u64,
    /// Time of these operations, ns.
    pub io_ns: u64,
    /// Time of operations on pipes, sockets, terminals and similar, ns.
    pub waited_ns: u64,
    /// Time of operations on descriptors of unknown type, ns.
    pub unknown_ns: u64,
}

impl TopAmounts {
    /// Returns the amounts of an operation of which these bytes, read and written, belong to a row.
    pub(super) fn of(done: &CompletedOp<'_>, [read, written]: [u64; 2]) -> Self {
        let ns = done.ns();
        let (io_count, [io_ns, waited_ns, unknown_ns]) = match done.io {
            IoClass::File => (1, [ns, 0, 0]),
            IoClass::Waiting => (0, [0, ns, 0]),
            IoClass::Unknown => (0, [0, 0, ns]),
            IoClass::Nothing => (0, [0; 3]),
        };
        let errors = u64::from(done.errno.is_some());
        Self { count: 1, errors, read, written, io_count, io_ns, waited_ns, unknown_ns }
    }

    /// Adds other amounts.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.errors += other.errors;
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
        self.io_count += other.io_count;
        self.io_ns = self.io_ns.saturating_add(other.io_ns);
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
        self.unknown_ns = self.unknown_ns.saturating_add(other.unknown_ns);
    }

    /// Returns the mean duration of operations on files, ns; `None`: there were none.
    pub fn mean_ns(&self) -> Option<u64> {
        self.io_ns.checked_div(self.io_count)
    }

    /// Returns the time of operations that are not on files, or may not be, ns.
    pub fn elsewhere_ns(&self) -> u64 {
        self.waited_ns.saturating_add(self.unknown_ns)
    }
}
