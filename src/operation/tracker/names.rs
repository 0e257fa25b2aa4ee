//! Effects of ended calls on names: of open files, of files remembered by inode, and of the places
//! of processes.

use super::Tracker;
use crate::event::syscall_table::Class;
use crate::operation::model::SyscallOperation;
use crate::operation::renaming::{self, Outcome};

impl Tracker {
    /// Updates the names of open files after a call.
    pub(super) fn follow_names(&mut self, operation: &SyscallOperation) {
        self.context.names.doubt_since(self.context.losses);
        match renaming::follow(operation, &mut self.context.names, &self.tasks) {
            Outcome::Nothing => {}
            Outcome::Changed(change, span) => self.files.names_changed(&change, span),
            Outcome::Unknown => {
                self.ledger.unfollowed += 1;
                renaming::doubt_places(operation, &self.tasks);
                // A removed file keeps a name that was its own; a renamed file has another file's.
                if operation.call.call().class == Class::Rename {
                    let parts = renaming::last_parts(operation);
                    self.context.names.doubt_renamed(parts);
                    self.files.renamed_somewhere(parts);
                }
            }
        }
    }
}
