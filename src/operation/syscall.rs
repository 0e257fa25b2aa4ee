//! System calls from entry to exit: the files that they work on, and their effects on descriptors.

mod memory;

use std::rc::Rc;

use self::memory::look_behind;
use super::context::Context;
use super::fd_table::{Description, Slot};
use super::mappings::{self, Mapping};
use super::model::{FdEffect, FilePath, OpenFile, PathSource, SyscallOperation, ThreadKey};
use super::path_arguments::{as_file_path, move_place, named, open_flags};
use super::task::TaskView;
use crate::event::registers::{argument, fd_argument, int, is_position, low_half, requested_fd};
use crate::event::syscall_table::{Call, CallClass, Role};
use crate::event::{Event, Name, OpenFlags, ReadNames, SysEnter, SysExit};
use crate::naming::pair;
use crate::units::{Fd, KernelTime};

/// A call that has not ended.
#[derive(Debug)]
pub struct PendingCall {
    /// The operation, as far as it is known.
    pub operation: SyscallOperation,
    /// File whose position it moves.
    moves: Option<Rc<Description>>,
    /// Second file whose position it moves.
    moves_target: Option<Rc<Description>>,
    /// True for a write that goes to the end of the file, for this call only (`RWF_APPEND`).
    appends: bool,
    /// Descriptor that it closes. The number is free from the entry on: another thread may get it
    /// before the exit.
    closed: Option<(Fd, Slot)>,
    /// File that it maps.
    mapped: Option<Rc<Description>>,
    /// Mappings that it removes. The addresses are free from the entry on.
    unmapped: Vec<Mapping>,
    /// Directory argument of an exec: the exec may close it.
    directory: Option<Rc<Description>>,
}

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
    let asked = requested_fd(call, args);
    // For memory without a file the kernel ignores the descriptor.
    let is_anonymous = call.class == CallClass::Map
        && argument(call, Role::MapFlags, args)
            .is_some_and(|it| it & libc::MAP_ANONYMOUS.cast_unsigned() as u64 != 0);
    let fd = asked.filter(|it| it.0 >= 0 && !is_anonymous);
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
            fd: asked,
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
        operation.file = Some(Rc::new(file.doubtful()));
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
) -> (Rc<OpenFile>, Vec<FdEffect>) {
    let mut effects = EffectList { list: Vec::new(), task, now };
    (effects.taken(fd, object, None, context), effects.list)
}

fn destroyed(fd: Fd, slot: &Slot) -> FdEffect {
    FdEffect::Destroyed { fd, file: slot.description.file() }
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

/// `OPEN_TREE_CLONE` (`include/uapi/linux/mount.h`).
const OPEN_TREE_CLONE: u64 = 1;

/// Effects of a call, while they are collected.
struct EffectList<'a> {
    list: Vec<FdEffect>,
    task: TaskView<'a>,
    now: KernelTime,
}

impl EffectList<'_> {
    /// Returns true if the descriptor has not changed since.
    fn is_same(&self, fd: Option<Fd>, since: KernelTime) -> bool {
        fd.is_none_or(|fd| !self.task.fds().borrow().has_changed(fd, since))
    }

    /// Gives a descriptor a file; its previous file was closed unseen, or by `dup2`.
    fn put(&mut self, fd: Fd, description: &Rc<Description>, cloexec: Option<bool>) {
        let slot = Slot { description: Rc::clone(description), cloexec };
        let before = self.task.fds().borrow_mut().put(fd, slot, self.now);
        self.list.extend(before.map(|it| destroyed(fd, &it)));
    }

    fn open(
        &mut self,
        operation: &mut SyscallOperation,
        names: Option<&ReadNames>,
        context: &mut Context,
    ) {
        let (task, losses) = (self.task, context.losses);
        let Some(fd) = new_fd(operation) else {
            operation.named = names.map(|it| Box::new(named(it, operation, None, task, losses)));
            return;
        };
        let given = names.and_then(|it| named(it, operation, None, task, losses).first);
        let flags = open_flags(operation);
        // The path is that of the directory in which the unnamed file is made.
        let is_nameless = flags.is_some_and(OpenFlags::is_unnamed);
        let spelled = given.as_ref().filter(|it| it.path.source.is_spelled());
        let whole = spelled.and_then(|it| it.absolute.clone());
        let as_argument = given.filter(|_| !is_nameless).map(as_file_path);
        let link = names.and_then(|it| it.link.as_ref());
        let opened = names.and_then(|it| it.opened.as_ref());
        let mut file = context.file(flags.map(|flags| flags.0), false);
        file.stat = names.and_then(|it| it.stat);
        let mounts = self.task.place().borrow().mounts;
        let linked = |it: &Name, source| FilePath::new(it.bytes.clone(), source).within(mounts);
        file.path = match link {
            Some(link) if link.verified => Some(linked(link, PathSource::Link)),
            // An argument that was read in time is better than a link that was not.
            late => match opened {
                Some(opened) if opened.verified => Some(linked(opened, PathSource::Opened)),
                doubtful => as_argument
                    .or_else(|| late.or(doubtful).map(|it| linked(it, PathSource::Unverified))),
            },
        };
        let resolved = file.path.as_ref().filter(|it| it.is_resolved() && !is_nameless);
        file.given =
            whole.filter(|it| resolved.is_some_and(|path| path.bytes != *it)).map(Into::into);
        let description = Rc::new(Description::opened(file, context.losses));
        if self.is_detached(operation) {
            // The kernel's name is not a path.
            description.detach();
            description.doubt_name();
        }
        context.names.note(&description, names.map_or(self.now, |it| it.read.max(self.now)));
        let call = operation.call.call();
        let cloexec = match flags {
            Some(flags) => Some(flags.is_cloexec()),
            // The flags of `openat2` are stored in memory.
            None => call.arg(Role::How).is_none().then(|| call.is_cloexec(&operation.args)),
        };
        self.put(fd, &description, cloexec);
        operation.fd = Some(fd);
        operation.file = Some(description.file());
        self.list.push(FdEffect::Created { fd, file: description.file() });
    }

    /// Returns true if the opened file is in a tree that is not mounted: a copy of mounts
    /// (`open_tree`), or below one.
    fn is_detached(&self, operation: &SyscallOperation) -> bool {
        let call = operation.call.call();
        let is_copy = matches!(call.name, "open_tree" | "open_tree_attr")
            && operation.args.get(2).is_some_and(|it| it & OPEN_TREE_CLONE != 0);
        let table = self.task.fds().borrow();
        let directory = fd_argument(call, Role::DirFd, &operation.args);
        is_copy || directory.and_then(|it| table.peek(it)).is_some_and(Description::is_detached)
    }

    /// Makes a descriptor for an object without a path.
    fn make(
        &mut self,
        operation: &mut SyscallOperation,
        object: &str,
        names: Option<&ReadNames>,
        context: &mut Context,
    ) {
        let call = operation.call.call();
        let Some(fd) = new_fd(operation).filter(|_| call.makes(&operation.args)) else {
            let (task, losses) = (self.task, context.losses);
            let given = names.filter(|_| call.has_path());
            operation.named = given.map(|it| Box::new(named(it, operation, None, task, losses)));
            return;
        };
        operation.fd = Some(fd);
        let cloexec = call.is_cloexec(&operation.args);
        operation.file = Some(match call.arg(Role::TakenFd) {
            Some(_) => self.taken(fd, None, Some(cloexec), context),
            None => self.made(fd, cloexec, object, context),
        });
    }

    /// Adds a descriptor for an open file of another process, or for one that was made elsewhere:
    /// neither the file nor its position is known.
    fn taken(
        &mut self,
        fd: Fd,
        object: Option<&str>,
        cloexec: Option<bool>,
        context: &mut Context,
    ) -> Rc<OpenFile> {
        let mut file = context.file(None, false);
        file.path = object.map(|it| FilePath::new(it, PathSource::Call));
        let description = Rc::new(Description::unknown(file, context.losses));
        self.put(fd, &description, cloexec);
        self.list.push(FdEffect::Created { fd, file: description.file() });
        description.file()
    }

    /// Makes two descriptors, if their numbers are known.
    fn make_pair(
        &mut self,
        operation: &mut SyscallOperation,
        pair: Option<[Fd; 2]>,
        context: &mut Context,
    ) {
        let Some([first, second]) = pair.filter(|_| operation.ret == Some(0)) else { return };
        let call = operation.call.call();
        let is_pipe = call.arg(Role::Pair) == Some(0);
        let object = if is_pipe { "pipe:[?]" } else { "socket:[?]" };
        let cloexec = call.is_cloexec(&operation.args);
        operation.fd = Some(first);
        operation.file = Some(self.made(first, cloexec, object, context));
        operation.target = Some((second, self.made(second, cloexec, object, context)));
    }

    fn made(&mut self, fd: Fd, cloexec: bool, object: &str, context: &mut Context) -> Rc<OpenFile> {
        let mut file = context.file(None, false);
        file.path = Some(FilePath::new(object, PathSource::Call));
        let description = Rc::new(Description::opened(file, context.losses));
        // The tree of `fsmount` is not mounted yet.
        if object == "fsmount" {
            description.detach();
        }
        self.put(fd, &description, Some(cloexec));
        self.list.push(FdEffect::Created { fd, file: description.file() });
        description.file()
    }

    fn close_range(&mut self, operation: &SyscallOperation) {
        if operation.ret != Some(0) {
            return;
        }
        let [first, last, flags, ..] = operation.args;
        let number = |register| i64::from(low_half(register));
        let fds = self.task.fds().borrow().range(number(first), number(last));
        for fd in fds {
            if flags & u64::from(libc::CLOSE_RANGE_CLOEXEC) != 0 {
                self.task.fds().borrow_mut().set_cloexec(fd, true);
                let file = self.task.fds().borrow().peek(fd).map(Description::file);
                let flags = file.and_then(|it| it.flags);
                self.list.push(FdEffect::StatusChanged { fd, flags, cloexec: Some(true) });
            } else if let Some(slot) = self.task.fds().borrow_mut().remove(fd, self.now) {
                self.list.push(destroyed(fd, &slot));
            }
        }
    }

    fn dup(&mut self, operation: &mut SyscallOperation, context: &mut Context) {
        let (Some(from), Some(to)) = (operation.fd, new_fd(operation)) else { return };
        let cloexec = operation.call.call().is_cloexec(&operation.args);
        self.duplicate(operation, from, to, cloexec, context);
    }

    fn duplicate(
        &mut self,
        operation: &mut SyscallOperation,
        from: Fd,
        to: Fd,
        cloexec: bool,
        context: &mut Context,
    ) {
        // dup2(n, n) does nothing.
        if from == to {
            return;
        }
        let description = match operation.file {
            Some(_) => context.description(self.task, from),
            // Another thread was replacing the descriptor: it may be either file.
            None => Rc::new(Description::unknown(context.file(None, false), context.losses)),
        };
        self.put(to, &description, Some(cloexec));
        let file = description.file();
        operation.target = Some((to, Rc::clone(&file)));
        self.list.push(FdEffect::Duplicated { from, to, file, cloexec });
    }

    fn control(&mut self, operation: &mut SyscallOperation, context: &mut Context) {
        let (Some(fd), Some(ret @ 0..)) = (operation.fd, operation.ret) else { return };
        let command = operation.args.get(1).map(|register| int(*register));
        let value = operation.args.get(2).copied().unwrap_or(0);
        match command {
            Some(libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                let to = Fd(i32::try_from(ret).unwrap_or(-1));
                self.duplicate(operation, fd, to, command == Some(libc::F_DUPFD_CLOEXEC), context);
            }
            Some(libc::F_SETFD) => {
                let cloexec = value & libc::FD_CLOEXEC as u64 != 0;
                self.task.fds().borrow_mut().set_cloexec(fd, cloexec);
                let flags = context.description(self.task, fd).file().flags;
                self.list.push(FdEffect::StatusChanged { fd, flags, cloexec: Some(cloexec) });
            }
            Some(libc::F_SETFL) => {
                let description = context.description(self.task, fd);
                description.set_flags(OpenFlags(low_half(value)));
                let flags = description.file().flags;
                self.list.push(FdEffect::StatusChanged { fd, flags, cloexec: None });
            }
            _ => {}
        }
    }

    fn seek(&mut self, operation: &SyscallOperation) {
        let (Some(fd), Some(result)) =
            (operation.fd, operation.ret.and_then(|it| u64::try_from(it).ok()))
        else {
            return;
        };
        let call = operation.call.call();
        let request = argument(call, Role::Offset, &operation.args).unwrap_or(0).cast_signed();
        let whence =
            argument(call, Role::Whence, &operation.args).and_then(|it| u32::try_from(it).ok());
        self.list.push(FdEffect::Seeked {
            fd,
            request,
            whence: whence.unwrap_or(u32::MAX),
            result,
        });
    }

    /// Handles "Bad file descriptor": the file that was made up at the entry does not exist.
    fn forget_nobody(&mut self, operation: &SyscallOperation) {
        let Some(fd) = operation.fd else { return };
        let mut table = self.task.fds().borrow_mut();
        let is_made_up =
            table.peek(fd).is_some_and(|it| it.file().pre_created && it.file().path.is_none());
        if is_made_up {
            table.remove(fd, self.now);
        }
    }
}

/// Returns the descriptor that the call returned.
fn new_fd(operation: &SyscallOperation) -> Option<Fd> {
    operation.ret.filter(|it| *it >= 0).and_then(|it| i32::try_from(it).ok()).map(Fd)
}
