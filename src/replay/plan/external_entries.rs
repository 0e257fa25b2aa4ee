//! External entries: directory entries created outside the capture, or by calls that are not
//! replayed (`bind`). The replay does not have them.
//!
//! ```text
//!   stat a    ENOENT      nothing is there
//!   stat a    0           no captured operation has made it: external
//!   rename a b            still external, and now at b
//!   unlink b              forgotten
//! ```

use rustc_hash::FxHashSet;

use super::infer_initial_state::{found_there, is_refused_as_full};
use super::namespace::{FsModel, NodeId, OpNodes};
use super::open_flags::open_flags;
use super::replayability::SkipReason;
use crate::event::syscall_table::CallClass;
use crate::operation::model::SyscallOperation;
use crate::units::KernelTime;

/// Places of external entries.
#[derive(Debug, Default)]
pub(super) struct ExternalEntries {
    at: FxHashSet<NodeId>,
    /// End of the last call that took a name away. An operation that began before may have found
    /// the earlier entry.
    taken: KernelTime,
}

/// Entry that a call needs at its first path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Requirement {
    /// No entry may be there.
    Nothing,
    /// An entry may be there, but its contents are discarded.
    Place,
    /// An entry may be there with its contents; a missing one is made.
    Contents,
    /// An entry must be there.
    Something,
}

impl ExternalEntries {
    /// Checks that an ended operation did not need an entry that the replay lacks. `is_contended`:
    /// another operation in flight may have made the entry.
    ///
    /// # Errors
    ///
    /// [`SkipReason::CreatedExternally`] if the operation needed such an entry.
    pub(super) fn ended(
        &mut self,
        world: &FsModel,
        operation: &SyscallOperation,
        nodes: OpNodes,
        is_contended: bool,
    ) -> Result<(), SkipReason> {
        let (Some(node), Some(end)) = (nodes.first, operation.end) else { return Ok(()) };
        let class = operation.call.call().class;
        let is_settled = !is_contended && self.taken <= operation.start;
        let is_missing = |place| is_settled && world.is_known_absent(place);
        if let Some(errno) = operation.errno() {
            let last = nodes.second.unwrap_or(node);
            if is_refused_as_full(operation) && self.is_filled_by_them(world, last) {
                return Err(SkipReason::CreatedExternally);
            }
            let place = usize::from(nodes.second.is_some());
            let is_rename = class == CallClass::Rename && errno == libc::EEXIST;
            let shows_entry = is_rename || found_there(operation, place, 0) == Some(true);
            let is_found = shows_entry && is_missing(last);
            self.found(last, is_found);
            return self.is_one(world, if is_found { last } else { node });
        }
        let has_two = matches!(class, CallClass::Name | CallClass::Rename);
        let second = nodes.second.filter(|_| has_two);
        let needs = if second.is_some() { Requirement::Something } else { needs(operation) };
        match needs {
            Requirement::Something => self.found(node, is_missing(node)),
            Requirement::Nothing | Requirement::Place => self.forget(node),
            Requirement::Contents => {}
        }
        let result = self.is_one(world, node);
        if matches!(class, CallClass::Rename | CallClass::Remove) {
            self.taken = self.taken.max(end);
            self.forget(node);
        }
        if let Some(second) = second {
            self.forget(second);
            self.found(second, result.is_err());
        }
        result
    }

    /// Records that a call that is not replayed has made an entry there.
    pub(super) fn made(&mut self, node: NodeId) {
        self.at.insert(node);
    }

    /// Returns true if a directory that was found full is empty in the replay. A directory that the
    /// program has made is empty until an entry in the directory is known, and external entries are
    /// missing.
    fn is_filled_by_them(&self, world: &FsModel, node: NodeId) -> bool {
        let has_one = || world.within(node).iter().any(|entry| self.at.contains(entry));
        !world.has_contents(node) && (world.is_of_program(node) || has_one())
    }

    /// Returns true if an external entry is there.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.at.contains(&node)
    }

    /// Records an entry that no captured operation has made, if `is_so`.
    fn found(&mut self, node: NodeId, is_so: bool) {
        if is_so {
            self.at.insert(node);
        }
    }

    /// Records that the entry is the program's, or that there is none.
    fn forget(&mut self, node: NodeId) {
        self.at.remove(&node);
    }

    /// Checks that a place is not an external entry, or below one.
    fn is_one(&self, world: &FsModel, node: NodeId) -> Result<(), SkipReason> {
        let is_one =
            !self.at.is_empty() && world.ancestors(node).any(|place| self.at.contains(&place));
        if is_one { Err(SkipReason::CreatedExternally) } else { Ok(()) }
    }
}

/// Returns true for calls after which an entry may have another name, or may exist.
pub(super) fn may_make_names(operation: &SyscallOperation) -> bool {
    match operation.call.call().class {
        CallClass::Name | CallClass::Rename => true,
        CallClass::Open => open_flags(operation).creates(),
        _ => false,
    }
}

/// Returns the need of a call with one path.
fn needs(operation: &SyscallOperation) -> Requirement {
    let call = operation.call.call();
    let flags = open_flags(operation);
    match call.class {
        CallClass::Name => Requirement::Nothing,
        CallClass::Open if flags.creates() && flags.is_exclusive() => Requirement::Nothing,
        CallClass::Open if flags.creates() && flags.truncates() => Requirement::Place,
        CallClass::Open if flags.creates() => Requirement::Contents,
        _ => Requirement::Something,
    }
}
