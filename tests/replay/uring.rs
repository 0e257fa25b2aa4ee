//! Asynchronous operations are done again by one thread with an io_uring: what lanes that are
//! threads do, it does, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::fixture::NAMED;
use crate::support::driver::process::{Finished, run, wait};
use crate::support::driver::recording::{
    BINARY, TIMEOUT, can_record, compile, iotrace, record, wait_until,
};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::{scratch_dir, text};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

/// The files of a program that asks for asynchronous operations, and its replay.
struct Replay {
    place: PathBuf,
    plan: PathBuf,
    root: PathBuf,
}

impl Replay {
    /// Of a program that is given the directory in which it works. On a busy machine what
    /// `io_submit` was given is read too late now and then: then again.
    #[track_caller]
    fn of(dir: &Path, program: impl Fn(&Path) -> Vec<String>) -> Self {
        let (place, trace) = (dir.join("place"), dir.join("trace"));
        let (plan, root) = (dir.join("plan"), dir.join("root"));
        for _ in 0..16 {
            fs::create_dir(&place).expect("a directory");
            let program = program(&place);
            let program: Vec<&str> = program.iter().map(String::as_str).collect();
            let (finished, recording) = record(&trace, &NAMED, &program);
            finished.success();
            recording.assert_whole();
            if recording.number("async_unread") == 0 {
                let log = trace.join("traces.iocap");
                iotrace(&["replay", "plan", text(&log), "-o", text(&plan)]).success();
                return Self { place, plan, root };
            }
            for it in [&trace, &place] {
                fs::remove_dir_all(it).expect("ours");
            }
        }
        panic!("what io_submit was given was read too late in every run")
    }

    /// Of 409 reads and writes, 16 at once, with direct I/O.
    #[track_caller]
    fn of_fio(dir: &Path, more: &[&str]) -> Self {
        Self::of(dir, |place| {
            let line = "fio --name=a --rw=randrw --bs=4k --size=1636k --ioengine=libaio --direct=1 --iodepth=16";
            let file = format!("--filename={}", text(&place.join("data")));
            let words = line.split(' ').chain(more.iter().copied()).map(str::to_owned);
            words.chain([file]).collect()
        })
    }

    fn command(&self, options: &[&str]) -> Vec<String> {
        let first = ["replay", "run", text(&self.plan), "--root", text(&self.root), "--json"];
        first.iter().chain(options).map(|it| (*it).to_owned()).collect()
    }

    fn run(&self, options: &[&str]) -> Finished {
        iotrace(&["replay", "init", text(&self.plan), "--root", text(&self.root)]).success();
        run(Command::new(BINARY).args(self.command(options)), TIMEOUT).expect("it ends")
    }

    /// Path in the replay's directory of a path of the program.
    fn inside(&self, path: &str) -> PathBuf {
        let place = self.place.strip_prefix("/").expect("from the root");
        self.root.join("files").join(place).join(path)
    }

    /// Reports of a replay with and of one without a ring, which must be equal.
    #[track_caller]
    fn both(&self, options: &[&str]) -> [Value; 2] {
        let reports = ["calls", "io_uring"].map(|engine| {
            let finished = self.run(&[options, &["--engine", engine]].concat());
            let reported = finished.stdout();
            let report: Value =
                serde_json::from_str(&reported).unwrap_or_else(|_| panic!("{}", finished.stderr()));
            assert_eq!(report["mismatches"], 0, "{options:?}: {:#}", report["first_mismatches"]);
            assert_eq!(lengths(&self.inside(".")), lengths(&self.place), "{options:?}");
            report
        });
        let [calls, ring] = &reports;
        for key in ["operations", "asynchronous", "prepared", "moved_bytes", "lanes", "is_whole"] {
            assert_eq!(ring[key], calls[key], "{key} with {options:?}: {ring:#}");
        }
        assert_eq!(ring["outcomes"], calls["outcomes"], "{options:?}");
        reports
    }
}

/// Files in a directory with something in them, and how long they are.
fn lengths(directory: &Path) -> Vec<(PathBuf, u64)> {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.expect("readable");
        (entry.file_name().into(), entry.metadata().expect("there").len())
    };
    let all = fs::read_dir(directory).expect("readable").map(entry);
    let mut all: Vec<_> = all.filter(|it| it.1 > 0).collect();
    all.sort();
    all
}

fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("{key}: {report:#}"))
}

/// Fails if an operation is not done or has another result with a ring, whatever keeps operations
/// apart, or if lanes are threads there, too.
#[test]
fn ring_replay_uses_one_thread() {
    if !can_record(&[Need::Uprobes, Need::IoUring, Need::Fio]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("uring");
    let replay = Replay::of_fio(dir.path(), &["--fsync=23"]);
    let ways: [&[&str]; 4] = [
        &["--speed", "max"],
        &["--speed", "3"],
        &["--speed", "3", "--pacing", "closed"],
        &["--speed", "max", "--order", "total"],
    ];
    for way in ways {
        let [calls, ring] = replay.both(way);
        assert!(number(&ring, "asynchronous") >= 409, "{ring:#}");
        assert_eq!(number(&ring, "lanes"), 16, "{way:?}");
        assert_eq!((&calls["rings"], &ring["rings"]), (&Value::Null, &Value::from(1)), "{way:?}");
        assert_eq!(number(&ring, "threads"), number(&calls, "threads") - 15, "{way:?}");
        assert!(number(&ring, "threads_at_once") <= number(&ring, "threads"), "{ring:#}");
    }
}

/// Each kind that there is of `io_submit`.
#[test]
fn ring_replays_each_kind_of_operation() {
    if !can_record(&[Need::Uprobes, Need::IoUring]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("uring");
    let program = compile("asynchronous.c", dir.path());
    let replay = Replay::of(dir.path(), |place| vec![program.clone(), text(place).to_owned()]);
    let [_, report] = replay.both(&["--speed", "max"]);
    let outcomes = report["outcomes"].as_array().expect("a list");
    for name in ["PREAD", "PREADV", "PWRITE", "PWRITEV", "FDSYNC"] {
        assert!(outcomes.iter().any(|it| it["call"] == format!("aio:{name}")), "{name}");
    }
}

/// Fails if a part or a round is another one with a ring.
#[test]
fn ring_replays_parts_and_rounds() {
    if !can_record(&[Need::Uprobes, Need::IoUring, Need::Fio]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("uring");
    let replay = Replay::of_fio(dir.path(), &["--thinktime=50ms", "--thinktime_blocks=64"]);
    let [whole, _] = replay.both(&["--speed", "max"]);
    let span = number(&whole, "captured_span_ns") / 1_000_000;
    let part = [format!("--from={}ms", span / 3), format!("--until={}ms", span * 2 / 3)];
    let part = [part[0].as_str(), part[1].as_str()];
    for way in [&[][..], &["--speed", "max"], &["--order", "total"]] {
        let [_, ring] = replay.both(&[&part, way].concat());
        let (all, before) = (number(&ring, "operations"), number(&ring, "prepared"));
        assert!(0 < before && before < all && all < number(&whole, "operations"), "{ring:#}");
    }
    let finished = replay.run(&["--engine", "io_uring", "--loop", "2", "--speed", "max"]);
    let report: Value = serde_json::from_str(&finished.success().stdout()).expect("JSON");
    assert_eq!(number(&report, "operations"), 2 * number(&whole, "operations"), "{report:#}");
    assert_eq!(report["mismatches"], 0, "{report:#}");
}

/// The thread with this name of a program that runs.
fn has_thread(program: &Child, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", program.id())).expect("it runs");
    let comm = |it: fs::DirEntry| fs::read_to_string(it.path().join("comm")).unwrap_or_default();
    tasks.flatten().any(|it| comm(it).trim_end() == name)
}

/// Fails if a replay that is stopped after some operations of a ring, while others have their time
/// much later, does not end, or not as it has to.
#[test]
fn ring_replay_is_interrupted() {
    if !can_record(&[Need::Uprobes, Need::IoUring, Need::Fio]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("uring");
    let replay = Replay::of_fio(dir.path(), &["--thinktime=1s", "--thinktime_blocks=199"]);
    iotrace(&["replay", "init", text(&replay.plan), "--root", text(&replay.root)]).success();
    let options = replay.command(&["--engine", "io_uring", "--speed", "0.05"]);
    let mut command = Command::new(BINARY);
    let reported = dir.path().join("report");
    // A pipe without a reader would have to take all of it.
    let out = fs::File::create(&reported).expect("space");
    let mut running = command.args(options).stdout(out).spawn().expect("it starts");
    wait_until("there is a ring", || has_thread(&running, "ring 0"));
    // From then on only rings write; then nothing is due for 20 s.
    let data = replay.inside("data");
    let changed = || fs::metadata(&data).and_then(|it| it.modified()).expect("there");
    let before = changed();
    wait_until("the ring has written", || changed() != before);
    kill(Pid::from_raw(running.id().try_into().expect("a pid")), Signal::SIGINT).expect("ours");
    assert_eq!(wait(&mut running, TIMEOUT).expect("it ends").code(), Some(1));
    let report: Value =
        serde_json::from_slice(&fs::read(&reported).expect("there")).expect("a report");
    assert_eq!((&report["is_whole"], &report["rings"]), (&false.into(), &1.into()), "{report:#}");
    let done = number(&report, "asynchronous");
    assert!(0 < done && done < 409, "{report:#}");
    let state = fs::read_to_string(replay.root.join("iotrace-perf.state"));
    assert!(state.expect("ours").contains("done"));
}

/// Fails if a ring reads what a call does not, and waits for it for ever: a pipe that was put in
/// the place of the file has no offsets to read at.
#[test]
fn files_without_offsets_are_read_by_system_calls() {
    if !can_record(&[Need::Uprobes, Need::IoUring, Need::Fio]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("uring");
    let replay = Replay::of_fio(dir.path(), &["--startdelay=2"]);
    let reports = ["calls", "io_uring"].map(|engine| {
        iotrace(&["replay", "init", text(&replay.plan), "--root", text(&replay.root)]).success();
        let mut command = Command::new(BINARY);
        let reported = dir.path().join(engine);
        let out = fs::File::create(&reported).expect("space");
        command.args(replay.command(&["--engine", engine])).stdout(out);
        let mut running = command.spawn().expect("it starts");
        let (data, pipe) = (replay.inside("data"), dir.path().join("pipe"));
        let is_long = || fs::metadata(&data).is_ok_and(|it| it.len() == 1_636 << 10);
        wait_until("it is as long as fio makes it before", is_long);
        mkfifo(&pipe, Mode::S_IRWXU).expect("space");
        fs::rename(&pipe, &data).expect("ours");
        let status = wait(&mut running, TIMEOUT);
        if status.is_err() {
            running.kill().expect("ours");
        }
        assert_eq!(status.expect("it ends").code(), Some(1), "{engine}");
        serde_json::from_slice::<Value>(&fs::read(&reported).expect("there")).expect("a report")
    });
    let [calls, ring] = &reports;
    assert_eq!(ring["outcomes"], calls["outcomes"]);
    assert_eq!(number(ring, "asynchronous"), 409, "{ring:#}");
    assert!(number(ring, "mismatches") >= 409, "{ring:#}");
}

/// Fails if no message explains why there is no ring, or if files are touched all the same.
#[test]
fn missing_io_uring_is_reported() {
    if !can_record(&[Need::Uprobes, Need::IoUring, Need::Fio]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("uring");
    let without = compile("without_uring.c", dir.path());
    let replay = Replay::of_fio(dir.path(), &[]);
    iotrace(&["replay", "init", text(&replay.plan), "--root", text(&replay.root)]).success();
    let mut command = Command::new(&without);
    command.arg(BINARY).args(replay.command(&["--engine", "io_uring"]));
    let refused = run(&mut command, TIMEOUT).expect("it ends");
    assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr());
    assert!(refused.stderr().contains("(seccomp) refuses it"), "{}", refused.stderr());
    assert!(refused.stderr().contains("try: --engine calls"), "{}", refused.stderr());
    // The files are as they were.
    let mut command = Command::new(&without);
    command.arg(BINARY).args(replay.command(&["--speed", "max"]));
    run(&mut command, TIMEOUT).expect("it ends").success();
    for options in [&["--trace", "again/"][..], &["--level", "block", "--device", "/dev/null"]] {
        let first = if options[0] == "--trace" {
            replay.command(&[])
        } else {
            vec!["replay".to_owned(), "run".to_owned(), text(&replay.plan).to_owned()]
        };
        let mut command = Command::new(BINARY);
        let command = command.args(first).args(["--engine", "io_uring"]).args(options);
        let refused = run(command, TIMEOUT).expect("it ends");
        assert_eq!(refused.status.code(), Some(125), "{options:?}: {}", refused.stderr());
    }
}
