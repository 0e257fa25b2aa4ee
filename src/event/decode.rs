//! Decoder: payload → [`EventKind`], by the capture's own formats.

use thiserror::Error;

use super::block_shape::{BLOCK_POINTS, BlockShape};
use super::fault::FaultShape;
use super::file_io::{FILE_IO_POINTS, FileIoShape};
use super::fs::{FS_POINTS, FsShape};
use super::layer::LayerShape;
use super::model::{EventKind, ProbeObservation, SysEnter, SysExit};
use super::probe_events::ProbeShape;
use super::syscall_strings::{EventString, EventStrings};
use super::syscall_table::CallId;
use super::task::{TaskEvent, WAITS};
use super::uring::{URING_POINTS, UringShape};
use crate::tracefs::{
    ArrayField, BindError, EventFormat, FieldKind, FormatError, IntField, StringField,
};
use crate::units::{Pid, Tid};

/// Reason why the formats of a capture cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DecoderError {
    /// A `format` text cannot be parsed.
    #[error("the format of {tracepoint} is not understood: {source}")]
    Format {
        /// Name of the tracepoint, `system:name`.
        tracepoint: String,
        /// Position and reason of the error.
        source: FormatError,
    },
    /// A required field is missing.
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// Reason why a payload is not an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// No tracepoint of the capture has this id.
    #[error("tracepoint id {0} is not one of the capture's")]
    UnknownTracepoint(u16),
    /// The payload is shorter than its format requires.
    #[error("the payload of tracepoint id {0} is too short")]
    Short(u16),
    /// The system call is not in the table.
    #[error("system call number {0} is not in the table")]
    UnknownCall(i64),
}

/// Decodes payloads by the formats of a capture.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Field offsets by `common_type`.
    shapes: Vec<Option<EventShape>>,
    /// Rows of the table by system call number.
    calls: Vec<Option<CallId>>,
    /// Numbers of the calls that wait, as in [`WAITS`].
    waits: [Option<i64>; 2],
    /// Field `common_pid`, which every format has at the same place.
    common_pid: Option<IntField>,
}

/// Fields of one tracepoint.
#[derive(Debug)]
enum EventShape {
    RawEnter {
        id: IntField,
        args: ArrayField,
    },
    RawExit {
        id: IntField,
        ret: IntField,
    },
    Enter {
        call: CallId,
        args: Vec<IntField>,
        strings: EventStrings,
    },
    Exit {
        call: CallId,
        ret: IntField,
    },
    Block(BlockShape),
    Uring(UringShape),
    FileIo(FileIoShape),
    Fs(FsShape),
    Layer(LayerShape),
    Fault(FaultShape),
    NewTask {
        pid: IntField,
        clone_flags: IntField,
        comm: Option<StringField>,
    },
    Probe(ProbeShape),
    Program {
        filename: StringField,
    },
    /// End of a wait; `returns_child` is true if its result is the child.
    Wait {
        ret: IntField,
        returns_child: bool,
    },
    CoreSignal,
}

impl Decoder {
    /// Creates a decoder for a machine of this kind (`uname -m`).
    pub fn new(machine: &str) -> Self {
        let numbered: Vec<(usize, CallId)> = CallId::all()
            .filter_map(|it| Some((usize::try_from(it.call().number(machine)?).ok()?, it)))
            .collect();
        let mut calls = vec![None; numbered.iter().map(|it| it.0 + 1).max().unwrap_or(0)];
        for (number, call) in numbered {
            if let Some(place) = calls.get_mut(number) {
                *place = Some(call);
            }
        }
        let waits = WAITS.map(|it| it.number(machine).map(i64::from));
        Self { shapes: Vec::new(), calls, waits, common_pid: None }
    }

    /// Adds a tracepoint by its `format` text. Tracepoints that the tracer does not use are left
    /// out.
    ///
    /// # Errors
    ///
    /// [`DecoderError`] if the text is invalid or a required field is missing.
    pub fn add(
        &mut self,
        system: &str,
        name: &str,
        id: u16,
        text: &str,
    ) -> Result<(), DecoderError> {
        let format = EventFormat::parse(text).map_err(|source| DecoderError::Format {
            tracepoint: format!("{system}:{name}"),
            source,
        })?;
        self.common_pid = Some(format.int("common_pid")?);
        let place = usize::from(id);
        if self.shapes.len() <= place {
            self.shapes.resize_with(place + 1, || None);
        }
        if let Some(shape) = self.shapes.get_mut(place) {
            *shape = EventShape::of(system, name, &format)?;
        }
        Ok(())
    }

    /// Decodes the event of a payload.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the payload is too short, or does not belong to a tracepoint of the
    /// capture.
    pub fn decode(&self, payload: &[u8]) -> Result<EventKind, DecodeError> {
        let id = common_type(payload).ok_or(DecodeError::Short(0))?;
        let shape = self.shapes.get(usize::from(id)).and_then(Option::as_ref);
        let shape = shape.ok_or(DecodeError::UnknownTracepoint(id))?;
        let short = DecodeError::Short(id);
        match shape {
            EventShape::RawEnter { id, args } => {
                let call = self.call(id.read_i64(payload).ok_or(short)?)?;
                let args = args.read_first(payload).ok_or(short)?;
                Ok(EventKind::SysEnter(SysEnter { call, args }))
            }
            EventShape::RawExit { id, ret } => {
                let number = id.read_i64(payload).ok_or(short)?;
                let ret = ret.read_i64(payload).ok_or(short)?;
                if let Some(place) = self.waits.iter().position(|it| *it == Some(number)) {
                    return Ok(waited(ret, place == 0));
                }
                let call = self.call(number)?;
                Ok(EventKind::SysExit(SysExit { call, ret, names: None, chain: None }))
            }
            EventShape::Enter { call, args, .. } => {
                let args =
                    registers(|index| args.get(index).map_or(Some(0), |it| it.read_u64(payload)));
                Ok(EventKind::SysEnter(SysEnter { call: *call, args: args.ok_or(short)? }))
            }
            EventShape::Exit { call, ret } => {
                let ret = ret.read_i64(payload).ok_or(short)?;
                Ok(EventKind::SysExit(SysExit { call: *call, ret, names: None, chain: None }))
            }
            EventShape::Block(fields) => fields.read(payload).map(EventKind::Block).ok_or(short),
            EventShape::FileIo(fields) => fields.read(payload).map(EventKind::FileIo).ok_or(short),
            EventShape::Fs(fields) => fields.read(payload).map(EventKind::Fs).ok_or(short),
            EventShape::Layer(fields) => fields.read(payload).map(EventKind::Layer).ok_or(short),
            EventShape::Fault(fields) => fields.read(payload).map(EventKind::Fault).ok_or(short),
            EventShape::Uring(fields) => fields.read(payload).map(EventKind::Uring).ok_or(short),
            EventShape::NewTask { pid, clone_flags, comm } => {
                let tid =
                    pid.read_i64(payload).and_then(|it| i32::try_from(it).ok()).ok_or(short)?;
                let clone_flags = clone_flags.read_u64(payload).ok_or(short)?;
                let comm = comm.and_then(|it| it.read(payload)).map(<[u8]>::to_vec);
                Ok(EventKind::Task(TaskEvent::NewTask { tid: Tid(tid), clone_flags, comm }))
            }
            EventShape::Probe(fields) => fields.read(payload).map(EventKind::Probed).ok_or(short),
            EventShape::Program { filename } => {
                let path = filename.read(payload).ok_or(short)?.to_vec();
                Ok(EventKind::Probed(Box::new(ProbeObservation::Program(path))))
            }
            EventShape::Wait { ret, returns_child } => {
                Ok(waited(ret.read_i64(payload).ok_or(short)?, *returns_child))
            }
            EventShape::CoreSignal => Ok(EventKind::Probed(Box::new(ProbeObservation::CoreSignal))),
        }
    }

    /// Returns true if entries of calls carry paths themselves.
    pub fn has_strings(&self) -> bool {
        let carries = |it: &EventShape| matches!(it, EventShape::Enter { strings, .. } if !strings.is_empty());
        self.shapes.iter().flatten().any(carries)
    }

    /// Returns the paths that the entry of a call carries itself, where the kernel copies them
    /// (from Linux 6.19 on).
    pub fn strings(&self, payload: &[u8]) -> Vec<EventString> {
        let shape = common_type(payload).and_then(|it| self.shapes.get(usize::from(it))?.as_ref());
        match shape {
            Some(EventShape::Enter { strings, .. }) => strings.read(payload),
            _ => Vec::new(),
        }
    }

    /// Returns the thread that was running, in the kernel's own numbers: `common_pid`.
    pub fn thread(&self, payload: &[u8]) -> Option<Tid> {
        let number = self.common_pid.as_ref()?.read_i64(payload)?;
        i32::try_from(number).ok().map(Tid)
    }

    fn call(&self, number: i64) -> Result<CallId, DecodeError> {
        let place = usize::try_from(number).ok();
        place.and_then(|it| *self.calls.get(it)?).ok_or(DecodeError::UnknownCall(number))
    }
}

/// Creates the event of the end of a wait.
fn waited(ret: i64, returns_child: bool) -> EventKind {
    let child = i32::try_from(ret).ok().filter(|it| returns_child && *it > 0).map(Pid);
    EventKind::Probed(Box::new(ProbeObservation::Waited(child)))
}

/// Returns `common_type` of a payload: the id of its tracepoint. It is the first field of every
/// format.
pub fn common_type(payload: &[u8]) -> Option<u16> {
    payload.first_chunk().map(|it| u16::from_le_bytes(*it))
}

fn registers(read: impl Fn(usize) -> Option<u64>) -> Option<[u64; 6]> {
    let mut args = [0; 6];
    for (index, arg) in args.iter_mut().enumerate() {
        *arg = read(index)?;
    }
    Some(args)
}

impl EventShape {
    fn of(system: &str, name: &str, format: &EventFormat) -> Result<Option<Self>, BindError> {
        if let Some(call) = name.strip_prefix("sys_enter_").and_then(CallId::by_name) {
            let strings = EventStrings::of(call, format)?;
            return Ok(Some(Self::Enter { call, args: arguments(format)?, strings }));
        }
        if let Some(call) = name.strip_prefix("sys_exit_").and_then(CallId::by_name) {
            return Ok(Some(Self::Exit { call, ret: format.int("ret")? }));
        }
        if let Some(&(_, point)) = BLOCK_POINTS.iter().find(|it| it.0 == name) {
            return Ok(Some(Self::Block(BlockShape::of(point, format)?)));
        }
        if let Some(&(_, point)) = URING_POINTS.iter().find(|it| it.0 == name) {
            return Ok(Some(Self::Uring(UringShape::of(point, format)?)));
        }
        if let Some(point) = FILE_IO_POINTS.iter().find(|it| (it.0, it.1) == (system, name)) {
            return Ok(Some(Self::FileIo(FileIoShape::of(point.0, point.2, format)?)));
        }
        if let Some(it) = FS_POINTS.iter().find(|it| (it.0, it.1) == (system, name)) {
            return Ok(Some(Self::Fs(FsShape::of(it.2, format)?)));
        }
        if let Some(fault) = FaultShape::of(name, format)? {
            return Ok(Some(Self::Fault(fault)));
        }
        if let Some(shape) = LayerShape::of(system, name, format)? {
            return Ok(Some(Self::Layer(shape)));
        }
        if let Some(shape) = ProbeShape::of(system, name, format)? {
            return Ok(Some(Self::Probe(shape)));
        }
        Ok(match (system, name) {
            ("raw_syscalls", "sys_enter") => {
                Some(Self::RawEnter { id: format.int("id")?, args: format.array("args")? })
            }
            ("raw_syscalls", "sys_exit") => {
                Some(Self::RawExit { id: format.int("id")?, ret: format.int("ret")? })
            }
            ("sched", "sched_process_exec") => {
                Some(Self::Program { filename: format.string("filename")? })
            }
            ("syscalls", "sys_exit_wait4" | "sys_exit_waitid") => {
                Some(Self::Wait { ret: format.int("ret")?, returns_child: name.ends_with('4') })
            }
            ("signal", "signal_deliver") => Some(Self::CoreSignal),
            ("task", "task_newtask") => Some(Self::NewTask {
                pid: format.int("pid")?,
                clone_flags: format.int("clone_flags")?,
                comm: format.string_opt("comm")?,
            }),
            _ => None,
        })
    }
}

/// Returns the argument fields of a `sys_enter_*` format. They follow `__syscall_nr` in the order
/// of the call, and precede the copies of strings that newer kernels add (`__filename_val`).
fn arguments(format: &EventFormat) -> Result<Vec<IntField>, BindError> {
    let is_argument = |field: &&crate::tracefs::Field| {
        matches!(field.kind, FieldKind::Int | FieldKind::Pointer) && !field.name.starts_with("__")
    };
    format.event_fields().iter().filter(is_argument).map(|it| format.int(&it.name)).collect()
}
