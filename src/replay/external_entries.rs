//! What somebody else has put somewhere: nobody who was captured, or a call that is not done again (`bind`). It is not there in the replay.
//!
//! ```text
//!   stat a    ENOENT      nothing is there
//!   stat a    0           nobody has made it: a stranger's
//!   rename a b            still a stranger's, and now at b
//!   unlink b              forgotten
//! ```

use rustc_hash::FxHashSet;

use super::infer_initial_state::{found_there, is_refused_as_full, open_flags};
use super::namespace::{FsModel, NodeId};
use super::replayability::SkipReason;
use crate::event::syscall_table::Class;
use crate::operation::model::SyscallOperation;
use crate::units::KernelTime;

/// Where they are.
#[derive(Debug, Default)]
pub(super) struct ExternalEntries {
    at: FxHashSet<NodeId>,
    /// The end of the last call that took a name away: who began before may have found what was there.
    taken: KernelTime,
}

/// What has to be at the first path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing.
    Nothing,
    /// Nothing of what may be there is left.
    Place,
    /// Whatever may be there; else it is made.
    Contents,
    /// Something.
    Something,
}

impl ExternalEntries {
    /// Whether this operation, which has ended, was only possible with something that the replay does not have. `is_contended`: somebody
    /// else is inside a call that may have made it.
    ///
    /// # Errors
    ///
    /// [`SkipReason::Stranger`] if so.
    pub(super) fn ended(
        &mut self,
        world: &FsModel,
        operation: &SyscallOperation,
        nodes: [Option<NodeId>; 2],
        is_contended: bool,
    ) -> Result<(), SkipReason> {
        let (Some(node), Some(end)) = (nodes[0], operation.end) else { return Ok(()) };
        let class = operation.call.call().class;
        let is_settled = !is_contended && self.taken <= operation.start;
        let is_missing = |it| is_settled && world.is_known_absent(it);
        if let Some(errno) = operation.errno() {
            let last = nodes[1].unwrap_or(node);
            if is_refused_as_full(operation) && self.is_filled_by_them(world, last) {
                return Err(SkipReason::Stranger);
            }
            let place = usize::from(nodes[1].is_some());
            let is_rename = class == Class::Rename && errno == libc::EEXIST;
            let is_told = is_rename || found_there(operation, place, 0) == Some(true);
            let is_found = is_told && is_missing(last);
            self.found(last, is_found);
            return self.is_one(world, if is_found { last } else { node });
        }
        let second = nodes[1].filter(|_| matches!(class, Class::Name | Class::Rename));
        let needs = if second.is_some() { Needs::Something } else { needs(operation) };
        match needs {
            Needs::Something => self.found(node, is_missing(node)),
            Needs::Nothing | Needs::Place => self.forget(node),
            Needs::Contents => {}
        }
        let result = self.is_one(world, node);
        if matches!(class, Class::Rename | Class::Remove) {
            self.taken = self.taken.max(end);
            self.forget(node);
        }
        if let Some(second) = second {
            self.forget(second);
            self.found(second, result.is_err());
        }
        result
    }

    /// A call that is not done again has made something there.
    pub(super) fn made(&mut self, node: NodeId) {
        self.at.insert(node);
    }

    /// True if a directory that was found full has nothing in it in the replay: what the program has made is empty until something is known
    /// in it, and strangers are not there.
    fn is_filled_by_them(&self, world: &FsModel, node: NodeId) -> bool {
        let has_one = || world.within(node).iter().any(|it| self.at.contains(it));
        !world.has_contents(node) && (world.is_of_program(node) || has_one())
    }

    /// True if one is there.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.at.contains(&node)
    }

    /// Something is there that nobody has made.
    fn found(&mut self, node: NodeId, is_so: bool) {
        if is_so {
            self.at.insert(node);
        }
    }

    /// What is there now is the program's, or nothing.
    fn forget(&mut self, node: NodeId) {
        self.at.remove(&node);
    }

    /// It is one, or in one.
    fn is_one(&self, world: &FsModel, node: NodeId) -> Result<(), SkipReason> {
        let is_one = !self.at.is_empty() && world.way(node).any(|it| self.at.contains(&it));
        if is_one { Err(SkipReason::Stranger) } else { Ok(()) }
    }
}

/// True for calls behind which something may have another name, or one at all.
pub(super) fn may_make_names(operation: &SyscallOperation) -> bool {
    match operation.call.call().class {
        Class::Name | Class::Rename => true,
        Class::Open => open_flags(operation) & libc::O_CREAT.cast_unsigned() != 0,
        _ => false,
    }
}

/// What a call needs that is given one path.
fn needs(operation: &SyscallOperation) -> Needs {
    let call = operation.call.call();
    let has = |flag: i32| open_flags(operation) & flag.cast_unsigned() != 0;
    match call.class {
        Class::Name => Needs::Nothing,
        Class::Open if has(libc::O_CREAT) && has(libc::O_EXCL) => Needs::Nothing,
        Class::Open if has(libc::O_CREAT) && has(libc::O_TRUNC) => Needs::Place,
        Class::Open if has(libc::O_CREAT) => Needs::Contents,
        _ => Needs::Something,
    }
}
