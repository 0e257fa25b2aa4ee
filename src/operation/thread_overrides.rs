//! Resources of single threads.

use super::fd_table::SharedTable;
use super::fs_context::SharedPlace;

/// Resources that a thread does not share with the other threads of its process.
#[derive(Clone, Debug, Default)]
pub struct ThreadOverrides {
    pub(super) fds: Option<SharedTable>,
    pub(super) place: Option<SharedPlace>,
}

impl ThreadOverrides {
    /// Returns true if the thread has any resource of its own.
    pub fn is_something(&self) -> bool {
        self.fds.is_some() || self.place.is_some()
    }

    /// Returns its descriptors, if it has its own.
    pub fn fds(&self) -> Option<&SharedTable> {
        self.fds.as_ref()
    }

    /// Returns its directories, if it has its own.
    pub fn place(&self) -> Option<&SharedPlace> {
        self.place.as_ref()
    }
}
