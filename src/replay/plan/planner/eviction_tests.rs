//! Plans of long captures: state does not grow with them.

use std::sync::Arc;

use super::eviction::KEPT;
use super::tests::{KeptOps, TestCall, call};
use super::*;
use crate::operation::model::{FilePath, OpenFile, PathArgument, PathArguments, PathSource};
use crate::operation::{Sink, Step};
use crate::replay::plan::namespace::EntryKind;
use crate::units::Fd;

/// Maximum number of items that one operation adds: as many pieces as it may access, and some
/// names.
const OF_ONE: usize = 100;

fn file(id: u64, path: &str) -> Arc<OpenFile> {
    Arc::new(OpenFile {
        id,
        path: Some(FilePath::new(path, PathSource::Link)),
        first_path: None,
        given: None,
        stat: None,
        flags: None,
        pre_created: false,
    })
}

/// Planner with the number of calls so far.
struct LongPlan(Planner<KeptOps>, u64);

impl LongPlan {
    fn new() -> Self {
        Self(Planner::new(KeptOps::default()), 0)
    }

    /// Adds a call of a process with one thread, after all others.
    fn does(
        &mut self,
        what: TestCall<'_>,
        process: u32,
        of: &Arc<OpenFile>,
        named: Option<&str>,
        effects: &[FdEffect],
    ) {
        self.1 += 1;
        let (start, end) = (KernelTime(10 * self.1), KernelTime(10 * self.1 + 5));
        let mut operation = call(what, process, of.id, start, end);
        operation.file = Some(Arc::clone(of));
        operation.offset = Some(what.args[3]);
        operation.named = named.map(|name| {
            let path = FilePath::new(name, PathSource::Argument);
            let given = PathArgument { path, absolute: Some(name.as_bytes().to_vec()) };
            Box::new(PathArguments { first: Some(given), second: None })
        });
        let step = Step::SyscallEnded(&operation, effects);
        let Ok(()) = self.0.step(end, &step);
        assert!(self.0.kept() < KEPT + OF_ONE, "{} after {} calls", self.0.kept(), self.1);
    }

    fn opens(&mut self, process: u32, of: &Arc<OpenFile>, flags: i32) {
        let flags = (libc::O_RDWR | flags).cast_unsigned().into();
        let effects = [FdEffect::Created { fd: Fd(3), file: Arc::clone(of) }];
        self.does(TestCall::new("openat", [0, 1, flags, 0, 0, 0], 3), process, of, None, &effects);
    }

    /// Returns the operations for which the last one waits.
    fn waits(&self) -> Vec<(u32, u32)> {
        let before = &self.0.out.0.last().expect("there is one").before;
        before.iter().map(|op| (op.worker.0, op.number)).collect()
    }
}

/// Fails if pieces of files are kept forever, or a read of an evicted piece waits for no operation.
#[test]
fn places_that_were_written_are_forgotten() {
    let (mut long, file) = (LongPlan::new(), file(70, "/f"));
    long.opens(1, &file, libc::O_CREAT);
    long.opens(2, &file, 0);
    let count = 9001;
    // The file has that length from the start, so no read waits for a write that makes it longer.
    let read = |offset| TestCall::new("pread64", [3, 1, 4099, offset, 0, 0], 4099);
    long.does(read(count << 20), 2, &file, None, &[]);
    for number in 0..count {
        let write = TestCall::new("pwrite64", [3, 1, 1 << 20, number << 20, 0, 0], 1 << 20);
        long.does(write, 1, &file, None, &[]);
    }
    long.does(read(0), 2, &file, None, &[]);
    let [(0, number)] = long.waits()[..] else { panic!("{:?}", long.waits()) };
    // Coarser: the dependency is not the write of the first MiB, but another evicted one.
    assert!(number > 1 && u64::from(number) <= count, "{number}");
}

/// Fails if names that come and go are kept forever, or an operation that makes one again waits for
/// none.
#[test]
fn names_that_come_and_go_are_forgotten() {
    let mut long = LongPlan::new();
    let excl = libc::O_CREAT | libc::O_EXCL;
    for number in 0..20_011 {
        let path = format!("/d/{number}");
        let file = file(100 + number, &path);
        long.opens(1, &file, excl);
        let gone = FdEffect::Destroyed { fd: Fd(3), file: Arc::clone(&file) };
        long.does(TestCall::new("close", [3, 0, 0, 0, 0, 0], 0), 1, &file, None, &[gone]);
        long.does(TestCall::new("unlink", [1, 0, 0, 0, 0, 0], 0), 1, &file, Some(&path), &[]);
    }
    long.opens(2, &file(7, "/d/0"), excl);
    assert!(matches!(long.waits()[..], [(0, number)] if number > 2), "{:?}", long.waits());
    let entries = long.0.world.entries();
    let paths: Vec<_> = entries.iter().map(|entry| String::from_utf8_lossy(&entry.path)).collect();
    assert_eq!(paths, ["/d"]);
}

/// Fails if a file is kept forever that an open may have made, and that was removed.
#[test]
fn files_that_are_made_and_removed_are_forgotten() {
    let mut long = LongPlan::new();
    let count = KEPT as u64;
    for number in 0..count {
        let path = format!("/d/{number}");
        let file = file(70 + number, &path);
        let effects = [FdEffect::Created { fd: Fd(3), file: Arc::clone(&file) }];
        let flags = (libc::O_RDWR | libc::O_CREAT).cast_unsigned().into();
        long.does(
            TestCall::new("openat", [0, 1, flags, 0, 0, 0], 3),
            1,
            &file,
            Some(&path),
            &effects,
        );
        long.does(TestCall::new("pwrite64", [3, 1, 100, 0, 0, 0], 100), 1, &file, None, &[]);
        let gone = [FdEffect::Destroyed { fd: Fd(3), file: Arc::clone(&file) }];
        long.does(TestCall::new("close", [3, 0, 0, 0, 0, 0], 0), 1, &file, None, &gone);
        long.does(TestCall::new("unlink", [1, 0, 0, 0, 0, 0], 0), 1, &file, Some(&path), &[]);
    }
    let planner = &long.0;
    assert_eq!(planner.skipped.values().sum::<u64>(), 0, "{:?}", planner.skipped);
    let there = planner.world.entries();
    assert!(there.iter().all(|entry| entry.thing == EntryKind::Directory), "{there:?}");
}
