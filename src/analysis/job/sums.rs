//! Sums of the operations of a rank, a host or a job.

use crate::analysis::completed_op::CompletedOp;
use crate::operation::io_class::IoClass;

/// Sums of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankSums {
    /// Operations that ended.
    pub operations: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Bytes read and written by all of them, also on pipes and sockets.
    pub moved: [u64; 2],
    /// Time in them, ns.
    pub ns: u64,
    /// Operations on files.
    pub file_operations: u64,
    /// Bytes that these read and wrote.
    pub on_files: [u64; 2],
    /// Time in operations on files, ns.
    pub file_ns: u64,
    /// Operations on files that neither read nor write: open, stat, sync and the like.
    pub other_operations: u64,
    /// Time in these, ns.
    pub other_ns: u64,
}

impl RankSums {
    /// Adds an operation.
    pub(super) fn add(&mut self, done: &CompletedOp<'_>) {
        let is_on_file = done.io == IoClass::File;
        let moved = done.moved();
        self.merge(&Self {
            operations: 1,
            failed: u64::from(done.errno.is_some()),
            moved,
            ns: done.ns(),
            ..Self::default()
        });
        if is_on_file {
            let is_other = is_other(done);
            self.merge(&Self {
                file_operations: 1,
                on_files: moved,
                file_ns: done.ns(),
                other_operations: u64::from(is_other),
                other_ns: if is_other { done.ns() } else { 0 },
                ..Self::default()
            });
        }
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.failed += other.failed;
        add_each(&mut self.moved, &other.moved);
        self.ns = self.ns.saturating_add(other.ns);
        self.file_operations += other.file_operations;
        add_each(&mut self.on_files, &other.on_files);
        self.file_ns = self.file_ns.saturating_add(other.file_ns);
        self.other_operations += other.other_operations;
        self.other_ns = self.other_ns.saturating_add(other.other_ns);
    }

    /// Returns the bytes read from and written to files.
    pub fn file_bytes(&self) -> u64 {
        self.on_files.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// True for an operation that neither reads nor writes.
pub(super) fn is_other(done: &CompletedOp<'_>) -> bool {
    done.ways() == [false; 2]
}

/// Adds numbers to sums at the same places.
pub(super) fn add_each(sums: &mut [u64], more: &[u64]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
}

/// Amounts of a line of the map in one column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapCell {
    /// Bytes read from and written to files.
    pub moved: [u64; 2],
    /// Operations on files that neither read nor write.
    pub other_operations: u64,
    /// Time in operations on files, ns.
    pub ns: u64,
}

impl MapCell {
    /// Adds another cell.
    pub fn merge(&mut self, other: &Self) {
        add_each(&mut self.moved, &other.moved);
        self.other_operations += other.other_operations;
        self.ns = self.ns.saturating_add(other.ns);
    }
}
