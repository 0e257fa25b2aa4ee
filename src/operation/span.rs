//! Spans of time: the work of one layer inside a call.

use crate::event::layer::Layer;
use crate::units::{DevId, KernelTime, Tid};

/// One span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Layer that was at work.
    pub layer: Layer,
    /// Function, or the word that represents it.
    pub what: &'static str,
    /// Begin of the span.
    pub begin: KernelTime,
    /// End of the span.
    pub end: KernelTime,
}

/// Commit of a journal, for all operations that wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalCommit {
    /// Device of the file system.
    pub dev: DevId,
    /// Number of the transaction, if it is recorded.
    pub transaction: Option<u32>,
    /// Thread of the journal.
    pub tid: Tid,
    /// Name of the thread, if it is known.
    pub comm: Option<Vec<u8>>,
    /// Begin of the commit.
    pub begin: KernelTime,
    /// End of the commit.
    pub end: KernelTime,
}

impl Span {
    /// Returns the duration in ns.
    pub fn ns(&self) -> u64 {
        self.end.0.saturating_sub(self.begin.0)
    }
}
