//! One line of the event table.

use super::definitions::{number, reference};

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mode {
    Read,
    Write,
    Flush,
}

/// Content of an event, by ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Enter {
        region: u64,
    },
    Leave {
        region: u64,
    },
    Create {
        handle: u64,
    },
    Destroy {
        handle: u64,
    },
    Duplicate {
        old: u64,
        new: u64,
    },
    /// A seek, a lock, a change of status flags: anything else on an open handle.
    Use {
        handle: u64,
    },
    Begin {
        handle: u64,
        mode: Mode,
        non_blocking: bool,
        id: u64,
    },
    Issued {
        handle: u64,
        id: u64,
    },
    Test {
        handle: u64,
        id: u64,
    },
    Complete {
        handle: u64,
        result: Option<u64>,
        id: u64,
    },
    Cancelled {
        handle: u64,
        id: u64,
    },
    DeleteFile {
        paradigm: u64,
        file: u64,
    },
    BufferFlush,
    /// An event without a rule of its own; true if `otf2-print` could not resolve a reference.
    Other {
        dangling: bool,
    },
}

/// An event with its place and time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub location: u64,
    pub time: u64,
    pub event: Event,
}

/// The value that OTF2 writes for "not known": printed as a number.
const UNDEFINED: u64 = u64::MAX;

impl Line {
    /// Reads a line of the event table; `None` if it is not understood.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ')?;
        let (location, rest) = rest.trim_start().split_once(' ')?;
        let (time, rest) = rest.trim_start().split_once(' ')?;
        let event = parse_event(kind, rest.trim_start())?;
        Some(Self { location: number(location)?, time: number(time)?, event })
    }
}

fn parse_event(kind: &str, rest: &str) -> Option<Event> {
    Some(match kind {
        "ENTER" => Event::Enter { region: split_reference(rest)?.0 },
        "LEAVE" => Event::Leave { region: split_reference(rest)?.0 },
        "IO_CREATE_HANDLE" => Event::Create { handle: split_reference(rest)?.0 },
        "IO_DESTROY_HANDLE" => Event::Destroy { handle: split_reference(rest)?.0 },
        "IO_DUPLICATE_HANDLE" => {
            let (old, new) = rest.rsplit_once(", New Handle: ")?;
            Event::Duplicate { old: reference(old)?, new: split_reference(new)?.0 }
        }
        "IO_SEEK"
        | "IO_CHANGE_FLAGS"
        | "IO_CHANGE_STATUS_FLAGS"
        | "IO_ACQUIRE_LOCK"
        | "IO_RELEASE_LOCK"
        | "IO_TRY_LOCK" => Event::Use { handle: split_reference(rest)?.0 },
        "IO_DELETE_FILE" => {
            let (paradigm, file) = rest.split_once(", File: ")?;
            Event::DeleteFile { paradigm: reference(paradigm)?, file: reference(file)? }
        }
        "BUFFER_FLUSH" => Event::BufferFlush,
        _ if kind.starts_with("IO_OPERATION_") => return parse_operation(kind, rest),
        _ => {
            let dangling = [": INVALID <", "(INVALID;"].iter().any(|it| rest.contains(it));
            Event::Other { dangling }
        }
    })
}

fn parse_operation(kind: &str, rest: &str) -> Option<Event> {
    let (handle, fields) = split_reference(rest)?;
    let (fields, id) = fields.rsplit_once(", Matching Id: ")?;
    let id = number(id)?;
    Some(match kind {
        "IO_OPERATION_BEGIN" => {
            let mode = match fields.strip_prefix(", Mode: ")?.split_once(',')?.0 {
                "READ" => Mode::Read,
                "WRITE" => Mode::Write,
                "FLUSH" => Mode::Flush,
                _ => return None,
            };
            Event::Begin { handle, mode, non_blocking: fields.contains("NON_BLOCKING"), id }
        }
        "IO_OPERATION_ISSUED" => Event::Issued { handle, id },
        "IO_OPERATION_TEST" => Event::Test { handle, id },
        "IO_OPERATION_COMPLETE" => {
            let result = number(fields.strip_prefix(", Bytes Result: ")?)?;
            Event::Complete { handle, result: Some(result).filter(|&it| it != UNDEFINED), id }
        }
        "IO_OPERATION_CANCELLED" => Event::Cancelled { handle, id },
        _ => return None,
    })
}

/// The id of the last reference in the text, and what follows it: the fields after the last
/// reference of an event are numbers and flags.
fn split_reference(text: &str) -> Option<(u64, &str)> {
    let (before, after) = text.rsplit_once('>')?;
    Some((number(before.rsplit_once('<')?.1)?, after))
}
