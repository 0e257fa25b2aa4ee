//! Logs of other tools become capture logs: the same calls, bytes, names and times, and what is
//! missing is reported.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::driver::json::JsonOperation;
use crate::support::driver::process::run;
use crate::support::driver::recording::{Recording, TIMEOUT, compile, iotrace};
use crate::support::machine::requirements::{Need, require};
use crate::support::{scratch_dir, text};
use serde_json::Value;

/// Output of strace for a program, and the log that it becomes.
struct Traced {
    printed: String,
    log: PathBuf,
    dir: PathBuf,
}

impl Traced {
    fn new(dir: &Path, options: &[&str], program: &[&str]) -> Self {
        let output = dir.join("strace.txt");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-o", text(&output)]).args(options).args(program).current_dir(dir);
        run(&mut strace, TIMEOUT).expect("it ends").success();
        let printed = String::from_utf8_lossy(&fs::read(&output).expect("printed")).into_owned();
        let log = dir.join("log.iocap");
        iotrace(&["import", text(&output), "-o", text(&log)]).success();
        Self { printed, log, dir: dir.to_owned() }
    }

    /// Number of lines of each call, and the sum of its results, by the name that it has
    /// here.
    fn calls(&self) -> BTreeMap<String, (u64, i64)> {
        let mut calls = BTreeMap::new();
        for line in self.printed.lines() {
            let rest = line.split_once(' ').expect("a number").1.trim_start();
            let rest = rest.split_once(' ').expect("a time").1;
            let (name, is_begun) = match rest.strip_prefix("<... ") {
                Some(rest) => (rest.split(' ').next().expect("a name"), false),
                None => (rest.split('(').next().expect("a name"), true),
            };
            let result = line.rsplit_once(" = ").map_or("", |it| it.1);
            let result: i64 =
                result.split([' ', '<']).next().and_then(|it| it.parse().ok()).unwrap_or(0);
            let (count, sum) = calls.entry(name.to_owned()).or_insert((0, 0));
            *count += u64::from(is_begun);
            *sum += result.max(0);
        }
        calls
    }

    fn recording(&self) -> Recording {
        Recording::open(&self.log)
    }

    /// Fails if a call of these was printed and is not in the log, or has moved other bytes.
    #[track_caller]
    fn assert_same_calls(&self, names: &[(&str, &str)]) {
        let (printed, recording) = (self.calls(), self.recording());
        for (printed_as, name) in names {
            let (count, bytes) = printed.get(*printed_as).copied().unwrap_or_default();
            assert_eq!(recording.calls(name), count, "{name}");
            let call = &recording.info["calls"][*name];
            if ["read", "write", "pread64", "copy_file_range"].contains(name) && count > 0 {
                assert_eq!(call["bytes"].as_i64(), Some(bytes), "{name}");
            }
        }
    }

    /// Does it again elsewhere: the same results.
    #[track_caller]
    fn assert_replays(&self, operations: u64) -> Value {
        let (plan, root) = (self.dir.join("plan"), self.dir.join("root"));
        iotrace(&["replay", "plan", text(&self.log), "-o", text(&plan)]).success();
        iotrace(&["replay", "init", text(&plan), "--root", text(&root)]).success();
        let finished = iotrace(&[
            "replay",
            "run",
            text(&plan),
            "--root",
            text(&root),
            "--speed",
            "max",
            "--json",
        ]);
        let report: Value = serde_json::from_str(&finished.stdout())
            .unwrap_or_else(|_| panic!("{}", finished.stderr()));
        assert_eq!(report["mismatches"], 0, "{:#}", report["first_mismatches"]);
        assert!(report["operations"].as_u64() >= Some(operations), "{report:#}");
        report
    }
}

/// Options of strace with which all details are printed.
const FULL: [&str; 3] = ["-ttt", "-T", "-y"];

const COMMON: [(&str, &str); 8] = [
    ("openat", "openat"),
    ("close", "close"),
    ("read", "read"),
    ("write", "write"),
    ("newfstatat", "newfstatat"),
    ("copy_file_range", "copy_file_range"),
    ("pread64", "pread64"),
    ("unlink", "unlink"),
];

#[test]
fn program_is_imported_step_by_step() {
    if !require(Need::Strace) {
        return;
    }
    let dir = scratch_dir("import");
    let program = compile("dir_churn.c", dir.path());
    let traced = Traced::new(dir.path(), &FULL, &[&program, text(dir.path()), "50"]);
    let more = ["mkdir", "rename", "rmdir", "lseek", "execve"].map(|it| (it, it));
    traced.assert_same_calls(&[&COMMON[..], &more].concat());
    let recording = traced.recording();
    assert_eq!(
        recording.number("unnamed") + recording.number("unverified"),
        0,
        "{:#}",
        recording.info
    );
    let name = format!("{}/directory/\"b\"<c>\n", text(dir.path()));
    let operations = recording.operations();
    let is_read =
        |it: &&JsonOperation| it.name == "read" && it.path.as_deref() == Some(name.as_str());
    let reads: Vec<_> =
        operations.iter().filter(is_read).map(|it| (it.offset, it.result)).collect();
    let of_one = [(Some(0), Some(1000)), (Some(1000), Some(0)), (Some(500), Some(100))];
    assert_eq!(reads, of_one.repeat(50));
    traced.assert_replays(50 * 14);
}

#[test]
fn copies_and_archives_are_done_again() {
    if !require(Need::Strace) {
        return;
    }
    let dir = scratch_dir("import");
    let source = dir.path().join("source/deep/er");
    fs::create_dir_all(&source).expect("directories");
    for number in 0..20 {
        let size = [0, 1, 511, 4096, 100_003][number % 5];
        fs::write(source.join(format!("file {number}")), vec![b'x'; size]).expect("a file");
    }
    std::os::unix::fs::symlink("file 3", source.join("link")).expect("a link");
    fs::create_dir(dir.path().join("out")).expect("a directory");
    let programs: [&[&str]; 3] = [
        &["cp", "-r", "source", "copy"],
        &["tar", "cf", "out.tar", "source"],
        &["tar", "xf", "out.tar", "-C", "out"],
    ];
    for program in programs {
        let traced = Traced::new(dir.path(), &FULL, program);
        traced.assert_same_calls(&COMMON);
        let recording = traced.recording();
        assert_eq!(recording.number("unverified"), 0, "{program:?}");
        traced.assert_replays(100);
        for left in ["strace.txt", "log.iocap", "plan"] {
            fs::remove_file(dir.path().join(left)).expect(left);
        }
        fs::remove_dir_all(dir.path().join("root")).expect("the replay");
    }
}

/// Fails if calls that are interrupted by others, births, or what threads share, come out wrong.
#[test]
fn threads_and_children_keep_their_identity() {
    if !require(Need::Strace) {
        return;
    }
    let dir = scratch_dir("import");
    let program = compile("shared_queue.c", dir.path());
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let traced = Traced::new(dir.path(), &FULL, &[&program, text(&place), "204", "8"]);
    assert!(traced.printed.contains("resumed>"));
    traced.assert_same_calls(&COMMON);
    let recording = traced.recording();
    let operations = recording.operations();
    let pids: std::collections::BTreeSet<i64> = operations.iter().map(|it| it.pid.into()).collect();
    let tids: std::collections::BTreeSet<i64> = operations.iter().map(|it| it.tid.into()).collect();
    assert_eq!((pids.len(), tids.len() >= 8), (1, true), "{pids:?} {tids:?}");
    traced.assert_replays(204);
}

#[test]
fn shell_and_its_pipes_are_imported() {
    if !require(Need::Strace) {
        return;
    }
    let dir = scratch_dir("import");
    fs::write(dir.path().join("words"), "b\na\n").expect("a file");
    let traced = Traced::new(
        dir.path(),
        &["-ttt", "-T", "-yy"],
        &["sh", "-c", "cat words | sort > sorted; cat < sorted"],
    );
    traced.assert_same_calls(&COMMON);
    traced.assert_replays(50);
    let operations = traced.recording().operations();
    let comms: Vec<&str> = operations.iter().filter_map(|it| it.comm.as_deref()).collect();
    for comm in ["sh", "cat", "sort"] {
        assert!(comms.contains(&comm), "{comm}");
    }
}

// --- Logs that are kept ---

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/import").join(name)
}

/// The log that is made of this text, and the messages about it.
fn imported(dir: &Path, name: &str) -> (Recording, String) {
    let log = dir.join(format!("{name}.iocap"));
    let said = iotrace(&["import", text(&kept(name)), "-o", text(&log)]).success().stderr();
    (Recording::open(&log), said)
}

/// Fails if a unit of time is taken for another one.
#[test]
fn logs_of_ioriot_have_their_speed() {
    let dir = scratch_dir("import");
    for (name, span_ns, operations) in [
        ("ioriot-1.capture", 10_000_000, 11),
        ("ioriot-3.capture", 10_000_000, 11),
        ("ioriot-4.capture", 10_000_000, 11),
        ("ioriot-1.replay", 12_000_000, 8),
        ("ioriot-3.replay", 12_000_000, 8),
    ] {
        let (recording, _) = imported(dir.path(), name);
        let duration = recording.number("duration_ns");
        assert!(duration.abs_diff(span_ns) < 50_000, "{name}: {duration}");
        assert_eq!(recording.number("operations"), operations, "{name}");
        assert_eq!(recording.info["imported"]["tool"], "ioriot");
        let found = recording.operations();
        let read = found.iter().find(|it| it.name == "read").expect("a read");
        assert_eq!(read.path.as_deref(), Some("/data/d/x"), "{name}");
    }
    let other = scratch_dir("import");
    let (recording, said) = imported(other.path(), "ioriot-1.capture");
    assert!(said.contains("1 of 13 lines not understood: first at 10: t=15113811220"), "{said}");
    assert!(said.contains("11 calls with an end but no duration"), "{said}");
    // The log has the fact, and every report shows it.
    assert!(
        recording
            .text_info()
            .contains("imported from ioriot (capture log; ioriot-1.capture), not recorded")
    );
    assert!(recording.text_info().contains("1 of 13 lines not understood"));
}

#[test]
fn logs_of_fio_are_one_thread() {
    let dir = scratch_dir("import");
    let (recording, said) = imported(dir.path(), "fio-3.log");
    assert_eq!(recording.number("operations"), 7, "{said}");
    let found = recording.operations();
    let offsets: Vec<Option<u64>> =
        found.iter().filter(|it| it.name == "pwrite64").map(|it| it.offset).collect();
    assert_eq!(offsets, [Some(131_072), Some(65_536)]);
    assert!(
        found
            .iter()
            .filter(|it| it.name != "openat")
            .all(|it| it.path.as_deref() == Some("/data/fio file"))
    );
    assert!(recording.number("duration_ns").abs_diff(500_351_000) < 10_000);
    let (recording, said) = imported(dir.path(), "fio-2.log");
    assert_eq!(recording.number("operations"), 7, "{said}");
    assert!(said.contains("lines without a time"), "{said}");
    assert!(recording.number("duration_ns") > 2_000_000);
}

/// A record of blktrace: `action` in the lower half what happens, in the upper one of what kind.
pub(crate) fn record(
    time: u64,
    action: u32,
    (sector, bytes): (u64, u32),
    thread: u32,
    behind: &[u8],
) -> Vec<u8> {
    let dev = 8_u32 << 20;
    let length = u32::try_from(behind.len()).expect("short") << 16;
    let words = |all: &[u32]| all.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    [
        words(&[0x6561_7407, 1]),
        [time, sector].map(u64::to_le_bytes).concat(),
        words(&[bytes, action, thread, dev, 0, length]),
        behind.to_vec(),
    ]
    .concat()
}

/// Fails if a step of a request is taken for another one.
#[test]
fn requests_of_blktrace_go_their_way() {
    let dir = scratch_dir("import");
    let (input, log) = (dir.path().join("trace.blktrace.0"), dir.path().join("log.iocap"));
    let (write, read, notify) = (0xa << 16, 1 << 16, 0x400 << 16);
    let one = (64, 4096);
    let mut records = vec![record(0, notify, (0, 0), 42, b"dd\0")];
    for (time, action) in [(1000, 1), (2000, 4), (3000, 12), (4000, 7), (9000, 8)] {
        let thread = if action == 8 { 0 } else { 42 };
        records.push(record(time, write | action, one, thread, &[]));
    }
    // Two bios, one request.
    let (first, second, both) = ((128, 4096), (136, 4096), (128, 8192));
    for (time, action, place) in [
        (10_000, 1, first),
        (11_000, 4, first),
        (12_000, 1, second),
        (13_000, 2, second),
        (14_000, 7, both),
        (19_000, 8, both),
    ] {
        records.push(record(time, read | action, place, 42, &[]));
    }
    fs::write(&input, records.concat()).expect("written");
    let said = iotrace(&["import", text(&input), "-o", text(&log)]).success().stderr();
    assert!(said.contains("imported from blktrace: 12 records"), "{said}");
    let recording = Recording::open(&log);
    assert_eq!(
        (recording.number("requests"), recording.number("unmatched")),
        (2, 0),
        "{:#}",
        recording.info
    );
    let requests = recording.requests();
    let reported: Vec<_> =
        requests.iter().map(|it| (it.sector, it.rwbs.as_deref(), it.comm.as_deref())).collect();
    assert_eq!(reported, [(64, Some("WS"), Some("dd")), (128, Some("R"), Some("dd"))]);
}

/// A log exported for ioreplay is imported unchanged.
#[test]
fn ioreplay_export_is_imported_unchanged() {
    let dir = scratch_dir("import");
    let (recording, _) = imported(dir.path(), "ioriot-1.capture");
    let (text_file, log) = (dir.path().join("again.capture"), dir.path().join("again.iocap"));
    fs::write(&text_file, recording.script(&["--format", "ioreplay"])).expect("written");
    iotrace(&["import", text(&text_file), "-o", text(&log)]).success();
    let again = Recording::open(&log);
    let calls = |it: &Recording| {
        let all = it.operations();
        all.iter().map(|it| (it.name.clone(), it.result, it.path.clone())).collect::<Vec<_>>()
    };
    assert_eq!(calls(&again), calls(&recording));
}

#[test]
fn unknown_format_is_refused_and_leaves_nothing() {
    let dir = scratch_dir("import");
    let (input, log) = (dir.path().join("input"), dir.path().join("log.iocap"));
    for (content, options, expected) in [
        ("what is this?\n", &[][..], "unrecognized log format; supported: output of strace"),
        (
            "what is this?\n",
            &["--from", "strace"],
            "the file has no valid data for a log of strace: no operation in 1 lines",
        ),
        ("", &[], "input is empty"),
        ("", &["--from", "fio"], "input is empty"),
        // Calls, but none that is recorded: what another tool prints in the form of strace.
        (
            "syscall(257) = 4\nsyscall(0) = 832\n",
            &[],
            "2 calls skipped that are not recorded: syscall 2",
        ),
        // A log of fio without its first line, and a table of another collection.
        ("/srv/data/f add\n/srv/data/f open\n", &[], "--from says which tool wrote the file"),
        ("1.5,vol0,Read,383496192,32768\n", &[], "--from says which tool wrote the file"),
        ("7,R,0,512\n", &["--from", "csv"], "--from csv needs the columns"),
    ] {
        fs::write(&input, content).expect("written");
        let finished = iotrace(&[&["import", text(&input), "-o", text(&log)], options].concat());
        assert_eq!(finished.status.code(), Some(125));
        assert!(finished.stderr().contains(expected), "{}", finished.stderr());
        assert!(!log.exists());
    }
    fs::write(&log, "mine").expect("written");
    fs::write(&input, "1 1.5 close(3</x>) = 0\n").expect("written");
    let finished = iotrace(&["import", text(&input), "-o", text(&log)]);
    assert!(finished.stderr().contains("is there already"), "{}", finished.stderr());
    assert_eq!(fs::read(&log).expect("there"), b"mine");
}
