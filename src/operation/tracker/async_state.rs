//! State of asynchronous operations between events.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::async_table::Opcode;
use crate::event::syscall_table::Role;
use crate::event::uring::UringEvent;
use crate::event::{Event, SysExit};
use crate::operation::asynchronous::{AsyncOperation, InFlight, Key};
use crate::operation::fd_table::Description;
use crate::operation::model::{ProcessKey, SyscallOperation};
use crate::operation::process::{Process, Thread};
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
    pub(super) fn key(&self, uring: &UringEvent) -> Option<Key> {
        match uring.req {
            Some(req @ 1..) => Some(Key::Request(uring.ctx, req)),
            Some(0) | None => self.in_flight.oldest(uring.ctx, uring.user_data),
        }
    }

    /// Returns true if the ring has reported this result immediately before.
    pub(super) fn is_repeat(&mut self, event: &Event, uring: &UringEvent) -> bool {
        self.last.remove(&uring.ctx) == Some((uring.user_data, uring.res, event.tid))
    }
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
        ring: 0,
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

/// Returns the list that the argument of this role points to, if a probe has recorded it.
pub(super) fn recorded_list<'a>(
    call: &SyscallOperation,
    exit: &'a SysExit,
    role: Role,
) -> &'a [u8] {
    match exit.names.as_deref().and_then(|names| names.list.as_ref()) {
        Some((address, bytes)) if pointer(call, role) == Some(*address) => bytes,
        _ => &[],
    }
}

/// Returns the argument of this role.
fn pointer(call: &SyscallOperation, role: Role) -> Option<u64> {
    call.args.get(call.call.call().arg(role)?).copied()
}

/// Returns the memory that the argument of this role points to, if it was read in time.
pub(super) fn read_beside<'a>(call: &SyscallOperation, exit: &'a SysExit, role: Role) -> &'a [u8] {
    let address = pointer(call, role);
    let names = exit.names.as_deref();
    let read = names.and_then(|it| it.memory.iter().find(|it| Some(it.0) == address));
    read.filter(|it| it.1.verified).map_or(&[], |it| &it.1.bytes)
}
