//! Replays of recorded programs give the results of the capture.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;

use super::fixture::{NAMED, Replay, seen, sizes};
use crate::support::driver::recording::{can_record, compile, iotrace, record};
use crate::support::machine::mount::Mounted;
use crate::support::machine::postgres::Server;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::{scratch_dir, text};

/// Fails if an operation begins before one that it needs is over, in one thread or among eight
/// threads that hand descriptors and names over.
#[test]
fn dependent_operations_run_in_captured_order() {
    if !can_record(&[Need::Uprobes]) {
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
fn repeated_planning_gives_same_plan() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("replay");
    let replay = Replay::of(dir.path(), &["cp", "-r", "src", text(&dir.path().join("copy"))]);
    let again = Replay::of_log(dir.path(), "again");
    let [one, other] = [&replay.plan, &again.plan].map(|it| fs::read(it).expect("a plan"));
    assert!(one == other);
    let log = dir.path().join("trace/traces.iocap");
    let finished = iotrace(&["replay", "plan", "-o", text(&replay.plan), text(&log)]);
    assert!(finished.stderr().contains("is there already"), "{}", finished.stderr());
}

/// Real programs: the same results, files that are as long as those that they have made, and a
/// recording of the replay holds what that of the program does: the same calls, files, places in
/// them, bytes and results.
#[test]
fn programs_are_replayed() {
    let needs = [Need::Uprobes, Need::Program("sqlite3"), Need::Program("git"), Need::Fio];
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
        // No event reports the place of an appended write, as git makes some; few others lack it.
        let [unknown, same] =
            ["offsets_unknown", "same"].map(|key| traced[key].as_u64().expect("a number"));
        assert!(unknown * 100 <= same.max(1000), "{program}: {traced:#}");
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

/// Number of replayed operations with this name.
fn count_of(report: &Value, call: &str) -> u64 {
    let rows = report["outcomes"].as_array().expect("a list").iter();
    rows.filter(|it| it["call"] == call).filter_map(|it| it["count"].as_u64()).sum()
}

/// Fails if an operation of `io_submit` is not done again, if fewer may be under way at once than
/// were, or if bytes are not those that fio counts.
#[test]
fn asynchronous_operations_are_replayed() {
    if !can_record(&[Need::Uprobes, Need::Fio]) {
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
            let is_ours = |operation: &&Value| {
                let path = operation["path"].as_str().unwrap_or_default();
                operation["name"] == name && path.ends_with("/data")
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
    if !can_record(&[Need::Uprobes]) {
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
    if !can_record(&[Need::Uprobes, Need::Postgres, Need::Program("setpriv")]) {
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
    if !can_record(&[Need::Uprobes]) {
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

/// Seeks beyond 4 GiB, reads at and past the end, files that are not there.
#[test]
fn results_equal_those_of_the_capture() {
    if !can_record(&[Need::Uprobes]) {
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
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = beside_others();
    let dir = tempfile::tempdir().expect("a directory that all users can reach");
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
