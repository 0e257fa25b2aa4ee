//! Events of the `io_uring:*` tracepoints, with the kernel's field names.
//!
//! The events identify a request by its address and by the `user_data` that the program gave it;
//! that of a descriptor comes with `io_uring_file_get`. Offsets and lengths are in memory that the
//! program shares with the kernel. No tracepoint reports them, except for requests that are refused
//! at once (`io_uring_req_failed`).

use super::async_table::{Interface, Opcode};
use super::registers::low_half;
use crate::tracefs::{BindError, EventFormat, IntField};

/// Tracepoint of an event (`include/trace/events/io_uring.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UringPoint {
    /// `io_uring_create`: a ring was created.
    Create,
    /// `io_uring_submit_req`, and `io_uring_submit_sqe` before 6.3: the kernel took a request from
    /// the submission queue.
    Submit,
    /// `io_uring_file_get`: a request got the file of a descriptor. Files that are registered with
    /// the ring have no such event.
    FileGet,
    /// `io_uring_queue_async_work`: a request went to a worker thread, since it would have to wait.
    Worker,
    /// `io_uring_req_failed`: a request was refused when it was taken; nothing was submitted.
    Failed,
    /// `io_uring_complete`: a result was put into the completion queue.
    Complete,
    /// `io_uring_cqe_overflow`: a result was put aside, since that queue is full. Some kernels
    /// report this in addition to [`UringPoint::Complete`], some instead of it.
    Overflow,
}

/// Tracepoints and their meanings.
pub const URING_POINTS: [(&str, UringPoint); 8] = [
    ("io_uring_create", UringPoint::Create),
    ("io_uring_submit_req", UringPoint::Submit),
    ("io_uring_submit_sqe", UringPoint::Submit),
    ("io_uring_file_get", UringPoint::FileGet),
    ("io_uring_queue_async_work", UringPoint::Worker),
    ("io_uring_req_failed", UringPoint::Failed),
    ("io_uring_complete", UringPoint::Complete),
    ("io_uring_cqe_overflow", UringPoint::Overflow),
];

/// Event of an io_uring tracepoint. Fields that its tracepoint does not have are 0 or `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UringEvent {
    /// Tracepoint of the event.
    pub point: UringPoint,
    /// Address of the ring in the kernel (`ctx`).
    pub ctx: u64,
    /// Address of the request in the kernel; 0 for a result that is not that of a request. `None`
    /// if the kernel does not report it (5.10 and 5.15, and there some tracepoints do).
    pub req: Option<u64>,
    /// Program's value that identifies the request.
    pub user_data: u64,
    /// Opcode `IORING_OP_*`.
    pub opcode: u8,
    /// Descriptor number.
    pub fd: i32,
    /// Result; -4095 to -1 is a negative errno. For a refused request, the error.
    pub res: i64,
    /// Flags: `IOSQE_*` in the low byte, the kernel's own flags above.
    pub flags: u64,
    /// Flags of the completion: `IORING_CQE_F_*`.
    pub cflags: u32,
    /// True if a kernel thread took it from the queue (`IORING_SETUP_SQPOLL`).
    pub sq_thread: bool,
    /// File position of a refused request.
    pub off: Option<u64>,
    /// Requested bytes of a refused request.
    pub len: Option<u64>,
}

impl UringEvent {
    /// Returns the opcode; `NOP` where the tracepoint does not report it.
    pub fn opcode(&self) -> Opcode {
        Opcode { interface: Interface::IoUring, number: self.opcode.into() }
    }
}

/// `IOSQE_FIXED_FILE`: the file is registered with the ring (`include/uapi/linux/io_uring.h`).
pub const IOSQE_FIXED_FILE: u64 = 1 << 0;

/// `IOSQE_CQE_SKIP_SUCCESS`: there is no result unless the request fails.
pub const IOSQE_CQE_SKIP_SUCCESS: u64 = 1 << 6;

/// `IORING_CQE_F_MORE`: more results of the same request follow.
pub const IORING_CQE_F_MORE: u32 = 1 << 1;

/// `IORING_CQE_F_NOTIF`: not a result, but a notice that the buffer of a zero-copy send is free.
pub const IORING_CQE_F_NOTIF: u32 = 1 << 3;

/// Fields of one tracepoint; kernels differ in the fields that they have.
#[derive(Debug)]
pub(super) struct UringShape {
    point: UringPoint,
    ctx: IntField,
    req: Option<IntField>,
    user_data: Option<IntField>,
    opcode: Option<IntField>,
    fd: Option<IntField>,
    res: Option<IntField>,
    flags: Option<IntField>,
    cflags: Option<IntField>,
    sq_thread: Option<IntField>,
    off: Option<IntField>,
    len: Option<IntField>,
}

impl UringShape {
    pub(super) fn of(point: UringPoint, format: &EventFormat) -> Result<Self, BindError> {
        let result = if point == UringPoint::Failed { "error" } else { "res" };
        Ok(Self {
            point,
            ctx: format.int("ctx")?,
            req: format.int_opt("req")?,
            user_data: format.int_opt("user_data")?,
            opcode: format.int_opt("opcode")?,
            fd: format.int_opt("fd")?,
            res: format.int_opt(result)?,
            flags: format.int_opt("flags")?,
            cflags: format.int_opt("cflags")?,
            sq_thread: format.int_opt("sq_thread")?,
            off: format.int_opt("off")?,
            len: format.int_opt("len")?,
        })
    }

    /// Reads an event; `None` if the payload is too short.
    pub(super) fn read(&self, payload: &[u8]) -> Option<UringEvent> {
        let optional = |field: &Option<IntField>| match field {
            Some(field) => field.read_u64(payload).map(Some),
            None => Some(None),
        };
        let number = |field: &Option<IntField>| optional(field).map(Option::unwrap_or_default);
        let signed = |field: &Option<IntField>| match field {
            Some(field) => field.read_i64(payload),
            None => Some(0),
        };
        Some(UringEvent {
            point: self.point,
            ctx: self.ctx.read_u64(payload)?,
            req: optional(&self.req)?,
            user_data: number(&self.user_data)?,
            opcode: u8::try_from(number(&self.opcode)?).ok()?,
            fd: i32::try_from(signed(&self.fd)?).ok()?,
            res: signed(&self.res)?,
            flags: number(&self.flags)?,
            cflags: low_half(number(&self.cflags)?),
            sq_thread: number(&self.sq_thread)? != 0,
            off: optional(&self.off)?,
            len: optional(&self.len)?,
        })
    }
}
