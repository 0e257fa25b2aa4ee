//! The line of a system call.

use super::super::errno::ErrnoName;
use super::super::flags::{self, OpenFlagNames};
use super::line_base::LineBase;
use super::object::{Object, key};
use crate::event::layer::Layer;
use crate::event::registers::fd_argument;
use crate::event::syscall_table::{CallClass, Role};
use crate::operation::model::{FilePath, PathArgument, SyscallOperation, Unfinished};
use crate::operation::span::Span;
use crate::units::{Fd, KernelTime};

/// Writes the line into `line`; `name` is the members with the thread's name.
pub(super) fn write(
    line: &mut Vec<u8>,
    base: &LineBase,
    name: &[u8],
    operation: &SyscallOperation,
    unfinished: Option<Unfinished>,
) {
    let start = base.start;
    let finished = unfinished.is_none();
    let end = operation.end.filter(|_| finished);
    let path = operation.path();

    let mut object = Object::begin(line, "syscall");
    object.word(key!("name"), Some(operation.call.call().name));
    object.signed(key!("pid"), Some(operation.pid.0.into()));
    object.signed(key!("tid"), Some(operation.tid.0.into()));
    object.members(name);
    object.unsigned(key!("cpu"), Some(operation.cpu.0.into()));
    object.signed(key!("start_ns"), Some(operation.start.signed_since(start)));
    object.unsigned(
        key!("duration_ns"),
        end.and_then(|end| end.since(operation.start)).map(|end| end.0),
    );
    descriptor(&mut object, key!("fd"), operation.fd);
    object.bytes(key!("path"), key!("path_bytes"), path.map(|path| path.bytes.as_slice()));
    object.word(key!("path_source"), path.map(|path| path.source.as_str()));
    object.mounts(key!("path_mounts"), path);
    let given = operation.named.as_deref();
    absolute(
        &mut object,
        key!("path_absolute"),
        key!("path_absolute_bytes"),
        given.and_then(|given| given.first.as_ref()),
    );
    object.unsigned(key!("offset"), operation.offset);
    object.unsigned(key!("bytes_requested"), operation.bytes_requested);
    object.signed(key!("result"), operation.ret.filter(|_| finished));
    let errno = operation.errno().filter(|_| finished).map(|errno| ErrnoName(errno).to_string());
    object.word(key!("errno"), errno.as_deref());
    open_flags(&mut object, base.open_flags, operation);
    object.file(operation.file.as_ref().and_then(|file| file.stat));
    if operation.target.is_some() || operation.call.call().has_more {
        further_files(&mut object, operation);
        unread(&mut object, operation);
    }
    if !operation.spans.is_empty() {
        inside(&mut object, &operation.spans, start);
    }
    if let Some(why) = unfinished {
        object.word(key!("unfinished"), Some(why.as_str()));
    }
    object.end();
}

/// Writes the flags of an open, or those of a file by which its accesses are special.
fn open_flags(object: &mut Object<'_>, names: &OpenFlagNames, operation: &SyscallOperation) {
    let Some(flags) = operation.file_flags() else { return };
    let is_open = operation.call.call().class == CallClass::Open;
    let direct = names.iter().find(|flag| flag.1 == "O_DIRECT").map_or(0, |flag| flag.0);
    if is_open || flags.0 & direct != 0 || flags.has(libc::O_DSYNC) {
        let mut text = Vec::new();
        flags::open(&mut text, names, flags.0);
        object.word(key!("file_flags"), std::str::from_utf8(&text).ok());
    }
}

/// Writes the spans inside the call.
fn inside(object: &mut Object<'_>, spans: &[Span], start: KernelTime) {
    // Requests have lines of their own.
    let inside = spans.iter().filter(|span| !matches!(span.layer, Layer::Queue | Layer::Device));
    let inside: Vec<&Span> = inside.collect();
    if !inside.is_empty() {
        object.objects(key!("inside"), &inside, |object, span| {
            object.word(key!("layer"), Some(span.layer.as_str()));
            object.word(key!("what"), Some(span.what));
            object.signed(key!("start_ns"), Some(span.begin.signed_since(start)));
            object.unsigned(key!("duration_ns"), Some(span.ns()));
        });
    }
}

/// Writes members that only some calls have: a second file or the duplicate, a second path,
/// directories.
fn further_files(object: &mut Object<'_>, operation: &SyscallOperation) {
    let target = operation.target.as_ref().map(|(fd, _)| *fd);
    let call = operation.call.call();
    let fd2 = target.or_else(|| fd_argument(call, Role::Fd2, &operation.args));
    if let Some(fd) = fd2 {
        descriptor(object, key!("fd2"), Some(fd));
    }
    if fd2.is_some() || call.arg(Role::Path2).is_some() {
        let path = second_path(operation);
        object.bytes(key!("path2"), key!("path2_bytes"), path.map(|path| path.bytes.as_slice()));
        object.word(key!("path2_source"), path.map(|path| path.source.as_str()));
        object.mounts(key!("path2_mounts"), path);
        let given = operation.named.as_deref();
        absolute(
            object,
            key!("path2_absolute"),
            key!("path2_absolute_bytes"),
            given.and_then(|given| given.second.as_ref()),
        );
    }
    if call.class == CallClass::Transfer {
        object.unsigned(key!("offset2"), operation.target_offset);
    }
    for (key, role) in [(key!("dirfd"), Role::DirFd), (key!("dirfd2"), Role::DirFd2)] {
        if let Some(fd) = fd_argument(call, role, &operation.args) {
            descriptor(object, key, Some(fd));
        }
    }
}

/// Writes the keys of values in the program's memory that could not be read.
fn unread(object: &mut Object<'_>, operation: &SyscallOperation) {
    let roles = operation.call.call().args.iter().zip(&operation.args);
    let entries = roles.filter(|role| *role.1 != 0).filter_map(|(role, _)| match role {
        Role::Buffers => Some(("bytes_requested", operation.bytes_requested.is_none())),
        Role::OffsetPtr => Some(("offset", operation.offset.is_none())),
        Role::OffsetPtr2 => Some(("offset2", operation.target_offset.is_none())),
        Role::Pair => Some(("fd", operation.ret == Some(0) && operation.fd.is_none())),
        _ => None,
    });
    let keys: Vec<&str> = entries.filter(|line| line.1).map(|line| line.0).collect();
    if !keys.is_empty() {
        object.words(key!("unread"), &keys);
    }
}

/// Writes the absolute path of an argument that begins at a known directory.
fn absolute(object: &mut Object<'_>, key: &str, bytes_key: &str, given: Option<&PathArgument>) {
    if let Some(path) = given.and_then(|given| given.absolute.as_deref()) {
        object.bytes(key, bytes_key, Some(path));
    }
}

/// Second path argument, or the path of the second descriptor: a transfer's target, or the
/// duplicate of a descriptor.
fn second_path(operation: &SyscallOperation) -> Option<&FilePath> {
    if let Some(path) = operation.second_path() {
        return Some(path);
    }
    match &operation.target {
        Some((_, file)) => file.path.as_ref(),
        // dup2(n, n) does nothing, and succeeds: both are the same file.
        None => {
            let duplicated =
                operation.call.call().class == CallClass::Dup && operation.ret >= Some(0);
            operation.path().filter(|_| duplicated)
        }
    }
}

fn descriptor(object: &mut Object<'_>, key: &str, fd: Option<Fd>) {
    match fd {
        Some(Fd::AT_FDCWD) => object.word(key, Some("AT_FDCWD")),
        other => object.signed(key, other.map(|other| other.0.into())),
    }
}
