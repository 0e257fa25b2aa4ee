//! Encoding of imported events as perf records (`perf_event_open(2)`).

use super::imported_event::{Block, ImportedEvent, ImportedKind, ImportedTask};
use super::synthetic_formats::{Point, payload};
use crate::event::block::BlockPoint;
use crate::event::syscall_table::CallId;
use crate::record::abi::{MISC_COMM_EXEC, record_type, sample_type};

/// `PERF_SAMPLE_*` bits of all records.
pub(super) const SAMPLE_TYPE: u64 = sample_type::TID | sample_type::TIME | sample_type::RAW;

/// Architecture whose system call numbers are used: it has every call of our table.
pub(super) const MACHINE: &str = "x86_64";

/// Length of a task's name, without its NUL (`TASK_COMM_LEN`).
pub(super) const COMM_BYTES: usize = 15;

/// Appends the records of an event, and returns their tracepoint; facts have none.
pub(super) fn encode(out: &mut Vec<u8>, event: &ImportedEvent) -> Option<Point> {
    let ImportedEvent { time, task, what } = event;
    match what {
        ImportedKind::Enter(call, args) => {
            let args = args.map(u64::to_le_bytes);
            sample(out, event, Point::Enter, &[&number(*call), args.as_flattened()])
        }
        ImportedKind::Exit(call, ret, _) => {
            sample(out, event, Point::Exit, &[&number(*call), &ret.to_le_bytes()])
        }
        ImportedKind::Born(child, flags) => {
            relation(out, record_type::FORK, *time, *task, *child);
            let tid = child.tid.0.to_le_bytes();
            sample(out, event, Point::NewTask, &[&tid, &flags.to_le_bytes()])
        }
        ImportedKind::Named(name, exec) => {
            comm(out, *time, *task, name, *exec);
            None
        }
        ImportedKind::Ended => {
            relation(out, record_type::EXIT, *time, *task, *task);
            None
        }
        ImportedKind::Lost(count) => {
            // `u64 id, lost`.
            let parts: [&[u8]; 2] = [&[0; 8], &count.to_le_bytes()];
            other(out, record_type::LOST, 0, &parts, *time, *task);
            None
        }
        ImportedKind::Block(block) => request(out, event, block),
        ImportedKind::Open(..) | ImportedKind::Directory(_) | ImportedKind::Disk(..) => None,
    }
}

fn number(call: CallId) -> [u8; 8] {
    u64::from(call.call().x86_64).to_le_bytes()
}

fn request(out: &mut Vec<u8>, event: &ImportedEvent, block: &Block) -> Option<Point> {
    let point = Point::Block(block.point);
    let (dev, sector) = (block.dev.0.to_le_bytes(), block.sector.to_le_bytes());
    let sectors = block.sectors.to_le_bytes();
    let error = block.error.to_le_bytes();
    match block.point {
        BlockPoint::Complete | BlockPoint::BioComplete => {
            sample(out, event, point, &[&dev, &sector, &sectors, &error, &block.rwbs, &block.comm])
        }
        BlockPoint::Remap => {
            let (old_dev, old_sector) = block.from.unwrap_or((block.dev, block.sector));
            let old = (old_dev.0.to_le_bytes(), old_sector.to_le_bytes());
            sample(out, event, point, &[&dev, &sector, &sectors, &old.0, &old.1, &block.rwbs])
        }
        _ => sample(out, event, point, &[&dev, &sector, &sectors, &block.rwbs, &block.comm]),
    }
}

fn task_bytes(task: ImportedTask) -> [[u8; 4]; 2] {
    [task.pid.0, task.tid.0].map(i32::to_le_bytes)
}

/// Appends a sample: `u32 pid, tid; u64 time; u32 size; char payload[]`, padded to eight bytes.
fn sample(
    out: &mut Vec<u8>,
    event: &ImportedEvent,
    point: Point,
    values: &[&[u8]],
) -> Option<Point> {
    let mut raw = Vec::with_capacity(80);
    payload(&mut raw, point, event.task.tid.0, values);
    raw.resize((raw.len() + 4).next_multiple_of(8) - 4, 0);
    let size = u32::try_from(raw.len()).unwrap_or(0).to_le_bytes();
    let task = task_bytes(event.task);
    record(
        out,
        record_type::SAMPLE,
        0,
        &[task.as_flattened(), &event.time.to_le_bytes(), &size, &raw],
    );
    Some(point)
}

/// Appends a start or end of a task: `u32 pid, ppid, tid, ptid; u64 time`.
fn relation(out: &mut Vec<u8>, kind: u32, time: u64, parent: ImportedTask, child: ImportedTask) {
    let words = [child.pid.0, parent.pid.0, child.tid.0, parent.tid.0].map(i32::to_le_bytes);
    let parts: [&[u8]; 2] = [words.as_flattened(), &time.to_le_bytes()];
    other(out, kind, 0, &parts, time, parent);
}

/// Appends a name: `u32 pid, tid; char comm[]`, padded to eight bytes.
fn comm(out: &mut Vec<u8>, time: u64, task: ImportedTask, name: &[u8], exec: bool) {
    let misc = if exec { MISC_COMM_EXEC } else { 0 };
    let mut text = name.get(..COMM_BYTES).unwrap_or(name).to_vec();
    text.resize((text.len() + 1).next_multiple_of(8), 0);
    let words = task_bytes(task);
    other(out, record_type::COMM, misc, &[words.as_flattened(), &text], time, task);
}

/// Appends a record with the trailer that `sample_id_all` adds to all records except samples.
fn other(
    out: &mut Vec<u8>,
    kind: u32,
    misc: u16,
    parts: &[&[u8]],
    time: u64,
    running: ImportedTask,
) {
    let (words, time) = (task_bytes(running), time.to_le_bytes());
    let parts = [parts, &[words.as_flattened(), &time]].concat();
    record(out, kind, misc, &parts);
}

/// Appends `u32 type; u16 misc; u16 size`, and the parts.
fn record(out: &mut Vec<u8>, kind: u32, misc: u16, parts: &[&[u8]]) {
    let bytes: usize = 8 + parts.iter().map(|part| part.len()).sum::<usize>();
    // All parts have a fixed size except for names, which were truncated.
    let size = u16::try_from(bytes).unwrap_or(u16::MAX);
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&misc.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}
