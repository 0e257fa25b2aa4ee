//! Open files with relative names: as the program spelled them, below a directory whose path is not
//! known.
//!
//! The files that a change concerns cannot be determined, so all names that it may concern become
//! doubtful.

use std::rc::{Rc, Weak};

use crate::operation::fd_table::Description;

/// Minimal number of names at which closed files are removed.
pub(super) const SWEEP_MIN: usize = 64;

/// Open files with relative names.
#[derive(Debug, Default)]
pub(super) struct Relative {
    open: Vec<Weak<Description>>,
    /// Number of files at which the closed ones are removed.
    sweep_at: usize,
}

impl Relative {
    /// Adds a file.
    pub(super) fn note(&mut self, description: &Rc<Description>) {
        if self.open.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.open.retain(|it| it.strong_count() > 0);
            self.sweep_at = 2 * self.open.len();
        }
        self.open.push(Rc::downgrade(description));
    }

    /// Marks the matching names as doubtful: the files may have other names now.
    pub(super) fn doubt(&mut self, is_touched: impl Fn(&[u8]) -> bool) {
        self.open.retain(|weak| {
            let Some(description) = weak.upgrade() else { return false };
            let file = description.file();
            let touched = file.path.as_ref().is_some_and(|it| is_touched(&it.bytes));
            if touched {
                description.doubt_name();
            }
            !touched
        });
    }
}
