//! A replay of a test: its plan, directory and report; and plans that are made up.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use iotrace_perf::event::syscall_table::CallId;
use iotrace_perf::replay::plan::dependencies::{OpId, Worker};
use iotrace_perf::replay::plan::handles::Handle;
use iotrace_perf::replay::plan::plan_file::{PlanWriter, finish};
use iotrace_perf::replay::plan::planned_op::{PlannedOp, WorkerInfo};
use iotrace_perf::replay::plan::planner::{PlanOutput, Planner};
use iotrace_perf::units::ReplayTime;
use serde_json::Value;

use crate::support::driver::process::Finished;
use crate::support::driver::recording::{iotrace, record};
use crate::support::text;

/// Options that give every name of a program that uses the C library.
pub(super) const NAMED: [&str; 6] =
    ["--source", "tracefs", "--names", "uprobe", "-e", "%default,%stat,%attr"];

/// A plan, and a directory for its replay.
pub(super) struct Replay {
    pub(super) plan: PathBuf,
    pub(super) root: PathBuf,
}

impl Replay {
    /// Of what is recorded of this program.
    pub(super) fn of(dir: &Path, program: &[&str]) -> Self {
        let (finished, recording) = record(&dir.join("trace"), &NAMED, program);
        finished.success();
        recording.assert_whole();
        Self::of_log(dir, "plan")
    }

    pub(super) fn of_log(dir: &Path, name: &str) -> Self {
        let (plan, log) = (dir.join(name), dir.join("trace/traces.iocap"));
        iotrace(&["replay", "plan", text(&log), "-o", text(&plan)]).success();
        Self { plan, root: dir.join("root") }
    }

    /// A plan of made-up operations.
    pub(super) fn by_hand(dir: &Path, operations: &[Hostile]) -> Self {
        let replay = Self { plan: dir.join("plan"), root: dir.join("root") };
        plan_of(operations, &replay.plan);
        replay
    }

    /// Of a directory that is made.
    pub(super) fn of_mkdir(dir: &Path) -> Self {
        Self::by_hand(dir, &[Hostile::new("mkdir", [1, 0o777, 0, 0, 0, 0], "/d")])
    }

    pub(super) fn init(&self) -> Finished {
        iotrace(&["replay", "init", text(&self.plan), "--root", text(&self.root)])
    }

    pub(super) fn run(&self, options: &[&str]) -> Finished {
        let first = ["replay", "run", text(&self.plan), "--root", text(&self.root), "--json"];
        iotrace(&[&first, options].concat())
    }

    /// Creates the files, runs the replay, and returns its report.
    #[track_caller]
    pub(super) fn report(&self, options: &[&str]) -> Value {
        self.init().success();
        let finished = self.run(options);
        serde_json::from_str(&finished.stdout()).unwrap_or_else(|_| panic!("{}", finished.stderr()))
    }

    #[track_caller]
    pub(super) fn assert_same(&self, options: &[&str], operations: u64) {
        let report = self.report(options);
        let first = &report["first_mismatches"];
        assert_eq!(report["mismatches"], 0, "{first:#}");
        assert!(report["operations"].as_u64() >= Some(operations), "{report:#}");
        assert_eq!(report["is_whole"], true);
    }

    /// Path in the replay's directory of a path of the capture.
    pub(super) fn inside(&self, path: &Path) -> PathBuf {
        self.root.join("files").join(path.strip_prefix("/").expect("from the root"))
    }
}

/// Files below a directory and how long they are.
pub(super) fn sizes(directory: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(it) = left.pop() {
        for entry in fs::read_dir(&it).expect("readable") {
            let entry = entry.expect("readable");
            let metadata = entry.metadata().expect("there");
            if metadata.is_dir() {
                left.push(entry.path());
            } else if metadata.is_file() {
                let path = entry.path().strip_prefix(directory).expect("below").to_owned();
                found.insert(path, metadata.len());
            }
        }
    }
    found
}

/// One operation of a made-up plan.
pub(super) struct Hostile {
    pub(super) call: &'static str,
    pub(super) args: [u64; 6],
    pub(super) path: Option<String>,
    pub(super) second: Option<String>,
    pub(super) makes: bool,
}

impl Hostile {
    pub(super) fn new(call: &'static str, args: [u64; 6], path: &str) -> Self {
        let makes = call.starts_with("open");
        Self { call, args, path: Some(path.to_owned()), second: None, makes }
    }

    pub(super) fn pair(call: &'static str, path: &str, second: &str) -> Self {
        let (path, second) = (Some(path.to_owned()), Some(second.to_owned()));
        Self { call, args: [1; 6], path, second, makes: false }
    }
}

/// A plan of these operations, in one thread.
pub(super) fn plan_of(operations: &[Hostile], to: &Path) {
    let mut planner = Planner::new(PlanWriter::new(Vec::new()).expect("memory"));
    for (number, it) in (0..).zip(operations) {
        let planned = PlannedOp {
            at: OpId { worker: Worker(0), number },
            call: CallId::by_name(it.call).expect("a row"),
            asynchronous: None,
            args: it.args,
            handle: Some(Handle(0)),
            target: None,
            makes: it.makes.then_some(Handle(0)),
            file: None,
            path: it.path.clone().map(String::into_bytes),
            second_path: it.second.clone().map(String::into_bytes),
            flags: None,
            offset: None,
            target_offset: None,
            bytes: None,
            ret: 0,
            start: ReplayTime(u64::from(number) * 10),
            end: ReplayTime(u64::from(number) * 10 + 5),
            keeps_handle: false,
            implicit: false,
            before: Vec::new(),
        };
        planner.out.planned(&planned).expect("memory");
    }
    planner.workers.push(WorkerInfo { pid: 1, tid: 1, ..WorkerInfo::default() });
    fs::write(to, finish(planner, std::env::consts::ARCH).expect("memory")).expect("space");
}

/// State outside of the directory that a replay could have changed.
pub(super) fn seen(path: &Path) -> Vec<(PathBuf, u32, u64, i64, i64)> {
    let mut found = Vec::new();
    let mut left = vec![path.to_owned()];
    while let Some(it) = left.pop() {
        let metadata = it.symlink_metadata().expect("there");
        let (mode, size) = (metadata.mode(), metadata.len());
        found.push((it.clone(), mode, size, metadata.mtime_nsec(), metadata.ctime_nsec()));
        if metadata.is_dir() {
            left.extend(
                fs::read_dir(&it).expect("readable").map(|it| it.expect("readable").path()),
            );
        }
    }
    found.sort();
    found
}
