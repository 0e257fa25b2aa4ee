//! Lines of system calls: `CALL(ARGUMENTS) = RESULT <SECONDS>`.

use super::super::errno::ErrnoName;
use super::super::flags::{self, OpenFlagNames};
use super::super::number_format;
use super::arguments::{self, descriptor};
use super::marks;
use crate::event::registers::low_half;
use crate::event::syscall_table::{CallClass, Role};
use crate::operation::model::{SyscallOperation, Unfinished};
use crate::units::Fd;

/// Writes the call, its result, and the end of the line.
pub(super) fn write(
    line: &mut Vec<u8>,
    open_flags: &OpenFlagNames,
    operation: &SyscallOperation,
    unfinished: Option<Unfinished>,
) {
    line.extend_from_slice(operation.call.call().name.as_bytes());
    line.push(b'(');
    arguments::write(line, open_flags, operation);
    line.extend_from_slice(b") = ");
    match unfinished {
        Some(why) => line.extend_from_slice(reason(why).as_bytes()),
        None => {
            result(line, open_flags, operation);
            duration(line, operation);
        }
    }
    if operation.call.call().class.moves_bytes() {
        marks::write(line, open_flags, operation.file.as_ref().and_then(|file| file.flags));
    }
    line.push(b'\n');
}

/// The result, as far as the exit shows it.
fn result(line: &mut Vec<u8>, open_flags: &OpenFlagNames, operation: &SyscallOperation) {
    let Some(ret) = operation.ret else { return line.push(b'?') };
    if let Some(errno) = operation.errno() {
        line.extend_from_slice(format!("-1 {}", ErrnoName(errno)).as_bytes());
        return;
    }
    let made = match operation.call.call().class {
        CallClass::Open | CallClass::Dup | CallClass::Make(_) => true,
        CallClass::Control => {
            matches!(command(operation), Some(flags::F_DUPFD | flags::F_DUPFD_CLOEXEC))
        }
        _ => false,
    };
    match i32::try_from(ret) {
        Ok(fd) if made => descriptor(line, Fd(fd), operation.path()),
        // The result is an address.
        Err(_) if operation.call.call().changes_mappings() => {
            number_format::hex(line, ret.cast_unsigned())
        }
        Ok(_) | Err(_) => number_format::signed(line, ret),
    }
    let Ok(bits) = u32::try_from(ret) else { return };
    if operation.call.call().class != CallClass::Control {
        return;
    }
    match command(operation) {
        Some(flags::F_GETFL) => in_brackets(line, |line| flags::open(line, open_flags, bits)),
        Some(flags::F_GETFD) => {
            in_brackets(line, |line| flags::bits(line, &flags::DESCRIPTOR, bits))
        }
        _ => {}
    }
}

fn duration(line: &mut Vec<u8>, operation: &SyscallOperation) {
    if let Some(time) = operation.end.and_then(|end| end.since(operation.start)) {
        line.extend_from_slice(b" <");
        number_format::seconds_us(line, time.0);
        line.push(b'>');
    }
}

/// Command of a `fcntl`.
fn command(operation: &SyscallOperation) -> Option<u32> {
    let index = operation.call.call().arg(Role::Command)?;
    operation.args.get(index).map(|arg| low_half(*arg))
}

fn in_brackets(line: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    line.extend_from_slice(b" (");
    write(line);
    line.push(b')');
}

fn reason(why: Unfinished) -> &'static str {
    match why {
        Unfinished::CaptureEnd => "? (capture ended)",
        Unfinished::ThreadEnd => "? (thread ended)",
        Unfinished::ExitLost => "? (exit lost)",
    }
}
