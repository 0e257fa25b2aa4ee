//! Partial plans of invented programs.

use std::sync::Arc;

use super::partial_plan::Selected;
use super::tests::{KeptOps, TestCall, call};
use super::*;
use crate::analysis::filter::{Events, Filter};
use crate::event::syscall_table::CallId;
use crate::operation::model::{
    FilePath, OpenFile, PathArgument as GivenPath, PathArguments, PathSource,
};
use crate::operation::{Sink, Step};
use crate::replay::plan::dependency_selection::{DependencySelection, PassFindings};
use crate::replay::plan::links::SymlinkMap;
use crate::replay::plan::planned_op::PlannedOp;
use crate::units::Fd;

/// Operations of a program, one after the other.
#[derive(Debug, Default)]
pub(super) struct RecordedProgram {
    pub(super) did: Vec<(Box<SyscallOperation>, Vec<FdEffect>)>,
    opened: u64,
}

pub(super) fn given(path: &str) -> Option<GivenPath> {
    let path = FilePath::new(path, PathSource::Kernel);
    Some(GivenPath { absolute: Some(path.bytes.clone()), path })
}

impl RecordedProgram {
    pub(super) fn does(&mut self, what: TestCall<'_>, named: Option<PathArguments>) -> &mut Self {
        let start = 10 * self.did.len() as u64;
        let mut operation = call(what, 1, 0, KernelTime(start), KernelTime(start + 5));
        (operation.file, operation.fd) = (None, None);
        operation.named = named.map(Box::new);
        self.did.push((operation, Vec::new()));
        self
    }

    /// Adds a call with one path or two.
    fn names(&mut self, name: &str, first: &str, second: &str) -> &mut Self {
        let second = if second.is_empty() { None } else { given(second) };
        self.does(
            TestCall::new(name, [1, 1, 0, 0, 0, 0], 0),
            Some(PathArguments { first: given(first), second }),
        )
    }

    /// Opens a file as descriptor 3. Returns the number of the open.
    fn opens(&mut self, path: &str, flags: i32) -> u64 {
        let id = self.opened;
        self.opened += 1;
        let file = OpenFile {
            id,
            path: Some(FilePath::new(path, PathSource::Kernel)),
            first_path: None,
            given: None,
            stat: None,
            flags: Some(flags.cast_unsigned()),
            pre_created: false,
        };
        self.does(TestCall::new("openat", [0, 1, flags.cast_unsigned().into(), 0, 0, 0], 3), None);
        let (operation, effects) = self.did.last_mut().expect("it was added");
        let file = Arc::new(file);
        operation.file = Some(Arc::clone(&file));
        effects.push(FdEffect::Created { fd: Fd(3), file });
        id
    }

    /// Adds a call on descriptor 3.
    fn with_it(&mut self, what: TestCall<'_>, offset: Option<u64>) -> &mut Self {
        let of = |effect: &FdEffect| match effect {
            FdEffect::Created { file, .. } => Some(Arc::clone(file)),
            _ => None,
        };
        let mut newest = self.did.iter().rev();
        let file = newest.find_map(|(_, effects)| effects.iter().find_map(of)).expect("open");
        self.does(what, None);
        let (operation, effects) = self.did.last_mut().expect("it was added");
        (operation.fd, operation.offset) = (Some(Fd(3)), offset);
        operation.file = Some(Arc::clone(&file));
        if what.name == "close" {
            effects.push(FdEffect::Destroyed { fd: Fd(3), file });
        }
        self
    }

    fn closes(&mut self) -> &mut Self {
        self.with_it(TestCall::new("close", [3, 0, 0, 0, 0, 0], 0), None)
    }

    fn moves(&mut self, name: &str, offset: u64, bytes: u32) -> &mut Self {
        let what = TestCall::new(name, [3, 1, bytes.into(), offset, 0, 0], bytes.into());
        self.with_it(what, Some(offset))
    }

    pub(super) fn feed<S: Sink>(&self, sink: &mut S) -> Result<(), S::Error> {
        for (operation, effects) in &self.did {
            sink.step(operation.start, &Step::SyscallBegun(operation))?;
            let end = operation.end.expect("it has ended");
            sink.step(end, &Step::SyscallEnded(operation, effects))?;
        }
        Ok(())
    }

    /// Returns the partial plan for calls with this name.
    fn part(&self, name: &str) -> Planner<KeptOps> {
        let calls = vec![CallId::by_name(name).expect(name)];
        let events = Some(Events { calls, ..Events::default() });
        self.part_of(&Filter { events, ..Filter::default() }, false)
    }

    /// Returns a partial plan; `forgets`: state is evicted after each operation.
    pub(super) fn part_of(&self, filter: &Filter, forgets: bool) -> Planner<KeptOps> {
        let mut found = PassFindings::default();
        for passes in 0.. {
            assert!(passes < 99, "it does not end");
            let needs = DependencySelection::new(filter.clone(), found, &SymlinkMap::default());
            let mut needs = if forgets { needs.forgetting_at_once() } else { needs };
            let Ok(()) = self.feed(&mut needs);
            found = needs.found;
            if !found.take_grown() {
                break;
            }
        }
        let selected =
            Selected::new(filter.clone(), found, &SymlinkMap::default(), KeptOps::default());
        let mut selected = if forgets { selected.forgetting_at_once() } else { selected };
        let Ok(()) = self.feed(&mut selected);
        let (planner, mut needs) = selected.end();
        assert!(!needs.found.take_grown());
        planner
    }
}

/// Checks the numbers of the program's operations that are in the partial plan for calls with this
/// name. Nothing is open before the first one.
#[track_caller]
fn check(program: &RecordedProgram, name: &str, expected: &[u64]) {
    let planner = program.part(name);
    let first = planner.first.expect("something is planned");
    let number = |op: &PlannedOp| op.start.by_clock(first).0 / 10;
    let planned = planner.out.0.iter().filter(|op| !op.implicit);
    let planned: Vec<u64> = planned.map(number).collect();
    assert_eq!(planned, expected);
    assert!(planner.inherited_fds.is_empty(), "{:?}", planner.inherited_fds);
    let did = program.did.iter();
    let wanted = did.filter(|(operation, _)| operation.call.call().name == name).count();
    assert_eq!(planner.needed, (expected.len() - wanted) as u64);
}

/// Fails if a file is read that is missing, or is shorter.
#[test]
fn reader_needs_the_creator_of_the_file() {
    let mut program = RecordedProgram::default();
    program.names("mkdir", "/d", "").opens("/d/a", libc::O_CREAT | libc::O_WRONLY);
    program.moves("pwrite64", 0, 13).closes().opens("/other", libc::O_CREAT);
    program.closes().names("rename", "/d/a", "/d/b").opens("/d/b", libc::O_RDONLY);
    program.moves("pread64", 0, 13).closes().names("unlink", "/d/b", "");
    // Operations after the last read are not needed.
    check(&program, "pread64", &[0, 1, 2, 3, 6, 7, 8]);
}

/// Fails if each rename, or link, takes a pass over the log.
#[test]
fn repeated_renames_take_few_passes() {
    let mut program = RecordedProgram::default();
    program.opens("/0", libc::O_CREAT | libc::O_WRONLY);
    program.moves("pwrite64", 0, 13).closes();
    for number in 0..600 {
        let [from, to] = [format!("/{number}"), format!("/{}", number + 1)];
        match number {
            0..300 => program.names("rename", &from, &to),
            _ => program.names("link", &from, &to).names("unlink", &from, ""),
        };
    }
    program.opens("/600", libc::O_RDONLY);
    program.moves("pread64", 0, 13);
    // No operation needs that a name is removed after the link.
    let expected = (0..303).chain((303..903).step_by(2)).chain(903..905);
    check(&program, "pread64", &Vec::from_iter(expected));
}

/// Fails if a read at an unknown offset begins at another position than in the capture.
#[test]
fn reader_at_an_unknown_position_needs_earlier_readers() {
    let mut program = RecordedProgram::default();
    program.opens("/a", libc::O_RDWR);
    program.with_it(TestCall::new("read", [3, 1, 600, 0, 0, 0], 600), None).moves("pread64", 7, 13);
    program.with_it(TestCall::new("readv", [3, 1, 1, 0, 0, 0], 99), None);
    program.with_it(TestCall::new("read", [3, 1, 600, 0, 0, 0], 600), None);
    program.closes().opens("/b", libc::O_RDWR);
    program.with_it(TestCall::new("readv", [3, 1, 1, 0, 0, 0], 99), None);
    // A later read is not needed.
    check(&program, "readv", &[0, 1, 3, 5, 6, 7]);
}

/// Fails if a name exists that is to be made.
#[test]
fn creator_of_a_name_needs_its_remover() {
    let mut program = RecordedProgram::default();
    let makes = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    program.opens("/a", makes);
    program.moves("pwrite64", 0, 7).closes().names("unlink", "/a", "").opens("/a", makes);
    program.moves("pwrite64", 0, 7).closes();
    check(&program, "pwrite64", &[0, 1, 2, 3, 4, 5]);
    check(&program, "unlink", &[0, 2, 3]);
}

/// Fails if all writes are needed, or none.
#[test]
fn reader_needs_the_writes_that_extended_the_file() {
    let mut program = RecordedProgram::default();
    program.opens("/a", libc::O_CREAT | libc::O_EXCL | libc::O_RDWR);
    program.moves("pwrite64", 0, 100).moves("pwrite64", 50, 50).moves("pwrite64", 50, 51);
    program.moves("pread64", 0, 101).moves("pwrite64", 0, 200);
    check(&program, "pread64", &[0, 1, 3, 4]);
    check(&program, "openat", &[0]);
}

/// Fails if descriptors of skipped operations stay open.
#[test]
fn files_opened_in_turn_take_one_descriptor() {
    let mut program = RecordedProgram::default();
    for number in 0..101 {
        program.opens(&format!("/{number}"), libc::O_CREAT | libc::O_WRONLY);
        program.moves("pwrite64", 0, 5).closes();
    }
    let planner = program.part("pwrite64");
    assert_eq!((planner.handles(), planner.inherited_fds.len()), (1, 0));
    // The last close comes after all wanted operations.
    assert_eq!(planner.needed, 101 + 100);
}

/// Fails if a directory is removed that is not empty.
#[test]
fn rmdir_needs_the_removal_of_the_entries() {
    let mut program = RecordedProgram::default();
    program.names("mkdir", "/d", "").opens("/d/a", libc::O_CREAT | libc::O_RDWR);
    program.closes().names("rmdir", "/d", "");
    program.did.last_mut().expect("added").0.ret = Some(-i64::from(libc::ENOTEMPTY));
    program.names("unlink", "/d/a", "").names("rmdir", "/d", "");
    check(&program, "rmdir", &[0, 1, 2, 3, 4, 5]);
    // Entries that were made and removed before do not matter.
    check(&program, "mkdir", &[0]);
}
