//! The line of a system call.

use super::super::errno::ErrnoName;
use super::super::register;
use super::object::Object;
use crate::event::layer::Layer;
use crate::event::syscall_table::{Class, Role};
use crate::operation::model::{FilePath, Given, SyscallOperation, Unfinished};
use crate::operation::spans::Span;
use crate::units::{Fd, KernelTime};

/// Writes the line into `line`; `name` are the members that tell the thread's name.
pub(super) fn write(
    line: &mut Vec<u8>,
    start: KernelTime,
    name: &[u8],
    operation: &SyscallOperation,
    unfinished: Option<Unfinished>,
) {
    let finished = unfinished.is_none();
    let end = operation.end.filter(|_| finished);
    let path = operation.path();

    let mut object = Object::begin(line, "syscall");
    object.word("name", Some(operation.call.call().name));
    object.signed("pid", Some(operation.pid.0.into()));
    object.signed("tid", Some(operation.tid.0.into()));
    object.members(name);
    object.unsigned("cpu", Some(operation.cpu.0.into()));
    object.signed("start_ns", Some(operation.start.signed_since(start)));
    object.unsigned("duration_ns", end.and_then(|it| it.since(operation.start)).map(|it| it.0));
    descriptor(&mut object, "fd", operation.fd);
    object.bytes("path", "path_bytes", path.map(|it| it.bytes.as_slice()));
    object.word("path_source", path.map(|it| it.source.as_str()));
    object.mounts("path_mounts", path);
    let given = operation.named.as_deref();
    absolute(&mut object, "path_absolute", given.and_then(|it| it.first.as_ref()));
    object.unsigned("offset", operation.offset);
    object.unsigned("bytes_requested", operation.bytes_requested);
    object.signed("result", operation.ret.filter(|_| finished));
    let errno = operation.errno().filter(|_| finished).map(|it| ErrnoName(it).to_string());
    object.word("errno", errno.as_deref());
    further_files(&mut object, operation);
    let unread: Vec<&str> = unread(operation).collect();
    if !unread.is_empty() {
        object.words("unread", &unread);
    }
    // Requests have lines of their own.
    let inside =
        operation.spans.iter().filter(|it| !matches!(it.layer, Layer::Queue | Layer::Device));
    let inside: Vec<&Span> = inside.collect();
    if !inside.is_empty() {
        object.objects("inside", &inside, |object, it| {
            object.word("layer", Some(it.layer.as_str()));
            object.word("what", Some(it.what));
            object.signed("start_ns", Some(it.begin.signed_since(start)));
            object.unsigned("duration_ns", Some(it.ns()));
        });
    }
    if let Some(why) = unfinished {
        object.word("unfinished", Some(why.as_str()));
    }
    object.end();
}

/// What only some calls have: a second file or the duplicate made, a second path, directories.
fn further_files(object: &mut Object<'_>, operation: &SyscallOperation) {
    let target = operation.target.as_ref().map(|(fd, _)| *fd);
    let fd2 = target.or_else(|| register::descriptor(operation, Role::Fd2));
    if let Some(fd) = fd2 {
        descriptor(object, "fd2", Some(fd));
    }
    if fd2.is_some() || operation.call.call().arg(Role::Path2).is_some() {
        let path = second_path(operation);
        object.bytes("path2", "path2_bytes", path.map(|it| it.bytes.as_slice()));
        object.word("path2_source", path.map(|it| it.source.as_str()));
        object.mounts("path2_mounts", path);
        let given = operation.named.as_deref();
        absolute(object, "path2_absolute", given.and_then(|it| it.second.as_ref()));
    }
    if operation.call.call().class == Class::Transfer {
        object.unsigned("offset2", operation.target_offset);
    }
    for (key, role) in [("dirfd", Role::DirFd), ("dirfd2", Role::DirFd2)] {
        if let Some(fd) = register::descriptor(operation, role) {
            descriptor(object, key, Some(fd));
        }
    }
}

/// The keys of what stands in the program's memory and was not read.
fn unread(operation: &SyscallOperation) -> impl Iterator<Item = &'static str> {
    let roles = operation.call.call().args.iter().zip(&operation.args);
    let told = roles.filter(|it| *it.1 != 0).filter_map(|(role, _)| match role {
        Role::Buffers => Some(("bytes_requested", operation.bytes_requested.is_none())),
        Role::OffsetPtr => Some(("offset", operation.offset.is_none())),
        Role::OffsetPtr2 => Some(("offset2", operation.target_offset.is_none())),
        Role::Pair => Some(("fd", operation.ret == Some(0) && operation.fd.is_none())),
        _ => None,
    });
    told.filter(|it| it.1).map(|it| it.0)
}

/// From the root, for a path that was given and begins at a known place.
fn absolute(object: &mut Object<'_>, key: &str, given: Option<&Given>) {
    if let Some(path) = given.and_then(|it| it.absolute.as_deref()) {
        object.bytes(key, &format!("{key}_bytes"), Some(path));
    }
}

/// The second path that was given, or the one behind the second descriptor: a transfer's target, or what a call that
/// duplicates made of it.
fn second_path(operation: &SyscallOperation) -> Option<&FilePath> {
    if let Some(path) = operation.second_path() {
        return Some(path);
    }
    match &operation.target {
        Some((_, file)) => file.path.as_ref(),
        // dup2(n, n) does nothing, and succeeds: both are the same file.
        None => {
            let duplicated = operation.call.call().class == Class::Dup && operation.ret >= Some(0);
            operation.path().filter(|_| duplicated)
        }
    }
}

fn descriptor(object: &mut Object<'_>, key: &str, fd: Option<Fd>) {
    match fd {
        Some(Fd::AT_FDCWD) => object.word(key, Some("AT_FDCWD")),
        other => object.signed(key, other.map(|it| it.0.into())),
    }
}
