//! Operations as rows of selected fields: CSV, TSV, or JSON Lines with these keys only. Requests,
//! calls, asynchronous operations and faults share the fields with the same meaning; a missing
//! value is empty (`null`). `docs/json.md` describes each field.

use std::io;

use rustc_hash::FxHashMap;

use super::errno::ErrnoName;
use super::flags::{self, OpenFlagNames};
use super::table::{CellValue, Separator};
use crate::anomaly::Anomaly;
use crate::event::FileStat;
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::operation::attribution::{BlockContents, Piece};
use crate::operation::block::{self, BlockRequest, BlockStep, RequestEnd};
use crate::operation::fault::Fault;
use crate::operation::model::{FilePath, SyscallOperation, ThreadInfo, ThreadKey, Unfinished};
use crate::operation::{Sink, Step};
use crate::units::{DevId, KernelTime};

/// A row for any kind of operation.
#[derive(Debug, Default)]
struct FieldRow<'a> {
    kind: &'static str,
    name: Cow<'a>,
    start: Option<i64>,
    duration: Option<u64>,
    pid: Option<i32>,
    tid: Option<i32>,
    comm: Option<&'a [u8]>,
    cpu: Option<u32>,
    fd: Option<i32>,
    path: Option<&'a FilePath>,
    path2: Option<&'a FilePath>,
    offset: Option<u64>,
    bytes_requested: Option<u64>,
    bytes: Option<u64>,
    result: Option<i64>,
    errno: Option<i32>,
    device: Option<DevId>,
    disk: Option<&'a str>,
    sector: Option<u64>,
    queue: Option<u64>,
    service: Option<u64>,
    unfinished: Option<&'static str>,
    /// Begin by the wall clock, ns since 1970.
    wall: Option<i64>,
    /// `O_*` flags of the file.
    flags: Option<u32>,
    flags_text: Option<&'a str>,
    stat: Option<FileStat>,
}

/// A name of ours.
type Cow<'a> = std::borrow::Cow<'a, str>;

/// A field, and the function that writes its value directly into the line: there are as many values
/// as rows times columns.
type NamedField = (&'static str, fn(&FieldRow<'_>, &mut LineTarget<'_>));

impl RowForm {
    fn separator(self) -> u8 {
        match self {
            Self::Separated(separator) => separator.byte(),
            Self::Json => b',',
        }
    }
}

/// Output of a line. A separator follows each value, even the last one until the line ends.
struct LineTarget<'a> {
    form: RowForm,
    /// Separator of the values.
    separator: u8,
    line: &'a mut Vec<u8>,
}

impl<'a> LineTarget<'a> {
    fn begin(form: RowForm, line: &'a mut Vec<u8>) -> Self {
        line.clear();
        if form == RowForm::Json {
            line.push(b'{');
        }
        Self { form, separator: form.separator(), line }
    }

    fn end(self) {
        self.line.pop();
        self.line.extend_from_slice(if self.form == RowForm::Json { b"}\n" } else { b"\n" });
    }

    #[inline(always)]
    fn put(&mut self, key: &str, value: CellValue<'_>) {
        match self.form {
            RowForm::Separated(separator) => value.field(separator, self.line),
            RowForm::Json => value.member(key, self.line),
        }
        self.line.push(self.separator);
    }
}

#[inline(always)]
fn signed(value: Option<impl Into<i64>>) -> CellValue<'static> {
    value.map_or(CellValue::None, |value| CellValue::Signed(value.into()))
}

#[inline(always)]
fn count(value: Option<u64>) -> CellValue<'static> {
    value.map_or(CellValue::None, CellValue::Unsigned)
}

#[inline(always)]
fn plain(value: Option<&str>) -> CellValue<'_> {
    value.map_or(CellValue::None, CellValue::Plain)
}

#[inline(always)]
fn bytes(value: Option<&[u8]>) -> CellValue<'_> {
    value.map_or(CellValue::None, CellValue::Bytes)
}

/// Defines the table of fields, and a function for all of them in a row: without a call for each
/// field, that is half the work.
macro_rules! fields {
    ($($key:literal: |$row:ident| $value:expr;)*) => {
        const FIELDS: &[NamedField] = &[$(($key, |$row, place| place.put($key, $value))),*];

        fn put_all(row: &FieldRow<'_>, place: &mut LineTarget<'_>) {
            $({
                let $row = row;
                place.put($key, $value);
            })*
        }
    };
}

fields! {
    "kind": |row| plain(Some(row.kind));
    "name": |row| plain(Some(&row.name));
    "start_ns": |row| signed(row.start);
    "duration_ns": |row| count(row.duration);
    "pid": |row| signed(row.pid);
    "tid": |row| signed(row.tid);
    "comm": |row| bytes(row.comm);
    "cpu": |row| signed(row.cpu);
    "fd": |row| signed(row.fd);
    "path": |row| bytes(row.path.map(|path| path.bytes.as_slice()));
    "path_source": |row| plain(row.path.map(|path| path.source.as_str()));
    "path2": |row| bytes(row.path2.map(|path| path.bytes.as_slice()));
    "offset": |row| count(row.offset);
    "bytes_requested": |row| count(row.bytes_requested);
    "bytes": |row| count(row.bytes);
    "result": |row| signed(row.result);
    "errno": |row| plain(row.errno.map(|errno| ErrnoName(errno).to_string()).as_deref());
    "dev": |row| plain(row.device.map(|device| device.to_string()).as_deref());
    "disk": |row| bytes(row.disk.map(str::as_bytes));
    "sector": |row| count(row.sector);
    "queue_ns": |row| count(row.queue);
    "device_ns": |row| count(row.service);
    "unfinished": |row| plain(row.unfinished);
    "wall_ns": |row| signed(row.wall);
    "file_flags": |row| plain(row.flags_text);
    "fs_dev": |row| plain(row.stat.map(|stat| stat.dev.to_string()).as_deref());
    "ino": |row| count(row.stat.map(|stat| stat.ino));
}

/// Selected fields in the order in which they are written; `None`: all, in the order of the table.
#[derive(Clone, Debug, Default)]
pub struct FieldSelection(Option<Vec<&'static NamedField>>);

impl FieldSelection {
    /// Selects these fields; all if there are none.
    ///
    /// # Errors
    ///
    /// The first unknown name, and the known ones.
    pub fn of(names: &[String]) -> Result<Self, String> {
        let find = |name: &String| {
            FIELDS.iter().find(|field| field.0 == name).ok_or_else(|| {
                let all: Vec<&str> = FIELDS.iter().map(|field| field.0).collect();
                format!("there is no field {name}; there are {}", all.join(", "))
            })
        };
        let chosen: Vec<_> = names.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Self((!chosen.is_empty()).then_some(chosen)))
    }

    fn names(&self) -> Vec<&'static str> {
        match &self.0 {
            Some(chosen) => chosen.iter().map(|chosen| chosen.0).collect(),
            None => FIELDS.iter().map(|field| field.0).collect(),
        }
    }
}

/// Format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// Separated values, the names of the fields first.
    Separated(Separator),
    /// One object a line.
    Json,
}

/// Sink that writes a row for every operation that ends, and every anomaly.
#[derive(Debug)]
pub struct FieldLines<W> {
    start: KernelTime,
    disks: FxHashMap<DevId, String>,
    names: FxHashMap<ThreadKey, Vec<u8>>,
    fields: FieldSelection,
    form: RowForm,
    /// Start by the wall clock, ns since 1970; 0: not known.
    start_wall: i64,
    open_flags: &'static OpenFlagNames,
    /// Flags of files as words.
    flags: FxHashMap<u32, String>,
    line: Vec<u8>,
    out: W,
}

impl<W: io::Write> FieldLines<W> {
    /// Times count from `start`; `disks` names the whole disks.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn new(
        start: KernelTime,
        disks: impl IntoIterator<Item = (DevId, String)>,
        form: RowForm,
        fields: FieldSelection,
        mut out: W,
    ) -> io::Result<Self> {
        if form != RowForm::Json {
            let separator = char::from(form.separator()).to_string();
            writeln!(out, "{}", fields.names().join(&separator))?;
        }
        Ok(Self {
            start,
            disks: disks.into_iter().collect(),
            names: FxHashMap::default(),
            fields,
            form,
            start_wall: 0,
            open_flags: &flags::OPEN_GENERIC,
            flags: FxHashMap::default(),
            line: Vec::new(),
            out,
        })
    }

    /// Sets the capture's architecture (`uname -m`), on which four of the `O_*` flags depend, and
    /// its start by the wall clock, ns since 1970.
    #[must_use]
    pub fn recorded(mut self, machine: &str, start_wall: u64) -> Self {
        self.open_flags = flags::open_flags_of(machine);
        self.start_wall = i64::try_from(start_wall).unwrap_or(0);
        self
    }

    /// Flushes the writer and returns it.
    ///
    /// # Errors
    ///
    /// The writer's own.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn write(&mut self, step: &Step<'_>) -> io::Result<()> {
        let Some(mut row) = row(step, self.start) else { return Ok(()) };
        if let Some(thread) = thread_of(step) {
            row.comm = self.names.get(&thread).map(Vec::as_slice);
        }
        let wall = |start| self.start_wall.saturating_add(start);
        row.wall = row.start.map(wall).filter(|_| self.start_wall > 0);
        if let Some(flags) = row.flags {
            let names = self.open_flags;
            let text = self.flags.entry(flags).or_insert_with(|| flags_text(names, flags));
            row.flags_text = Some(text);
        }
        row.disk = row.device.and_then(|device| self.disks.get(&device)).map(String::as_str);
        let mut place = LineTarget::begin(self.form, &mut self.line);
        match &self.fields.0 {
            Some(chosen) => chosen.iter().for_each(|chosen| chosen.1(&row, &mut place)),
            None => put_all(&row, &mut place),
        }
        place.end();
        self.out.write_all(&self.line)
    }
}

fn flags_text(names: &OpenFlagNames, flags: u32) -> String {
    let mut text = Vec::new();
    flags::open(&mut text, names, flags);
    String::from_utf8_lossy(&text).into_owned()
}

fn thread_of(step: &Step<'_>) -> Option<ThreadKey> {
    match step {
        Step::SyscallEnded(it, _) | Step::SyscallUnfinished(it, _) => Some(it.thread),
        Step::AsyncEnded(it, _) | Step::AsyncUnfinished(it, _) => Some(it.thread),
        Step::Fault(it) => Some(it.thread),
        _ => None,
    }
}

// Both functions are inlined, so that the row is created where it is used.
#[inline(always)]
fn row<'a>(step: &'a Step<'_>, start: KernelTime) -> Option<FieldRow<'a>> {
    match step {
        Step::SyscallEnded(it, _) => Some(call(it, None, start)),
        Step::SyscallUnfinished(it, why) => Some(call(it, Some(*why), start)),
        Step::AsyncEnded(it, _) => Some(asynchronous(it, None, start)),
        Step::AsyncUnfinished(it, why) => Some(asynchronous(it, Some(*why), start)),
        Step::Fault(it) => Some(fault(it, start)),
        Step::Anomaly(it) => Some(anomaly(it, start)),
        Step::Block { step: BlockStep::Ended(it), thread, pieces } => {
            Some(request(it, *thread, pieces, start))
        }
        _ => None,
    }
}

#[inline(always)]
fn call(
    operation: &SyscallOperation,
    unfinished: Option<Unfinished>,
    start: KernelTime,
) -> FieldRow<'_> {
    let is_over = unfinished.is_none();
    let second = operation.target.as_ref().and_then(|target| target.1.path.as_ref());
    let call = operation.call.call();
    let moves = call.returns_bytes();
    FieldRow {
        kind: "syscall",
        name: call.name.into(),
        start: Some(operation.start.signed_since(start)),
        duration: operation
            .end
            .filter(|_| is_over)
            .and_then(|end| end.since(operation.start))
            .map(|end| end.0),
        pid: Some(operation.pid.0),
        tid: Some(operation.tid.0),
        cpu: Some(operation.cpu.0),
        fd: operation.fd.map(|fd| fd.0),
        path: operation.path(),
        path2: operation.second_path().or(second),
        offset: operation.offset,
        bytes_requested: operation.bytes_requested,
        bytes: operation.ret.filter(|_| is_over && moves).and_then(|ret| u64::try_from(ret).ok()),
        result: operation.ret.filter(|_| is_over),
        errno: operation.errno().filter(|_| is_over),
        unfinished: unfinished.map(Unfinished::as_str),
        flags: operation.file_flags().map(|flags| flags.0),
        stat: operation.file.as_ref().and_then(|file| file.stat),
        ..FieldRow::default()
    }
}

fn asynchronous(
    operation: &AsyncOperation,
    unfinished: Option<NoResult>,
    start: KernelTime,
) -> FieldRow<'_> {
    FieldRow {
        kind: "async",
        name: operation.opcode.to_string().into(),
        start: Some(operation.start.signed_since(start)),
        duration: operation.end.and_then(|end| end.since(operation.start)).map(|end| end.0),
        pid: Some(operation.pid.0),
        tid: Some(operation.tid.0),
        cpu: Some(operation.cpu.0),
        fd: operation.fd.map(|fd| fd.0),
        path: operation.file.as_ref().and_then(|file| file.path.as_ref()),
        path2: operation.target.as_ref().and_then(|target| target.1.path.as_ref()),
        offset: operation.offset,
        bytes_requested: operation.bytes_requested,
        bytes: operation.bytes(),
        result: operation.result,
        errno: operation.errno(),
        unfinished: unfinished.map(NoResult::as_str),
        flags: operation.file.as_ref().and_then(|file| file.flags),
        stat: operation.file.as_ref().and_then(|file| file.stat),
        ..FieldRow::default()
    }
}

fn fault(fault: &Fault, start: KernelTime) -> FieldRow<'_> {
    FieldRow {
        kind: "fault",
        name: fault.access().unwrap_or("unknown").into(),
        start: Some(fault.time.signed_since(start)),
        pid: Some(fault.pid.0),
        tid: Some(fault.tid.0),
        cpu: Some(fault.cpu.0),
        path: fault.file.path.as_ref(),
        offset: Some(fault.offset),
        ..FieldRow::default()
    }
}

fn anomaly(anomaly: &Anomaly, start: KernelTime) -> FieldRow<'_> {
    FieldRow {
        kind: "anomaly",
        name: anomaly.kind.as_str().into(),
        start: Some(anomaly.time.signed_since(start)),
        pid: Some(anomaly.pid.0),
        tid: Some(anomaly.tid.0),
        cpu: Some(anomaly.cpu.0),
        result: i64::try_from(anomaly.count).ok(),
        ..FieldRow::default()
    }
}

fn request<'a>(
    request: &'a BlockRequest,
    thread: Option<&'a ThreadInfo>,
    pieces: &'a [Piece],
    start: KernelTime,
) -> FieldRow<'a> {
    let between = |from: Option<KernelTime>, to: Option<KernelTime>| Some(to?.since(from?)?.0);
    let of_file = |piece: &'a Piece| match &piece.contents {
        BlockContents::File { file, offset, .. } => {
            Some((file.as_ref().and_then(|file| file.path.as_ref()), *offset))
        }
        _ => None,
    };
    let (path, offset) = pieces.first().and_then(of_file).unwrap_or_default();
    FieldRow {
        kind: "block",
        name: request.op.as_str().into(),
        start: request.begin().map(|begin| begin.signed_since(start)),
        duration: between(request.begin(), request.completed),
        pid: request.submitter.map(|submitter| submitter.pid.0),
        tid: request.submitter.map(|submitter| submitter.tid.0),
        comm: thread.map(|thread| thread.comm.as_slice()),
        path,
        offset,
        bytes_requested: Some(request.bytes()),
        bytes: Some(request.bytes_done),
        errno: request.error,
        device: Some(request.dev),
        sector: Some(request.sector),
        queue: between(request.begin(), request.issued),
        service: between(request.issued, request.completed),
        unfinished: match request.ending {
            Some(RequestEnd::Absorbed { .. }) => Some("absorbed"),
            Some(RequestEnd::Unfinished(block::UnfinishedRequest::CaptureEnd)) => {
                Some("capture-end")
            }
            Some(RequestEnd::Unfinished(block::UnfinishedRequest::GivenUp)) => Some("given-up"),
            Some(RequestEnd::Completed) | None => None,
        },
        ..FieldRow::default()
    }
}

impl<W: io::Write> Sink for FieldLines<W> {
    type Error = io::Error;
    const USES_BEGINS: bool = false;

    fn step(&mut self, _: KernelTime, step: &Step<'_>) -> io::Result<()> {
        match step {
            Step::ThreadSeen(it) | Step::ThreadRenamed(it) => {
                self.names.insert(it.key, it.comm.clone());
            }
            Step::ThreadEnded(it) => drop(self.names.remove(&it.key)),
            _ => self.write(step)?,
        }
        Ok(())
    }
}
