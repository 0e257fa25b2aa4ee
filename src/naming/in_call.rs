//! State of a system call between entry and exit: the paths that the kernel itself copied, and the
//! file of the new descriptor.
//!
//! A path belongs to the argument with its address. The order of the paths has no meaning: some
//! kernels copy the second path of a rename first.

use super::recorded_list::RecordedList;
use crate::event::registers::fd_argument;
use crate::event::syscall_strings::{EventString, event_byte};
use crate::event::syscall_table::{IOCB_READ_BYTES, Role};
use crate::event::{FileStat, Name, ProbeObservation, ReadNames, StringFrom, SysEnter};
use crate::units::Fd;

/// Result of a call whose path cannot be read.
const EFAULT: i64 = -(libc::EFAULT as i64);

/// A call that a thread is inside.
#[derive(Debug)]
pub(super) struct CurrentCall {
    /// Entry of the call.
    pub(super) enter: SysEnter,
    strings: Vec<EventString>,
    /// Paths of the first and the second argument.
    paths: [Option<(Vec<u8>, StringFrom)>; 2],
    /// The last file; `file_before` is the one before it.
    file: Option<(Fd, FileStat)>,
    file_before: Option<(Fd, FileStat)>,
    /// Program that an exec has started.
    program: Option<Vec<u8>>,
    /// List that the thread passes to `io_submit`.
    list: RecordedList,
}

impl CurrentCall {
    /// Returns the state of a call that was just entered; `strings` are those of its entry.
    pub(super) fn new(enter: SysEnter, strings: Vec<EventString>) -> Self {
        let (paths, [file, file_before]) = ([None, None], [None, None]);
        Self {
            enter,
            strings,
            paths,
            file,
            file_before,
            program: None,
            list: RecordedList::default(),
        }
    }

    /// Takes a path or a list from a probe right before the call: the last one at an address is the
    /// one that was passed.
    pub(super) fn given(&mut self, probed: &ProbeObservation) {
        if let ProbeObservation::Submitted { address, first, bytes } = probed
            && list_address(&self.enter, Role::Iocbs) == Some(*address)
        {
            self.list.add(*first, bytes.clone());
        }
        let ProbeObservation::Given { address, bytes } = probed else { return };
        let given = self.enter.call.call().paths(&self.enter.args);
        for (path, _) in self.paths.iter_mut().zip(given).filter(|it| it.1 == Some(*address)) {
            *path = bytes.clone().map(|it| (it, StringFrom::Uprobe));
        }
    }

    /// Takes an event of a probe inside the call.
    pub(super) fn probed(&mut self, probed: &ProbeObservation) {
        match probed {
            ProbeObservation::Path { address, bytes: Some(bytes) } => {
                let given = self.enter.call.call().paths(&self.enter.args);
                // A path without an address is only used for a call that has one path.
                let is_argument = |argument: Option<u64>| match address {
                    Some(address) => argument == Some(*address),
                    None => argument.is_some() && given[1].is_none(),
                };
                for (path, given) in self.paths.iter_mut().zip(given) {
                    // The first path is the argument: later ones are of the kernel's own opens.
                    if is_argument(given) && path.is_none() {
                        *path = Some((bytes.clone(), StringFrom::Kernel));
                    }
                }
            }
            ProbeObservation::Path { bytes: None, .. }
            | ProbeObservation::Given { .. }
            | ProbeObservation::Submitted { .. }
            | ProbeObservation::Completed { .. } => {}
            ProbeObservation::File { fd, stat } => {
                self.file_before = self.file.replace((*fd, *stat))
            }
            ProbeObservation::Program(path) if self.enter.call.call().is_exec() => {
                self.program = Some(self.as_given(path).to_vec());
            }
            ProbeObservation::Program(_)
            | ProbeObservation::Waited(_)
            | ProbeObservation::CoreSignal => {}
        }
    }

    /// Returns a program's path without the prefix that the kernel adds for the directory argument.
    fn as_given<'a>(&self, path: &'a [u8]) -> &'a [u8] {
        let call = self.enter.call.call();
        let Some(fd) = fd_argument(call, Role::DirFd, &self.enter.args) else { return path };
        let directory = format!("/dev/fd/{}", fd.0);
        match path.strip_prefix(directory.as_bytes()) {
            Some([]) => b"",
            Some([b'/', rest @ ..]) => rest,
            _ => path,
        }
    }

    /// Returns the known names of the call when it has returned `ret`; `None`: none.
    pub(super) fn names(&self, ret: i64) -> Option<ReadNames> {
        let given = self.enter.call.call().paths(&self.enter.args);
        let of_event = |address: Option<u64>| {
            let string = self.strings.iter().find(|it| Some(it.address) == address);
            string.map(|it| (it.bytes.clone(), it.from))
        };
        let mut found = self.paths.iter().zip(given).map(|(path, address)| {
            // An unreadable argument looks like a string in the record; the kernel could not read
            // it either.
            let is_there = |it: &(Vec<u8>, StringFrom)| it.1 == StringFrom::Kernel || ret != EFAULT;
            path.clone().filter(is_there).or_else(|| of_event(address))
        });
        let (first, second) = (found.next().flatten(), found.next().flatten());
        let is_kernels = first.as_ref().is_some_and(|it| it.1 == StringFrom::Kernel);
        let program = self.program.clone().filter(|_| !is_kernels);
        let first = program.map(|it| (it, StringFrom::Exec)).or(first);
        let stat = self.file.filter(|it| i64::from(it.0.0) == ret).map(|it| it.1);
        let (pair, list) = (self.pair(ret), self.recorded_list(ret));
        let is_named = first.is_some() || second.is_some() || stat.is_some() || !pair.is_empty();
        if !is_named && list.is_none() {
            return None;
        }
        let from =
            |it: &Option<(Vec<u8>, StringFrom)>| it.as_ref().map(|it| it.1).unwrap_or_default();
        let from = [from(&first), from(&second)];
        let name = |it: (Vec<u8>, StringFrom)| Name { bytes: it.0, verified: true };
        let (argument, second) = (first.map(name), second.map(name));
        Some(ReadNames { argument, second, from, stat, pair, list, ..ReadNames::default() })
    }

    /// Returns the list that the call has taken, with its address, as far as it was recorded.
    fn recorded_list(&self, ret: i64) -> Option<(u64, Vec<u8>)> {
        let address = list_address(&self.enter, Role::Iocbs).filter(|_| ret > 0)?;
        let bytes = self.list.joined(IOCB_READ_BYTES);
        (!bytes.is_empty()).then_some((address, bytes))
    }

    /// Returns the two descriptors that the call has made, if it makes two.
    fn pair(&self, ret: i64) -> Vec<(Fd, Name, Option<FileStat>)> {
        let files = self.file_before.zip(self.file);
        let files = files.filter(|_| ret == 0 && self.enter.call.call().makes_pair());
        let one = |(fd, stat)| (fd, Name { bytes: Vec::new(), verified: true }, Some(stat));
        files.map_or_else(Vec::new, |(first, second)| vec![one(first), one(second)])
    }
}

/// Returns true if an event would show this path as such a string.
fn shows(string: &[u8], from: StringFrom, path: &[u8]) -> bool {
    let mut shown = path.iter().map(|&it| event_byte(it));
    let same = string.iter().all(|it| shown.next() == Some(*it));
    same && (from == StringFrom::EventCut || shown.next().is_none())
}

/// Returns the better names of those that were read and those that were seen inside the call.
pub(super) fn better(read: ReadNames, seen: ReadNames) -> ReadNames {
    let pick = |read: (Option<Name>, StringFrom), seen: (Option<Name>, StringFrom)| match (
        &read.0, &seen.0,
    ) {
        (Some(_), Some(_)) if seen.1 > read.1 => seen,
        // The program used its memory for something else, without a call that would show the
        // change.
        (Some(name), Some(string)) if !shows(&string.bytes, seen.1, &name.bytes) => seen,
        (None, _) => seen,
        _ => read,
    };
    let ([r1, r2], [s1, s2]) = (read.from, seen.from);
    let (argument, from) = pick((read.argument, r1), (seen.argument, s1));
    let (second, from2) = pick((read.second, r2), (seen.second, s2));
    let stat = seen.stat.or(read.stat);
    let pair = if seen.pair.is_empty() { read.pair } else { seen.pair };
    ReadNames { argument, second, from: [from, from2], stat, pair, list: seen.list, ..read }
}

/// Returns the address of the list that a call takes or fills.
pub(super) fn list_address(enter: &SysEnter, role: Role) -> Option<u64> {
    enter.args.get(enter.call.call().arg(role)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::syscall_table::CallId;

    fn inside(call: &str, args: [u64; 6]) -> CurrentCall {
        let call = CallId::by_name(call).expect("in the table");
        CurrentCall::new(SysEnter { call, args }, Vec::new())
    }

    fn path(address: Option<u64>, bytes: &str) -> ProbeObservation {
        ProbeObservation::Path { address, bytes: Some(bytes.into()) }
    }

    fn text(name: &Option<Name>) -> Option<&str> {
        name.as_ref().map(|it| std::str::from_utf8(&it.bytes).expect("text"))
    }

    #[track_caller]
    fn check(inside: &CurrentCall, ret: i64, first: Option<&str>, second: Option<&str>) {
        let names = inside.names(ret).unwrap_or_default();
        assert_eq!((text(&names.argument), text(&names.second)), (first, second));
    }

    #[test]
    fn paths_match_their_addresses_in_any_order() {
        let mut rename = inside("rename", [10, 20, 0, 0, 0, 0]);
        rename.probed(&path(Some(20), "/new"));
        check(&rename, 0, None, Some("/new"));
        rename.probed(&path(Some(10), "/old"));
        rename.probed(&path(Some(30), "/of the kernel"));
        check(&rename, 0, Some("/old"), Some("/new"));
    }

    #[test]
    fn one_string_may_be_both_paths() {
        let mut rename = inside("rename", [10, 10, 0, 0, 0, 0]);
        rename.probed(&path(Some(10), "/same"));
        check(&rename, 0, Some("/same"), Some("/same"));
    }

    #[test]
    fn without_an_address_only_the_first_path_of_a_call_with_one() {
        let mut open = inside("openat", [0, 10, 0, 0, 0, 0]);
        open.probed(&path(None, "/a"));
        open.probed(&path(None, "/interpreter"));
        check(&open, 3, Some("/a"), None);
        let mut rename = inside("rename", [10, 20, 0, 0, 0, 0]);
        rename.probed(&path(None, "/a"));
        check(&rename, 0, None, None);
    }

    #[test]
    fn uncopied_path_is_unknown() {
        let mut open = inside("openat", [0, 10, 0, 0, 0, 0]);
        open.probed(&ProbeObservation::Path { address: Some(10), bytes: None });
        assert_eq!(open.names(-14), None);
    }

    #[test]
    fn file_is_that_of_the_returned_descriptor() {
        let stat = FileStat { mode: libc::S_IFREG, dev: Default::default(), ino: 7, size: 0 };
        let mut open = inside("openat", [0, 10, 0, 0, 0, 0]);
        open.probed(&ProbeObservation::File { fd: Fd(3), stat });
        assert_eq!(open.names(3).and_then(|it| it.stat), Some(stat));
        assert_eq!(open.names(4), None);
    }

    #[test]
    fn the_files_of_a_pair_are_the_last_two() {
        let stat = |mode| FileStat { mode, dev: Default::default(), ino: 7, size: 0 };
        let mut pipe = inside("pipe2", [10, 0, 0, 0, 0, 0]);
        for fd in [3, 5] {
            pipe.probed(&ProbeObservation::File { fd: Fd(fd), stat: stat(libc::S_IFIFO) });
        }
        let pair = pipe.names(0).unwrap_or_default().pair;
        assert_eq!(pair.iter().map(|it| it.0).collect::<Vec<_>>(), [Fd(3), Fd(5)]);
        assert_eq!(pipe.names(-1), None);
        let mut open = inside("openat", [0, 10, 0, 0, 0, 0]);
        open.probed(&ProbeObservation::File { fd: Fd(3), stat: stat(libc::S_IFREG) });
        open.probed(&ProbeObservation::File { fd: Fd(5), stat: stat(libc::S_IFREG) });
        assert_eq!(open.names(5).unwrap_or_default().pair, []);
    }

    #[test]
    fn string_of_the_kernel_precedes_that_of_the_event() {
        let call = CallId::by_name("openat").expect("in the table");
        let string = EventString { address: 10, bytes: b"/a.".into(), from: StringFrom::Event };
        let enter = SysEnter { call, args: [0, 10, 0, 0, 0, 0] };
        let mut open = CurrentCall::new(enter, vec![string]);
        check(&open, 3, Some("/a."), None);
        open.probed(&path(Some(10), "/a\u{e4}"));
        check(&open, 3, Some("/a\u{e4}"), None);
        assert_eq!(open.names(3).unwrap_or_default().from[0], StringFrom::Kernel);
    }

    /// Checks the name of an exec with this directory, for a program path as the kernel reports it.
    #[track_caller]
    fn check_program(call: &str, directory: i32, program: &str, expected: Option<&str>) {
        let directory = i64::from(directory).cast_unsigned();
        let mut exec = inside(call, [directory, 10, 0, 0, 0, 0]);
        exec.probed(&ProbeObservation::Program(program.into()));
        check(&exec, 0, expected, None);
    }

    #[test]
    fn program_has_the_path_of_its_exec() {
        check_program("execve", 7, "bin/x", Some("bin/x"));
        check_program("execve", 7, "/dev/fd/7/x", Some("/dev/fd/7/x"));
        check_program("execveat", 7, "/dev/fd/7/bin/x", Some("bin/x"));
        check_program("execveat", 7, "/dev/fd/7", Some(""));
        check_program("execveat", 7, "/dev/fd/70", Some("/dev/fd/70"));
        check_program("execveat", 7, "/bin/x", Some("/bin/x"));
        check_program("execveat", -100, "x", Some("x"));
        // The program of a thread inside another call belongs to another process.
        check_program("openat", 7, "/bin/x", None);
    }

    #[test]
    fn exec_path_precedes_the_event_but_not_the_kernel_string() {
        let call = CallId::by_name("execve").expect("in the table");
        let string = EventString { address: 10, bytes: b"/b.".into(), from: StringFrom::Event };
        let enter = SysEnter { call, args: [10, 0, 0, 0, 0, 0] };
        let mut exec = CurrentCall::new(enter, vec![string]);
        exec.probed(&ProbeObservation::Program(b"/b\xe4".into()));
        assert_eq!(exec.names(0).unwrap_or_default().from[0], StringFrom::Exec);
        exec.probed(&path(Some(10), "/b"));
        assert_eq!(exec.names(0).unwrap_or_default().from[0], StringFrom::Kernel);
    }
}
