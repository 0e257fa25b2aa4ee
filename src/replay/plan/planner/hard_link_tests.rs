//! Plans of programs that use files by several names.

use std::sync::Arc;

use super::tests::{KeptOps, TestCall, call};
use super::*;
use crate::event::FileStat;
use crate::operation::model::{FilePath, OpenFile, PathArgument, PathArguments, PathSource};
use crate::operation::{Sink, Step};
use crate::replay::plan::dependencies::{OpId, Worker};
use crate::replay::plan::namespace::EntryKind;
use crate::units::{DevId, Fd};

const MODE: u32 = libc::S_IFREG | 0o644;

/// Program whose processes each have one file open, as descriptor 3.
#[derive(Debug)]
struct LinkProgram {
    planner: Planner<KeptOps>,
    time: KernelTime,
    opened: u64,
}

impl LinkProgram {
    fn new() -> Self {
        Self { planner: Planner::new(KeptOps::default()), time: KernelTime::MIN, opened: 0 }
    }

    fn does(
        &mut self,
        process: u32,
        what: TestCall<'_>,
        file: Option<&Arc<OpenFile>>,
        named: Option<&str>,
        effects: &[FdEffect],
    ) {
        self.time.0 += 10;
        let end = KernelTime(self.time.0 + 5);
        let mut operation = call(what, process, 0, self.time, end);
        operation.file = file.cloned();
        operation.fd = file.map(|_| Fd(3));
        operation.offset = Some(what.args[3]).filter(|_| file.is_some());
        operation.named = named.map(|name| {
            let path = FilePath::new(name, PathSource::Kernel);
            let first = Some(PathArgument { path, absolute: Some(name.into()) });
            Box::new(PathArguments { first, second: None })
        });
        let step = Step::SyscallEnded(&operation, effects);
        let Ok(()) = self.planner.step(end, &step);
    }

    /// Opens a file with this inode, mode and size.
    fn opens(
        &mut self,
        process: u32,
        path: &str,
        flags: i32,
        ino: u64,
        mode: u32,
        size: u64,
    ) -> Arc<OpenFile> {
        self.opened += 1;
        let flags = (libc::O_RDWR | flags).cast_unsigned();
        let file = Arc::new(OpenFile {
            id: self.opened,
            path: Some(FilePath::new(path, PathSource::Kernel)),
            first_path: None,
            given: None,
            stat: Some(FileStat { mode, dev: DevId(7), ino, size }),
            flags: Some(flags),
            pre_created: false,
        });
        let effects = [FdEffect::Created { fd: Fd(3), file: Arc::clone(&file) }];
        self.does(
            process,
            TestCall::new("openat", [0, 1, flags.into(), 0, 0, 0], 3),
            Some(&file),
            None,
            &effects,
        );
        file
    }

    fn closes(&mut self, process: u32, file: &Arc<OpenFile>) {
        let effects = [FdEffect::Destroyed { fd: Fd(3), file: Arc::clone(file) }];
        self.does(
            process,
            TestCall::new("close", [3, 0, 0, 0, 0, 0], 0),
            Some(file),
            None,
            &effects,
        );
    }

    fn unlinks(&mut self, process: u32, path: &str) {
        self.does(process, TestCall::new("unlink", [1, 0, 0, 0, 0, 0], 0), None, Some(path), &[]);
    }

    /// Checks the initial files and their lengths, with the names of one file together.
    #[track_caller]
    fn check(&self, expected: &[(&[&str], u64)]) {
        let mut files: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for entry in self.planner.world.entries() {
            let EntryKind::File(file) = entry.thing else { panic!("{entry:?}") };
            files.entry(file).or_default().push(String::from_utf8(entry.path).expect("text"));
        }
        let mut files: Vec<_> = files
            .into_iter()
            .map(|(file, names)| (names, self.planner.world.size(file).first()))
            .collect();
        files.sort();
        let expected: Vec<(Vec<String>, u64)> = expected
            .iter()
            .map(|(names, size)| (names.iter().map(|name| (*name).to_owned()).collect(), *size))
            .collect();
        assert_eq!(files, expected);
    }
}

/// Fails if an operation by one name does not wait for an operation by the other.
#[test]
fn two_names_of_one_inode_are_one_file() {
    let mut program = LinkProgram::new();
    let one = program.opens(1, "/a", 0, 11, MODE, 4099);
    let other = program.opens(2, "/b", 0, 11, MODE, 4099);
    program.does(1, TestCall::new("ftruncate", [3, 23, 0, 0, 0, 0], 0), Some(&one), None, &[]);
    program.does(2, TestCall::new("pread64", [3, 1, 4096, 0, 0, 0], 23), Some(&other), None, &[]);
    let last = program.planner.out.0.last().expect("a read");
    assert_eq!(last.before, [OpId { worker: Worker(0), number: 1 }]);
    program.check(&[(&["/a", "/b"], 4099)]);
    assert_eq!(program.planner.world.unexplained, 0);
}

#[test]
fn existing_second_name_is_opened_with_creation() {
    for flags in [0, libc::O_TRUNC] {
        let mut program = LinkProgram::new();
        program.opens(1, "/a", libc::O_CREAT, 11, MODE, 0);
        program.opens(2, "/b", libc::O_CREAT | flags, 11, MODE, 0);
        program.check(&[(&["/a", "/b"], 0)]);
    }
}

/// Fails if a file that no captured operation has made is taken for another name of a removed one.
#[test]
fn inode_of_a_removed_file_is_reused() {
    let mut program = LinkProgram::new();
    let one = program.opens(1, "/a", 0, 11, MODE, 23);
    program.unlinks(1, "/a");
    program.closes(1, &one);
    program.opens(1, "/b", 0, 11, MODE, 23);
    program.opens(2, "/c", 0, 11, MODE, 23);
    program.check(&[(&["/a"], 23), (&["/b", "/c"], 23)]);
}

#[test]
fn open_file_keeps_its_inode() {
    let mut program = LinkProgram::new();
    program.opens(1, "/a", 0, 11, MODE, 23);
    program.unlinks(1, "/a");
    program.opens(2, "/b", 0, 11, MODE, 23);
    program.check(&[(&["/a", "/b"], 23)]);
}

#[test]
fn another_file_with_the_same_inode_has_another_length_or_mode() {
    let mut program = LinkProgram::new();
    program.opens(1, "/a", 0, 11, MODE, 23);
    program.opens(2, "/b", 0, 11, MODE, 29);
    program.opens(3, "/c", 0, 11, MODE | 0o111, 23);
    program.opens(4, "/d", 0, 0, MODE, 23);
    program.check(&[(&["/a"], 23), (&["/b"], 29), (&["/c"], 23), (&["/d"], 23)]);
    assert_eq!(program.planner.world.unexplained, 0);
}

/// Fails if two files of a plan that were one are not counted.
#[test]
fn late_knowledge_is_counted() {
    let mut program = LinkProgram::new();
    program.does(1, TestCall::new("truncate", [1, 23, 0, 0, 0, 0], 0), None, Some("/b"), &[]);
    program.opens(1, "/a", 0, 11, MODE, 23);
    program.opens(2, "/b", 0, 11, MODE, 23);
    assert_eq!(program.planner.world.unexplained, 1);
}
