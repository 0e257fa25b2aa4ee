//! `io_uring:READ(3</data/a>, 4096, offset ?) = 4096 <SECONDS>`.

use super::super::errno::ErrnoName;
use super::super::flags::OpenFlagNames;
use super::super::number_format;
use super::arguments::{descriptor, name};
use super::marks;
use crate::operation::asynchronous::{AsyncOperation, NoResult};

/// Writes the operation, its result, and the end of the line.
pub(super) fn write(
    line: &mut Vec<u8>,
    open_flags: &OpenFlagNames,
    operation: &AsyncOperation,
    unfinished: Option<NoResult>,
) {
    line.extend_from_slice(operation.opcode.to_string().as_bytes());
    line.push(b'(');
    arguments(line, operation);
    line.extend_from_slice(b") = ");
    match (unfinished, operation.errno(), operation.result) {
        (Some(why), ..) => line.extend_from_slice(reason(why)),
        (None, Some(errno), _) => {
            line.extend_from_slice(format!("-1 {}", ErrnoName(errno)).as_bytes());
        }
        (None, None, Some(result)) => number_format::signed(line, result),
        (None, None, None) => line.push(b'?'),
    }
    if operation.results > 1 {
        line.extend_from_slice(format!(" in {} results", operation.results).as_bytes());
    }
    if let Some(time) = operation.end.and_then(|end| end.since(operation.start)) {
        line.extend_from_slice(b" <");
        number_format::seconds_us(line, time.0);
        line.push(b'>');
    }
    if operation.opcode.has_bytes() {
        marks::write(line, open_flags, operation.file.as_ref().and_then(|file| file.flags));
    }
    line.push(b'\n');
}

/// Writes the known arguments; `?` for an unknown one.
fn arguments(line: &mut Vec<u8>, operation: &AsyncOperation) {
    let opcode = operation.opcode;
    let begin = line.len();
    if let (Some(fd), Some(file)) = (operation.fd, &operation.file) {
        descriptor(line, fd, file.path.as_ref());
    } else if operation.fixed_file {
        line.extend_from_slice(b"registered file");
        if let Some(path) = operation.file.as_ref().and_then(|file| file.path.as_ref()) {
            name(line, b'<', path, b'>');
        }
    }
    if let Some((fd, file)) = &operation.target {
        separate(line, begin);
        descriptor(line, *fd, file.path.as_ref());
    }
    if opcode.has_bytes() {
        separate(line, begin);
        number(line, operation.bytes_requested);
    }
    if opcode.has_offset() {
        separate(line, begin);
        line.extend_from_slice(b"offset ");
        number(line, operation.offset);
    }
}

/// Writes a comma, unless this is the first argument.
fn separate(line: &mut Vec<u8>, begin: usize) {
    if line.len() > begin {
        line.extend_from_slice(b", ");
    }
}

fn number(line: &mut Vec<u8>, value: Option<u64>) {
    match value {
        Some(value) => number_format::unsigned(line, value),
        None => line.push(b'?'),
    }
}

fn reason(why: NoResult) -> &'static [u8] {
    match why {
        NoResult::CaptureEnd => b"? (capture ended)",
        NoResult::ProcessEnd => b"? (process ended)",
        NoResult::Skipped => b"? (result not asked for)",
        NoResult::Unseen => b"? (result not seen)",
    }
}
