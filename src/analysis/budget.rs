//! Counts that a budget limits: of all operations, or of those on some files or by some programs.

use std::convert::Infallible;

use super::completed_op::{CompletedOp, OpKind};
use super::files::FileTotals;
use super::filter::{Filter, Globs, Picker};
use crate::event::syscall_table::{Call, CallClass};
use crate::operation::io_class::IoClass;
use crate::operation::{Sink, Step};
use crate::units::{KernelTime, counted, counted_with};

/// Count that may have a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetMetric {
    /// Opens that succeeded.
    Opens,
    /// Opens that failed.
    FailedOpens,
    /// All operations.
    Operations,
    /// Operations that failed.
    Failed,
    /// Operations that write cached data to a disk: fsync and its relatives.
    Fsyncs,
    /// Bytes read.
    ReadBytes,
    /// Bytes read that had been read before.
    RereadBytes,
    /// Bytes written.
    WrittenBytes,
    /// Files with different names.
    DistinctFiles,
}

impl BudgetMetric {
    /// All counts, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Opens,
        Self::FailedOpens,
        Self::Operations,
        Self::Failed,
        Self::Fsyncs,
        Self::ReadBytes,
        Self::RereadBytes,
        Self::WrittenBytes,
        Self::DistinctFiles,
    ];

    /// Returns the key of the count in a budget.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opens => "opens",
            Self::FailedOpens => "failed_opens",
            Self::Operations => "operations",
            Self::Failed => "failed_operations",
            Self::Fsyncs => "fsyncs",
            Self::ReadBytes => "read_bytes",
            Self::RereadBytes => "reread_bytes",
            Self::WrittenBytes => "written_bytes",
            Self::DistinctFiles => "distinct_files",
        }
    }

    /// True if the count is wrong where a file has no known name or an access no known position.
    pub fn depends_on_names(self) -> bool {
        matches!(self, Self::RereadBytes | Self::DistinctFiles)
    }

    /// True if the value is a number of bytes.
    pub fn is_bytes(self) -> bool {
        matches!(self, Self::ReadBytes | Self::RereadBytes | Self::WrittenBytes)
    }
}

/// True for the calls that open a file by its path: not `open_tree`, which makes a mount, or
/// `memfd_create`.
pub fn is_open(call: &Call) -> bool {
    call.opens_files() && call.has_path()
}

/// True for an operation on a file whose path is not known as a whole.
fn is_unplaced(done: &CompletedOp<'_>) -> bool {
    let is_relative = done.name.is_some_and(|name| !name.path.starts_with(b"/"));
    let is_file = matches!(done.io, IoClass::File | IoClass::Unknown);
    is_file && (done.is_nameless() || is_relative)
}

fn operations(count: u64) -> String {
    counted(count, "operation")
}

/// Operations that a limit is about.
#[derive(Clone, Debug, Default)]
pub struct BudgetScope {
    /// Patterns of files; `None`: operations on any file, or none.
    pub files: Option<Globs>,
    /// Patterns of programs; `None`: any.
    pub programs: Option<Globs>,
}

/// Counts of one scope.
#[derive(Debug)]
pub struct BudgetCounts {
    files: Option<Globs>,
    /// Selects operations by all conditions.
    picker: Picker,
    /// Selects operations by all conditions but the file.
    of_any_file: Picker,
    totals: FileTotals,
    opens: [u64; 2],
    operations: [u64; 2],
    fsyncs: u64,
    moved: [u64; 2],
    /// Operations on files whose path is not known, which may be in the scope.
    nameless: u64,
    /// Operations on files whose name may be another file's, in the scope or not.
    doubtful: u64,
    /// Calls of io_uring and libaio, whose operations have no calls of their own.
    asynchronous_calls: u64,
}

impl BudgetCounts {
    /// Creates the counts of a scope.
    pub fn new(scope: BudgetScope) -> Self {
        let BudgetScope { files, programs } = scope;
        let by_program = Filter { comms: programs, ..Filter::default() };
        Self {
            picker: Picker::new(Filter { files: files.clone(), ..by_program.clone() }),
            of_any_file: Picker::new(by_program),
            files,
            totals: FileTotals::default(),
            opens: [0; 2],
            operations: [0; 2],
            fsyncs: 0,
            moved: [0; 2],
            nameless: 0,
            doubtful: 0,
            asynchronous_calls: 0,
        }
    }

    fn step(&mut self, time: KernelTime, step: &Step<'_>) {
        let is_of_any_file = self.of_any_file.wants(step);
        let done = CompletedOp::of(step);
        if let Some(done) = done.as_ref().filter(|_| is_of_any_file) {
            self.nameless += u64::from(is_unplaced(done));
            self.doubtful += u64::from(done.name.is_some_and(|name| name.is_doubtful));
            self.asynchronous_calls += u64::from(done.class == CallClass::Async);
        }
        if !self.picker.wants(step) {
            return;
        }
        // The fold cannot fail.
        let Ok(()) = self.totals.step(time, step);
        let Some(done) = done else { return };
        let has_failed = done.errno.is_some();
        let at = usize::from(has_failed);
        self.operations[0] += 1;
        self.operations[1] += u64::from(has_failed);
        let is_open = match done.what {
            OpKind::Call(call) => is_open(call.call()),
            OpKind::Async(opcode) => opcode.class() == CallClass::Open,
        };
        self.opens[at] += u64::from(is_open);
        self.fsyncs += u64::from(done.class == CallClass::Sync);
        let moved = self.bytes_of(&done);
        for (sum, bytes) in self.moved.iter_mut().zip(moved) {
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Bytes that an operation read and wrote in the scope. Of a transfer each side is a file of
    /// its own.
    fn bytes_of(&self, done: &CompletedOp<'_>) -> [u64; 2] {
        let Some(files) = self.files.as_ref().filter(|_| done.class == CallClass::Transfer) else {
            return done.moved();
        };
        let sides = [&done.name, &done.target];
        sides.map(|side| {
            let is_in = files.selects(side.as_ref().map(|name| name.path));
            if is_in { done.bytes } else { 0 }
        })
    }

    /// Returns a count.
    pub fn value(&self, metric: BudgetMetric) -> u64 {
        match metric {
            BudgetMetric::Opens => self.opens[0],
            BudgetMetric::FailedOpens => self.opens[1],
            BudgetMetric::Operations => self.operations[0],
            BudgetMetric::Failed => self.operations[1],
            BudgetMetric::Fsyncs => self.fsyncs,
            BudgetMetric::ReadBytes => self.moved[0],
            BudgetMetric::WrittenBytes => self.moved[1],
            BudgetMetric::RereadBytes => {
                let again = self.totals.files.iter().map(|(_, file)| file.read.again);
                again.fold(0, u64::saturating_add)
            }
            BudgetMetric::DistinctFiles => self.named_files().count() as u64,
        }
    }

    /// Returns the number of calls of io_uring and libaio.
    pub fn asynchronous_calls(&self) -> u64 {
        self.asynchronous_calls
    }

    /// Files of the scope. The other side of a transfer may be another file.
    fn named_files(&self) -> impl Iterator<Item = &Vec<u8>> {
        let is_in = |key: &&Vec<u8>| {
            let path = key.split(|byte| *byte == 0).next();
            self.files.as_ref().is_none_or(|files| files.selects(path))
        };
        self.totals.files.iter().map(|(key, _)| key).filter(is_in)
    }

    /// Returns the reason why a count may be wrong; `None`: it is exact, if the recording is whole.
    pub fn doubt(&self, metric: BudgetMetric) -> Option<String> {
        let depends_on_names = self.files.is_some() || metric.depends_on_names();
        if self.nameless > 0 && depends_on_names {
            return Some(format!("{} on files without a known path", operations(self.nameless)));
        }
        if self.doubtful > 0 && depends_on_names {
            return Some(format!("{} with an unverified name", operations(self.doubtful)));
        }
        let has_further = self.totals.files.others().is_some();
        match metric {
            BudgetMetric::DistinctFiles if has_further => {
                Some("more files than are counted one by one".to_owned())
            }
            BudgetMetric::RereadBytes => {
                // Pipes and sockets have no positions.
                let files = self.totals.files.iter().filter(|(key, _)| key.starts_with(b"/"));
                let unknown = files.map(|(_, file)| file.read.unknown);
                let unknown: u64 = unknown.fold(0, u64::saturating_add);
                let text = counted_with(
                    unknown,
                    "byte",
                    ["was read at an unknown position", "were read at an unknown position"],
                );
                (unknown > 0 || has_further).then_some(text)
            }
            _ => None,
        }
    }
}

/// Fold of a budget: the counts of its scopes, in their order.
#[derive(Debug)]
pub struct BudgetFold(pub Vec<BudgetCounts>);

impl Sink for BudgetFold {
    type Error = Infallible;
    const USES_BEGINS: bool = false;

    fn step(&mut self, time: KernelTime, step: &Step<'_>) -> Result<(), Infallible> {
        self.0.iter_mut().for_each(|counts| counts.step(time, step));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::operation::model::{FilePath, OpenFile, PathSource};
    use crate::operation::test_fixtures::call;

    fn file(path: Option<&str>, source: PathSource) -> Arc<OpenFile> {
        let path = path.map(|path| FilePath::new(path, source));
        let (first_path, given, stat, flags) = (None, None, None, None);
        Arc::new(OpenFile { id: 0, path, first_path, given, stat, flags, pre_created: false })
    }

    fn counts(files: &[&str], steps: &[(&str, Arc<OpenFile>, i64)]) -> BudgetCounts {
        let words: Vec<String> = files.iter().map(|word| (*word).to_owned()).collect();
        let files = Globs::of_paths(&words).expect("patterns");
        let mut counts = BudgetCounts::new(BudgetScope { files, programs: None });
        for (place, (name, file, ret)) in steps.iter().enumerate() {
            let begin = place as u64 * 10;
            let operation = call(name, Arc::clone(file), [begin, begin + 5], Some(0), *ret);
            counts.step(KernelTime(begin + 5), &Step::SyscallEnded(&operation, &[]));
        }
        counts
    }

    #[test]
    fn each_count_has_its_operations() {
        let link = |path| file(Some(path), PathSource::Link);
        let steps = [
            ("openat", link("/a/x"), 3),
            ("openat", link("/a/none"), -2),
            ("read", link("/a/x"), 10),
            ("read", link("/a/x"), 10),
            ("write", link("/b/y"), 7),
            ("fsync", link("/b/y"), 0),
        ];
        let all = counts(&[], &steps);
        let values = BudgetMetric::ALL.map(|metric| all.value(metric));
        assert_eq!(values, [1, 1, 6, 1, 1, 20, 10, 7, 3]);
        let some = counts(&["/b/"], &steps);
        let values = BudgetMetric::ALL.map(|metric| some.value(metric));
        assert_eq!(values, [0, 0, 2, 0, 1, 0, 0, 7, 1]);
        assert_eq!(BudgetMetric::ALL.map(|metric| some.doubt(metric)), [const { None }; 9]);
    }

    #[test]
    fn names_that_are_not_known_are_a_doubt_of_a_scope_with_files() {
        let steps = [("read", file(None, PathSource::Link), 10)];
        assert_eq!(counts(&[], &steps).doubt(BudgetMetric::ReadBytes), None);
        let of_files = counts(&["/a/"], &steps);
        assert_eq!(of_files.value(BudgetMetric::ReadBytes), 0);
        assert!(
            of_files.doubt(BudgetMetric::ReadBytes).is_some_and(|text| text.starts_with("1 op"))
        );
        let steps = [("read", file(Some("/a/x"), PathSource::Unverified), 10)];
        assert!(counts(&["/a/"], &steps).doubt(BudgetMetric::Opens).is_some());
        assert!(counts(&[], &steps).doubt(BudgetMetric::DistinctFiles).is_some());
        assert_eq!(counts(&[], &steps).doubt(BudgetMetric::Opens), None);
        // The file may be one of the scope, whatever its name.
        assert!(counts(&["/b/"], &steps).doubt(BudgetMetric::Opens).is_some());
        let steps = [("openat", file(Some("passwd"), PathSource::Link), 3)];
        assert!(counts(&["/etc/"], &steps).doubt(BudgetMetric::Opens).is_some());
    }
}
