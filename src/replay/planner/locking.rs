//! `flock`: when it may be done again, and whom it waits for.

use super::{Out, Planner};
use crate::event::syscall_table::Class;
use crate::operation::model::SyscallOperation;
use crate::replay::dependencies::{OpId, TimedOp, WaitSet};
use crate::replay::handles::{Handle, HandleTarget};
use crate::replay::locks::{Asked, Locked, Wish, wish};
use crate::replay::replayability::SkipReason;

/// What the kernel says of a call that a signal has ended, or that it makes again behind that (`include/linux/errno.h`).
const INTERRUPTED: [i32; 5] = [libc::EINTR, 512, 513, 514, 516];

impl<O: Out> Planner<O> {
    /// The lock that a call asks for.
    fn asked(&self, operation: &SyscallOperation, handle: Option<Handle>) -> Option<Asked> {
        let is_lock = operation.call.call().class == Class::Lock;
        let Wish::Lock(mode, _) = wish(&operation.args) else { return None };
        let handle = handle.filter(|_| is_lock)?;
        let description = self.handles.description(handle);
        Some(Asked { locked: self.locked_by(operation, handle), description, mode })
    }

    /// What the lock is of that a call is about.
    pub(super) fn locked_by(&self, operation: &SyscallOperation, handle: Handle) -> Locked {
        let inode = operation.file.as_ref().and_then(|it| it.stat?.inode());
        match (self.handles.behind(handle), inode) {
            (HandleTarget::File(file), _) => Locked::File(file),
            (_, Some((dev, ino))) => Locked::Directory(dev, ino),
            (_, None) => Locked::Unknown(self.handles.description(handle)),
        }
    }

    /// Why a lock is not asked for again, if it is not.
    pub(super) fn may_lock(
        &self,
        operation: &SyscallOperation,
        handle: Option<Handle>,
    ) -> Result<(), SkipReason> {
        let Some(asked) = self.asked(operation, handle) else { return Ok(()) };
        match operation.errno() {
            Some(errno) if INTERRUPTED.contains(&errno) => Err(SkipReason::Interrupted),
            // Who had it has let go meanwhile, or is not in the capture: nobody says when it was refused.
            Some(libc::EWOULDBLOCK) if self.locks.in_the_way(asked).next().is_none() => {
                Err(SkipReason::Lock)
            }
            _ => Ok(()),
        }
    }

    /// Others have let go of the lock that somebody has got, and what they did it with is not in the plan yet: it is still under way, as
    /// is the end of a process, of which we hear only when it is over; or nobody saw it. So it is done before.
    pub(super) fn make_way(&mut self, operation: &SyscallOperation) -> Result<(), O::Error> {
        if operation.call.call().class != Class::Lock || operation.ret != Some(0) {
            return Ok(());
        }
        let handle = self.descriptors(operation, true).ok().and_then(|it| it[0]);
        let Some(asked) = self.asked(operation, handle) else { return Ok(()) };
        let others: Vec<(u64, TimedOp)> = self.locks.in_the_way(asked).collect();
        let now = operation.end.unwrap_or(operation.start);
        others.into_iter().try_for_each(|(description, by)| self.unlocks(description, by, now))
    }

    /// What a call does to locks.
    pub(super) fn locked(
        &mut self,
        operation: &SyscallOperation,
        handle: Handle,
        (at, before): (TimedOp, &mut WaitSet),
    ) {
        if operation.call.call().class != Class::Lock {
            return;
        }
        let is_unlock = wish(&operation.args) == Wish::Unlock;
        match (self.asked(operation, Some(handle)), operation.errno()) {
            (None, None) if is_unlock => {
                self.locks.let_go(self.handles.description(handle), at.at, before);
            }
            (Some(asked), None) => self.locks.got(asked, at, before),
            (Some(asked), Some(libc::EWOULDBLOCK)) => self.locks.refused(asked, at.at, before),
            _ => {}
        }
    }

    /// A handle is gone: with the last one of its description goes its lock.
    pub(super) fn lets_go(&mut self, handle: Handle, at: OpId, before: &mut WaitSet) {
        let description = self.handles.description(handle);
        if self.locks.has(description) && self.handles.any_of(description).is_none() {
            self.locks.let_go(description, at, before);
        }
    }
}
