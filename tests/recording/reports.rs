//! The verbs that answer: known work with prime counts gives exactly those numbers, from a log and
//! while a program runs.

mod findings;
mod page;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record, record, wait_until};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::scratch_dir;
use serde_json::Value;

/// On a busy machine a name may be read too late, but not each time.
const RUNS_MAX: u32 = 5;

/// The program: 101 writes of 13 bytes, 11 of 7 over the first of them, two times 78 reads, then
/// the file is removed. And 19 opens of what is not there.
fn script(place: &Path) -> String {
    let place = place.display();
    format!(
        "dd if=/dev/zero of={place}/a bs=13 count=101 status=none
        dd if=/dev/zero of={place}/a bs=7 count=11 conv=notrunc status=none
        dd if={place}/a of=/dev/null bs=17 status=none
        dd if={place}/a of=/dev/null bs=17 status=none
        rm {place}/a
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do true < {place}/missing; done 2>/dev/null
        echo done
        exit 7"
    )
}

struct Answer {
    status: Option<i32>,
    stdout: String,
    stderr: String,
    report: Value,
}

/// `iotrace-perf VERB --json --to FILE ARGUMENTS`.
fn ask(verb: &str, arguments: &[&str], dir: &Path) -> Answer {
    let to = dir.join("report");
    let _ = std::fs::remove_file(&to);
    let mut command = Command::new(BINARY);
    command.arg(verb).args(["--json", "--to"]).arg(&to).args(arguments);
    let finished = process::run(&mut command, TIMEOUT).expect("it ends");
    let text =
        std::fs::read_to_string(&to).unwrap_or_else(|it| panic!("{it}: {}", finished.stderr()));
    Answer {
        status: finished.status.code(),
        stdout: finished.stdout(),
        stderr: finished.stderr(),
        report: serde_json::from_str(&text).expect("JSON"),
    }
}

/// The row of a table in which `key` is `value`.
fn row<'a>(report: &'a Value, table: &str, key: &str, value: &str) -> Option<&'a Value> {
    report[table].as_array().expect("a table").iter().find(|it| it[key] == value)
}

fn numbers(row: &Value, keys: &[&str]) -> Vec<u64> {
    keys.iter().map(|it| row[it].as_u64().unwrap_or_else(|| panic!("{it}: {row}"))).collect()
}

/// True if all names were read in time.
fn is_named(report: &Value) -> bool {
    let rows = report["files"].as_array().expect("a table");
    rows.iter().all(|it| it["doubtful_names"] == 0 && !it["path"].is_null())
}

#[test]
fn files_while_a_program_runs() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    for _ in 0..RUNS_MAX {
        let dir = scratch_dir("reports");
        let script = script(dir.path());
        let answer = ask("files", &["--", "sh", "-c", &script], dir.path());
        assert_eq!(
            (answer.status, answer.stdout.as_str()),
            (Some(7), "done\n"),
            "{}",
            answer.stderr
        );
        if !is_named(&answer.report) {
            continue;
        }
        let file = dir.path().join("a");
        let file = row(&answer.report, "files", "path", file.to_str().expect("text"));
        let keys = [
            "opens",
            "failed_opens",
            "reads",
            "writes",
            "read_bytes",
            "reread_bytes",
            "written_bytes",
            "overwritten_bytes",
            "removals",
            "written_then_removed_bytes",
            "processes",
            "size_bytes",
        ];
        let expected = [4, 0, 156, 112, 2626, 1313, 1390, 77, 1, 1390, 5, 1313];
        assert_eq!(numbers(file.expect("it is there"), &keys), expected);
        let missing = dir.path().join("missing");
        let missing = row(&answer.report, "files", "path", missing.to_str().expect("text"));
        let keys = ["opens", "failed_opens", "errors", "count"];
        assert_eq!(numbers(missing.expect("it is there"), &keys), [0, 19, 19, 19]);
        let directory =
            row(&answer.report, "directories", "path", dir.path().to_str().expect("text"));
        let keys = ["files", "read_bytes", "written_bytes", "failed_opens"];
        assert_eq!(numbers(directory.expect("it is there"), &keys), [2, 2626, 1390, 19]);
        let by = answer.report["by_process"].as_array().expect("a table").iter();
        let dd = by.filter(|it| {
            it["comm"] == "dd" && it["path"].as_str().is_some_and(|it| it.ends_with("/a"))
        });
        let bytes: Vec<u64> = dd.map(|it| it["read_bytes"].as_u64().expect("a number")).collect();
        assert_eq!((bytes.len(), bytes.iter().sum::<u64>()), (4, 2626));
        return;
    }
    panic!("names were read too late in each of {RUNS_MAX} runs");
}

#[test]
fn summary_of_a_log_and_of_its_parts() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    for run in 0..RUNS_MAX {
        let dir = scratch_dir("reports");
        let script = script(dir.path());
        let trace = dir.path().join(run.to_string());
        crate::support::driver::recording::record(&trace, &[], &["sh", "-c", &script]);
        let log = trace.join("traces.iocap");
        let log = log.to_str().expect("text");
        let summary = |more: &[&str]| ask("summary", &[&[log], more].concat(), dir.path()).report;
        let all = summary(&[]);
        if !is_named(&all) {
            continue;
        }
        let file = format!("{}/a", dir.path().display());
        let keys = ["count", "errors", "read_bytes", "written_bytes"];
        let of_file = row(&all, "files", "path", &file).expect("it is there");
        // 4 opens and closes more, and what dd asks for besides.
        assert_eq!(numbers(of_file, &keys)[1..], [0, 2626, 1390]);
        let failed = row(&all, "errors", "operation", "openat").expect("some failed");
        assert!(failed["error"] == "ENOENT" && failed["count"].as_u64() >= Some(19), "{failed}");

        let written = summary(&["--io", "w", "-F", "a"]);
        let row_of = |report: &Value| row(report, "calls", "operation", "write").cloned();
        assert_eq!(numbers(&row_of(&written).expect("writes"), &keys), [112, 0, 0, 1390]);
        assert_eq!(written["operations"], 112);
        let read = summary(&["-e", "read", "-F", &file, "--comm", "d[d]"]);
        assert_eq!((&read["operations"], &read["read_bytes"]), (&158.into(), &2626.into()));
        let pid = row(&all, "processes", "comm", "rm").expect("rm")["pid"].to_string();
        let of_rm = summary(&["-p", &pid]);
        assert_eq!(of_rm["processes"].as_array().map(Vec::len), Some(1));
        assert!(row(&of_rm, "calls", "operation", "unlinkat").is_some(), "{of_rm}");
        let slow = summary(&["--min-latency", "1h"]);
        assert_eq!(slow["operations"], 0);
        return;
    }
    panic!("names were read too late in each of {RUNS_MAX} runs");
}

/// The program goes on only when its read has been seen.
#[test]
fn operations_are_printed_while_the_program_runs() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("reports");
    let place = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (file, fifo, to) = (place("file"), place("fifo"), place("lines"));
    std::fs::write(&file, [7; 1013]).expect("written");
    nix::unistd::mkfifo(fifo.as_str(), nix::sys::stat::Mode::S_IRWXU).expect("made");
    let script = format!("cat {file}; read x < {fifo}; exit $x");
    let mut command = Command::new(BINARY);
    command.args([
        "live", "-e", "%default", "--format", "csv", "--to", &to, "--", "sh", "-c", &script,
    ]);
    let mut running =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let seen = || std::fs::read_to_string(&to).unwrap_or_default();
    wait_until("the read is printed", || {
        seen().lines().any(|it| it.contains(",read,") && it.contains(",1013,"))
    });
    assert!(running.try_wait().expect("a child").is_none());
    std::fs::write(&fifo, "11\n").expect("it reads");
    assert_eq!(process::wait(&mut running, TIMEOUT).expect("it ends").code(), Some(11));
    let output = running.wait_with_output().expect("read");
    assert_eq!(output.stdout, [7; 1013]);
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(reported.contains("complete: nothing lost"), "{reported}");
    let heads = seen().lines().next().expect("heads").to_owned();
    assert!(heads.starts_with("kind,name,start_ns"), "{heads}");
}

/// The reader has gone: the program ends without a signal of its own.
#[test]
fn live_ends_with_its_reader() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let mut command = Command::new(BINARY);
    command.args(["live", "-a", "-e", "openat"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = command.spawn().expect("it runs");
    drop(running.stdout.take());
    let mut ended = None;
    wait_until("it has ended", || {
        let _ = std::fs::read("/etc/hostname");
        ended = running.try_wait().expect("a child");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|it| it.code()), Some(0));
}

#[test]
fn impossible_selection_is_reported_first() {
    let _turn = beside_others();
    let dir = scratch_dir("reports");
    let marker = dir.path().join("ran");
    let refused = |arguments: &[&str]| {
        let finished =
            process::run(Command::new(BINARY).args(arguments).current_dir(dir.path()), TIMEOUT)
                .expect("it ends");
        assert_eq!(finished.status.code(), Some(125), "{arguments:?}: {}", finished.stderr());
        assert!(!marker.exists(), "{arguments:?}");
        finished.stderr()
    };
    let marker_text = marker.to_str().expect("text");
    assert!(refused(&["summary", "-F", "a[", "--", "touch", marker_text]).contains("a["));
    let there = dir.path().join("there");
    std::fs::write(&there, "mine").expect("written");
    let to = there.to_str().expect("text");
    assert!(
        refused(&["files", "--to", to, "--", "touch", marker_text]).contains("is there already")
    );
    assert_eq!(std::fs::read_to_string(&there).expect("there"), "mine");
    assert!(refused(&["summary"]).contains("there is no recording in ."));
    assert!(refused(&["summary", "-D", "10s"]).contains("nothing to record"));
    assert!(refused(&["summary", "-a", "x.iocap"]).contains("(x.iocap) or -a, not both"));
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/logs/v2/block-direct.iocap");
    assert!(refused(&["summary", log, "-d", "sdz"]).contains("has no disk sdz"));
}

/// Root's 31 writes, and 47 of another user that it becomes, each by one call of its own.
#[test]
fn of_one_user() {
    if !can_record(&[Need::Program("setpriv")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("reports-user");
    let dd = |count| format!("dd if=/dev/zero of=/dev/null bs=3 count={count} status=none");
    let script = format!("{}; setpriv --reuid=4711 --clear-groups {}", dd(31), dd(47));
    let (finished, recording) = record(&dir.path().join("trace"), &[], &["sh", "-c", &script]);
    finished.success();
    recording.assert_whole();
    let log = dir.path().join("trace/traces.iocap");
    let writes = |user: &str| {
        let answer = ask("summary", &["-u", user, log.to_str().expect("text")], dir.path());
        let row = row(&answer.report, "calls", "operation", "write");
        let notes = answer.report["notes"].to_string();
        assert!(!notes.contains("their user is unknown"), "{notes}");
        row.map(|it| numbers(it, &["count", "written_bytes"]))
    };
    assert_eq!(writes("root"), Some(vec![31, 31 * 3]));
    assert_eq!(writes("4711"), Some(vec![47, 47 * 3]));
    assert_eq!(writes("root,4711"), Some(vec![78, 78 * 3]));
    assert_eq!(writes("1"), None);
    let unknown = Command::new(BINARY).args(["summary", "-u", "no such user"]).arg(&log).output();
    let said = String::from_utf8(unknown.expect("it ends").stderr).expect("text");
    assert!(said.contains("no user") && said.contains("-u 1000"), "{said}");
}

/// Bytes that are moved into a pipe are not writes of the file that they come from.
#[test]
fn transfer_reads_its_source() {
    if !can_record(&[Need::Program("python3")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("reports-transfer");
    let file = dir.path().join("source");
    std::fs::write(&file, vec![7; 997 * 13]).expect("written");
    let script = "import os, sys
f = os.open(sys.argv[1], os.O_RDONLY)
r, w = os.pipe()
for at in range(13):
    assert os.sendfile(w, f, at * 997, 997) == 997
    assert len(os.read(r, 997)) == 997
";
    let program = ["python3", "-c", script, file.to_str().expect("text")];
    let (finished, recording) = record(&dir.path().join("trace"), &[], &program);
    finished.success();
    recording.assert_whole();
    for verb in ["summary", "files"] {
        let report = recording.report(verb);
        let row = row(&report, "files", "path", program[3]).unwrap_or_else(|| panic!("{report:#}"));
        assert_eq!(numbers(row, &["read_bytes", "written_bytes"]), [13 * 997, 0], "{verb}: {row}");
    }
}

/// Fails if doctor does not find its own work again in a recording, or leaves something of it.
#[test]
fn doctor_tries_a_recording() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("reports");
    let is_right = || {
        let mut doctor = Command::new(BINARY);
        doctor.args(["doctor", "--json"]).env("TMPDIR", dir.path());
        let said = process::run(&mut doctor, TIMEOUT).expect("it ends").success().stdout();
        let said: Value = serde_json::from_str(&said).expect("JSON");
        let mut checks = said["checks"].as_array().expect("a list").iter();
        let found = checks.find(|it| it["name"] == "self-test").expect("it was tried");
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0);
        let is_right = found["ok"] == true;
        // On a busy machine records may be lost, or a name be read too late.
        let text = found["found"].as_str().expect("text");
        let is_reported = !text.contains("; 0 records lost, 0 operations without");
        assert!(is_right || is_reported, "{found}");
        is_right
    };
    assert!((0..RUNS_MAX).any(|_| is_right()), "names were read too late in each of the runs");
}

/// Fails if a log that comes through a pipe, where nothing can be read twice, is read in another
/// way than a file.
#[test]
fn log_may_come_through_a_pipe() {
    let _turn = beside_others();
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs/v2/stacks.iocap");
    for verb in [&["info"][..], &["summary"], &["script", "--json"], &["stacks", "-f"]] {
        let answer = |from: &Path, input: Stdio| {
            let mut command = Command::new(BINARY);
            let ended = command.args(verb).arg(from).stdin(input).output().expect("it runs");
            assert!(ended.status.success(), "{verb:?} {}", String::from_utf8_lossy(&ended.stderr));
            ended.stdout
        };
        let mut cat = Command::new("cat");
        let mut cat = cat.arg(&log).stdout(Stdio::piped()).spawn().expect("it runs");
        let pipe = cat.stdout.take().expect("a pipe");
        let piped = String::from_utf8(answer(Path::new("/dev/stdin"), pipe.into())).expect("text");
        cat.wait().expect("it ends");
        let file = String::from_utf8(answer(&log, Stdio::null())).expect("text");
        // Of a file it is known how large it is.
        let sizes = |it: &&str| !it.contains(" in the log: ");
        let [piped, file] = [&piped, &file].map(|it| it.lines().filter(sizes).collect::<Vec<_>>());
        assert_eq!(piped, file, "{verb:?}");
    }
}
