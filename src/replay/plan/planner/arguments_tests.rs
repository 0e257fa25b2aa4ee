//! Files that were open before the first operation, and were renamed or removed later; paths that
//! are too long.

use std::sync::Arc;

use super::dependency_selection_tests::{RecordedProgram, given};
use super::tests::{KeptOps, TestCall};
use super::*;
use crate::operation::model::{FilePath, OpenFile, PathArguments, PathSource};
use crate::replay::plan::namespace::Gap;
use crate::units::Fd;

/// Returns the file that is open as descriptor 5, with its present name and its earlier one.
fn open(path: &str, source: PathSource, before: Option<&str>) -> Arc<OpenFile> {
    Arc::new(OpenFile {
        id: 77,
        path: Some(FilePath::new(path, source)),
        first_path: before.map(|path| FilePath::new(path, PathSource::Link)),
        given: None,
        stat: None,
        flags: Some(libc::O_RDWR.cast_unsigned()),
        pre_created: true,
    })
}

/// Adds a write to an open file.
fn writes(program: &mut RecordedProgram, file: Arc<OpenFile>) {
    program.does(TestCall::new("pwrite64", [5, 1, 13, 0, 0, 0], 13), None);
    let (operation, _) = program.did.last_mut().expect("it was added");
    (operation.fd, operation.file, operation.offset) = (Some(Fd(5)), Some(file), Some(0));
}

fn named(name: &str, first: &str, second: Option<&str>) -> RecordedProgram {
    let mut program = RecordedProgram::default();
    let named = PathArguments { first: given(first), second: second.and_then(given) };
    program.does(TestCall::new(name, [1, 1, 0, 0, 0, 0], 0), Some(named));
    program
}

/// Returns the paths of the files that are open at the start, and of the initial entries.
fn start(program: &RecordedProgram) -> (Vec<String>, Vec<String>) {
    let mut planner = Planner::new(KeptOps::default());
    let Ok(()) = program.feed(&mut planner);
    assert_eq!(planner.skipped, BTreeMap::new());
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let given = planner.inherited_fds.iter().map(|fd| shown(&fd.path)).collect();
    let there = planner.world.entries().iter().map(|entry| shown(&entry.path)).collect();
    (given, there)
}

/// Fails if a file is opened under a name that it has only later.
#[test]
fn renamed_file_is_opened_by_initial_name() {
    let mut program = named("rename", "/d/log", Some("/d/log.1"));
    writes(&mut program, open("/d/log.1", PathSource::Renamed, Some("/d/log")));
    let (given, there) = start(&program);
    assert_eq!(given, ["/d/log"]);
    assert_eq!(there, ["/d", "/d/log"]);
}

/// Fails if an operation is skipped because its file was removed.
#[test]
fn removed_file_is_opened_by_initial_name() {
    let mut program = named("unlink", "/d/log", None);
    writes(&mut program, open("/d/log (deleted)", PathSource::Renamed, Some("/d/log")));
    let (given, there) = start(&program);
    assert_eq!(given, ["/d/log"]);
    assert_eq!(there, ["/d", "/d/log"]);
}

/// Fails if a path that no call accepts is in a plan, or if memory grows with the square of the
/// number of names in a path.
#[test]
fn too_long_path_is_skipped() {
    let longest = "/a".repeat(2047);
    let program = named("unlink", &longest, None);
    assert_eq!(start(&program).1.len(), 2047);
    let program = named("unlink", &(longest + "/b"), None);
    let mut planner = Planner::new(KeptOps::default());
    let Ok(()) = program.feed(&mut planner);
    let left: Vec<_> = planner.skipped.keys().map(|(reason, _)| *reason).collect();
    assert_eq!(left, [SkipReason::TooLong]);
    assert_eq!(planner.world.entries(), []);
}

/// Fails if a tree that renames have made deeper than any path exhausts the stack, or is not
/// reported.
#[test]
fn tree_may_be_deeper_than_paths() {
    let mut program = RecordedProgram::default();
    let deep = "/a".repeat(2000);
    for number in 0..40 {
        let (from, to) = (format!("/t{number}{deep}/x"), format!("/t{}", number + 1));
        let named = PathArguments { first: given(&from), second: given(&to) };
        program.does(TestCall::new("rename", [1, 1, 0, 0, 0, 0], 0), Some(named));
    }
    let mut planner = Planner::new(KeptOps::default());
    let Ok(()) = program.feed(&mut planner);
    let entries = planner.world.entries();
    assert_eq!(entries.iter().map(|entry| entry.path.len()).max(), Some(4095));
    let gaps: Vec<_> = entries.iter().map(|entry| entry.gap).filter(Option::is_some).collect();
    assert_eq!(gaps, [Some(Gap::Depth)]);
    // A second planner visits all of the tree.
    let mut again = Planner::new(KeptOps::default());
    let Ok(()) = program.feed(&mut again);
    planner.world.as_in(&again.world);
    assert_eq!(planner.world.entries(), entries);
}
