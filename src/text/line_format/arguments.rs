//! Arguments of a system call, each by its role.

use super::super::flags::{self, CommandArgument, OpenFlagNames};
use super::super::{escape, number_format};
use crate::event::registers::{fd, int, low_half};
use crate::event::syscall_table::{CallClass, Role};
use crate::operation::model::{FilePath, MountNamespace, SyscallOperation};
use crate::units::Fd;

/// Writes the arguments with commas between them.
pub(super) fn write(line: &mut Vec<u8>, open_flags: &OpenFlagNames, operation: &SyscallOperation) {
    let mut command = None;
    let mut join: &[u8] = b"";
    for (role, register) in operation.call.call().args.into_iter().zip(operation.args) {
        if role == Role::Command {
            command = Some(low_half(register));
        }
        let meaning =
            if role == Role::CommandArg { command.map(flags::command_argument) } else { None };
        let pointer = role.is_pointer();
        if pointer || meaning == Some(CommandArgument::Hidden) {
            continue;
        }
        line.extend_from_slice(join);
        join = b", ";
        match meaning {
            Some(meaning) => command_argument(line, open_flags, meaning, register),
            None => argument(line, open_flags, operation, role, register),
        }
    }
}

/// Writes one argument.
fn argument(
    line: &mut Vec<u8>,
    open_flags: &OpenFlagNames,
    operation: &SyscallOperation,
    role: Role,
    register: u64,
) {
    let bits = low_half(register);
    let is_int = operation.call.call().is_int(role);
    let register = if is_int { bits.into() } else { register };
    let fd = fd(register);
    match role {
        Role::Fd => descriptor(line, fd, operation.path()),
        // The second argument of dup2 is a number, not a file: its previous file is closed, the new
        // one is the result.
        Role::Fd2 if operation.call.call().class == CallClass::Dup => {
            number_format::signed(line, fd.0.into())
        }
        Role::Fd2 => {
            let file = operation.target.as_ref().map(|(_, file)| file);
            descriptor(line, fd, file.and_then(|file| file.path.as_ref()));
        }
        Role::DirFd | Role::DirFd2 if fd == Fd::AT_FDCWD => line.extend_from_slice(b"AT_FDCWD"),
        Role::DirFd | Role::DirFd2 => number_format::signed(line, fd.0.into()),
        Role::Path => quoted(line, operation.path()),
        Role::Path2 => quoted(line, operation.second_path()),
        Role::Length => {
            line.extend_from_slice(b"length ");
            number_format::signed(line, register.cast_signed());
        }
        Role::Count | Role::OldCount => number_format::unsigned(line, register),
        Role::Address => address(line, register, operation),
        Role::Offset => {
            line.extend_from_slice(b"offset ");
            number_format::signed(line, register.cast_signed());
        }
        Role::OpenFlags => flags::open(line, open_flags, bits),
        Role::DupFlags => flags::bits(line, &flags::DUP, bits),
        Role::Whence => flags::whence(line, bits),
        Role::Command => flags::command(line, bits),
        Role::BufferCount => {
            line.extend_from_slice(b"iovcnt ");
            number_format::unsigned(line, register);
        }
        Role::LastFd => number_format::unsigned(line, bits.into()),
        Role::RangeFlags => flags::bits(line, &flags::CLOSE_RANGE, bits),
        Role::RenameFlags => flags::bits(line, &flags::RENAME, bits),
        // Other roles are shown as numbers, should they ever occur here.
        Role::CommandArg
        | Role::Opaque
        | Role::MemoryFlags
        | Role::CloneFlags
        | Role::RemoveFlags
        | Role::TakenFd
        | Role::MountFlags
        | Role::Cloexec(_)
        | Role::MakesIf(..)
        | Role::MakesBy(_)
        | Role::RwFlags
        | Role::OffsetPtr
        | Role::OffsetPtr2
        | Role::Buffers
        | Role::How
        | Role::Iocbs
        | Role::Registered
        | Role::RegisterOp
        | Role::RegisterCount
        | Role::IoEvents
        | Role::MapFlags
        | Role::Message
        | Role::Messages
        | Role::Pair => number_format::hex(line, register),
    }
}

/// Writes the argument of a `fcntl` command, by its kind.
fn command_argument(
    line: &mut Vec<u8>,
    open_flags: &OpenFlagNames,
    meaning: CommandArgument,
    register: u64,
) {
    let bits = low_half(register);
    match meaning {
        CommandArgument::Number => number_format::signed(line, int(register).into()),
        CommandArgument::DescriptorFlags => flags::bits(line, &flags::DESCRIPTOR, bits),
        CommandArgument::OpenFlags => flags::open(line, open_flags, bits),
        CommandArgument::Bits | CommandArgument::Hidden => number_format::hex(line, register),
    }
}

/// Writes a descriptor, followed by the name if it is known.
pub(super) fn descriptor(line: &mut Vec<u8>, fd: Fd, path: Option<&FilePath>) {
    number_format::signed(line, fd.0.into());
    if let Some(path) = path {
        name(line, b'<', path, b'>');
    }
}

/// Writes an address, and the file that is mapped there.
fn address(line: &mut Vec<u8>, register: u64, operation: &SyscallOperation) {
    number_format::hex(line, register);
    if let Some(path) = operation.path() {
        name(line, b'<', path, b'>');
        if let Some(offset) = operation.offset {
            line.push(b'+');
            number_format::unsigned(line, offset);
        }
    }
}

/// Writes a path argument; `?` if it is unknown.
fn quoted(line: &mut Vec<u8>, path: Option<&FilePath>) {
    match path {
        Some(path) => name(line, b'"', path, b'"'),
        None => line.push(b'?'),
    }
}

/// Writes a name between delimiters, with a `?` if it is not certain, and `@N` in other mounts than
/// the tracer's.
pub(super) fn name(line: &mut Vec<u8>, open: u8, path: &FilePath, close: u8) {
    line.push(open);
    escape::shown(line, &path.bytes, &[open, close]);
    line.push(close);
    if path.source.is_doubtful() {
        line.push(b'?');
    }
    if path.mounts != MountNamespace::OWN {
        line.push(b'@');
        match path.mounts {
            MountNamespace::UNKNOWN => line.push(b'?'),
            MountNamespace(number) => number_format::unsigned(line, number.into()),
        }
    }
}
