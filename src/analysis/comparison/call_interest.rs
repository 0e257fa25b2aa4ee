//! Order of kinds of operations for a reader of differences.

use super::profile::CountMetric;
use crate::analysis::completed_op::OpKind;
use crate::event::syscall_table::CallClass;

/// Interest of a reader in a count of a kind of operation, the greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallInterest {
    /// Opens of files.
    Open,
    /// Opens that failed.
    FailedOpen,
    /// Calls that read.
    Read,
    /// Calls that write, and copies inside the kernel.
    Write,
    /// Writes of cached data to the device.
    Sync,
    /// Removed files.
    Remove,
    /// Renamed files.
    Rename,
    /// Changes of files and their names in another way.
    Change,
    /// Queries of files and directories.
    Query,
    /// All that does neither: positions, descriptors, mappings, processes, …
    Housekeeping,
}

impl CallInterest {
    /// Returns the interest in a count of the kind of operation with this name in outputs.
    pub fn of(operation: &str, metric: CountMetric) -> Self {
        match (OpKind::by_name(operation).map(OpKind::class), metric) {
            (Some(CallClass::Open), CountMetric::Failed) => Self::FailedOpen,
            (Some(class), _) => Self::of_class(class),
            (None, _) => Self::Housekeeping,
        }
    }

    fn of_class(class: CallClass) -> Self {
        match class {
            CallClass::Open => Self::Open,
            CallClass::Read => Self::Read,
            CallClass::Write | CallClass::Transfer | CallClass::Pipe => Self::Write,
            CallClass::Sync => Self::Sync,
            CallClass::Remove => Self::Remove,
            CallClass::Rename => Self::Rename,
            CallClass::Name | CallClass::Resize | CallClass::Attribute => Self::Change,
            CallClass::Stat | CallClass::List => Self::Query,
            _ => Self::Housekeeping,
        }
    }

    /// Returns true for operations that work on files, and do not only ask or prepare.
    pub fn is_work(self) -> bool {
        self < Self::Query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a query or a preparation comes before work on files.
    #[test]
    fn opens_are_first_and_positions_last() {
        let of = |name| CallInterest::of(name, CountMetric::Operations);
        let names = ["openat", "pread64", "write", "fdatasync", "unlink", "renameat2", "mkdir"];
        let order: Vec<_> =
            names.map(of).into_iter().chain([of("newfstat"), of("lseek")]).collect();
        assert!(order.is_sorted_by(|first, second| first < second), "{order:?}");
        assert_eq!(CallInterest::of("openat", CountMetric::Failed), CallInterest::FailedOpen);
        assert_eq!([of("io_uring:WRITE"), of("aio:PREAD")], [of("write"), of("read")]);
        assert_eq!([of("close"), of("no such call")], [CallInterest::Housekeeping; 2]);
        assert_eq!(["newstat", "fsync"].map(|name| of(name).is_work()), [false, true]);
    }
}
