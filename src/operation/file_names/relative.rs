//! Open files of which only the end of the name is known: as the program spelled it, below a directory whose path is not known.
//!
//! Which of them a change concerns cannot be said, so what it may concern becomes doubtful.

use std::rc::{Rc, Weak};

use super::SWEEP_MIN;
use crate::operation::fd_table::Description;

/// Those that are open.
#[derive(Debug, Default)]
pub(super) struct Relative {
    open: Vec<Weak<Description>>,
    /// When the closed ones are taken out.
    sweep_at: usize,
}

impl Relative {
    /// One more.
    pub(super) fn note(&mut self, description: &Rc<Description>) {
        if self.open.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.open.retain(|it| it.strong_count() > 0);
            self.sweep_at = 2 * self.open.len();
        }
        self.open.push(Rc::downgrade(description));
    }

    /// Those whose names are such may have another one now.
    pub(super) fn doubt(&mut self, is_touched: impl Fn(&[u8]) -> bool) {
        self.open.retain(|it| {
            let Some(description) = it.upgrade() else { return false };
            let file = description.file();
            let touched = file.path.as_ref().is_some_and(|it| is_touched(&it.bytes));
            if touched {
                description.doubt_name();
            }
            !touched
        });
    }
}
