//! Rows of the files of recent operations. An operation of the same process on the same open file
//! as an earlier one has the same rows, which need no search by the path.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use rustc_hash::FxHasher;

use super::completed_op::CompletedOp;
use crate::operation::model::{OpenFile, ProcessKey};

/// Number of entries, a power of two. An operation has one possible entry.
const ENTRIES: usize = 1024;

/// Numbers of the rows of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpRows {
    /// Row of the process.
    pub process: usize,
    /// Row of the name, if there is one.
    pub file: Option<usize>,
}

/// Rows of the last operation of each entry, in the form that the fold needs.
#[derive(Clone, Debug)]
pub(super) struct RecentRows<R> {
    entries: Vec<Option<RecentRow<R>>>,
}

#[derive(Clone, Debug)]
struct RecentRow<R> {
    /// The file. Its memory is in no other use while the entry exists, and its name never changes.
    file: Weak<OpenFile>,
    process: ProcessKey,
    rows: R,
}

impl<R> Default for RecentRows<R> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

/// Returns the entry of the operations of a process on a file.
fn entry_of(file: &Arc<OpenFile>, process: ProcessKey) -> usize {
    let mut hasher = FxHasher::default();
    (Arc::as_ptr(file).addr(), process).hash(&mut hasher);
    usize::try_from(hasher.finish() >> 32).unwrap_or(0) % ENTRIES
}

impl<R: Copy> RecentRows<R> {
    /// Returns the kept rows of an operation, or those that `search` finds, and keeps these.
    pub(super) fn rows(&mut self, done: &CompletedOp<'_>, search: impl FnOnce() -> R) -> R {
        self.find(done).unwrap_or_else(|| {
            let rows = search();
            self.keep(done, rows);
            rows
        })
    }

    /// Returns the rows of an operation, if those of an operation on its file were kept.
    pub(super) fn find(&self, done: &CompletedOp<'_>) -> Option<R> {
        let file = done.file_of_name()?;
        let entry = self.entries.get(entry_of(file, done.process))?.as_ref()?;
        let is_same = entry.process == done.process && entry.file.as_ptr() == Arc::as_ptr(file);
        is_same.then_some(entry.rows)
    }

    /// Keeps the rows of an operation.
    pub(super) fn keep(&mut self, done: &CompletedOp<'_>, rows: R) {
        let Some(file) = done.file_of_name() else { return };
        if self.entries.is_empty() {
            self.entries.resize_with(ENTRIES, || None);
        }
        if let Some(entry) = self.entries.get_mut(entry_of(file, done.process)) {
            *entry = Some(RecentRow { file: Arc::downgrade(file), process: done.process, rows });
        }
    }
}
