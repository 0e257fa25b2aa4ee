//! `fault(ADDRESS<FILE>+OFFSET, write)`.

use super::super::number_format;
use super::arguments::name;
use crate::operation::fault::Fault;

/// Writes the fault and the end of the line.
pub(super) fn write(line: &mut Vec<u8>, fault: &Fault) {
    line.extend_from_slice(b"fault(");
    match fault.address {
        Some(address) => number_format::hex(line, address),
        None => line.push(b'?'),
    }
    if let Some(path) = &fault.file.path {
        name(line, b'<', path, b'>');
    }
    line.push(b'+');
    number_format::unsigned(line, fault.offset);
    line.extend_from_slice(b", ");
    line.extend_from_slice(fault.access().unwrap_or("?").as_bytes());
    line.extend_from_slice(b")\n");
}
