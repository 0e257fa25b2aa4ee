//! The line of an asynchronous operation.

use super::super::errno::ErrnoName;
use super::object::Object;
use crate::operation::asynchronous::{AsyncOperation, NoResult};
use crate::units::KernelTime;

/// Writes the line into `line`; `name` are the members that tell the thread's name.
pub(super) fn write(
    line: &mut Vec<u8>,
    start: KernelTime,
    name: &[u8],
    operation: &AsyncOperation,
    unfinished: Option<NoResult>,
) {
    let opcode = operation.opcode;
    let path = operation.file.as_ref().and_then(|it| it.path.as_ref());
    let mut object = Object::begin(line, "async");
    object.word("interface", Some(opcode.interface.as_str()));
    object.word("name", opcode.is_known().then(|| opcode.asked().name));
    object.unsigned("opcode", Some(opcode.number.into()));
    object.signed("pid", Some(operation.pid.0.into()));
    object.signed("tid", Some(operation.tid.0.into()));
    object.members(name);
    object.unsigned("cpu", Some(operation.cpu.0.into()));
    object.signed("start_ns", Some(operation.start.signed_since(start)));
    let duration = operation.end.and_then(|it| it.since(operation.start));
    object.unsigned("duration_ns", duration.map(|it| it.0));
    object.unsigned("user_data", Some(operation.user_data));
    object.signed("fd", operation.fd.map(|it| it.0.into()));
    object.bytes("path", "path_bytes", path.map(|it| it.bytes.as_slice()));
    object.word("path_source", path.map(|it| it.source.as_str()));
    object.mounts("path_mounts", path);
    object.unsigned("offset", operation.offset);
    object.unsigned("bytes_requested", operation.bytes_requested);
    object.signed("result", operation.result);
    object.word("errno", operation.errno().map(|it| ErrnoName(it).to_string()).as_deref());
    object.unsigned("bytes", operation.bytes());
    object.unsigned("results", Some(operation.results.into()));
    if let Some((fd, file)) = &operation.target {
        let path = file.path.as_ref();
        object.signed("fd2", Some(fd.0.into()));
        object.bytes("path2", "path2_bytes", path.map(|it| it.bytes.as_slice()));
        object.word("path2_source", path.map(|it| it.source.as_str()));
        object.mounts("path2_mounts", path);
    }
    let unread = unread(operation);
    if !unread.is_empty() {
        object.words("unread", &unread);
    }
    if operation.fixed_file {
        object.word("file", Some("registered"));
    }
    if operation.by_worker {
        object.word("done_by", Some("worker"));
    }
    if let Some(why) = unfinished {
        object.word("unfinished", Some(why.as_str()));
    }
    object.end();
}

/// The keys of what belongs to the operation and was not read.
fn unread(operation: &AsyncOperation) -> Vec<&'static str> {
    let opcode = operation.opcode;
    let lacks = [
        ("path", operation.fixed_file && operation.file.is_none()),
        ("offset", opcode.has_offset() && operation.offset.is_none()),
        ("bytes_requested", opcode.has_bytes() && operation.bytes_requested.is_none()),
    ];
    lacks.into_iter().filter(|it| it.1).map(|it| it.0).collect()
}
