//! Asynchronous operations of any interface: their begin, their file and their end.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Tracker;
use crate::event::async_table::{Interface, Opcode};
use crate::event::syscall_table::{CallClass, Role};
use crate::event::uring::{IOSQE_CQE_SKIP_SUCCESS, UringEvent};
use crate::event::{Event, SysExit};
use crate::operation::asynchronous::{AsyncFlight, AsyncOperation, InFlight, Key, NoResult};
use crate::operation::attribution::WriterRef;
use crate::operation::fd_table::Description;
use crate::operation::model::{FdEffect, ProcessKey, SyscallOperation};
use crate::operation::process::{Process, Thread};
use crate::operation::step::{Sink, Step};
use crate::operation::syscall;
use crate::operation::task::TaskView;
use crate::units::{Fd, KernelTime, Tid};

/// State between events.
#[derive(Debug, Default)]
pub(super) struct Asynchronous {
    pub(super) in_flight: InFlight,
    pub(super) next: u64,
    /// Rings whose creation was seen, by address: they have no request that is older than the
    /// capture.
    pub(super) rings: FxHashMap<u64, UringInstance>,
    /// Last result of a ring: some kernels report it again when the queue is full.
    pub(super) last: FxHashMap<u64, (u64, i64, Tid)>,
    /// Descriptor by ring and thread: kernels that do not report a request's address report its
    /// descriptor before the request.
    pub(super) early_file: FxHashMap<(u64, Tid), Fd>,
    /// Operation that a thread has got the file of, and begins now.
    pub(super) beginning: FxHashMap<Tid, Key>,
    /// Results of `io_getevents` that came before the end of the call that requested them.
    pub(super) early_result: FxHashMap<Key, (KernelTime, i64)>,
    /// Processes whose results could not be read: operations in flight may have ended.
    pub(super) unread_results: FxHashSet<ProcessKey>,
}

/// A ring of io_uring.
#[derive(Debug)]
pub(super) struct UringInstance {
    pub(super) process: ProcessKey,
    pub(super) fd: Fd,
    /// The only file that is registered with it; `None`: not exactly one, or not known.
    pub(super) file: Option<Rc<Description>>,
}

/// Returns a new operation of a thread.
pub(super) fn operation(
    opcode: Opcode,
    user_data: u64,
    event: &Event,
    process: &Process,
    thread: &Thread,
) -> AsyncOperation {
    AsyncOperation {
        id: 0,
        opcode,
        thread: thread.info.key,
        process: process.info.key,
        pid: event.pid,
        tid: event.tid,
        cpu: event.cpu,
        start: event.time,
        end: None,
        user_data,
        fd: None,
        file: None,
        target: None,
        fixed_file: false,
        offset: None,
        bytes_requested: None,
        result: None,
        results: 0,
        bytes_before: 0,
        by_worker: false,
        flags: 0,
        rw_flags: 0,
    }
}

impl Tracker {
    pub(super) fn begin_async<S: Sink>(
        &mut self,
        at: KernelTime,
        key: Key,
        flight: AsyncFlight,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let begun = flight.operation.clone();
        if let Some(old) = self.asynchronous.in_flight.begin(key, flight) {
            let is_skipped = old.operation.flags & IOSQE_CQE_SKIP_SUCCESS != 0;
            let why = if is_skipped { NoResult::Skipped } else { NoResult::Unseen };
            self.async_unfinished(at, old, why, sink)?;
        }
        self.ledger.asynchronous += 1;
        sink.step(at, &Step::AsyncBegun(&begun))
    }

    pub(super) fn async_file<S: Sink>(
        &mut self,
        event: &Event,
        key: Key,
        fd: Fd,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let Some(flight) = self.asynchronous.in_flight.get(key) else { return Ok(()) };
        let process = self.tasks.process(event.pid);
        let description = self.context.description(TaskView::of_process(process), fd);
        let operation = &mut flight.operation;
        // The file may be looked up again; an operation with two files looks up another one.
        if let Some(first) = operation.fd {
            if first == fd {
                return Ok(());
            }
            description.share_outside();
            operation.target = Some((fd, description.file()));
            return Ok(());
        }
        operation.fd = Some(fd);
        operation.file = Some(description.file());
        // No tracepoint reports whether it uses the file's own position; `io_submit` never does.
        let class = operation.opcode.class();
        let may_move = matches!(class, CallClass::Read | CallClass::Write);
        if class == CallClass::Pipe {
            description.share_outside();
        }
        if may_move && operation.opcode.interface == Interface::IoUring {
            description.begin_move();
            flight.moves = Some(description);
        } else if operation.opcode.class() == CallClass::Write && description.appends() {
            operation.offset = None;
        }
        let begun = operation.clone();
        sink.step(event.time, &Step::AsyncFile(&begun))
    }

    pub(super) fn end_async<S: Sink>(
        &mut self,
        now: KernelTime,
        end: KernelTime,
        mut flight: AsyncFlight,
        result: i64,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if let Some(description) = flight.moves.take() {
            description.end_unknown(now);
        }
        let operation = &mut flight.operation;
        operation.end = Some(end);
        operation.result = Some(result);
        operation.results += 1;
        let effects = self.async_effects(operation, now);
        if let (CallClass::Write, Some(file), Some(bytes)) =
            (operation.opcode.class(), &operation.file, operation.bytes())
        {
            let comm = &self.tasks.process(operation.pid).info.comm;
            let by = WriterRef { process: operation.process, pid: operation.pid, comm };
            self.files.wrote(by, file, operation.offset, bytes);
        }
        self.ledger.async_ended += 1;
        let works_on_file =
            operation.opcode.has_bytes() || operation.opcode.class() == CallClass::Open;
        let name = operation.file.as_ref().and_then(|it| it.path.as_ref());
        let is_nameless = works_on_file && result >= 0 && name.is_none();
        self.ledger.async_nameless += u64::from(is_nameless);
        // Its paths are in memory that is not read.
        let renames = matches!(operation.opcode.class(), CallClass::Rename | CallClass::Remove);
        self.ledger.unfollowed += u64::from(renames && result == 0);
        sink.step(now, &Step::AsyncEnded(operation, &effects))
    }

    /// Applies its effects on descriptors. A new descriptor may instead be a slot in the ring's own
    /// table, which has a number, too: a number that is certainly in use is not a new descriptor;
    /// another number only may be one. The descriptor of a close is not reported, so afterwards
    /// none is certain any more.
    fn async_effects(&mut self, operation: &mut AsyncOperation, now: KernelTime) -> Vec<FdEffect> {
        let class = operation.opcode.class();
        if class == CallClass::Close && operation.result == Some(0) {
            self.tasks.process(operation.pid).fds.borrow().doubt_all();
        }
        if !matches!(class, CallClass::Make(_) | CallClass::Open) {
            return Vec::new();
        }
        let fd = operation.result.filter(|it| *it >= 0).and_then(|it| i32::try_from(it).ok());
        let Some(fd) = fd.map(Fd) else { return Vec::new() };
        let process = self.tasks.process(operation.pid);
        if process.fds.borrow().peek(fd).is_some_and(Description::is_certain) {
            return Vec::new();
        }
        let object = if let CallClass::Make(object) = class { Some(object) } else { None };
        let task = TaskView::of_process(process);
        let (file, effects) = syscall::made_elsewhere(fd, object, task, now, &mut self.context);
        operation.fd = Some(fd);
        operation.file = Some(file);
        effects
    }

    pub(super) fn async_unfinished<S: Sink>(
        &mut self,
        now: KernelTime,
        mut flight: AsyncFlight,
        why: NoResult,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if let Some(description) = flight.moves.take() {
            description.end_unknown(now);
        }
        let counter = match why {
            NoResult::CaptureEnd => &mut self.ledger.async_open,
            NoResult::ProcessEnd | NoResult::Skipped | NoResult::Unseen => {
                &mut self.ledger.async_unseen
            }
        };
        *counter += 1;
        sink.step(now, &Step::AsyncUnfinished(&flight.operation, why))
    }

    /// Ends the operations of a process that has ended.
    pub(super) fn async_process_ended<S: Sink>(
        &mut self,
        at: KernelTime,
        process: ProcessKey,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        self.asynchronous.unread_results.remove(&process);
        for flight in self.asynchronous.in_flight.end_process(process) {
            // Later results cannot be attributed.
            self.asynchronous.rings.remove(&flight.ring);
            self.async_unfinished(at, flight, NoResult::ProcessEnd, sink)?;
        }
        Ok(())
    }

    /// Ends all operations at the end of the capture.
    pub(super) fn async_finish<S: Sink>(
        &mut self,
        at: KernelTime,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        self.ledger.async_orphans += self.asynchronous.early_result.len() as u64;
        for flight in self.asynchronous.in_flight.end_all() {
            self.async_unfinished(at, flight, NoResult::CaptureEnd, sink)?;
        }
        Ok(())
    }
}

impl Asynchronous {
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn forget_file(&mut self, ring: u64) {
        if let Some(ring) = self.rings.get_mut(&ring) {
            ring.file = None;
        }
    }

    /// Forgets the operation that the thread was about to begin: the thread does something else.
    pub(super) fn leave(&mut self, tid: Tid) {
        if !self.beginning.is_empty() {
            self.beginning.remove(&tid);
        }
    }

    /// Returns the operation of an io_uring event.
    pub(super) fn key(&self, it: &UringEvent) -> Option<Key> {
        match it.req {
            Some(req @ 1..) => Some(Key::Request(it.ctx, req)),
            Some(0) | None => self.in_flight.oldest(it.ctx, it.user_data),
        }
    }

    /// Returns true if the ring has reported this result immediately before.
    pub(super) fn is_told(&mut self, event: &Event, it: &UringEvent) -> bool {
        self.last.remove(&it.ctx) == Some((it.user_data, it.res, event.tid))
    }
}

/// Returns the memory that the argument of this role points to, if it was read in time.
pub(super) fn read_beside<'a>(call: &SyscallOperation, exit: &'a SysExit, role: Role) -> &'a [u8] {
    let address = call.call.call().arg(role).and_then(|it| call.args.get(it)).copied();
    let names = exit.names.as_deref();
    let read = names.and_then(|it| it.memory.iter().find(|it| Some(it.0) == address));
    read.filter(|it| it.1.verified).map_or(&[], |it| &it.1.bytes)
}
