//! Records as the kernel writes them; payloads by its `format` files.

use iotrace_perf::capture::header;
use iotrace_perf::event::syscall_table::CallId;
use iotrace_perf::record::abi::{MISC_COMM_EXEC, record_type, sample_type};
use iotrace_perf::tracefs::{EventFormat, Field};
use iotrace_perf::units::DevId;

use super::thread::Call;

/// `PERF_SAMPLE_*` of all records.
pub(super) const SAMPLE_TYPE: u64 = sample_type::TID | sample_type::TIME | sample_type::RAW;
/// `PERF_RECORD_MISC_USER` or `_KERNEL`; no reader looks at it.
const MISC: u16 = 1;
/// Sectors of a request.
const SECTORS: u32 = 8;

/// Process and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub pid: u32,
    pub tid: u32,
}

impl Task {
    fn bytes(self) -> [u8; 8] {
        (u64::from(self.tid) << 32 | u64::from(self.pid)).to_le_bytes()
    }
}

/// A birth: `u32 pid, ppid, tid, ptid; u64 time`.
pub(super) fn fork(out: &mut Vec<u8>, time: u64, parent: Task, child: Task) {
    relation(out, record_type::FORK, time, (parent, child), parent);
}

/// An end, laid out the same.
pub(super) fn exit(out: &mut Vec<u8>, time: u64, task: Task) {
    relation(out, record_type::EXIT, time, (task, task), task);
}

fn relation(out: &mut Vec<u8>, kind: u32, time: u64, (parent, child): (Task, Task), running: Task) {
    let words = [child.pid, parent.pid, child.tid, parent.tid].map(u32::to_le_bytes);
    other(out, (kind, 0), &[words.as_flattened(), &time.to_le_bytes()], time, running);
}

/// A new name: `u32 pid, tid; char comm[]`, padded to eight bytes.
pub(super) fn comm(out: &mut Vec<u8>, time: u64, task: Task, name: &str, exec: bool) {
    let misc = if exec { MISC_COMM_EXEC } else { 0 };
    let mut text = name.as_bytes().to_vec();
    text.resize((text.len() + 1).next_multiple_of(8), 0);
    other(out, (record_type::COMM, misc), &[&task.bytes(), &text], time, task);
}

/// A record with the trailer that `sample_id_all` gives to all but samples.
fn other(out: &mut Vec<u8>, (kind, misc): (u32, u16), parts: &[&[u8]], time: u64, running: Task) {
    let body: usize = parts.iter().map(|it| it.len()).sum();
    header(out, kind, misc, body + 16);
    parts.iter().for_each(|it| out.extend_from_slice(it));
    out.extend_from_slice(&running.bytes());
    out.extend_from_slice(&time.to_le_bytes());
}

fn header(out: &mut Vec<u8>, kind: u32, misc: u16, body: usize) {
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&misc.to_le_bytes());
    out.extend_from_slice(&u16::try_from(8 + body).expect("a short record").to_le_bytes());
}

/// A tracepoint: its `format` text, and where the fields are that are filled in.
struct Tracepoint {
    system: &'static str,
    name: &'static str,
    text: &'static str,
    id: u16,
    /// `common_pid`, then those of [`POINTS`].
    fields: Vec<Field>,
    /// A payload with nothing but its `common_type`.
    blank: Vec<u8>,
}

/// System, name, `format` file and the fields that are filled in.
type Point = (&'static str, &'static str, &'static str, &'static [&'static str]);

macro_rules! point {
    ($system:literal, $name:literal, $fields:expr) => {
        (
            $system,
            $name,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/corpus/tracefs/6.18.44-fc-v669/events/",
                $system,
                "/",
                $name,
                "/format"
            )),
            $fields,
        )
    };
}

const REQUEST: &[&str] = &["dev", "sector", "nr_sector", "rwbs"];
const POINTS: [Point; 6] = [
    point!("raw_syscalls", "sys_enter", &["id", "args"]),
    point!("raw_syscalls", "sys_exit", &["id", "ret"]),
    point!("block", "block_getrq", REQUEST),
    point!("block", "block_rq_insert", REQUEST),
    point!("block", "block_rq_issue", REQUEST),
    point!("block", "block_rq_complete", REQUEST),
];
const ENTER: usize = 0;
const EXIT: usize = 1;

/// All of them.
pub(super) struct Tracepoints(Vec<Tracepoint>);

impl Tracepoints {
    pub(super) fn new() -> Self {
        Self(POINTS.into_iter().map(Tracepoint::new).collect())
    }

    /// As the header of a log names them: calls are in both rings.
    pub(super) fn described(&self) -> Vec<header::Tracepoint> {
        let rings = |it: &Tracepoint| if it.system == "block" { 0..1 } else { 0..2 };
        let described = |it: &Tracepoint, ring| header::Tracepoint {
            system: it.system.into(),
            name: it.name.into(),
            id: it.id,
            format: it.text.into(),
            filter: String::new(),
            ring,
        };
        self.0.iter().flat_map(|it| rings(it).map(move |ring| described(it, ring))).collect()
    }

    pub(super) fn enter(&self, out: &mut Vec<u8>, time: u64, task: Task, call: &Call) {
        let args = call.args.map(u64::to_le_bytes);
        self.0[ENTER].sample(out, time, task, &[&number(call), args.as_flattened()]);
    }

    pub(super) fn exit(&self, out: &mut Vec<u8>, time: u64, task: Task, call: &Call) {
        self.0[EXIT].sample(out, time, task, &[&number(call), &call.ret.to_le_bytes()]);
    }

    /// A step of a write request.
    pub(super) fn request(
        &self,
        name: &str,
        out: &mut Vec<u8>,
        time: u64,
        task: Task,
        disk: DevId,
        sector: u64,
    ) {
        let point = self.0.iter().find(|it| it.name == name).expect("one of POINTS");
        let values: [&[u8]; 4] = [
            &disk.0.to_le_bytes(),
            &sector.to_le_bytes(),
            &SECTORS.to_le_bytes(),
            b"WS\0\0\0\0\0\0\0\0",
        ];
        point.sample(out, time, task, &values);
    }
}

/// The call's number on x86-64.
fn number(call: &Call) -> [u8; 8] {
    let row = CallId::by_name(call.name_of_call).expect("a row of the table");
    u64::from(row.call().x86_64).to_le_bytes()
}

impl Tracepoint {
    fn new((system, name, text, filled): Point) -> Self {
        let format = EventFormat::parse(text).expect("a format of the corpus");
        let field = |name: &str| format.field(name).expect("a field of the format").clone();
        let id = format.id.and_then(|it| u16::try_from(it).ok()).expect("a number");
        let end = format.fields.iter().map(|it| it.offset + it.size).max().unwrap_or(0);
        let mut blank = vec![0; usize::try_from(end).expect("short")];
        put(&mut blank, &field("common_type"), &id.to_le_bytes());
        let fields = std::iter::once(&"common_pid").chain(filled).map(|it| field(it)).collect();
        Self { system, name, text, id, fields, blank }
    }

    /// `u32 pid, tid; u64 time; u32 size; char payload[]`, padded to eight bytes.
    fn sample(&self, out: &mut Vec<u8>, time: u64, task: Task, values: &[&[u8]]) {
        let raw = (4 + self.blank.len()).next_multiple_of(8);
        header(out, record_type::SAMPLE, MISC, 16 + raw);
        out.extend_from_slice(&task.bytes());
        out.extend_from_slice(&time.to_le_bytes());
        out.extend_from_slice(&u32::try_from(raw - 4).expect("short").to_le_bytes());
        let start = out.len();
        out.extend_from_slice(&self.blank);
        let tid = task.tid.to_le_bytes();
        let values = std::iter::once(&tid[..]).chain(values.iter().copied());
        for (field, value) in self.fields.iter().zip(values) {
            put(&mut out[start..], field, value);
        }
        out.resize(start + raw - 4, 0);
    }
}

/// Fills a field in.
fn put(payload: &mut [u8], field: &Field, value: &[u8]) {
    let start = usize::try_from(field.offset).expect("short");
    let size = usize::try_from(field.size).expect("short");
    payload[start..start + size].copy_from_slice(value);
}
