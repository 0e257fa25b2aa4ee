//! Writer of plans: operations as they come, in frames per worker.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::threaded_writer::IntoWriter;
use super::{
    CallPlan, END_MAGIC, FILE_HEADER_BYTES, FILE_MAGIC, FILES_MAX, FRAME_HEADER_BYTES, FRAME_MAGIC,
    FileBefore, FileKind, FilesFrame, GIVEN_MAX, GivenPlan, Index, KIND_FILES, KIND_INDEX,
    KIND_NAMES, KIND_OPERATIONS, LeftPlan, NamesFrame, OPERATIONS_BYTES, OPERATIONS_MAX, Operation,
    PARTS_MAX, VERSION, WORKERS_MAX, WorkerPlan, payload_bytes_max,
};
use crate::analysis::completed_op::OpKind;
use crate::event::syscall_table::{CallClass, CallId, Role};
use crate::replay::dependencies::Worker;
use crate::replay::namespace::{EntryKind, FsModel};
use crate::replay::planned_op::PlannedOp;
use crate::replay::planner::{PlanOutput, Planner};
use crate::units::ReplayTime;

/// Level of zstd: a plan is written once, and read by workers that must not be slowed down.
const LEVEL: i32 = 1;

/// Bytes of operations that wait for their frames. With more, all frames are written as they are.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Unfinished frame of one worker.
#[derive(Debug, Default)]
struct OpenFrame {
    payload: Vec<u8>,
    count: u32,
    /// Explicit operations, in written frames and in this one.
    operations: u32,
    frames: Vec<u64>,
    is_waited_for: bool,
    /// End of its last operation, and the total number of ends by then.
    end: ReplayTime,
    ends: u64,
}

/// Writer of operations; [`finish`] writes the rest.
#[derive(Debug)]
pub struct PlanWriter<W> {
    out: W,
    written: u64,
    workers: Vec<OpenFrame>,
    waiting: usize,
    calls: Vec<(CallId, OpKind)>,
    numbers: FxHashMap<(CallId, OpKind), u16>,
    /// Number of ends of all operations.
    ends: u64,
    /// Latest end among all operations.
    latest: ReplayTime,
    longest: [u64; 2],
    /// Paths by which files were first opened.
    names: BTreeMap<u32, Vec<u8>>,
}

impl<W: Write> PlanWriter<W> {
    /// Begins a plan on `out`, which must be empty.
    ///
    /// # Errors
    ///
    /// Those of `out`.
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
    fn frame(&mut self, kind: u32, payload: &[u8]) -> io::Result<u64> {
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

    fn number(&mut self, call: (CallId, OpKind)) -> u16 {
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
        let number = self.number((planned.call, planned.what()));
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
fn too_many() -> io::Error {
    io::Error::other(
        "the plan has more files or threads than a plan may have; select a part of the capture (-p, -F, --from and --until)",
    )
}

/// Writes the rest of a plan, of a capture from this kind of machine (`uname -m`).
///
/// # Errors
///
/// Those of the destination of the plan.
pub fn finish<O: PlanOutput + IntoWriter>(
    planner: Planner<O>,
    machine: &str,
) -> io::Result<O::Destination> {
    let handles = u32::try_from(planner.handles()).map_err(io::Error::other)?;
    let Planner { out, world, who, given, left, .. } = planner;
    let mut out = out.into_writer()?;
    out.flush_all()?;
    let files = files(&world);
    for it in &given {
        if let Some(file) = it.file {
            out.names.entry(file.0).or_insert_with(|| it.path.clone());
        }
    }
    let names: Vec<(u32, Vec<u8>)> = std::mem::take(&mut out.names).into_iter().collect();
    let is_too_much = files.len().max(names.len()) > FILES_MAX
        || who.len() > WORKERS_MAX
        || given.len() > GIVEN_MAX;
    if is_too_much {
        return Err(too_many());
    }
    let files_at = out.frame(KIND_FILES, &encoded(&FilesFrame(files))?)?;
    let names_at = out.frame(KIND_NAMES, &encoded(&NamesFrame(names))?)?;
    let workers = who.into_iter().zip(&mut out.workers).map(|(who, filling)| WorkerPlan {
        pid: who.pid,
        tid: who.tid,
        comm: who.comm,
        lane: who.lane,
        before: who.before.first().map(|it| (it.worker.0, it.number)),
        is_waited_for: filling.is_waited_for,
        operations: filling.operations,
        frames: std::mem::take(&mut filling.frames),
    });
    let given = given.into_iter().map(|descriptor| GivenPlan {
        handle: descriptor.handle.0,
        path: descriptor.path,
        flags: descriptor.flags,
        offset: descriptor.offset,
    });
    let left = left.into_iter().map(|((reason, call), count)| LeftPlan {
        reason: reason.as_str().to_owned(),
        call: call.to_string(),
        count,
    });
    let calls = out.calls.iter().map(|(call, what)| CallPlan {
        name: call.call().name.to_owned(),
        asynchronous: matches!(what, OpKind::Async(_)).then(|| what.to_string()),
    });
    let index = Index {
        machine: machine.to_owned(),
        workers: workers.collect(),
        calls: calls.collect(),
        given: given.collect(),
        left: left.collect(),
        followed: planner.followed,
        unexplained: world.unexplained,
        handles,
        span: planner.span,
        bytes: planner.bytes,
        longest: out.longest,
        files_at,
        names_at,
    };
    let at = out.frame(KIND_INDEX, &encoded(&index)?)?;
    out.out.write_all(&at.to_le_bytes())?;
    out.out.write_all(&END_MAGIC)?;
    out.out.flush()?;
    Ok(out.out)
}

fn encoded(what: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(what).map_err(io::Error::other)
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

/// Returns the initial files.
fn files(world: &FsModel) -> Vec<FileBefore> {
    let mut first_names = FxHashMap::default();
    let place = |(place, entry): (usize, crate::replay::namespace::ListedEntry)| {
        let (kind, size, file) = match entry.thing {
            EntryKind::Directory => (FileKind::Directory, 0, None),
            EntryKind::File(file) => (FileKind::File, world.size(file).first(), Some(file)),
            EntryKind::Any => (FileKind::File, 0, None),
            EntryKind::Link(bytes) => (FileKind::Link, bytes, None),
        };
        let place = u32::try_from(place).expect("fewer files than bytes");
        let first = file.map(|it| *first_names.entry(it).or_insert(place));
        let same_as = first.filter(|it| *it != place);
        let (path, mode, has_more, text) = (entry.path, entry.mode, entry.has_more, entry.text);
        let parts = file.filter(|_| same_as.is_none());
        // Parts beyond the limit become data, like unknown parts; init counts the file among those
        // that differ.
        let parts = parts.into_iter().flat_map(|it| world.parts(it)).take(PARTS_MAX).collect();
        FileBefore { path, kind, size, mode, has_more, same_as, parts, text }
    };
    world.entries().into_iter().enumerate().map(place).collect()
}
