//! I/O classes. An operation works on a file, or waits for something that other programs, a peer or
//! the clock must do first (a pipe, a socket, a terminal, an eventfd), or does neither (the calls
//! that change the user of a process or start one).
//!
//! The type of a descriptor is the one that the kernel reported (`statx`, the link in `/proc`, a
//! probe), or follows from the call that made it. Without either the type is unknown: nothing is
//! guessed.

use super::asynchronous::AsyncOperation;
use super::model::{FilePath, OpenFile, PathSource, SyscallOperation};
use crate::anomaly::Ledger;
use crate::event::syscall_table::{Call, CallClass, Role};

/// The class of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoClass {
    /// Work on a file, a directory, a block device, or a name of one.
    #[default]
    File,
    /// Work on a pipe, a socket, a terminal or the like, or waiting for results: mostly waiting for
    /// other processes.
    Waiting,
    /// Work on a descriptor of unknown type: either a file or waiting.
    Unknown,
    /// No I/O: the call changes the user of a process, leaves shared resources, or makes a process.
    Nothing,
}

impl IoClass {
    /// Returns the word for the class in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Waiting => "waiting",
            Self::Unknown => "unknown",
            Self::Nothing => "none",
        }
    }
}

/// Prefixes of the kernel's names of objects without a path (`d_dname()` of the file systems, and
/// the names of the rows of [`CallClass::Make`]).
const NAMES_OF_NO_FILE: [&[u8]; 7] =
    [b"pipe:[", b"socket:[", b"anon_inode:", b"pidfd:", b"bpf", b"mqueue", b"dmabuf:"];

/// Name of an object from a call that may have made any kind.
const COPY_OF_ANOTHER: &[u8] = b"pidfd_getfd";

/// Character devices whose reads and writes never wait (null(4), full(4), random(4)).
const NEVER_WAITING: [&[u8]; 4] = [b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/urandom"];

fn names_no_file(path: &FilePath) -> bool {
    !path.bytes.starts_with(b"/") && NAMES_OF_NO_FILE.iter().any(|it| path.bytes.starts_with(it))
}

impl OpenFile {
    /// Returns the class of operations on the file.
    pub fn io_class(&self) -> IoClass {
        let is_absolute = |path: &FilePath| path.bytes.starts_with(b"/");
        if self.stat.is_some_and(|stat| stat.is_file())
            && self.path.as_ref().is_none_or(is_absolute)
        {
            return IoClass::File;
        }
        // Some kernels report an anonymous inode as a regular file, but its link does not.
        let sure =
            self.path.as_ref().filter(|it| it.is_resolved() || it.source == PathSource::Call);
        if sure.is_some_and(names_no_file) {
            return IoClass::Waiting;
        }
        let is_device = self.stat.is_some_and(|it| it.mode & libc::S_IFMT == libc::S_IFCHR);
        let named = self.path.as_ref().filter(|it| is_device && !it.source.is_doubtful());
        if named.is_some_and(|it| NEVER_WAITING.contains(&it.bytes.as_slice())) {
            return IoClass::File;
        }
        match self.stat {
            Some(stat) if stat.is_file() => IoClass::File,
            Some(_) => IoClass::Waiting,
            None if self.path.as_ref().is_some_and(may_be_anything) => IoClass::Unknown,
            None if self.pre_created => IoClass::Unknown,
            // An open of a path has made the file.
            None => IoClass::File,
        }
    }
}

fn may_be_anything(path: &FilePath) -> bool {
    let is_doubtful = path.source == PathSource::Unverified && names_no_file(path);
    is_doubtful || path.source == PathSource::Call && path.bytes == COPY_OF_ANOTHER
}

/// Returns true if an operation of this class succeeds on files only, whatever its descriptor is.
fn is_of_files(class: CallClass) -> bool {
    matches!(class, CallClass::Sync | CallClass::List | CallClass::Resize)
}

/// Returns true if the call changes the user of a process, leaves shared resources, or makes a
/// process.
fn is_no_io(call: &Call) -> bool {
    let may_be = matches!(call.class, CallClass::User | CallClass::Unshare | CallClass::Process);
    may_be && !call.has_path() && call.arg(Role::Fd).is_none()
}

/// Returns the class of an operation on these files.
fn of<'a>(
    class: CallClass,
    succeeded: bool,
    files: impl IntoIterator<Item = &'a OpenFile>,
) -> IoClass {
    let is_elsewhere = matches!(
        class,
        CallClass::Async
            | CallClass::Socket
            | CallClass::Pipe
            | CallClass::Make(_)
            | CallClass::MakePair
    );
    if is_elsewhere {
        return IoClass::Waiting;
    }
    let mut found = IoClass::File;
    for file in files {
        match file.io_class() {
            // The time of a transfer between a file and a pipe is that of both; time that is not
            // only the file's counts as waiting.
            IoClass::Waiting => return IoClass::Waiting,
            IoClass::Unknown if succeeded && is_of_files(class) => {}
            IoClass::Unknown => found = IoClass::Unknown,
            IoClass::File | IoClass::Nothing => {}
        }
    }
    found
}

impl SyscallOperation {
    /// Returns the class of the call: whether it is file I/O.
    pub fn io_class(&self) -> IoClass {
        let class = self.call.call().class;
        if is_no_io(self.call.call()) {
            return IoClass::Nothing;
        }
        let target = self.target.as_ref().filter(|_| class == CallClass::Transfer);
        let files = self.file.as_deref().into_iter().chain(target.map(|it| it.1.as_ref()));
        // The number is not a descriptor.
        if self.errno() == Some(libc::EBADF) {
            return IoClass::File;
        }
        of(class, self.ret.is_some_and(|it| it >= 0), files)
    }
}

impl AsyncOperation {
    /// Returns the class of the operation: whether it is file I/O.
    pub fn io_class(&self) -> IoClass {
        let class = self.opcode.class();
        let target = self.target.as_ref().map(|it| it.1.as_ref());
        let files = self.file.as_deref().into_iter().chain(target);
        // The file that is registered with the ring is not known.
        if self.fixed_file && self.file.is_none() {
            return IoClass::Unknown;
        }
        of(class, self.result.is_some_and(|it| it >= 0), files)
    }
}

/// Counts operations whose file has no name, or a doubtful one, and those for which it is not known
/// whether they have a file.
pub(super) fn count_names(ledger: &mut Ledger, operation: &SyscallOperation) {
    let works_on_file = operation.file.is_some() || operation.call.call().has_names();
    match operation.path() {
        Some(path) => ledger.unverified += u64::from(path.source.is_doubtful()),
        None if works_on_file && operation.errno() != Some(libc::EBADF) => {
            match operation.io_class() {
                IoClass::File => ledger.unnamed += 1,
                IoClass::Unknown => ledger.untyped += 1,
                IoClass::Waiting | IoClass::Nothing => {}
            }
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::FileStat;
    use crate::operation::test_fixtures::call;
    use crate::units::{DevId, Fd};

    fn file(path: Option<(&str, PathSource)>, mode: Option<u32>, pre_created: bool) -> OpenFile {
        let stat = |mode| FileStat { mode, dev: DevId::default(), ino: 7, size: 0 };
        OpenFile {
            id: 0,
            path: path.map(|it| FilePath::new(it.0, it.1)),
            first_path: None,
            given: None,
            stat: mode.map(stat),
            flags: None,
            pre_created,
        }
    }

    #[track_caller]
    fn check(path: Option<(&str, PathSource)>, mode: Option<u32>, pre: bool, expected: IoClass) {
        assert_eq!(file(path, mode, pre).io_class(), expected);
    }

    #[test]
    fn file_type_is_that_of_the_kernel_or_of_the_call() {
        use IoClass::{File, Unknown, Waiting};
        use PathSource::{Argument, Call, Link, Snapshot, Unverified};
        check(Some(("/a", Link)), Some(libc::S_IFREG), false, File);
        check(Some(("/a", Link)), Some(libc::S_IFDIR), false, File);
        check(Some(("/a", Link)), Some(libc::S_IFIFO), false, Waiting);
        check(Some(("/dev/pts/0", Snapshot)), Some(libc::S_IFCHR), true, Waiting);
        check(Some(("/dev/null", Snapshot)), Some(libc::S_IFCHR), true, File);
        check(Some(("/dev/zero", Link)), Some(libc::S_IFCHR), false, File);
        check(Some(("/dev/zero", Unverified)), Some(libc::S_IFCHR), false, Waiting);
        check(Some(("/dev/zero", Link)), Some(libc::S_IFIFO), false, Waiting);
        check(Some(("pipe:[7]", Snapshot)), None, true, Waiting);
        check(Some(("anon_inode:[eventpoll]", Snapshot)), Some(libc::S_IFREG), true, Waiting);
        check(Some(("socket:[?]", Call)), None, false, Waiting);
        check(Some(("pidfd_getfd", Call)), None, false, Unknown);
        check(Some(("/secretmem", Call)), None, false, File);
        // A program may give its files any name.
        check(Some(("pipe:[7]", Argument)), None, false, File);
        check(Some(("pipe:[?]", Unverified)), None, false, Unknown);
        check(Some(("/a", Unverified)), None, false, File);
        check(None, None, true, Unknown);
        check(None, None, false, File);
        check(None, Some(libc::S_IFSOCK), true, Waiting);
    }

    #[track_caller]
    fn check_call(name: &str, on: &OpenFile, to: Option<OpenFile>, ret: i64, expected: IoClass) {
        let on = OpenFile { path: on.path.clone(), ..file(None, None, on.pre_created) };
        let mut made = call(name, Arc::new(on), [1, 2], None, ret);
        made.target = to.map(|it| (Fd(4), Arc::new(it)));
        assert_eq!(made.io_class(), expected, "{name}");
    }

    #[test]
    fn operation_has_the_class_of_its_files() {
        use IoClass::{File, Unknown, Waiting};
        let opened = || file(Some(("/a", PathSource::Argument)), None, false);
        let pipe = file(Some(("pipe:[?]", PathSource::Call)), None, false);
        let untyped = file(None, None, true);
        check_call("read", &opened(), None, 7, File);
        check_call("read", &pipe, None, 7, Waiting);
        check_call("read", &untyped, None, 7, Unknown);
        check_call("read", &untyped, None, -i64::from(libc::EBADF), File);
        // A pipe cannot be synced.
        check_call("fsync", &untyped, None, 0, File);
        check_call("fsync", &untyped, None, -i64::from(libc::EINVAL), Unknown);
        check_call("sendfile64", &opened(), Some(opened()), 7, File);
        check_call("sendfile64", &opened(), Some(pipe), 7, Waiting);
        check_call("sendfile64", &opened(), Some(untyped), 7, Unknown);
        check_call("accept4", &opened(), None, -i64::from(libc::EAGAIN), Waiting);
        check_call("fchdir", &opened(), None, 0, File);
    }

    #[test]
    fn process_only_calls_are_no_io() {
        use IoClass::{File, Nothing};
        let opened = || file(Some(("/a", PathSource::Argument)), None, false);
        for name in ["setuid", "setreuid", "setresuid", "unshare", "clone", "clone3"] {
            check_call(name, &opened(), None, 0, Nothing);
            check_call(name, &opened(), None, -i64::from(libc::EBADF), Nothing);
        }
        check_call("execve", &opened(), None, 0, File);
        check_call("chdir", &opened(), None, 0, File);
        check_call("setns", &opened(), None, 0, File);
    }
}
