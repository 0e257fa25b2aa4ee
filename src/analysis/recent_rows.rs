//! Rows of recent operations. An operation of the same kind, process and file as an earlier one has
//! the same rows, which need no search by its key and path.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use rustc_hash::FxHasher;

use super::completed_op::{CompletedOp, OpKind};
use crate::operation::io_class::IoClass;
use crate::operation::model::{OpenFile, ProcessKey};

/// Number of entries, a power of two. An operation has one possible entry.
const ENTRIES: usize = 256;

/// Numbers of the rows of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpRows {
    /// Row of the kind of operation.
    pub call: usize,
    /// Row of the process.
    pub process: usize,
    /// Row of the name, if there is one.
    pub file: Option<usize>,
}

/// Rows of the last operation of each entry.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentRows {
    entries: Vec<Option<RecentRow>>,
}

#[derive(Clone, Debug)]
struct RecentRow {
    /// The file. Its memory is in no other use while the entry exists, and its name never changes.
    file: Weak<OpenFile>,
    key: RecentKey,
    rows: OpRows,
}

/// Kind and process of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RecentKey {
    what: OpKind,
    io: IoClass,
    process: ProcessKey,
}

impl RecentKey {
    fn of(done: &CompletedOp<'_>) -> Self {
        Self { what: done.what, io: done.io, process: done.process }
    }

    /// Returns the entry of an operation of this key on a file.
    fn entry(&self, file: &Arc<OpenFile>) -> usize {
        let mut hasher = FxHasher::default();
        (Arc::as_ptr(file).addr(), self).hash(&mut hasher);
        usize::try_from(hasher.finish() >> 32).unwrap_or(0) % ENTRIES
    }
}

impl RecentRows {
    /// Returns the rows of an operation, if one like it was kept.
    pub(super) fn find(&self, done: &CompletedOp<'_>) -> Option<OpRows> {
        let (file, key) = (done.file_of_name()?, RecentKey::of(done));
        let entry = self.entries.get(key.entry(file))?.as_ref()?;
        (entry.key == key && entry.file.as_ptr() == Arc::as_ptr(file)).then_some(entry.rows)
    }

    /// Keeps the rows of an operation.
    pub(super) fn keep(&mut self, done: &CompletedOp<'_>, rows: OpRows) {
        let Some(file) = done.file_of_name() else { return };
        let key = RecentKey::of(done);
        if self.entries.is_empty() {
            self.entries.resize(ENTRIES, None);
        }
        if let Some(entry) = self.entries.get_mut(key.entry(file)) {
            *entry = Some(RecentRow { file: Arc::downgrade(file), key, rows });
        }
    }
}
