//! io_uring: operations from its tracepoints, and files from the memory of its register call.

use super::Tracker;
use super::announce::{announce, anomaly};
use super::async_state::{UringInstance, operation, read_beside};
use crate::anomaly::{AnomalyKind, Ignored};
use crate::event::file_io::FileIo;
use crate::event::registers::low_half;
use crate::event::syscall_table::Role;
use crate::event::uring::{
    IORING_CQE_F_MORE, IORING_CQE_F_NOTIF, IOSQE_FIXED_FILE, UringEvent, UringPoint,
};
use crate::event::{Event, SysExit};
use crate::operation::asynchronous::{AsyncFlight, Key};
use crate::operation::fd_table::Description;
use crate::operation::model::SyscallOperation;
use crate::operation::step::Sink;
use crate::units::Fd;

/// `IORING_REGISTER_USE_REGISTERED_RING` (`include/uapi/linux/io_uring.h`).
const USE_REGISTERED_RING: u64 = 1 << 31;

/// Operations that concern registered files: `IORING_REGISTER_FILES`, `_UNREGISTER_FILES`,
/// `_FILES_UPDATE`, `_FILES2`, `_FILES_UPDATE2`, `_FILE_ALLOC_RANGE`.
const FILE_OPERATIONS: [u64; 6] = [2, 3, 6, 13, 14, 25];

impl Tracker {
    /// Handles an event of io_uring.
    pub(super) fn uring<S: Sink>(
        &mut self,
        event: &Event,
        uring: &UringEvent,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        self.asynchronous.beginning.remove(&event.tid);
        // Any running thread may report a result; the request determines its process.
        let result = matches!(uring.point, UringPoint::Complete | UringPoint::Overflow);
        if result {
            return self.uring_result(event, uring, sink);
        }
        if let Some(reason) = self.ignore_reason(event.pid) {
            self.ledger.ignore(reason);
            return Ok(());
        }
        self.ledger.events += 1;
        self.reap_reused_tid(event.time, event.pid, event.tid, sink)?;
        match uring.point {
            UringPoint::Create => {
                let process = self.tasks.process(event.pid).info.key;
                let ring = UringInstance { process, fd: Fd(uring.fd), file: None };
                self.asynchronous.rings.insert(uring.ctx, ring);
                Ok(())
            }
            UringPoint::Submit | UringPoint::Failed => self.uring_taken(event, uring, sink),
            UringPoint::FileGet => self.uring_file(event, uring, sink),
            UringPoint::Worker => {
                let key = self.asynchronous.key(uring);
                if let Some(flight) = key.and_then(|it| self.asynchronous.in_flight.get(it)) {
                    flight.operation.by_worker = true;
                }
                Ok(())
            }
            UringPoint::Complete | UringPoint::Overflow => Ok(()),
        }
    }

    /// Handles a request that was taken from the queue.
    fn uring_taken<S: Sink>(
        &mut self,
        event: &Event,
        uring: &UringEvent,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let (process, thread) = self.tasks.thread(event.pid, event.tid);
        announce(event.time, process, thread, sink)?;
        let mut operation = operation(uring.opcode(), uring.user_data, event, process, thread);
        operation.ring = uring.ctx;
        operation.flags = uring.flags;
        operation.fixed_file = uring.flags & IOSQE_FIXED_FILE != 0;
        let ring = self.asynchronous.rings.get(&uring.ctx).filter(|_| operation.fixed_file);
        operation.file = ring.and_then(|it| Some(it.file.as_ref()?.file()));
        let class = operation.opcode.class();
        if class.changes_descriptors() || operation.opcode.request_kind().name == "FILES_UPDATE" {
            // The request may change the ring's files instead.
            self.asynchronous.forget_file(uring.ctx);
        }
        if uring.point == UringPoint::Failed {
            operation.offset =
                uring.off.filter(|it| i64::try_from(*it).is_ok() && operation.opcode.has_offset());
            operation.bytes_requested = uring.len.filter(|_| operation.opcode.has_bytes());
        }
        let id = self.asynchronous.number();
        operation.id = id;
        let key = uring.req.map_or(Key::Nameless(id), |req| Key::Request(uring.ctx, req));
        self.begin_async(event.time, key, AsyncFlight { operation, moves: None }, sink)?;
        match self.asynchronous.early_file.remove(&(uring.ctx, event.tid)) {
            Some(fd) => self.async_file(event, key, fd, sink),
            None => Ok(()),
        }
    }

    /// Handles the file of a request, by this descriptor of its process.
    fn uring_file<S: Sink>(
        &mut self,
        event: &Event,
        uring: &UringEvent,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        match uring.req {
            Some(req) => {
                let key = Key::Request(uring.ctx, req);
                self.asynchronous.beginning.insert(event.tid, key);
                self.async_file(event, key, Fd(uring.fd), sink)
            }
            None => {
                self.asynchronous.early_file.insert((uring.ctx, event.tid), Fd(uring.fd));
                Ok(())
            }
        }
    }

    /// Handles a result of io_uring.
    fn uring_result<S: Sink>(
        &mut self,
        event: &Event,
        uring: &UringEvent,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if uring.point == UringPoint::Overflow && self.asynchronous.is_repeat(event, uring) {
            self.ledger.events += 1;
            return Ok(());
        }
        let found = self.asynchronous.key(uring).filter(|_| uring.cflags & IORING_CQE_F_NOTIF == 0);
        let Some(key) = found.filter(|it| self.asynchronous.in_flight.get(*it).is_some()) else {
            return self.uring_stray(event, uring, sink);
        };
        self.ledger.events += 1;
        if uring.point == UringPoint::Complete {
            self.asynchronous.last.insert(uring.ctx, (uring.user_data, uring.res, event.tid));
        }
        if uring.cflags & IORING_CQE_F_MORE != 0 {
            if let Some(flight) = self.asynchronous.in_flight.get(key) {
                flight.operation.results += 1;
                let bytes = u64::try_from(uring.res).unwrap_or(0);
                flight.operation.bytes_before = flight.operation.bytes_before.saturating_add(bytes);
            }
            return Ok(());
        }
        match self.asynchronous.in_flight.end(key) {
            Some(flight) => self.end_async(event.time, event.time, flight, uring.res, sink),
            None => Ok(()),
        }
    }

    /// Handles a result of an unknown request.
    fn uring_stray<S: Sink>(
        &mut self,
        event: &Event,
        uring: &UringEvent,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if let Some(reason) = self.ignore_reason(event.pid) {
            self.ledger.ignore(reason);
            return Ok(());
        }
        // Rings send messages to each other, and the buffer of a send is reported as free: these
        // results belong to no request.
        let is_request = uring.req != Some(0) && uring.cflags & IORING_CQE_F_NOTIF == 0;
        if !is_request {
            self.ledger.events += 1;
            return Ok(());
        }
        if !self.asynchronous.rings.contains_key(&uring.ctx) {
            self.ledger.ignore(Ignored::UnderWay);
            return Ok(());
        }
        // A descriptor that was reported for it does not belong to the next one.
        self.asynchronous.early_file.remove(&(uring.ctx, event.tid));
        self.ledger.async_orphans += 1;
        let detail = format!(
            "io_uring: result {} of a request (user_data {:#x}) that was not seen before",
            uring.res, uring.user_data
        );
        self.anomaly(&anomaly(event, AnomalyKind::OrphanResult, 1, detail), event.time, sink)
    }

    /// Handles the begin of direct I/O of a file system in this thread: if io_uring has just got
    /// the file for a request, the I/O belongs to that request.
    pub(super) fn file_io(&mut self, event: &Event, io: &FileIo) {
        if let Some(reason) = self.ignore_reason(event.pid) {
            self.ledger.ignore(reason);
            return;
        }
        self.ledger.events += 1;
        if io.is_span {
            self.begin_direct(event);
        }
        let key = self.asynchronous.beginning.remove(&event.tid);
        let flight = key.and_then(|it| self.asynchronous.in_flight.get(it));
        let Some(AsyncFlight { operation, .. }) = flight else { return };
        let stat = operation.file.as_ref().and_then(|it| it.stat);
        if stat.is_some_and(|it| (it.dev, it.ino) == (io.dev, io.ino)) {
            operation.offset = Some(io.position);
            operation.bytes_requested = Some(io.count);
        }
    }

    /// Handles the end of `io_uring_register`: a ring may have other files now.
    pub(super) fn uring_registered(&mut self, call: &SyscallOperation, exit: &SysExit) {
        if exit.ret < 0 {
            return;
        }
        let row = call.call.call();
        let place = row.arg(Role::RegisterOp).and_then(|it| call.args.get(it));
        let operation = place.map_or(0, |it| u64::from(low_half(*it)));
        let files = row.registered_files(&call.args);
        let words = read_beside(call, exit, Role::Registered).as_chunks().0;
        let fds: Vec<i32> = words.iter().map(|it| i32::from_le_bytes(*it)).collect();
        let process = self.tasks.process(call.pid);
        // Operations on a registered file may use its own position, and no event reports that.
        let is_about_files = files.is_some() || FILE_OPERATIONS.contains(&operation);
        if is_about_files && words.len() as u64 == files.unwrap_or(u64::MAX) {
            let table = process.fds.borrow();
            fds.iter().filter_map(|it| table.peek(Fd(*it))).for_each(Description::share_outside);
        } else if is_about_files || operation & USE_REGISTERED_RING != 0 {
            process.fds.borrow().share_all();
        }
        let only = match (fds.as_slice(), files) {
            ([fd], Some(1)) if *fd >= 0 => process.fds.borrow().get(Fd(*fd), self.context.losses),
            _ => None,
        };
        // The ring may be given by its number among registered rings.
        let is_any = operation & USE_REGISTERED_RING != 0;
        for ring in self.asynchronous.rings.values_mut().filter(|it| it.process == call.process) {
            if is_any || Some(ring.fd) == call.fd && FILE_OPERATIONS.contains(&operation) {
                ring.file = only.clone().filter(|_| !is_any);
            }
        }
    }
}
