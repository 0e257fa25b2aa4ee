//! What the replay has to do although no call did it that is done again: descriptors go with their processes, by an exec, or by a call that
//! is left out; others have let go of a lock that somebody has got; and what moved a file's position, or marked a descriptor to be closed by an exec,
//! may be left out.
//!
//! Such an operation stands behind those of a worker that are in the plan by then, and waits only for others that are there, too. So it is
//! in nobody's way for ever, whatever that worker is inside of. No number counts it.

use super::{Out, Planner};
use crate::event::syscall_table::{CallId, Class, Role};
use crate::operation::model::{ProcessKey, SyscallOperation};
use crate::replay::dependencies::{OpId, TimedOp, WaitSet, Worker};
use crate::replay::handles::Handle;
use crate::replay::planned_op::PlannedOp;
use crate::replay::resources::{appends, moves_position};
use crate::units::{Fd, KernelTime};

impl<O: Out> Planner<O> {
    /// Descriptors of a process went with it, or by an exec.
    pub(super) fn went(
        &mut self,
        process: ProcessKey,
        fds: &[Fd],
        now: KernelTime,
    ) -> Result<(), O::Error> {
        // All threads that it has had are through, but for one inside an exec; those of its parent may be inside of anything.
        let by = self.newest.get(&process).map(|(at, is_own)| (at.worker, *is_own));
        for fd in fds {
            if let Some((handle, true)) = self.handles.closed(process, *fd, now, None) {
                self.last_gone(handle, by, (process, now))?;
            }
        }
        Ok(())
    }

    /// Nobody has this handle any more since that time, when a process had it last, and nothing in the plan has closed it: this worker
    /// does; at that time, if it is inside of nothing that has begun before.
    pub(super) fn last_gone(
        &mut self,
        handle: Handle,
        by: Option<(Worker, bool)>,
        (process, time): (ProcessKey, KernelTime),
    ) -> Result<(), O::Error> {
        // Where nobody has done anything, nothing is open.
        let Some((worker, is_free)) = by.filter(|_| self.handles.usable(handle).is_ok()) else {
            return Ok(());
        };
        let mut before = WaitSet::default();
        let now = self.since_first(time);
        let at = TimedOp { at: self.last_of(worker), start: now, end: now };
        self.things.of_handle(
            &mut self.handles,
            handle,
            true,
            (at, self.under_way.past(), &mut before),
        );
        self.lets_go(handle, at.at, &mut before);
        // Children that it may have waited for.
        self.families.over(process, time, &mut before);
        let time = if is_free { now } else { 0 };
        self.implicit(("close", [0; 6]), handle, (at.at, time), before)
    }

    /// A description has let go of its lock by then: who had got it (`by`) does, when those who may have needed the lock are through with
    /// what they have done so far.
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
        // Behind all that was done with the descriptor, and before a close of it that may be under way.
        let at = self.last_of(by.at.worker);
        let at = TimedOp { at, start: self.since_first(now), end: by.end };
        self.locks.let_go(description, at.at, &mut before);
        for process in self.handles.owners(description) {
            self.newest.get(&process).iter().for_each(|it| before.add(it.0));
            self.families.over(process, now, &mut before);
        }
        self.things.of_handle(
            &mut self.handles,
            handle,
            false,
            (at, self.under_way.past(), &mut before),
        );
        let flags = libc::LOCK_UN.cast_unsigned().into();
        self.implicit(("flock", [0, flags, 0, 0, 0, 0]), handle, (at.at, 0), before)
    }

    /// Whoever reads, writes, or seeks from where the file stands does so where the capture did, whoever has moved that and is not in the plan: a
    /// seek goes before, where it is needed.
    pub(super) fn stand(&mut self, operation: &SyscallOperation) -> Result<(), O::Error> {
        let class = operation.call.call().class;
        if !matches!(class, Class::Read | Class::Write | Class::Transfer | Class::Seek) {
            return Ok(());
        }
        let Ok(handles) = self.descriptors(operation, true) else { return Ok(()) };
        let target = operation.target.as_ref().map(|it| &it.1);
        let offset = if class == Class::Seek { seeked_from(operation) } else { operation.offset };
        let places = [(offset, operation.file.as_ref()), (operation.target_offset, target)];
        for (number, (handle, (offset, file))) in handles.into_iter().zip(places).enumerate() {
            let is_target = number == 1;
            if let Some((handle, offset)) = handle.zip(offset)
                && moves_position(operation, is_target)
                && !appends(operation, file.map(|it| &**it), is_target)
                && self.handles.file(handle).is_some()
                && self.handles.position(handle).get() != offset
            {
                self.seeks(operation, handle, offset)?;
            }
        }
        Ok(())
    }

    /// Has a file stand there before this operation.
    fn seeks(
        &mut self,
        operation: &SyscallOperation,
        handle: Handle,
        offset: u64,
    ) -> Result<(), O::Error> {
        let mut before = WaitSet::default();
        let at = self.timed(operation, operation.start, &mut before);
        let past = self.under_way.past();
        self.things.of_handle(&mut self.handles, handle, false, (at, past, &mut before));
        self.things.moved(self.handles.description(handle), (at, past, &mut before));
        self.handles.position(handle).set(offset);
        let whence = libc::SEEK_SET.cast_unsigned().into();
        self.implicit(("lseek", [0, offset, whence, 0, 0, 0]), handle, (at.at, at.start), before)
    }

    /// A call that is not done again (`close_range`) has marked a descriptor to be closed by an exec: so does an `fcntl`, if the flag is that
    /// of one descriptor.
    pub(super) fn marked(&mut self, operation: &SyscallOperation, fd: Fd) -> Result<(), O::Error> {
        let is_range = operation.call.call().class == Class::CloseRange;
        let handle = self.handles.get(operation.process, fd, None).filter(|_| is_range);
        let Some(handle) = handle.filter(|it| self.handles.usable(*it).is_ok()) else {
            return Ok(());
        };
        if !self.handles.has_own_flag(handle, true) {
            return Ok(());
        }
        let mut before = WaitSet::default();
        let end = operation.end.unwrap_or(operation.start);
        let at = self.timed(operation, end, &mut before);
        let past = self.under_way.past();
        self.things.of_handle(&mut self.handles, handle, true, (at, past, &mut before));
        let [command, flag] = [libc::F_SETFD, libc::FD_CLOEXEC].map(|it| it.cast_unsigned().into());
        self.implicit(("fcntl", [0, command, flag, 0, 0, 0]), handle, (at.at, at.start), before)
    }

    /// The place behind the last operation of a worker.
    fn last_of(&self, worker: Worker) -> OpId {
        OpId { worker, number: self.counts[worker.0 as usize] }
    }

    /// At this time, if that is not before the worker's last operation.
    fn implicit(
        &mut self,
        (name, args): (&str, [u64; 6]),
        handle: Handle,
        (at, time): (OpId, u64),
        mut before: WaitSet,
    ) -> Result<(), O::Error> {
        let Some(call) = CallId::by_name(name) else { return Ok(()) };
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
            start: time,
            end: time,
            keeps_handle: false,
            implicit: true,
            before: before.all().to_vec(),
        })
    }
}

/// Where a file stood that was moved from there.
fn seeked_from(operation: &SyscallOperation) -> Option<u64> {
    let register = |role| operation.call.call().arg(role).map(|it| operation.args[it]);
    let is_from_there = register(Role::Whence)? == u64::from(libc::SEEK_CUR.cast_unsigned());
    let now = operation.ret.and_then(|it| u64::try_from(it).ok());
    now.filter(|_| is_from_there)?.checked_sub_signed(register(Role::Offset)?.cast_signed())
}
