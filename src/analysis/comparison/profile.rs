//! Profile of a run: the sums by which runs are compared.

use std::collections::BTreeMap;

use crate::analysis::group_stats::GroupStats;
use crate::analysis::summary::{DeviceSummary, IoSummary, KeyParts};
use crate::event::block::RequestOp;
use crate::operation::io_class::IoClass;
use crate::units::DevId;

/// Property by which operations are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dimension {
    /// Kind of operation.
    Call,
    /// Name of the program.
    Program,
    /// Directory of the file.
    Directory,
    /// Path of the file.
    File,
    /// Disk, and the direction of its requests.
    Device,
}

impl Dimension {
    /// All dimensions, in the order of reports.
    pub const ALL: [Self; 5] =
        [Self::Call, Self::Program, Self::Directory, Self::File, Self::Device];
}

/// Count of which two runs of a program that does the same have the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CountMetric {
    /// Operations, or requests of a disk.
    Operations,
    /// Operations that failed.
    Failed,
    /// Bytes read.
    Read,
    /// Bytes written.
    Written,
}

impl CountMetric {
    /// All counts, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Operations, Self::Failed, Self::Read, Self::Written];

    /// Key of the count in data.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Failed => "failed",
            Self::Read => "read_bytes",
            Self::Written => "written_bytes",
        }
    }

    /// True if the value is a number of bytes.
    pub fn is_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Written)
    }
}

/// Sums over the operations of a group in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunAmounts {
    /// Operations that ended, or requests that a disk completed.
    pub operations: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Time in them, ns, without the time on pipes, sockets and terminals.
    pub time_ns: u64,
}

impl RunAmounts {
    /// Returns the amounts of a group.
    pub fn of(stats: &GroupStats) -> Self {
        Self {
            operations: stats.count,
            failed: stats.errors,
            read: stats.read,
            written: stats.written,
            time_ns: stats.time.sum().saturating_sub(stats.waited),
        }
    }

    /// Returns the amounts of a disk's requests of one kind.
    fn of_requests(operation: RequestOp, requests: &DeviceSummary) -> Self {
        let is_read = operation == RequestOp::Read;
        let [read, written] = if is_read { [requests.bytes, 0] } else { [0, requests.bytes] };
        let (operations, failed) = (requests.requests, requests.errors);
        Self { operations, failed, read, written, time_ns: requests.device.sum() }
    }

    /// Returns one of the counts.
    pub fn count(&self, metric: CountMetric) -> u64 {
        match metric {
            CountMetric::Operations => self.operations,
            CountMetric::Failed => self.failed,
            CountMetric::Read => self.read,
            CountMetric::Written => self.written,
        }
    }

    /// Returns all counts.
    pub fn counts(&self) -> [u64; 4] {
        CountMetric::ALL.map(|metric| self.count(metric))
    }

    /// Adds the amounts of another group.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.operations, other.operations),
            (&mut self.failed, other.failed),
            (&mut self.read, other.read),
            (&mut self.written, other.written),
            (&mut self.time_ns, other.time_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Sums of one run by all dimensions.
#[derive(Clone, Debug, Default)]
pub struct RunProfile {
    rows: BTreeMap<Dimension, BTreeMap<Vec<u8>, RunAmounts>>,
    /// Sum over all operations.
    pub total: RunAmounts,
    /// Time from the beginning of the launched program to its end, ns, if there was one.
    pub program_ns: Option<u64>,
    /// True if operations have no row of their own, because there were too many files or processes.
    pub has_further: bool,
}

impl RunProfile {
    /// Returns the profile of a summary; `disks` has the names of its disks.
    pub fn of(fold: &IoSummary, disks: &[(DevId, String)], program_ns: Option<u64>) -> Self {
        let mut profile =
            Self { program_ns, total: RunAmounts::of(&fold.all()), ..Self::default() };
        for ((what, io), stats) in fold.calls() {
            let key = call_key(&what.to_string(), io.as_str());
            profile.add(Dimension::Call, key.as_bytes(), &RunAmounts::of(stats));
        }
        for (process, sum) in fold.processes.iter() {
            let info = fold.names.info(*process);
            let name = info.map_or(&b"(unknown)"[..], |info| info.comm.as_slice());
            profile.add(Dimension::Program, name, &RunAmounts::of(&sum.tally));
        }
        for (key, stats) in fold.files.iter() {
            profile.add(Dimension::File, KeyParts::of(key).path, &RunAmounts::of(stats));
        }
        for ((device, operation), requests) in &fold.devices {
            let name = disks.iter().find(|(known, _)| known == device);
            let name = name.map_or_else(|| device.to_string(), |(_, name)| name.clone());
            let amounts = RunAmounts::of_requests(*operation, requests);
            profile.add(Dimension::Device, device_key(&name, &operation.to_string()), &amounts);
        }
        let further = [fold.files.others().is_some(), fold.processes.others().is_some()];
        profile.has_further = further.contains(&true);
        profile
    }

    /// Adds the amounts of a group.
    pub fn add(&mut self, dimension: Dimension, key: impl AsRef<[u8]>, amounts: &RunAmounts) {
        let key = key.as_ref();
        self.rows.entry(dimension).or_default().entry(key.to_vec()).or_default().add(amounts);
    }

    /// Returns the profile with these names of files, and with the sums of their directories.
    #[must_use]
    pub fn with_file_names(&self, name: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let mut profile = self.clone();
        profile.rows.remove(&Dimension::File);
        for (key, amounts) in self.rows(Dimension::File) {
            let key = name(key);
            if let Some(directory) = directory_of(&key) {
                profile.add(Dimension::Directory, directory, amounts);
            }
            profile.add(Dimension::File, key, amounts);
        }
        profile
    }

    /// Returns the groups of a dimension, in the order of their keys.
    pub fn rows(&self, dimension: Dimension) -> impl Iterator<Item = (&[u8], &RunAmounts)> {
        let rows = self.rows.get(&dimension).into_iter().flatten();
        rows.map(|(key, amounts)| (key.as_slice(), amounts))
    }

    /// Returns the amounts of a group; zeros if the run has no such group.
    pub fn amounts(&self, dimension: Dimension, key: &[u8]) -> RunAmounts {
        let row = self.rows.get(&dimension).and_then(|rows| rows.get(key));
        row.copied().unwrap_or_default()
    }
}

/// Key of a kind of operation: its name, and its class if that is not files.
pub fn call_key(operation: &str, class: &str) -> String {
    match class {
        _ if class == IoClass::File.as_str() => operation.to_owned(),
        _ if class == IoClass::Waiting.as_str() => format!("{operation} (pipes, sockets, …)"),
        _ if class == IoClass::Unknown.as_str() => format!("{operation} (unknown type)"),
        _ => format!("{operation} (no I/O)"),
    }
}

/// Name of the operation in a key of [`call_key`].
pub fn operation_of(key: &[u8]) -> &str {
    let name = key.split(|byte| *byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(name).unwrap_or_default()
}

/// Key of the requests of a disk in one direction.
pub fn device_key(name: &str, operation: &str) -> String {
    format!("{name} {operation}")
}

/// Directory of an absolute path.
fn directory_of(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|byte| *byte == b'/').filter(|_| path.starts_with(b"/"))?;
    path.get(..slash.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_counts_for_its_directory() {
        let mut profile = RunProfile::default();
        let one = RunAmounts { operations: 1, read: 10, ..RunAmounts::default() };
        for path in ["/a/b/x", "/a/b/y", "/z", "pipe:[7]"] {
            profile.add(Dimension::File, path, &one);
        }
        let profile = profile.with_file_names(<[u8]>::to_vec);
        let directories: Vec<_> = profile.rows(Dimension::Directory).collect();
        let two = RunAmounts { operations: 2, read: 20, ..RunAmounts::default() };
        assert_eq!(directories, [(&b"/"[..], &one), (b"/a/b", &two)]);
        assert_eq!(profile.amounts(Dimension::File, b"/a/b/x"), one);
        assert_eq!(profile.amounts(Dimension::File, b"/a/b"), RunAmounts::default());
    }
}
