//! A replay gives the results of the capture, and changes nothing outside of its directory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::driver::process::{Finished, run};
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, compile, iotrace, record};
use crate::support::machine::mount::Mounted;
use crate::support::machine::postgres::Server;
use crate::support::machine::requirements::{Need, require};
use crate::support::machine::turns::{alone, beside_others};
use crate::support::{copy_program, scratch_dir, text};
use iotrace_perf::event::syscall_table::CallId;
use iotrace_perf::replay::dependencies::{OpId, Worker};
use iotrace_perf::replay::handles::Handle;
use iotrace_perf::replay::plan_file::{PlanWriter, finish};
use iotrace_perf::replay::planned_op::{PlannedOp, WorkerInfo};
use iotrace_perf::replay::planner::{PlanOutput, Planner};
use iotrace_perf::units::ReplayTime;
use serde_json::Value;

/// Options that give every name of a program that uses the C library.
const NAMED: [&str; 6] = ["--source", "tracefs", "--names", "uprobe", "-e", "%default,%stat,%attr"];

const UPROBES: Need = Need::KernelFile("/sys/kernel/tracing/uprobe_events");

/// A plan, and a directory for its replay.
struct Replay {
    plan: PathBuf,
    root: PathBuf,
}

impl Replay {
    /// Of what is recorded of this program.
    fn of(dir: &Path, program: &[&str]) -> Self {
        let (finished, recording) = record(&dir.join("trace"), &NAMED, program);
        finished.success();
        recording.assert_whole();
        Self::of_log(dir, "plan")
    }

    fn of_log(dir: &Path, name: &str) -> Self {
        let (plan, log) = (dir.join(name), dir.join("trace/traces.iocap"));
        iotrace(&["replay", "plan", text(&log), "-o", text(&plan)]).success();
        Self { plan, root: dir.join("root") }
    }

    /// A plan of made-up operations.
    fn by_hand(dir: &Path, operations: &[Hostile]) -> Self {
        let replay = Self { plan: dir.join("plan"), root: dir.join("root") };
        plan_of(operations, &replay.plan);
        replay
    }

    /// Of a directory that is made.
    fn of_mkdir(dir: &Path) -> Self {
        Self::by_hand(dir, &[Hostile::new("mkdir", [1, 0o777, 0, 0, 0, 0], "/d")])
    }

    fn init(&self) -> Finished {
        iotrace(&["replay", "init", text(&self.plan), "--root", text(&self.root)])
    }

    fn run(&self, options: &[&str]) -> Finished {
        let first = ["replay", "run", text(&self.plan), "--root", text(&self.root), "--json"];
        iotrace(&[&first, options].concat())
    }

    /// Creates the files, runs the replay, and returns its report.
    #[track_caller]
    fn report(&self, options: &[&str]) -> Value {
        self.init().success();
        let finished = self.run(options);
        serde_json::from_str(&finished.stdout()).unwrap_or_else(|_| panic!("{}", finished.stderr()))
    }

    #[track_caller]
    fn assert_same(&self, options: &[&str], operations: u64) {
        let report = self.report(options);
        let first = &report["first_mismatches"];
        assert_eq!(report["mismatches"], 0, "{first:#}");
        assert!(report["operations"].as_u64() >= Some(operations), "{report:#}");
        assert_eq!(report["is_whole"], true);
    }

    /// Path in the replay's directory of a path of the capture.
    fn inside(&self, path: &Path) -> PathBuf {
        self.root.join("files").join(path.strip_prefix("/").expect("from the root"))
    }
}

/// Files below a directory and how long they are.
fn sizes(directory: &Path) -> BTreeMap<PathBuf, u64> {
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

/// Fails if an operation begins before one that it needs is over, in one thread or among eight who
/// hand descriptors and names over.
#[test]
fn dependent_operations_run_in_captured_order() {
    if !can_record(&[UPROBES]) {
        return;
    }
    let _turn = beside_others();
    for threads in ["1", "8"] {
        let dir = scratch_dir("replay");
        let program = compile("shared_queue.c", dir.path());
        let place = dir.path().join("place");
        fs::create_dir(&place).expect("a directory");
        let replay = Replay::of(dir.path(), &[&program, text(&place), "2004", threads]);
        for _ in 0..3 {
            replay.assert_same(&["--speed", "max"], 22_044);
            assert_eq!(sizes(&replay.inside(&place)), BTreeMap::new());
        }
        replay.assert_same(&["--speed", "max", "--order", "total"], 22_044);
        replay.assert_same(&["--speed", "50", "--pacing", "closed"], 22_044);
    }
}

/// Fails if two plans of a log differ.
#[test]
fn a_log_has_one_plan() {
    if !can_record(&[UPROBES]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::of(dir.path(), &["cp", "-r", "src", text(&dir.path().join("copy"))]);
    let again = Replay::of_log(dir.path(), "again");
    let [one, other] = [&replay.plan, &again.plan].map(|it| fs::read(it).expect("a plan"));
    assert!(one == other);
    let finished = iotrace(&["replay", "plan", "-o", text(&replay.plan), "x"]);
    assert!(finished.stderr().contains("is there already"), "{}", finished.stderr());
}

/// Real programs: the same results, files that are as long as those that they have made, and a
/// recording of the replay holds what that of the program does: the same calls, files, places in
/// them, bytes and results.
#[test]
fn programs_are_replayed() {
    let needs = [UPROBES, Need::Program("sqlite3"), Need::Program("git"), Need::Fio];
    if !can_record(&needs) {
        return;
    }
    let _turn = beside_others();
    let sql = |mode: &str| {
        format!(
            "sqlite3 sql.db 'PRAGMA journal_mode={mode}; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); WITH RECURSIVE c(x) AS (SELECT 1 \
             UNION ALL SELECT x+1 FROM c WHERE x<2000) INSERT INTO t SELECT x, hex(randomblob(100)) FROM c; UPDATE t SET b=1 WHERE a%3=0; \
             VACUUM;'"
        )
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let source = text(&source);
    let programs = [
        format!("cp -r {source} copied"),
        format!("tar cf made.tar -C {source} . && mkdir x && tar xf made.tar -C x"),
        sql("WAL"),
        sql("DELETE"),
        "git init -q g && cd g && echo one > f && git add f && git -c user.name=n -c user.email=e commit -qm m && \
         git clone -q --no-hardlinks . ../c && cd ../c && git checkout -q -b other"
            .to_owned(),
        format!("cc -O1 -pthread -o made {source}/../tests/programs/shared_queue.c"),
        "fio --name=a --size=4M --rw=randrw --bs=4k --ioengine=psync --numjobs=2 --fsync=16 --output=/dev/null".to_owned(),
        "fio --name=a --size=4M --rw=randrw --bs=4k --ioengine=io_uring --iodepth=8 --output=/dev/null".to_owned(),
    ];
    for program in &programs {
        let dir = scratch_dir("replay");
        let place = dir.path().join("place");
        fs::create_dir(&place).expect("a directory");
        let line = format!("cd {} && {program}", text(&place));
        let replay = Replay::of(dir.path(), &["sh", "-c", &line]);
        let again = format!("{}/", text(&dir.path().join("again")));
        let report = replay.report(&["--speed", "max", "--trace", &again]);
        assert_eq!(report["mismatches"], 0, "{program}: {:#}", report["first_mismatches"]);
        let traced = &report["trace"];
        assert_eq!(traced["is_same"], true, "{program}: {traced:#}");
        assert_eq!(traced["same"], report["operations"], "{program}: {traced:#}");
        let unknown = traced["offsets_unknown"].as_u64().expect("a number");
        assert!(unknown <= 10, "{program}: {traced:#}");
        assert!(dir.path().join("again/traces.otf2").exists());
        assert_eq!(sizes(&replay.inside(&place)), sizes(&place), "{program}");
    }
}

/// Output of a program, and its replay. On a busy machine the arguments of `io_submit` are read too
/// late now and then: then the run is repeated.
#[track_caller]
fn of_asynchronous(dir: &Path, program: &[&str]) -> (String, Replay) {
    let trace = dir.join("trace");
    for _ in 0..16 {
        let (finished, recording) = record(&trace, &NAMED, program);
        let printed = finished.success().stdout();
        recording.assert_whole();
        if recording.number("async_unread") == 0 {
            return (printed, Replay::of_log(dir, "plan"));
        }
        fs::remove_dir_all(&trace).expect("ours");
    }
    panic!("what io_submit was given was read too late in every run")
}

/// How often something is done again that is called so.
fn count_of(report: &Value, call: &str) -> u64 {
    let rows = report["outcomes"].as_array().expect("a list").iter();
    rows.filter(|it| it["call"] == call).filter_map(|it| it["count"].as_u64()).sum()
}

/// Fails if an operation of `io_submit` is not done again, if fewer may be under way at once than
/// were, or if bytes are not those that fio counts.
#[test]
fn asynchronous_operations_are_replayed() {
    if !can_record(&[UPROBES, Need::Fio]) {
        return;
    }
    let _alone = alone();
    for (options, depth) in [
        (&["--direct=1", "--iodepth=16"][..], 16),
        (&["--iodepth=4", "--fsync=7", "--iodepth_batch_submit=4"], 4),
    ] {
        let dir = scratch_dir("replay");
        let place = dir.path().join("place");
        fs::create_dir(&place).expect("a directory");
        let file = format!("--filename={}", text(&place.join("data")));
        let first = ["fio", "--name=a", "--rw=randrw", "--bs=4k", "--size=1636k"];
        let second = ["--ioengine=libaio", "--output-format=json", &file];
        let (report, replay) =
            of_asynchronous(dir.path(), &[&first[..], &second, options].concat());
        let fio: Value = serde_json::from_str(&report).expect("JSON");
        let again = format!("{}/", text(&dir.path().join("again")));
        let report = replay.report(&["--speed", "max", "--trace", &again]);
        assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
        assert_eq!(report["trace"]["same"], report["operations"], "{:#}", report["trace"]);
        assert_eq!(report["asynchronous"], 409, "{report:#}");
        assert_eq!(report["lanes"], depth, "{report:#}");
        let log = dir.path().join("again/traces.iocap");
        let reported = iotrace(&["script", "--json", text(&log)]).stdout();
        let reported: Vec<Value> =
            reported.lines().map(|it| serde_json::from_str(it).expect("JSON")).collect();
        for (side, call, name) in
            [("read", "aio:PREAD", "pread64"), ("write", "aio:PWRITE", "pwrite64")]
        {
            let side = &fio["jobs"][0][side];
            assert_eq!(Some(count_of(&report, call)), side["total_ios"].as_u64(), "{report:#}");
            let is_ours = |it: &&Value| {
                let path = it["path"].as_str().unwrap_or_default();
                it["name"] == name && path.ends_with("/data")
            };
            let bytes =
                reported.iter().filter(is_ours).filter_map(|it| it["result"].as_u64()).sum();
            assert_eq!(side["io_bytes"].as_u64(), Some(bytes), "{call}");
        }
        for options in [&["--speed", "3"][..], &["--speed", "3", "--pacing", "closed"]] {
            replay.assert_same(options, 409);
        }
        replay.assert_same(&["--speed", "max", "--order", "total"], 409);
        assert_eq!(sizes(&replay.inside(&place)), sizes(&place));
    }
}

/// Each kind that there is of `io_submit`; of io_uring's it is not known what they ask for.
#[test]
fn known_asynchronous_operations_are_replayed() {
    if !can_record(&[UPROBES]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("replay");
    let program = compile("asynchronous.c", dir.path());
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let (said, replay) = of_asynchronous(dir.path(), &[&program, text(&place)]);
    let report = replay.report(&["--speed", "max"]);
    assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
    let aio: Vec<String> =
        said.lines().filter_map(|it| it.strip_prefix("aio ")).map(str::to_owned).collect();
    for name in ["PREAD", "PREADV", "PWRITE", "PWRITEV", "FDSYNC"] {
        let expected = aio.iter().filter(|it| it.split(' ').next() == Some(name)).count() as u64;
        assert_eq!(count_of(&report, &format!("aio:{name}")), expected, "{name}");
    }
    assert_eq!(report["asynchronous"], aio.len(), "{report:#}");
    let left = report["left_calls"].as_array().expect("a list").iter();
    let left = left.filter(|it| it["call"].as_str().is_some_and(|it| it.starts_with("io_uring:")));
    let left: u64 = left.filter_map(|it| it["count"].as_u64()).sum();
    assert_eq!(left, said.lines().filter(|it| it.starts_with("io_uring ")).count() as u64);
}

/// A server of many processes, which share files by descriptors, pass locks and sockets, and sync:
/// all of their calls on files.
#[test]
fn postgres_is_replayed() {
    if !can_record(&[UPROBES, Need::Postgres, Need::Program("setpriv")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let server = Server::create();
    let program = server.shell(
        "pg_ctl -D $DATA -w -l $PLACE/log -o \"-k $PLACE -c listen_addresses=\" start; pgbench -i -q -s 1; pgbench -c 2 -t 100; \
         pg_ctl -D $DATA -w -m fast stop",
    );
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let replay = Replay::of(dir.path(), &program);
    let again = format!("{}/", text(&dir.path().join("again")));
    let report = replay.report(&["--speed", "max", "--trace", &again]);
    assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
    assert!(report["threads"].as_u64() > Some(10), "{report:#}");
    assert!(report["operations"].as_u64() > Some(5000), "{report:#}");
    assert_eq!(report["trace"]["same"], report["operations"], "{:#}", report["trace"]);
    let [made, original] = [replay.inside(&server.data()), server.data()].map(|it| sizes(&it));
    let tables: Vec<_> = made.iter().filter(|it| it.0.starts_with("base")).collect();
    assert!(tables.len() > 50, "{made:?}");
    for (path, size) in tables {
        assert_eq!(original.get(path), Some(size), "{}", path.display());
    }
}

/// The directory of a replay may be on other file systems, also on one that shows another
/// directory's files: that one stays as it was.
#[test]
fn replay_on_other_file_systems_stays_inside() {
    if !can_record(&[UPROBES]) {
        return;
    }
    let _turn = beside_others();
    for file_system in ["tmpfs", "overlay"] {
        let dir = scratch_dir("replay");
        let at = |name: &str| dir.path().join(name);
        for it in ["lower", "upper", "work", "place"] {
            fs::create_dir(at(it)).expect("a directory");
        }
        fs::write(at("lower/kept"), "kept").expect("space");
        symlink("../kept", at("lower/link")).expect("made");
        let [lower, upper, work] = ["lower", "upper", "work"].map(|it| text(&at(it)).to_owned());
        let overlay = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let options = if file_system == "overlay" { overlay } else { "size=64m".to_owned() };
        let place = Mounted::of_kernel(&at("place"), file_system, &options);
        let line = format!(
            "cd {} && echo new > kept && echo more > made && ln -s made l && cat l link 2>&1; mv made moved; mkdir d; mv moved d; rm -r d kept",
            text(place.path())
        );
        let replay = Replay::of(dir.path(), &["sh", "-c", &line]);
        let before = seen(&at("lower"));
        // In the capture's own file system, beside its files.
        let replay = Replay { root: place.path().join("root"), ..replay };
        replay.assert_same(&["--speed", "max"], 20);
        let inside = replay.inside(place.path());
        assert!(inside.join("l").is_symlink() && !inside.join("d").exists(), "{file_system}");
        assert_eq!(seen(&at("lower")), before, "{file_system}");
        iotrace(&["replay", "purge", "--root", text(&replay.root)]).success();
        assert!(!replay.root.exists());
    }
}

/// Seeks beyond 4 GiB, reads at and behind the end, files that are not there.
#[test]
fn results_equal_those_of_the_capture() {
    if !can_record(&[UPROBES]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    fs::write(place.join("there"), vec![7; 10_000]).expect("space");
    let line = format!(
        "cd {}; dd if=/dev/zero of=far bs=1 seek=5368709120 count=3; dd if=far bs=4096 skip=1310720 count=2 of=near; \
         dd if=there bs=4096 of=copy; dd if=there bs=4096 skip=9 of=none; cat not-there; mkdir there; rmdir .; rm there/x; \
         dd if=there bs=100 count=1 of=near conv=notrunc seek=2; truncate -s 5 copy; stat there not-there; true",
        text(&place)
    );
    let replay = Replay::of(dir.path(), &["sh", "-c", &line]);
    replay.assert_same(&["--speed", "max"], 100);
    assert_eq!(sizes(&replay.inside(&place)), sizes(&place));
}

/// Fails if operations are done again that need what only a call made that is not done again, or
/// rights that the replay does not have.
#[test]
fn external_entries_are_left_out() {
    if !can_record(&[UPROBES]) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir().expect("a directory that everybody can reach");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).expect("ours");
    let program = compile("external_entries.c", dir.path());
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    fs::write(place.join("secret"), "12345").expect("space");
    fs::set_permissions(place.join("secret"), fs::Permissions::from_mode(0o600)).expect("ours");
    let replay = Replay::of(dir.path(), &[&program, text(&place)]);
    replay.assert_same(&["--speed", "max"], 10);
    let moved = "directory/moved";
    assert_eq!(fs::read(replay.inside(&place).join(moved)).expect("made").len(), 3);
    let report = replay.report(&["--speed", "max"]);
    let left = |reason: &str| {
        let calls = report["left_calls"].as_array().expect("a list").iter();
        let of = calls.filter(|it| it["reason"] == reason);
        let mut left: Vec<_> = of.map(|it| format!("{} {}", it["call"], it["count"])).collect();
        left.sort();
        left.join(", ").replace('"', "")
    };
    let made = "access 1, chmod 1, mkdir 1, rename 1, unlink 1";
    assert_eq!(left("made-by-others"), made, "{report:#}");
    assert_eq!(left("rights"), "chmod 1, openat 1", "{report:#}");
}

/// Fails if a round finds what the one before has left: a directory can be made once.
#[test]
fn each_round_begins_with_new_files() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir().expect("a directory");
    let replay = Replay::of_mkdir(dir.path());
    let report = replay.report(&["--loop", "3", "--drop-caches"]);
    assert_eq!(report["rounds_done"].as_array().expect("a list").len(), 3, "{report:#}");
    assert_eq!(report["operations"], 3, "{report:#}");
    assert_eq!(report["mismatches"], 0, "{report:#}");
    // What another replay has changed is refused by the first round, and there is no report.
    let refused = replay.run(&["--loop", "2"]);
    assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr());
    assert!(refused.stderr().contains("make them again"), "{}", refused.stderr());
}

/// Two threads that make a directory each, every 100 ms, the second one 50 ms behind the first;
/// each takes 10 ms. In the second thread the first one is the parent of the others, and the first
/// thread's are below it, so that no thread may begin before it is there.
fn made_every_100_ms(dir: &Path) -> Replay {
    let mut lines = vec!["1 1700000000.000000 mkdir(\"/w/a\", 0777) = 0 <0.010000>\n".to_owned()];
    for number in 1..10 {
        lines.push(format!(
            "2 1700000000.{:06} mkdir(\"/w/a/b{number}\", 0777) = 0 <0.010000>\n",
            number * 100_000 - 50_000
        ));
        lines.push(format!(
            "1 1700000000.{number}00000 mkdir(\"/w/a/a{number}\", 0777) = 0 <0.010000>\n"
        ));
    }
    let (strace, log) = (dir.join("strace"), dir.join("trace/traces.iocap"));
    fs::write(&strace, lines.concat()).expect("space");
    fs::create_dir(dir.join("trace")).expect("a directory");
    iotrace(&["import", text(&strace), "-o", text(&log)]).success();
    Replay::of_log(dir, "plan")
}

/// Fails if something of a part is not done, or something behind it is; or if times are those of
/// what was done before.
#[test]
fn part_of_a_plan_is_replayed() {
    if !require(Need::Root) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir().expect("a directory");
    let replay = made_every_100_ms(dir.path());
    let part = ["--from", "310ms", "--until", "600ms"];
    let paces: [&[&str]; 4] = [
        &["--speed", "max"],
        &["--speed", "max", "--order", "total"],
        &["--speed", "2"],
        &["--pacing", "closed"],
    ];
    for pace in paces {
        let report = replay.report(&[&part, pace].concat());
        let is =
            |key: &str, expected: u64| assert_eq!(report[key], expected, "{pace:?}: {report:#}");
        // a to a3, b1 to b3; and a4, b4, a5, b5, b6.
        is("operations", 7 + 5);
        is("prepared", 7);
        is("mismatches", 0);
        assert_eq!(report["is_whole"], true, "{report:#}");
        assert_eq!(report["calls"][0]["count"], 5, "{report:#}");
        is("captured_span_ns", 560_000_000 - 350_000_000);
        let expected = match pace {
            ["--speed", "2"] => 105_000_000,
            ["--pacing", "closed"] => 210_000_000,
            _ => 0,
        };
        assert_eq!(report["expected_span_ns"].as_u64().unwrap_or(0), expected, "{report:#}");
        // No operation begins before its time, the first one may have been late, and the last one
        // took 10 ms in the capture.
        let ns = |key: &str| report[key].as_u64().unwrap_or(0);
        let least = expected.saturating_sub(ns("lateness_max_ns") + 10_000_000 / 2);
        assert!(pace[0] != "--speed" || ns("span_ns") >= least, "{report:#}");
        let made = |name: &str| replay.inside(Path::new("/w/a")).join(name).exists();
        assert_eq!(["a3", "a5", "b6", "a6", "b7"].map(made), [true, true, true, false, false]);
    }
    let refused = replay.run(&["--from", "2s"]);
    assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr());
    assert!(refused.stderr().contains("ends 910ms after"), "{}", refused.stderr());
}

/// Fails if a write goes elsewhere in a file because the reads and seeks that had moved to its
/// place are not done again.
#[test]
fn unreplayed_renames_still_move_files() {
    if !can_record(&[UPROBES]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let place = dir.path().join("f");
    fs::write(&place, "1234567\n1234567\nrest").expect("space");
    let line =
        format!("exec 3<>{}; read a <&3; echo new >&3; read b <&3; echo more >&3", text(&place));
    let (finished, _) = record(&dir.path().join("trace"), &NAMED, &["sh", "-c", &line]);
    finished.success();
    let (plan, log) = (dir.path().join("plan"), dir.path().join("trace/traces.iocap"));
    iotrace(&["replay", "plan", text(&log), "--io", "w", "-o", text(&plan)]).success();
    let replay = Replay { plan, root: dir.path().join("root") };
    iotrace(&[
        "replay",
        "init",
        text(&replay.plan),
        "--root",
        text(&replay.root),
        "--content",
        "zero",
    ])
    .success();
    replay.run(&["--speed", "max"]).success();
    let written = fs::read(replay.inside(&place)).expect("made");
    let is_written: Vec<bool> = written.chunks(4).map(|it| it != [0; 4]).collect();
    assert_eq!(is_written, [false, false, true, false, true, true], "{written:?}");
    let again = format!("{}/", text(&dir.path().join("again")));
    let report = replay.report(&["--speed", "max", "--trace", &again]);
    assert_eq!(report["trace"]["is_same"], true, "{report:#}");
    assert_eq!(report["trace"]["offsets_unknown"], 0, "{report:#}");
}

/// State outside of the directory that a replay could have changed.
fn seen(path: &Path) -> Vec<(PathBuf, u32, u64, i64, i64)> {
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

/// Fails if a replay does to the files of the capture what the capture did.
#[test]
fn the_original_is_not_touched() {
    if !can_record(&[UPROBES]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let [place, other] = ["data", "database"].map(|it| dir.path().join(it));
    let line = format!(
        "cd {} && mkdir d && echo new > d/f && echo more >> ../database/f && ln -s {} l && echo through > l/g && cat l/f && mv d/f e && \
         chmod 600 e && rm -r d && echo up > ../up && rm ../up",
        text(&place),
        text(&other)
    );
    for it in [&place, &other] {
        fs::create_dir(it).expect("a directory");
        fs::write(it.join("f"), "kept").expect("space");
    }
    let replay = Replay::of(dir.path(), &["sh", "-c", &line]);
    // As it was before, for the replay to find if it looks there.
    for it in ["e", "l"] {
        fs::remove_file(place.join(it)).expect("it was made");
    }
    let before = [&place, &other].map(|it| seen(it));
    replay.assert_same(&["--speed", "max"], 20);
    assert_eq!([&place, &other].map(|it| seen(it)), before);
    assert!(!dir.path().join("up").exists());
    assert!(replay.inside(&place).join("e").exists());
    iotrace(&["replay", "purge", "--root", text(&replay.root)]).success();
    assert_eq!([&place, &other].map(|it| seen(it)), before);
    assert!(!replay.root.exists());
}

/// One operation of a made-up plan.
struct Hostile {
    call: &'static str,
    args: [u64; 6],
    path: Option<String>,
    second: Option<String>,
    makes: bool,
}

impl Hostile {
    fn new(call: &'static str, args: [u64; 6], path: &str) -> Self {
        let makes = call.starts_with("open");
        Self { call, args, path: Some(path.to_owned()), second: None, makes }
    }

    fn pair(call: &'static str, path: &str, second: &str) -> Self {
        let (path, second) = (Some(path.to_owned()), Some(second.to_owned()));
        Self { call, args: [1; 6], path, second, makes: false }
    }
}

/// A plan of these operations, in one thread.
fn plan_of(operations: &[Hostile], to: &Path) {
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
    planner.who.push(WorkerInfo { pid: 1, tid: 1, ..WorkerInfo::default() });
    fs::write(to, finish(planner, std::env::consts::ARCH).expect("memory")).expect("space");
}

/// Fails if a plan that was made to do harm can make, write, change or remove anything outside of
/// the directory of its replay.
#[test]
fn a_hostile_plan_stays_inside() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("victim"), "kept").expect("space");
    symlink(&outside, dir.path().join("link")).expect("a link");
    let up = format!("{}{}", "/..".repeat(20), text(&outside));
    let creates =
        u64::from((libc_flags::O_CREAT | libc_flags::O_RDWR | libc_flags::O_TRUNC).cast_unsigned());
    let open = |path: &str| Hostile::new("openat", [0, 1, creates, 0o6777, 0, 0], path);
    let write = || Hostile {
        call: "write",
        args: [0, 1, 512, 0, 0, 0],
        path: None,
        second: None,
        makes: false,
    };
    let mut operations = Vec::new();
    for path in
        [format!("{up}/victim"), format!("{up}/new"), text(&outside.join("victim")).to_owned()]
    {
        operations.extend([
            open(&path),
            write(),
            Hostile::new("truncate", [1, 3, 0, 0, 0, 0], &path),
        ]);
        operations.push(Hostile::new("chmod", [1, 0o4777, 0, 0, 0, 0], &path));
        operations.push(Hostile::new("unlink", [1; 6], &path));
    }
    // Links that lead out, and what is done through them.
    for (number, target) in [text(&outside), &up, "../../../../.."].into_iter().enumerate() {
        operations.push(Hostile::pair("symlink", &format!("/l{number}"), target));
        operations.extend([open(&format!("/l{number}/victim")), write()]);
        operations.push(Hostile::new("mkdir", [1, 0o777, 0, 0, 0, 0], &format!("/l{number}/made")));
        operations.push(Hostile::new("unlink", [1; 6], &format!("/l{number}/victim")));
    }
    operations.extend([open("/suid"), Hostile::new("chmod", [1, 0o6755, 0, 0, 0, 0], "/suid")]);
    operations.push(open("/\n\u{1b}[31m"));
    operations.push(open("/proc/1/cwd/etc/passwd"));
    let replay = Replay::by_hand(dir.path(), &operations);
    let before = seen(&outside);
    let report = replay.report(&["--speed", "max"]);
    assert_eq!(report["operations"], operations.len());
    assert_eq!(seen(&outside), before);
    let made = seen(&replay.root.join("files"));
    assert!(made.len() > 3, "{made:?}");
    for (path, mode, ..) in &made {
        let kind = mode & 0o170_000;
        assert!([0o040_000, 0o100_000, 0o120_000].contains(&kind), "{path:?} {mode:o}");
        assert_eq!(mode & 0o6000, 0, "{path:?} {mode:o}");
    }
    iotrace(&["replay", "purge", "--root", text(&replay.root)]).success();
    assert_eq!(seen(&outside), before);
}

/// Fails if a plan can have calls done that no planner writes.
#[test]
fn calls_that_leave_the_directory_are_refused() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let device = |mode: u64| Hostile::new("mknodat", [0, 1, mode, 0x0103, 0, 0], "/device");
    let socket = device(0o140_666);
    let others = ["chroot", "mount", "umount", "ioctl", "execve", "chown", "setxattr", "sync"];
    let others = others.into_iter().map(|it| Hostile::new(it, [1, 1, 0, 0, 0, 0], "/"));
    // What it returns would be taken for a descriptor: that of our standard input.
    let mut forged = Hostile::new("access", [1, 0, 0, 0, 0, 0], "/");
    forged.makes = true;
    for it in others.chain([device(0o20_666), device(0o60_666), socket, forged]) {
        let dir = scratch_dir("replay");
        let replay = Replay::by_hand(dir.path(), std::slice::from_ref(&it));
        replay.init().success();
        let finished = replay.run(&["--speed", "max"]);
        assert_eq!(finished.status.code(), Some(125), "{}", it.call);
        assert!(finished.stderr().contains("cannot be done"), "{}", finished.stderr());
        assert_eq!(sizes(&replay.root.join("files")), BTreeMap::new());
    }
}

/// The bits of `openat`'s flags (open(2)).
mod libc_flags {
    pub(super) use nix::libc::{O_CREAT, O_RDWR, O_TRUNC};
}

/// Directories that a replay has not made are not touched by it.
#[test]
fn foreign_directories_are_refused() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::of_mkdir(dir.path());
    fs::create_dir(&replay.root).expect("a directory");
    fs::write(replay.root.join("mine"), "kept").expect("space");
    let purge = || iotrace(&["replay", "purge", "--root", text(&replay.root)]);
    for (finished, words) in [
        (replay.init(), "is not empty"),
        (replay.run(&[]), "has not been made by"),
        (purge(), "has not been made by"),
    ] {
        assert_eq!(finished.status.code(), Some(125));
        assert!(finished.stderr().contains(words), "{}", finished.stderr());
    }
    assert_eq!(fs::read(replay.root.join("mine")).expect("there"), b"kept");
    fs::remove_file(replay.root.join("mine")).expect("ours");
    // What was once replayed has to be made again; files that another process has changed, too.
    replay.assert_same(&["--speed", "max"], 1);
    assert!(replay.run(&[]).stderr().contains("make them again"));
    replay.init().success();
    fs::write(replay.root.join("files/mine"), "kept").expect("space");
    assert!(replay.run(&[]).stderr().contains("were changed after they were made"));
    let finished = purge();
    assert!(finished.stderr().contains("left"), "{}", finished.stderr());
    assert_eq!(fs::read(replay.root.join("files/mine")).expect("there"), b"kept");
}

/// Fails if what another user can change is trusted.
#[test]
fn directories_of_other_users_are_refused() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::of_mkdir(dir.path());
    fs::create_dir(&replay.root).expect("a directory");
    std::os::unix::fs::chown(&replay.root, Some(65534), None).expect("we are root");
    assert!(replay.init().stderr().contains("belongs to another user"));
    // A link in the place of the files.
    fs::remove_dir(&replay.root).expect("empty");
    replay.init().success();
    let outside = dir.path().join("outside");
    fs::rename(replay.root.join("files"), &outside).expect("ours");
    fs::write(outside.join("kept"), "kept").expect("space");
    symlink(&outside, replay.root.join("files")).expect("a link");
    fs::write(replay.root.join("iotrace-perf.state"), "iotrace-perf replay 1: running\n")
        .expect("space");
    let purge = || iotrace(&["replay", "purge", "--root", text(&replay.root)]);
    for finished in [purge(), replay.run(&[])] {
        assert!(finished.stderr().contains("has not been made by"), "{}", finished.stderr());
    }
    assert_eq!(fs::read(outside.join("kept")).expect("there"), b"kept");
}

/// Programs that lock a file in turn.
#[test]
fn locks_are_acquired_in_captured_order() {
    if !can_record(&[UPROBES, Need::Program("flock")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let line = format!(
        "cd {} && for i in 1 2 3 4; do flock lock sh -c 'echo one >> f; cat f >> g' & done; wait; flock -n lock cat f g",
        text(&place)
    );
    let replay = Replay::of(dir.path(), &["sh", "-c", &line]);
    for _ in 0..3 {
        replay.assert_same(&["--speed", "max"], 100);
    }
}

/// Fails if another thread gets a lock than in the capture, if a refused attempt is not refused, or
/// if a thread waits for ever.
#[test]
fn lock_holders_are_those_of_the_capture() {
    if !can_record(&[UPROBES]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let program = compile("locks.c", dir.path());
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let replay = Replay::of(dir.path(), &[&program, text(&place), "41"]);
    // Turns of four processes, and of their children.
    let records = 4 * 41 + 33;
    for options in [&["--speed", "max"][..]; 5] {
        replay.assert_same(options, 1000);
        assert_eq!(sizes(&replay.inside(&place)), sizes(&place));
    }
    assert_eq!(sizes(&place)[Path::new("data")], records * 101);
    replay.assert_same(&["--speed", "max", "--order", "total"], 1000);
    replay.assert_same(&["--speed", "3", "--pacing", "closed"], 1000);
    let report = replay.report(&["--speed", "3"]);
    assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
    // Locks and unlocks, reads together, children, the parent and the attempts that it conflicted
    // with. Others that were refused may have been so at the last moment.
    let count = |table: &str| -> u64 {
        let rows = report[table].as_array().expect("a list").iter();
        let flocks = rows.filter(|it| it["call"] == "flock");
        flocks.map(|it| it["count"].as_u64().expect("a number")).sum()
    };
    assert!(count("outcomes") >= 2 * (4 * 41) + 2 * 24 + 33 + 2 + 8, "{report:#}");
    assert!(count("left_calls") < 28, "{report:#}");
    // Without an order locks come as they come, but all is over at some time.
    for order in ["thread", "none"] {
        assert_eq!(replay.report(&["--speed", "max", "--order", order])["is_whole"], true);
    }
}

/// Fails if descriptors that went with their processes, or by an exec, stay open in the replay.
#[test]
fn descriptors_of_an_exited_process_are_closed() {
    if !can_record(&[UPROBES]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let program = compile("staggered_exits.c", dir.path());
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let replay = Replay::of(dir.path(), &[&program, text(&place), "8", "101", "700"]);
    replay.init().success();
    let mut command = Command::new(BINARY);
    command.args(["replay", "run", text(&replay.plan), "--root", text(&replay.root), "--json"]);
    let reported = fs::File::create_new(dir.path().join("reported")).expect("space");
    let mut running = command.stdout(reported).spawn().expect("it starts");
    let folder = format!("/proc/{}/fd", running.id());
    let mut seen = Vec::new();
    while running.try_wait().expect("our child").is_none() {
        seen.push(fs::read_dir(&folder).map_or(0, Iterator::count));
        std::thread::sleep(Duration::from_millis(10));
    }
    let reported = fs::read(dir.path().join("reported")).expect("ours");
    let report: Value = serde_json::from_slice(&reported).expect("a report");
    assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
    assert_eq!(report["is_whole"], true);
    // On a busy machine not all of them are looked at at once.
    let many = seen.iter().position(|it| *it > 700).unwrap_or_else(|| panic!("{seen:?}"));
    assert!(seen[many..].iter().any(|it| (1..50).contains(it)), "{seen:?}");
}

/// Whatever a replay was killed in, the next command knows.
#[test]
fn remains_of_a_killed_replay_are_recognised() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::of_mkdir(dir.path());
    for state in ["beginning", "running"] {
        replay.init().success();
        let line = format!("iotrace-perf replay 1: {state}\n");
        fs::write(replay.root.join("iotrace-perf.state"), line).expect("space");
        // Made by what was killed.
        fs::create_dir(replay.root.join("files/d")).expect("a directory");
        let finished = replay.run(&[]);
        assert!(finished.stderr().contains("make them again"), "{}", finished.stderr());
        if state == "running" {
            replay.assert_same(&["--speed", "max"], 1);
        } else {
            fs::remove_dir(replay.root.join("files/d")).expect("ours");
        }
        iotrace(&["replay", "purge", "--root", text(&replay.root)]).success();
        assert!(!replay.root.exists());
    }
}

/// Without any privilege the same, in a user namespace, where that is allowed.
#[test]
fn a_user_replays_in_a_namespace() {
    if !can_record(&[Need::UserNamespace]) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir().expect("a directory that everybody can reach");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("ours");
    let binary = dir.path().join("iotrace-perf");
    copy_program(BINARY, &binary);
    let Replay { plan, root } = Replay::of_mkdir(dir.path());
    let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let as_user = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(user).arg(&binary).arg("replay").args(arguments);
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        run(&mut command, TIMEOUT).expect("it ends")
    };
    fs::set_permissions(&plan, fs::Permissions::from_mode(0o644)).expect("ours");
    as_user(&["init", text(&plan), "--root", text(&root)]).success();
    as_user(&["run", text(&plan), "--root", text(&root), "--speed", "max"]).success();
    assert!(root.join("files/d").is_dir());
    as_user(&["purge", "--root", text(&root)]).success();
    assert!(!root.exists());
}
