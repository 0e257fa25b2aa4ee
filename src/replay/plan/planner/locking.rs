//! `flock`: when a lock attempt can be replayed, and the operations for which it waits.

use super::Planner;
use crate::event::syscall_table::CallClass;
use crate::operation::model::SyscallOperation;
use crate::replay::plan::dependencies::{OpId, TimedOp, WaitSet};
use crate::replay::plan::handles::{Handle, HandleTarget};
use crate::replay::plan::locks::{FlockRequest, LockAttempt, LockTarget, wish};
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::replayability::SkipReason;

/// Results of a call that a signal has ended, or that the kernel restarts afterwards
/// (`include/linux/errno.h`).
const INTERRUPTED: [i32; 5] = [libc::EINTR, 512, 513, 514, 516];

impl<O: PlanOutput> Planner<O> {
    /// Returns the lock that a call requests.
    fn lock_attempt(
        &self,
        operation: &SyscallOperation,
        handle: Option<Handle>,
    ) -> Option<LockAttempt> {
        let is_lock = operation.call.call().class == CallClass::Lock;
        let FlockRequest::Lock(mode, _) = wish(&operation.args) else { return None };
        let handle = handle.filter(|_| is_lock)?;
        let description = self.handles.description(handle);
        Some(LockAttempt { locked: self.locked_by(operation, handle), description, mode })
    }

    /// Returns the object whose lock a call changes.
    pub(in crate::replay::plan) fn locked_by(
        &self,
        operation: &SyscallOperation,
        handle: Handle,
    ) -> LockTarget {
        let inode = operation.file.as_ref().and_then(|file| file.stat?.inode());
        match (self.handles.target(handle), inode) {
            (HandleTarget::File(file), _) => LockTarget::File(file),
            (_, Some((dev, ino))) => LockTarget::Directory(dev, ino),
            (_, None) => LockTarget::Unknown(self.handles.description(handle)),
        }
    }

    /// Checks that a lock attempt can be replayed.
    pub(super) fn may_lock(
        &self,
        operation: &SyscallOperation,
        handle: Option<Handle>,
    ) -> Result<(), SkipReason> {
        let Some(attempt) = self.lock_attempt(operation, handle) else { return Ok(()) };
        match operation.errno() {
            Some(errno) if INTERRUPTED.contains(&errno) => Err(SkipReason::Interrupted),
            // The holder has released the lock meanwhile, or is not in the capture: the time of the
            // refusal is unknown.
            Some(libc::EWOULDBLOCK) if self.locks.in_the_way(attempt).next().is_none() => {
                Err(SkipReason::Lock)
            }
            _ => Ok(()),
        }
    }

    /// Releases other locks that exclude one that was acquired, if their release is not in the plan
    /// yet. The releasing call may still be in flight; so may the end of a process, which is
    /// reported only when it is complete; or the release was not recorded. Implicit operations
    /// release these locks before.
    pub(super) fn release_conflicting_locks(
        &mut self,
        operation: &SyscallOperation,
    ) -> Result<(), O::Error> {
        if operation.call.call().class != CallClass::Lock || operation.ret != Some(0) {
            return Ok(());
        }
        let handle = self.descriptors(operation, true).ok().and_then(|handles| handles.first);
        let Some(attempt) = self.lock_attempt(operation, handle) else { return Ok(()) };
        let others: Vec<(u64, TimedOp)> = self.locks.in_the_way(attempt).collect();
        let now = operation.end.unwrap_or(operation.start);
        others.into_iter().try_for_each(|(description, by)| self.unlocks(description, by, now))
    }

    /// Records the effect of a call on locks.
    pub(super) fn locked(
        &mut self,
        operation: &SyscallOperation,
        handle: Handle,
        at: TimedOp,
        before: &mut WaitSet,
    ) {
        if operation.call.call().class != CallClass::Lock {
            return;
        }
        let is_unlock = wish(&operation.args) == FlockRequest::Unlock;
        match (self.lock_attempt(operation, Some(handle)), operation.errno()) {
            (None, None) if is_unlock => {
                self.locks.let_go(self.handles.description(handle), at.at, before);
            }
            (Some(attempt), None) => self.locks.got(attempt, at, before),
            (Some(attempt), Some(libc::EWOULDBLOCK)) => self.locks.refused(attempt, at.at, before),
            _ => {}
        }
    }

    /// Releases the lock of a description whose last handle is gone.
    pub(super) fn release_locks(&mut self, handle: Handle, at: OpId, before: &mut WaitSet) {
        let description = self.handles.description(handle);
        if self.locks.has(description) && self.handles.any_of(description).is_none() {
            self.locks.let_go(description, at, before);
        }
    }
}
