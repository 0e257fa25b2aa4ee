//! The line of a page fault.

use super::object::Object;
use crate::operation::fault::Fault;
use crate::units::KernelTime;

/// Writes the line into `line`; `name` are the members that tell the thread's name.
pub(super) fn write(line: &mut Vec<u8>, start: KernelTime, name: &[u8], fault: &Fault) {
    let path = fault.file.path.as_ref();
    let mut object = Object::begin(line, "fault");
    object.signed("pid", Some(fault.pid.0.into()));
    object.signed("tid", Some(fault.tid.0.into()));
    object.members(name);
    object.unsigned("cpu", Some(fault.cpu.0.into()));
    object.signed("time_ns", Some(fault.time.signed_since(start)));
    object.unsigned("address", fault.address);
    object.word("access", fault.access());
    object.bytes("path", "path_bytes", path.map(|it| it.bytes.as_slice()));
    object.word("path_source", path.map(|it| it.source.as_str()));
    object.mounts("path_mounts", path);
    object.unsigned("offset", Some(fault.offset));
    object.end();
}
