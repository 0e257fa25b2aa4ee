//! Findings of the passes over the log: what is needed, and until when.

use super::needed::{NeededNames, NeededUntil, NumberSet};
use super::renames::Renames;
use crate::replay::plan::locks::LockTarget;
use crate::replay::plan::namespace::FileId;
use crate::units::KernelTime;

/// Findings that are passed on from one pass to the next.
#[derive(Debug, Default)]
pub struct PassFindings {
    /// Open files: operations that make, duplicate, change or close their descriptors are needed.
    pub(super) descriptions: NumberSet,
    /// Open files that were read or written at an unknown offset: operations that move their
    /// positions are needed.
    pub(super) unplaced: NeededUntil<u64>,
    /// Names: operations that make, rename or remove their entries are needed.
    pub(super) names: NeededNames,
    /// Files: operations that truncate them, or lengthen them other than by a write, are needed.
    pub(super) files: NeededUntil<FileId>,
    /// Files whose bytes must be there: operations that write past their ends are needed, too.
    pub(super) bytes: NeededUntil<FileId>,
    /// Locked files: other operations that lock them are needed.
    pub(super) locks: NeededUntil<LockTarget>,
    /// End of the last wanted operation.
    pub(super) last: KernelTime,
    /// Renames that may turn out to be needed.
    pub(super) renames: Renames,
    /// True if some finding is new.
    pub(super) has_grown: bool,
}

impl PassFindings {
    /// Ends a pass. Returns true if the pass has found something new, which requires another one.
    pub fn take_grown(&mut self) -> bool {
        self.has_grown |= std::mem::take(&mut self.renames).follow(&mut self.names);
        std::mem::take(&mut self.has_grown)
    }
}
