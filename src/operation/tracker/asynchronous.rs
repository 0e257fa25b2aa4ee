//! Asynchronous operations of any interface: their begin, their file and their end.

use super::Tracker;
use crate::event::Event;
use crate::event::async_table::Interface;
use crate::event::syscall_table::CallClass;
use crate::event::uring::IOSQE_CQE_SKIP_SUCCESS;
use crate::operation::asynchronous::{AsyncFlight, AsyncOperation, Key, NoResult};
use crate::operation::attribution::WriterRef;
use crate::operation::fd_table::Description;
use crate::operation::model::{FdEffect, ProcessKey};
use crate::operation::step::{Sink, Step};
use crate::operation::syscall;
use crate::operation::task::TaskView;
use crate::units::{Fd, KernelTime};

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
        // Paths of an asynchronous rename are in memory that is not read.
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
            self.asynchronous.rings.remove(&flight.operation.ring);
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
