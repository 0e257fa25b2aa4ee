//! Writer of plans: operations as they come, in frames per worker.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::format::{
    FILE_HEADER_BYTES, FILE_MAGIC, FRAME_HEADER_BYTES, FRAME_MAGIC, KIND_OPERATIONS, VERSION,
    payload_bytes_max,
};
use super::limits::{OPERATIONS_BYTES, OPERATIONS_MAX};
use super::operation::Operation;
use crate::analysis::completed_op::OpKind;
use crate::event::syscall_table::{CallClass, CallId, Role};
use crate::replay::plan::dependencies::Worker;
use crate::replay::plan::plan_output::PlanOutput;
use crate::replay::plan::planned_op::PlannedOp;
use crate::units::ReplayTime;

/// Level of zstd: a plan is written once, and read by workers that must not be slowed down.
const LEVEL: i32 = 1;

/// Bytes of operations that wait for their frames. With more, all frames are written as they are.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Call that a plan makes, and the captured operation that it repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PlannedCall {
    pub(super) call: CallId,
    pub(super) captured: OpKind,
}

/// Unfinished frame of one worker.
#[derive(Debug, Default)]
pub(super) struct OpenFrame {
    payload: Vec<u8>,
    count: u32,
    /// Explicit operations, in written frames and in this one.
    pub(super) operations: u32,
    pub(super) frames: Vec<u64>,
    pub(super) is_waited_for: bool,
    /// End of its last operation, and the total number of ends by then.
    end: ReplayTime,
    ends: u64,
}

/// Writer of operations; [`super::finish()`] writes the rest.
#[derive(Debug)]
pub struct PlanWriter<W> {
    pub(super) out: W,
    written: u64,
    pub(super) workers: Vec<OpenFrame>,
    waiting: usize,
    pub(super) calls: Vec<PlannedCall>,
    numbers: FxHashMap<PlannedCall, u16>,
    /// Number of ends of all operations.
    ends: u64,
    /// Latest end among all operations.
    latest: ReplayTime,
    pub(super) longest: [u64; 2],
    /// Paths by which files were first opened.
    pub(super) names: BTreeMap<u32, Vec<u8>>,
}

impl<W: Write> PlanWriter<W> {
    /// Begins a plan on `out`, which must be empty.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&FILE_MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&[0; 6])?;
        Ok(Self {
            out,
            written: FILE_HEADER_BYTES,
            workers: Vec::new(),
            waiting: 0,
            calls: Vec::new(),
            numbers: FxHashMap::default(),
            ends: 0,
            latest: ReplayTime::MIN,
            longest: [0; 2],
            names: BTreeMap::new(),
        })
    }

    /// Writes a frame, and returns its offset.
    pub(super) fn frame(&mut self, kind: u32, payload: &[u8]) -> io::Result<u64> {
        let stored = zstd::bulk::compress(payload, LEVEL)?;
        let length = |bytes: &[u8]| match u32::try_from(bytes.len()) {
            Ok(it) if it <= payload_bytes_max(kind) => Ok(it),
            _ => Err(too_many()),
        };
        let mut header = Vec::with_capacity(FRAME_HEADER_BYTES);
        header.extend_from_slice(&FRAME_MAGIC);
        let crc = crc32fast::hash(&stored);
        for it in [kind, length(&stored)?, length(payload)?, crc] {
            header.extend_from_slice(&it.to_le_bytes());
        }
        header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
        self.out.write_all(&header)?;
        self.out.write_all(&stored)?;
        let at = self.written;
        self.written += (header.len() + stored.len()) as u64;
        Ok(at)
    }

    fn flush(&mut self, worker: usize) -> io::Result<()> {
        let Some(filling) = self.workers.get_mut(worker) else { return Ok(()) };
        if filling.count == 0 {
            return Ok(());
        }
        let payload = std::mem::take(&mut filling.payload);
        filling.count = 0;
        self.waiting -= payload.len();
        let at = self.frame(KIND_OPERATIONS, &payload)?;
        self.workers[worker].frames.push(at);
        Ok(())
    }

    pub(super) fn flush_all(&mut self) -> io::Result<()> {
        (0..self.workers.len()).try_for_each(|it| self.flush(it))
    }

    #[cfg(test)]
    pub(super) fn into_destination(self) -> W {
        self.out
    }

    fn worker(&mut self, worker: Worker) -> &mut OpenFrame {
        let worker = worker.0 as usize;
        if self.workers.len() <= worker {
            self.workers.resize_with(worker + 1, OpenFrame::default);
        }
        &mut self.workers[worker]
    }

    fn number(&mut self, call: PlannedCall) -> u16 {
        let calls = &mut self.calls;
        *self.numbers.entry(call).or_insert_with(|| {
            calls.push(call);
            u16::try_from(calls.len() - 1).expect("fewer calls than rows")
        })
    }
}

impl<W: Write> PlanOutput for PlanWriter<W> {
    type Error = io::Error;

    fn planned(&mut self, planned: &PlannedOp) -> io::Result<()> {
        let worker = planned.at.worker.0 as usize;
        self.worker(planned.at.worker);
        let call = planned.call.call();
        for (longest, bytes) in self.longest.iter_mut().zip(buffers(planned)) {
            *longest = (*longest).max(bytes);
        }
        if let (Some(file), Some(path)) = (planned.file, &planned.path) {
            self.names.entry(file.0).or_insert_with(|| path.clone());
        }
        for it in &planned.before {
            self.worker(it.worker).is_waited_for = true;
        }
        let number = self.number(PlannedCall { call: planned.call, captured: planned.kind() });
        let filling = &mut self.workers[worker];
        let gap = planned.start.since(filling.end);
        let took = planned.end.since(planned.start);
        let end = filling.end.saturating_add(gap).saturating_add(took);
        self.latest = self.latest.max(end);
        let operation = Operation {
            call: number,
            args: registers(planned),
            handle: planned.handle.map(|it| it.0),
            target: planned.target.map(|it| it.0),
            makes: planned.makes.map(|it| it.0),
            file: planned.file.map(|it| it.0),
            path: planned.path.as_deref(),
            second_path: planned.second_path.as_deref(),
            flags: planned.flags,
            offset: planned.offset.filter(|_| call.arg(Role::Offset).is_none()),
            target_offset: planned.target_offset,
            bytes: planned.bytes.filter(|_| call.arg(Role::Buffers).is_some()),
            ret: planned.ret,
            gap,
            took,
            others: self.ends - filling.ends,
            behind: self.latest.since(end),
            keeps_handle: planned.keeps_handle,
            implicit: planned.implicit,
            before: planned.before.iter().map(|it| (it.worker.0, it.number)).collect(),
        };
        let length = filling.payload.len();
        let payload = std::mem::take(&mut filling.payload);
        filling.payload = postcard::to_extend(&operation, payload).map_err(io::Error::other)?;
        self.waiting += filling.payload.len() - length;
        filling.ends = self.ends;
        filling.count += 1;
        if !planned.implicit {
            filling.end = planned.end;
            filling.operations += 1;
        }
        self.ends += 1;
        if filling.count == OPERATIONS_MAX || filling.payload.len() >= OPERATIONS_BYTES {
            self.flush(worker)?;
        } else if self.waiting > WAITING_BYTES_MAX {
            self.flush_all()?;
        }
        Ok(())
    }
}

/// Returns the error for a plan that exceeds the limits of readers.
pub(super) fn too_many() -> io::Error {
    io::Error::other(
        "the plan has more files or threads than a plan may have; select a part of the capture (-p, -F, --from and --until)",
    )
}

/// Returns the registers of an operation, without addresses: two captures of the same program give
/// the same plan.
fn registers(planned: &PlannedOp) -> [u64; 6] {
    let call = planned.call.call();
    std::array::from_fn(|register| {
        let value = planned.args[register];
        let is_pointer = match call.args[register] {
            Role::Path | Role::Path2 | Role::OffsetPtr | Role::OffsetPtr2 => true,
            Role::Buffers | Role::How => true,
            _ => call.is_buffer(register),
        };
        if is_pointer { value.min(1) } else { value }
    })
}

/// Returns the bytes of memory that an operation writes from, and reads into.
fn buffers(planned: &PlannedOp) -> [u64; 2] {
    let call = planned.call.call();
    let count = call.arg(Role::Count).map(|it| planned.args[it]);
    let bytes = planned.bytes.or(count).unwrap_or(0);
    let ret = u64::try_from(planned.ret).unwrap_or(0);
    match call.class {
        CallClass::Write => [bytes.max(ret), 0],
        CallClass::Read | CallClass::List | CallClass::Stat => [0, bytes.max(ret)],
        _ => [0; 2],
    }
}
