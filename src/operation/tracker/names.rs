//! Effects of ended calls on names: of open files, of files remembered by inode, and of the places
//! of processes.

use super::Tracker;
use crate::event::syscall_table::CallClass;
use crate::operation::model::SyscallOperation;
use crate::operation::renaming::{self, RenameOutcome};

impl Tracker {
    /// Updates the names of open files after a call.
    pub(super) fn follow_names(&mut self, operation: &SyscallOperation) {
        self.context.names.doubt_since(self.context.losses);
        match renaming::follow(operation, &mut self.context.names, &self.tasks) {
            RenameOutcome::Nothing => {}
            RenameOutcome::Changed(change, span) => self.files.names_changed(&change, span),
            RenameOutcome::Unknown => {
                self.ledger.unfollowed += 1;
                renaming::doubt_places(operation, &self.tasks);
                // A removed file keeps a name that was its own; a renamed file has another file's.
                if operation.call.call().class == CallClass::Rename {
                    let parts = renaming::last_parts(operation);
                    self.context.names.doubt_renamed(parts);
                    self.files.renamed_somewhere(parts);
                }
            }
        }
    }
}
