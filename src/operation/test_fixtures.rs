//! Operations for tests: fields that a test does not set have the simplest values.

use std::sync::Arc;

use super::attribution::{BlockContents, Piece};
use super::model::{OpenFile, ProcessKey, SyscallOperation, ThreadKey};
use crate::block::{BlockRequest, EventContext, FlushRole, Inferred, RequestEnd, RequestId};
use crate::event::block::{BlockPoint, RequestOp, Rwbs};
use crate::event::syscall_table::CallId;
use crate::units::{CpuId, DevId, Fd, KernelTime, Pid, SECTOR_BYTES, Tid};

/// A call of process 11 on a file, through descriptor 3.
pub fn call(
    name: &str,
    file: Arc<OpenFile>,
    [start, end]: [u64; 2],
    offset: Option<u64>,
    ret: i64,
) -> SyscallOperation {
    SyscallOperation {
        call: CallId::by_name(name).expect(name),
        thread: ThreadKey(0),
        process: ProcessKey(0),
        pid: Pid(11),
        tid: Tid(11),
        cpu: CpuId(0),
        start: KernelTime(start),
        end: Some(KernelTime(end)),
        args: [0; 6],
        ret: Some(ret),
        fd: Some(Fd(3)),
        file: Some(file),
        named: None,
        target: None,
        offset,
        target_offset: None,
        flags_in_memory: None,
        resolve_in_memory: None,
        bytes_requested: None,
        spans: Vec::new(),
        chain: None,
    }
}

/// Returns a completed request for `nr_sector` sectors.
pub fn request(
    dev: DevId,
    op: RequestOp,
    sector: u64,
    nr_sector: u32,
    [queued, completed]: [u64; 2],
) -> BlockRequest {
    BlockRequest {
        id: RequestId(0),
        dev,
        op,
        rwbs: Rwbs::new(b"R"),
        sector,
        nr_sector,
        bytes_done: u64::from(nr_sector) * SECTOR_BYTES,
        first_seen: BlockPoint::GetRq,
        queued: Some(KernelTime(queued)),
        inserted: None,
        issued: None,
        reissued: None,
        data_completed: None,
        completed: Some(KernelTime(completed)),
        submitter: None,
        error: None,
        merges: 0,
        requeues: 0,
        flush: FlushRole::None,
        inferred: Inferred::default(),
        is_stillborn: false,
        ending: Some(RequestEnd::Completed),
        parts: std::sync::Arc::default(),
    }
}

/// Returns the contents of a whole request, which process 12 has queued.
pub fn piece(request: &BlockRequest, contents: BlockContents) -> Piece {
    let time = request.queued.unwrap_or(KernelTime::MIN);
    Piece {
        sector: request.sector,
        nr_sector: request.nr_sector.into(),
        queued: EventContext { time, cpu: CpuId(0), pid: Pid(12), tid: Tid(12) },
        levels: [].into(),
        contents,
        above: Vec::new(),
        for_others: false,
        writers: Vec::new(),
    }
}
