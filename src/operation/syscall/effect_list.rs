//! Effects of a call on the descriptors of its thread.

use std::rc::Rc;
use std::sync::Arc;

use crate::event::registers::{argument, fd_argument, int, low_half};
use crate::event::syscall_table::Role;
use crate::event::{Name, OpenFlags, ReadNames};
use crate::operation::context::Context;
use crate::operation::fd_table::{Description, Slot};
use crate::operation::model::{
    FdEffect, FilePath, MountNamespace, OpenFile, PathSource, SyscallOperation,
};
use crate::operation::path_arguments::{as_file_path, named, open_flags};
use crate::operation::task::TaskView;
use crate::units::{Fd, KernelTime};

/// `OPEN_TREE_CLONE` (`include/uapi/linux/mount.h`).
const OPEN_TREE_CLONE: u64 = 1;

/// Effects of a call, while they are collected.
pub(super) struct EffectList<'a> {
    pub(super) list: Vec<FdEffect>,
    pub(super) task: TaskView<'a>,
    pub(super) now: KernelTime,
}

impl EffectList<'_> {
    /// Returns true if the descriptor has not changed since.
    pub(super) fn is_same(&self, fd: Option<Fd>, since: KernelTime) -> bool {
        fd.is_none_or(|fd| !self.task.fds().borrow().has_changed(fd, since))
    }

    /// Gives a descriptor a file; its previous file was closed unseen, or by `dup2`.
    fn put(&mut self, fd: Fd, description: &Rc<Description>, cloexec: Option<bool>) {
        let slot = Slot { description: Rc::clone(description), cloexec };
        let before = self.task.fds().borrow_mut().put(fd, slot, self.now);
        self.list.extend(before.map(|it| destroyed(fd, &it)));
    }

    pub(super) fn open(
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
        let mut file = context.file(flags.map(|flags| flags.0), false);
        let mounts = self.task.place().borrow().mounts;
        // In another mount namespace a file system that was not listened to may have opened the
        // file of the handle, and other paths lead to files.
        let identifies =
            |names: &&ReadNames| !names.stat_is_by_handle || mounts.is(MountNamespace::OWN);
        file.stat = names.filter(identifies).and_then(|names| names.stat);
        let opened = names.filter(identifies).and_then(|it| it.opened.as_ref());
        let linked = |it: &Name, source| FilePath::new(it.bytes.clone(), source).within(mounts);
        // A file that the call opened by the reported name had that name then, whatever was renamed
        // before the directory was looked up.
        let is_confirmed = |opened: &Name| {
            names.is_some_and(|names| names.is_opened_here)
                && whole.as_ref().is_some_and(|path| **path == *opened.bytes)
        };
        let name_time = match opened {
            Some(opened) if !opened.verified && is_confirmed(opened) => self.now,
            _ => names.map_or(self.now, |it| it.read.max(self.now)),
        };
        file.path = match link {
            Some(link) if link.verified => Some(linked(link, PathSource::Link)),
            // An argument that was read in time is better than a link that was not.
            late => match opened {
                Some(opened) if opened.verified || is_confirmed(opened) => {
                    Some(linked(opened, PathSource::Opened))
                }
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
        context.names.note(&description, name_time);
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
    pub(super) fn make(
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
    pub(super) fn taken(
        &mut self,
        fd: Fd,
        object: Option<&str>,
        cloexec: Option<bool>,
        context: &mut Context,
    ) -> Arc<OpenFile> {
        let mut file = context.file(None, false);
        file.path = object.map(|it| FilePath::new(it, PathSource::Call));
        let description = Rc::new(Description::unknown(file, context.losses));
        self.put(fd, &description, cloexec);
        self.list.push(FdEffect::Created { fd, file: description.file() });
        description.file()
    }

    /// Makes two descriptors, if their numbers are known.
    pub(super) fn make_pair(
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

    fn made(
        &mut self,
        fd: Fd,
        cloexec: bool,
        object: &str,
        context: &mut Context,
    ) -> Arc<OpenFile> {
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

    pub(super) fn close_range(&mut self, operation: &SyscallOperation) {
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

    pub(super) fn dup(&mut self, operation: &mut SyscallOperation, context: &mut Context) {
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
        operation.target = Some((to, Arc::clone(&file)));
        self.list.push(FdEffect::Duplicated { from, to, file, cloexec });
    }

    pub(super) fn control(&mut self, operation: &mut SyscallOperation, context: &mut Context) {
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

    pub(super) fn seek(&mut self, operation: &SyscallOperation) {
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
    pub(super) fn forget_nobody(&mut self, operation: &SyscallOperation) {
        let Some(fd) = operation.fd else { return };
        let mut table = self.task.fds().borrow_mut();
        let is_made_up =
            table.peek(fd).is_some_and(|it| it.file().pre_created && it.file().path.is_none());
        if is_made_up {
            table.remove(fd, self.now);
        }
    }
}

pub(super) fn destroyed(fd: Fd, slot: &Slot) -> FdEffect {
    FdEffect::Destroyed { fd, file: slot.description.file() }
}

/// Returns the descriptor that the call returned.
fn new_fd(operation: &SyscallOperation) -> Option<Fd> {
    operation.ret.filter(|it| *it >= 0).and_then(|it| i32::try_from(it).ok()).map(Fd)
}
