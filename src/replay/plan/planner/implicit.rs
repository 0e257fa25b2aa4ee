//! Implicit operations: operations of the replay that correspond to no replayed call. Descriptors
//! are closed with their process, by an exec, or by a call that is skipped. Holders have released a
//! lock that another description has acquired. And a call that moved a file's position, or marked a
//! descriptor as close-on-exec, may be skipped.
//!
//! An implicit operation follows the operations of a worker that are in the plan by then, and waits
//! only for operations that are in the plan, too. So it blocks no other worker forever, whatever
//! call its own worker is inside of. The totals of operations do not include it.

use super::Planner;
use crate::event::syscall_table::{CallClass, CallId, Role};
use crate::operation::model::{ProcessKey, SyscallOperation};
use crate::replay::plan::dependencies::{OpId, TimedOp, WaitSet, Worker};
use crate::replay::plan::handles::Handle;
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::planned_op::PlannedOp;
use crate::replay::plan::resources::{Accessor, appends, moves_position};
use crate::units::{Fd, KernelTime, ReplayTime};

impl<O: PlanOutput> Planner<O> {
    /// Closes descriptors that were closed by the end of their process, or by an exec.
    pub(super) fn went(
        &mut self,
        process: ProcessKey,
        fds: &[Fd],
        now: KernelTime,
    ) -> Result<(), O::Error> {
        // All threads of the process have ended, except for one inside an exec. Threads of its
        // parent may be inside any call.
        let by = self.newest.get(&process).map(|(at, is_own)| (at.worker, *is_own));
        for fd in fds {
            if let Some((handle, true)) = self.handles.closed(process, *fd, now, None) {
                self.last_gone(handle, by, process, now)?;
            }
        }
        Ok(())
    }

    /// Closes a handle that no process has any more and that no operation in the plan has closed.
    /// `process` had the handle last, until `time`. The worker of `by` closes it: at that time, if
    /// the flag of `by` is set, as then the worker is inside no operation that began before.
    pub(super) fn last_gone(
        &mut self,
        handle: Handle,
        by: Option<(Worker, bool)>,
        process: ProcessKey,
        time: KernelTime,
    ) -> Result<(), O::Error> {
        // No descriptor is open before a process has executed an operation.
        let Some((worker, is_free)) = by.filter(|_| self.handles.usable(handle).is_ok()) else {
            return Ok(());
        };
        let mut before = WaitSet::default();
        let now = self.since_first(time);
        let at = TimedOp { at: self.last_of(worker), start: now, end: now };
        let accessor = &mut Accessor { by: at, past: self.in_flight.past(), before: &mut before };
        self.resources.of_handle(&mut self.handles, handle, true, accessor);
        self.release_locks(handle, at.at, &mut before);
        // Children for which the process may have waited.
        self.process_waits.over(process, time, &mut before);
        let at = if is_free { at } else { TimedOp { start: ReplayTime::MIN, ..at } };
        self.implicit("close", [0; 6], handle, at, before)
    }

    /// Releases the lock of a description that must have released it by `now`. The worker of `by`,
    /// which acquired the lock, executes the release. It does so after the planned operations of
    /// all processes that may have needed the lock.
    pub(super) fn unlocks(
        &mut self,
        description: u64,
        by: TimedOp,
        now: KernelTime,
    ) -> Result<(), O::Error> {
        let mut before = WaitSet::default();
        let Some(handle) = self.handles.any_of(description) else {
            self.locks.let_go(description, by.at, &mut before);
            return Ok(());
        };
        // After all operations on the descriptor, and before a close that may be in flight.
        let at = self.last_of(by.at.worker);
        let at = TimedOp { at, start: self.since_first(now), end: by.end };
        self.locks.let_go(description, at.at, &mut before);
        for process in self.handles.owners(description) {
            self.newest.get(&process).iter().for_each(|(op, _)| before.add(*op));
            self.process_waits.over(process, now, &mut before);
        }
        let accessor = &mut Accessor { by: at, past: self.in_flight.past(), before: &mut before };
        self.resources.of_handle(&mut self.handles, handle, false, accessor);
        let flags = libc::LOCK_UN.cast_unsigned().into();
        let at = TimedOp { start: ReplayTime::MIN, ..at };
        self.implicit("flock", [0, flags, 0, 0, 0, 0], handle, at, before)
    }

    /// Adds a seek before an operation that begins at the file's position, if a call that moved the
    /// position is not in the plan. So the operation begins where the capture's did.
    pub(super) fn sync_position(&mut self, operation: &SyscallOperation) -> Result<(), O::Error> {
        let class = operation.call.call().class;
        if !matches!(
            class,
            CallClass::Read | CallClass::Write | CallClass::Transfer | CallClass::Seek
        ) {
            return Ok(());
        }
        let Ok(handles) = self.descriptors(operation, true) else { return Ok(()) };
        let target = operation.target.as_ref().map(|(_, file)| file);
        let offset =
            if class == CallClass::Seek { seeked_from(operation) } else { operation.offset };
        let places = [
            (handles.first, offset, operation.file.as_ref(), false),
            (handles.target, operation.target_offset, target, true),
        ];
        for (handle, offset, file, is_target) in places {
            if let Some((handle, offset)) = handle.zip(offset)
                && moves_position(operation, is_target)
                && !appends(operation, file.map(|file| &**file), is_target)
                && self.handles.file(handle).is_some()
                && self.handles.position(handle).get() != offset
            {
                self.seeks(operation, handle, offset)?;
            }
        }
        Ok(())
    }

    /// Adds a seek to `offset` before an operation.
    fn seeks(
        &mut self,
        operation: &SyscallOperation,
        handle: Handle,
        offset: u64,
    ) -> Result<(), O::Error> {
        let mut before = WaitSet::default();
        let at = self.timed(operation, operation.start, &mut before);
        let accessor = &mut Accessor { by: at, past: self.in_flight.past(), before: &mut before };
        self.resources.of_handle(&mut self.handles, handle, false, accessor);
        self.resources.moved(self.handles.description(handle), accessor);
        self.handles.position(handle).set(offset);
        let whence = libc::SEEK_SET.cast_unsigned().into();
        self.implicit("lseek", [0, offset, whence, 0, 0, 0], handle, at, before)
    }

    /// Adds an `fcntl` for a skipped call (`close_range`) that has marked a descriptor as
    /// close-on-exec, if the flag is that of one descriptor.
    pub(super) fn marked(&mut self, operation: &SyscallOperation, fd: Fd) -> Result<(), O::Error> {
        let is_range = operation.call.call().class == CallClass::CloseRange;
        let handle = self.handles.get(operation.process, fd, None).filter(|_| is_range);
        let Some(handle) = handle.filter(|handle| self.handles.usable(*handle).is_ok()) else {
            return Ok(());
        };
        if !self.handles.has_own_flag(handle, true) {
            return Ok(());
        }
        let mut before = WaitSet::default();
        let end = operation.end.unwrap_or(operation.start);
        let at = self.timed(operation, end, &mut before);
        let accessor = &mut Accessor { by: at, past: self.in_flight.past(), before: &mut before };
        self.resources.of_handle(&mut self.handles, handle, true, accessor);
        let [command, flag] =
            [libc::F_SETFD, libc::FD_CLOEXEC].map(|value| value.cast_unsigned().into());
        self.implicit("fcntl", [0, command, flag, 0, 0, 0], handle, at, before)
    }

    /// Returns the identity after the last operation of a worker.
    fn last_of(&self, worker: Worker) -> OpId {
        OpId { worker, number: self.counts[worker.0 as usize] }
    }

    /// Emits an implicit operation at `by.start`, or after the worker's last operation if that is
    /// later.
    fn implicit(
        &mut self,
        name: &str,
        args: [u64; 6],
        handle: Handle,
        by: TimedOp,
        mut before: WaitSet,
    ) -> Result<(), O::Error> {
        let Some(call) = CallId::by_name(name) else { return Ok(()) };
        let TimedOp { at, start, .. } = by;
        let worker = at.worker;
        self.waited.reduce(worker, &mut before);
        self.counts[worker.0 as usize] += 1;
        self.implicit += 1;
        self.out.planned(&PlannedOp {
            at,
            call,
            asynchronous: None,
            args,
            handle: Some(handle),
            target: None,
            makes: None,
            file: None,
            path: None,
            second_path: None,
            flags: None,
            offset: None,
            target_offset: None,
            bytes: None,
            ret: 0,
            start,
            end: start,
            keeps_handle: false,
            implicit: true,
            before: before.all().to_vec(),
        })
    }
}

/// Returns the position from which a relative seek began.
fn seeked_from(operation: &SyscallOperation) -> Option<u64> {
    let register = |role| operation.call.call().arg(role).map(|register| operation.args[register]);
    let is_from_there = register(Role::Whence)? == u64::from(libc::SEEK_CUR.cast_unsigned());
    let now = operation.ret.and_then(|ret| u64::try_from(ret).ok());
    now.filter(|_| is_from_there)?.checked_sub_signed(register(Role::Offset)?.cast_signed())
}
