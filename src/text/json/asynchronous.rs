//! The line of an asynchronous operation.

use super::super::errno::ErrnoName;
use super::object::{Object, key};
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::units::KernelTime;

/// Writes the line into `line`; `name` is the members with the thread's name.
pub(super) fn write(
    line: &mut Vec<u8>,
    start: KernelTime,
    name: &[u8],
    operation: &AsyncOperation,
    unfinished: Option<NoResult>,
) {
    let opcode = operation.opcode;
    let path = operation.file.as_ref().and_then(|file| file.path.as_ref());
    let mut object = Object::begin(line, "async");
    object.word(key!("interface"), Some(opcode.interface.as_str()));
    object.word(key!("name"), opcode.is_known().then(|| opcode.request_kind().name));
    object.unsigned(key!("opcode"), Some(opcode.number.into()));
    object.signed(key!("pid"), Some(operation.pid.0.into()));
    object.signed(key!("tid"), Some(operation.tid.0.into()));
    object.members(name);
    object.unsigned(key!("cpu"), Some(operation.cpu.0.into()));
    object.signed(key!("start_ns"), Some(operation.start.signed_since(start)));
    let duration = operation.end.and_then(|end| end.since(operation.start));
    object.unsigned(key!("duration_ns"), duration.map(|duration| duration.0));
    object.unsigned(key!("user_data"), Some(operation.user_data));
    object.signed(key!("fd"), operation.fd.map(|fd| fd.0.into()));
    object.bytes(key!("path"), key!("path_bytes"), path.map(|path| path.bytes.as_slice()));
    object.word(key!("path_source"), path.map(|path| path.source.as_str()));
    object.mounts(key!("path_mounts"), path);
    object.file(operation.file.as_ref().and_then(|file| file.stat));
    object.unsigned(key!("offset"), operation.offset);
    object.unsigned(key!("bytes_requested"), operation.bytes_requested);
    object.signed(key!("result"), operation.result);
    object.word(
        key!("errno"),
        operation.errno().map(|errno| ErrnoName(errno).to_string()).as_deref(),
    );
    object.unsigned(key!("bytes"), operation.bytes());
    object.unsigned(key!("results"), Some(operation.results.into()));
    if let Some((fd, file)) = &operation.target {
        let path = file.path.as_ref();
        object.signed(key!("fd2"), Some(fd.0.into()));
        object.bytes(key!("path2"), key!("path2_bytes"), path.map(|path| path.bytes.as_slice()));
        object.word(key!("path2_source"), path.map(|path| path.source.as_str()));
        object.mounts(key!("path2_mounts"), path);
    }
    let unread = unread(operation);
    if !unread.is_empty() {
        object.words(key!("unread"), &unread);
    }
    if operation.fixed_file {
        object.word(key!("file"), Some("registered"));
    }
    if operation.by_worker {
        object.word(key!("done_by"), Some("worker"));
    }
    if let Some(why) = unfinished {
        object.word(key!("unfinished"), Some(why.as_str()));
    }
    object.end();
}

/// Keys of the operation's values that could not be read.
fn unread(operation: &AsyncOperation) -> Vec<&'static str> {
    let opcode = operation.opcode;
    let lacks = [
        ("path", operation.fixed_file && operation.file.is_none()),
        ("offset", opcode.has_offset() && operation.offset.is_none()),
        ("bytes_requested", opcode.has_bytes() && operation.bytes_requested.is_none()),
    ];
    lacks.into_iter().filter(|lack| lack.1).map(|lack| lack.0).collect()
}
