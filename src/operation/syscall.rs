//! System calls from entry to exit: the files that they work on, and their effects on descriptors.

mod effect_list;
mod memory;

use std::rc::Rc;
use std::sync::Arc;

use self::effect_list::{EffectList, destroyed};
use self::memory::look_behind;
use super::context::Context;
use super::fd_table::Description;
use super::mappings;
use super::model::{FdEffect, OpenFile, SyscallOperation, ThreadKey};
use super::path_arguments::{move_place, named};
use super::pending_call::PendingCall;
use super::task::TaskView;
use crate::event::registers::{argument, fd_argument, is_position, requested_fd};
use crate::event::syscall_table::{Call, CallClass, Role};
use crate::event::{Event, SysEnter, SysExit};
use crate::naming::pair;
use crate::units::{Fd, KernelTime};

/// Handles the entry. The call is built directly in its slot, where it waits for its exit: it is
/// large, and moving it is expensive.
pub fn begin<'a>(
    event: &Event,
    enter: &SysEnter,
    task: TaskView<'_>,
    thread: ThreadKey,
    context: &mut Context,
    place: &'a mut Option<PendingCall>,
) -> &'a mut PendingCall {
    let call = enter.call.call();
    let args = &enter.args;
    task.fds().borrow_mut().begin_call(event.tid);
    task.place().borrow_mut().begin_call(call.class, event.tid);
    let passed_fd = requested_fd(call, args);
    // For memory without a file the kernel ignores the descriptor.
    let is_anonymous = call.class == CallClass::Map
        && argument(call, Role::MapFlags, args)
            .is_some_and(|it| it & libc::MAP_ANONYMOUS.cast_unsigned() as u64 != 0);
    let fd = passed_fd.filter(|it| it.0 >= 0 && !is_anonymous);
    let pending = place.insert(PendingCall {
        operation: SyscallOperation {
            call: enter.call,
            thread,
            process: task.process.info.key,
            pid: event.pid,
            tid: event.tid,
            cpu: event.cpu,
            start: event.time,
            end: None,
            args: *args,
            ret: None,
            fd: passed_fd,
            file: None,
            named: None,
            target: None,
            offset: None,
            target_offset: None,
            flags_in_memory: None,
            resolve_in_memory: None,
            bytes_requested: argument(call, Role::Count, args),
            spans: Vec::new(),
            chain: None,
        },
        moves: None,
        moves_target: None,
        appends: false,
        closed: None,
        mapped: None,
        unmapped: Vec::new(),
        directory: None,
    });
    if call.is_exec() {
        let directory = fd_argument(call, Role::DirFd, args);
        pending.directory = directory.and_then(|it| task.fds().borrow().get(it, context.losses));
    }
    match call.class {
        CallClass::Open => pending.operation.fd = None,
        CallClass::CloseRange => {}
        CallClass::Close => {
            pending.closed =
                fd.and_then(|fd| Some((fd, task.fds().borrow_mut().remove(fd, event.time)?)));
            pending.operation.file = pending.closed.as_ref().map(|it| it.1.description.file());
        }
        _ => begin_on_file(pending, call, fd, task, context),
    }
    if let Some((mut memory, page_bytes)) = context.memory(call, task.process) {
        pending.unmapped = mappings::begin(&mut pending.operation, &mut memory, page_bytes);
    }
    pending
}

/// `RWF_APPEND` of `pwritev2`: this write appends to the file (`include/uapi/linux/fs.h`).
pub(super) const RWF_APPEND: u64 = 0x10;

fn begin_on_file(
    pending: &mut PendingCall,
    call: &Call,
    fd: Option<Fd>,
    task: TaskView<'_>,
    context: &mut Context,
) {
    let args = pending.operation.args;
    if let Some(replaced) = replaced(call, &args) {
        task.fds().borrow_mut().begin_replace(replaced, pending.operation.tid);
    }
    let is_known = |fd: &Fd| {
        let mut table = task.fds().borrow_mut();
        let is_replaced = table.is_replaced(*fd);
        if let (true, Some(old)) = (is_replaced, table.peek(*fd)) {
            old.forget_position();
        }
        !is_replaced
    };
    let fd = fd.filter(&is_known);
    let description = fd.map(|it| context.description(task, it));
    pending.operation.file = description.as_ref().map(|it| it.file());
    let writes = call.class == CallClass::Write;
    pending.appends = matches!(call.class, CallClass::Read | CallClass::Write)
        && argument(call, Role::RwFlags, &args).is_some_and(|it| it & RWF_APPEND != 0);
    let appends = writes && (pending.appends || description.as_ref().is_none_or(|it| it.appends()));
    let own_position = match call.class {
        CallClass::Read | CallClass::Write => match argument(call, Role::Offset, &args) {
            None => true,
            // preadv2 and pwritev2 take -1 for the file's own position.
            Some(u64::MAX) if call.arg(Role::RwFlags).is_some() => true,
            Some(offset) => {
                let at = i64::try_from(offset).ok().map(i64::cast_unsigned);
                pending.operation.offset = at.filter(|_| !appends);
                false
            }
        },
        CallClass::Seek => true,
        CallClass::Transfer => argument(call, Role::OffsetPtr, &args) == Some(0),
        _ => {
            let of_file = description.as_ref().and_then(|_| argument(call, Role::Offset, &args));
            pending.operation.offset = of_file.filter(is_position);
            false
        }
    };
    if matches!(call.class, CallClass::Transfer | CallClass::Pipe)
        && let Some(target) =
            fd_argument(call, Role::Fd2, &args).filter(|it| it.0 >= 0).filter(is_known)
    {
        let description = context.description(task, target);
        pending.operation.target = Some((target, description.file()));
        let is_moved = argument(call, Role::OffsetPtr2, &args).is_none_or(|it| it == 0);
        if call.class == CallClass::Transfer && is_moved {
            description.begin_move();
            pending.moves_target = Some(description);
        }
    }
    if call.maps() {
        pending.mapped.clone_from(&description);
    }
    if own_position && let Some(description) = description {
        description.begin_move();
        pending.moves = Some(description);
    }
}

/// Returns the descriptor that a `dup2` is about to give another file.
fn replaced(call: &Call, args: &[u64; 6]) -> Option<Fd> {
    if call.class != CallClass::Dup {
        return None;
    }
    let fd = fd_argument(call, Role::Fd2, args).filter(|it| it.0 >= 0)?;
    (fd_argument(call, Role::Fd, args) != Some(fd)).then_some(fd)
}

/// Handles the exit: completes the operation. Returns its effects.
pub fn end(
    pending: &mut PendingCall,
    event: &Event,
    exit: &SysExit,
    task: TaskView<'_>,
    context: &mut Context,
) -> Vec<FdEffect> {
    let (mapped, unmapped) = (pending.mapped.take(), std::mem::take(&mut pending.unmapped));
    let directory = pending.directory.take().map(|it| it.file());
    let operation = &mut pending.operation;
    operation.end = Some(event.time);
    operation.ret = Some(exit.ret);
    operation.chain = exit.chain;
    let call = operation.call.call();
    let (moves, target) = (pending.moves.take(), pending.moves_target.take());
    settle_positions(operation, moves, target, pending.appends, event.time);
    let was_used = replaced(call, &operation.args).is_some()
        && task.fds().borrow_mut().end_replace(operation.tid);
    if let (true, Some(from)) = (was_used, operation.fd) {
        // The call may also have used this file already.
        task.fds().borrow().peek(from).into_iter().for_each(Description::forget_position);
    }
    let names = exit.names.as_deref();
    let pair = look_behind(operation, names.map_or(&[], |it| &it.memory));
    let pair = pair.or_else(|| pair::looked_at(call, &names?.pair));
    let mut effects = EffectList { list: Vec::new(), task, now: event.time };
    match call.class {
        CallClass::Open => effects.open(operation, names, context),
        CallClass::Make(object) => effects.make(operation, object, names, context),
        CallClass::MakePair => effects.make_pair(operation, pair, context),
        CallClass::Close => {
            // close(2): the descriptor is closed even if the call reports an error of an earlier
            // write.
            effects.list.extend(pending.closed.take().map(|(fd, slot)| destroyed(fd, &slot)));
        }
        CallClass::CloseRange => effects.close_range(operation),
        CallClass::Dup => effects.dup(operation, context),
        CallClass::Control => effects.control(operation, context),
        CallClass::Seek => effects.seek(operation),
        _ => {
            operation.named = names.map(|names| {
                let directory = directory.as_deref();
                Box::new(named(names, operation, directory, task, context.losses))
            });
            move_place(operation, task);
        }
    }
    if call.changes_mappings()
        && let Some((mut memory, page_bytes)) = context.memory(call, task.process)
    {
        mappings::end(operation, mapped, unmapped, &mut memory, page_bytes);
    }
    if operation.errno() == Some(libc::EBADF) {
        effects.forget_nobody(operation);
    }
    let keeps = !matches!(
        call.class,
        CallClass::Open | CallClass::Close | CallClass::Dup | CallClass::Control
    ) && !matches!(call.class, CallClass::Make(_) | CallClass::MakePair);
    if keeps && !effects.is_same(operation.fd, operation.start) {
        doubt(operation);
    }
    effects.list
}

/// Marks the file as doubtful: the descriptor was closed or made anew meanwhile, so the call may
/// have worked on another file.
fn doubt(operation: &mut SyscallOperation) {
    if let Some(file) = operation.file.take() {
        operation.file = Some(Arc::new(file.doubtful()));
        let is_given = argument(operation.call.call(), Role::Offset, &operation.args).is_some();
        operation.offset = operation.offset.filter(|_| is_given);
    }
}

/// Abandons a call whose exit will not come.
pub fn abandon(pending: PendingCall, now: KernelTime) -> SyscallOperation {
    for description in pending.moves.into_iter().chain(pending.moves_target) {
        description.end_unknown(now);
    }
    pending.operation
}

/// Adds a descriptor that was made by an asynchronous operation, for a file with an unknown name or
/// for an object.
pub fn made_elsewhere(
    fd: Fd,
    object: Option<&str>,
    task: TaskView<'_>,
    now: KernelTime,
    context: &mut Context,
) -> (Arc<OpenFile>, Vec<FdEffect>) {
    let mut effects = EffectList { list: Vec::new(), task, now };
    (effects.taken(fd, object, None, context), effects.list)
}

/// Moves the positions that the call has moved, and sets the offsets of the operation.
fn settle_positions(
    operation: &mut SyscallOperation,
    moves: Option<Rc<Description>>,
    target: Option<Rc<Description>>,
    appends: bool,
    now: KernelTime,
) {
    let ret = operation.ret.unwrap_or(0);
    let moved = u64::try_from(ret).unwrap_or(0);
    let class = operation.call.call().class;
    if let Some(description) = moves {
        if class == CallClass::Seek {
            description.end_seek(u64::try_from(ret).ok(), now);
        } else if appends {
            description.end_unknown(now);
        } else {
            operation.offset = description.end_move(moved, class == CallClass::Write, now);
        }
        // A snapshot may have given it a name meanwhile.
        operation.file = Some(description.file());
    }
    if let Some(description) = target {
        operation.target_offset = description.end_move(moved, true, now);
    }
}
