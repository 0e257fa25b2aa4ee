//! I/O on files of each process: when its first operation began and its last one ended, its bytes,
//! and its time on each file.

use rustc_hash::FxHashMap;

use super::bounded_map::BoundedMap;
use super::completed_op::CompletedOp;
use super::file_key::place_of;
use super::recent_rows::RecentRows;
use crate::operation::io_class::IoClass;
use crate::operation::model::ProcessKey;
use crate::units::KernelTime;

/// Times between which a process did I/O on files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActiveSpan {
    /// Beginning of the first operation; `None`: there was none.
    pub first: Option<KernelTime>,
    /// End of the last operation.
    pub last: Option<KernelTime>,
}

impl ActiveSpan {
    /// Adds a time span.
    pub fn add(&mut self, other: Self) {
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = self.last.max(other.last);
    }
}

/// I/O of a process on files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileActivity {
    /// Times between which it was.
    pub span: ActiveSpan,
    /// Bytes read and written.
    pub bytes: u64,
}

/// Numbers of the rows of an operation.
#[derive(Clone, Copy, Debug)]
struct SpanRows {
    process: usize,
    file: Option<usize>,
}

/// Fold of the activity of processes.
#[derive(Debug, Default)]
pub struct RankActivity {
    /// I/O on files by process.
    pub processes: BoundedMap<ProcessKey, FileActivity>,
    /// Names of files ([`super::file_key::file_key`]).
    pub files: BoundedMap<Vec<u8>, ()>,
    /// Time of each process on each file, by the number of its row, ns.
    times: BoundedMap<(ProcessKey, usize), u64>,
    recent: RecentRows<SpanRows>,
}

impl RankActivity {
    /// Adds an operation.
    pub(super) fn done(&mut self, done: &CompletedOp<'_>) {
        if done.io != IoClass::File {
            return;
        }
        let rows = self.rows_of(done);
        let span = ActiveSpan { first: Some(done.start), last: Some(done.end) };
        let process = self.processes.at(rows.process);
        process.span.add(span);
        let bytes = done.moved().iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        process.bytes = process.bytes.saturating_add(bytes);
        if let Some(row) = rows.file {
            let time = self.times.at(row);
            *time = time.saturating_add(done.ns());
        }
    }

    fn rows_of(&mut self, done: &CompletedOp<'_>) -> SpanRows {
        self.recent.rows(done, || SpanRows {
            process: self.processes.place(&done.process, || done.process),
            file: done.name.as_ref().map(|name| {
                let key = (done.process, place_of(&mut self.files, name));
                self.times.place(&key, || key)
            }),
        })
    }

    /// Returns for each group of processes the row of the file with the most time, and that time,
    /// ns.
    pub fn busiest_files<G: Copy + Eq + std::hash::Hash>(
        &self,
        group: impl Fn(ProcessKey) -> G,
    ) -> FxHashMap<G, (usize, u64)> {
        let mut sums: FxHashMap<(G, usize), u64> = FxHashMap::default();
        for ((process, file), ns) in self.times.iter().filter(|((_, file), _)| *file != usize::MAX)
        {
            let sum = sums.entry((group(*process), *file)).or_default();
            *sum = sum.saturating_add(*ns);
        }
        let mut busiest: FxHashMap<G, (usize, u64)> = FxHashMap::default();
        for ((group, file), ns) in sums {
            let most = busiest.entry(group).or_insert((file, ns));
            // Of two files with the same time the first one that was used.
            if (ns, std::cmp::Reverse(file)) > (most.1, std::cmp::Reverse(most.0)) {
                *most = (file, ns);
            }
        }
        busiest
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::operation::Step;
    use crate::operation::model::{FilePath, OpenFile, PathSource};
    use crate::operation::test_fixtures::call;

    #[test]
    fn span_and_busiest_file_are_those_of_all_operations() {
        let open = |path: &str| {
            let path = Some(FilePath::new(path, PathSource::Link));
            let (first_path, given, stat, flags) = (None, None, None, None);
            Arc::new(OpenFile { id: 0, path, first_path, given, stat, flags, pre_created: false })
        };
        let (one, other) = (open("/one"), open("/other"));
        let mut fold = RankActivity::default();
        for (file, times) in [(&one, [5, 9]), (&other, [20, 23]), (&one, [30, 31])] {
            let operation = call("read", Arc::clone(file), times, None, 3);
            let step = Step::SyscallEnded(&operation, &[]);
            fold.done(&CompletedOp::of(&step).expect("it has ended"));
        }
        let found: Vec<FileActivity> = fold.processes.iter().map(|(_, found)| *found).collect();
        let span = ActiveSpan { first: Some(KernelTime(5)), last: Some(KernelTime(31)) };
        assert_eq!(found, [FileActivity { span, bytes: 9 }]);
        let busiest = fold.busiest_files(|_| ());
        let (row, ns) = busiest[&()];
        let path = fold.files.keys().find(|(_, place)| *place == row).map(|(key, _)| key.clone());
        assert_eq!((path.as_deref(), ns), (Some(&b"/one"[..]), 5));
    }
}
