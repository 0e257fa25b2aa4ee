//! The line of a page fault.

use super::object::{Object, key};
use crate::operation::fault::Fault;
use crate::units::KernelTime;

/// Writes the line into `line`; `name` is the members with the thread's name.
pub(super) fn write(line: &mut Vec<u8>, start: KernelTime, name: &[u8], fault: &Fault) {
    let path = fault.file.path.as_ref();
    let mut object = Object::begin(line, "fault");
    object.signed(key!("pid"), Some(fault.pid.0.into()));
    object.signed(key!("tid"), Some(fault.tid.0.into()));
    object.members(name);
    object.unsigned(key!("cpu"), Some(fault.cpu.0.into()));
    object.signed(key!("time_ns"), Some(fault.time.signed_since(start)));
    object.unsigned(key!("address"), fault.address);
    object.word(key!("access"), fault.access());
    object.bytes(key!("path"), key!("path_bytes"), path.map(|path| path.bytes.as_slice()));
    object.word(key!("path_source"), path.map(|path| path.source.as_str()));
    object.mounts(key!("path_mounts"), path);
    object.file(fault.file.stat);
    object.unsigned(key!("offset"), Some(fault.offset));
    object.end();
}
