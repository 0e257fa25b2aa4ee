//! `record --ring` and `--rotate`: the log of an incident has the time before it, without a gap,
//! and is read as any other; logs of a rotation follow one another.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::driver::process;
use crate::support::driver::recording::{
    BINARY, Recording, TIMEOUT, can_record, iotrace, wait_until,
};
use crate::support::machine::mount::Mounted;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::{scratch_dir, text};

/// Bytes of a line that the program writes.
const LINE: u64 = 17;

/// Number of these lines, one each 50 ms: some 8 s.
const LINES: u64 = 151;

/// A program that has a file open from its beginning, writes lines to it, and syncs another file at
/// its end. No child shares the file while lines are written.
const PROGRAM: &str = "exec 7>kept 8<> <(:); for i in {1..151}; do printf 'line %011d\\n' $i >&7; read -t 0.05 -u 8; done; \
                       dd if=/dev/zero of=synced bs=4099 count=7 conv=fsync status=none";

/// Names of the files of a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Fails if a record is missing in the ring, if a file that was opened before has no name or
/// position, or if the trigger is not the call.
#[test]
fn long_call_writes_the_time_before_it() {
    if !can_record(&[]) {
        return;
    }
    let _turn = alone();
    let dir = scratch_dir("ring-trigger");
    let names_of = dir.path().join("inc-{N}/");
    let mut command = Command::new(BINARY);
    let options = ["record", "--ring", "2s", "--trigger", "fsync>1us", "--after", "0s", "-o"];
    command.args(options).arg(&names_of).args(["--", "bash", "-c", PROGRAM]);
    command.current_dir(dir.path());
    let said = process::run(&mut command, TIMEOUT).expect("it ends").success().stderr();
    assert!(said.contains("1 trigger: 1 incident written"), "{said}");
    assert_eq!(names(dir.path()), ["inc-1", "kept", "synced"]);
    let recording = Recording::open(&dir.path().join("inc-1/traces.iocap"));
    recording.assert_whole();
    let info = &recording.info;
    assert_eq!(
        (info["end_reason"].as_str(), info["mode"].as_str()),
        (Some("incident"), Some("attach"))
    );
    let excerpt = &info["excerpt"];
    assert_eq!((excerpt["number"].as_u64(), excerpt["mode"].as_str()), (Some(1), Some("launch")));
    let before =
        recording.number("start_ns") - excerpt["recording_start_ns"].as_u64().expect("a time");
    let held = recording.number("duration_ns");
    assert!(before > 1_000_000_000 && held > 2_000_000_000, "{before} {held}");
    let operations = recording.operations();
    let fsync = operations.iter().find(|call| call.name == "fsync").expect("the trigger");
    let [fired] = excerpt["triggers"].as_array().expect("one").as_slice() else {
        panic!("{excerpt}")
    };
    // A call in progress is compared, too.
    let (value, duration) = (fired["value"].as_u64(), fsync.duration_ns);
    let is_running = fired["is_running"] == true;
    assert!(value == duration || is_running && value < duration, "{fired} {duration:?}");
    assert_eq!(fired["pid"].as_i64(), Some(fsync.pid.into()));
    assert!(fired["path"].as_str().is_some_and(|path| path.ends_with("/synced")), "{fired}");
    // The lines that the log has are the last ones, and none is missing.
    let kept = dir.path().join("kept");
    let offsets: Vec<Option<u64>> = operations
        .iter()
        .filter(|call| call.name == "write" && call.path.as_deref() == Some(text(&kept)))
        .map(|call| call.offset)
        .collect();
    let first = LINES - offsets.len() as u64;
    assert!(first > 20 && offsets.len() > 20, "{first}");
    // Before the snapshot the position is not known.
    let known = offsets.iter().flatten().count();
    assert!(known > 20, "{offsets:?}");
    let unknown = offsets.len() - known;
    let line = |place: usize| Some((first + place as u64) * LINE);
    let expected: Vec<Option<u64>> =
        (0..offsets.len()).map(|place| line(place).filter(|_| place >= unknown)).collect();
    assert_eq!(offsets, expected);
}

/// Starts a recording of the machine with a ring.
fn start(dir: &Path, socket: &Path) -> Child {
    let mut command = Command::new(BINARY);
    let options = ["record", "-a", "--ring", "3s", "-e", "%default", "-o"];
    command.args(options).arg(dir.join("inc-{N}.iocap"));
    command.arg("--control").arg(socket).stdin(Stdio::null());
    command.stderr(fs::File::create(dir.join("said")).expect("a file"));
    command.spawn().expect("it starts")
}

fn said(dir: &Path) -> String {
    fs::read_to_string(dir.join("said")).unwrap_or_default()
}

/// Fails if SIGUSR2 or `ctl dump` ends the recording or writes nothing, or if a killed recorder
/// leaves less than whole logs.
#[test]
fn ring_is_written_by_hand_and_stays_after_a_kill() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("ring-by-hand");
    let socket = dir.path().join("control");
    let mut recorder = start(dir.path(), &socket);
    let recorder_pid = Pid::from_raw(recorder.id().cast_signed());
    wait_until("the recording", || said(dir.path()).contains("recording the whole machine"));
    let path = |number: u32| -> PathBuf { dir.path().join(format!("inc-{number}.iocap")) };
    kill(recorder_pid, Signal::SIGUSR2).expect("it runs");
    wait_until("the first log", || path(1).exists());
    let control = ["ctl", "--control", text(&socket)];
    iotrace(&[&control[..], &["dump"]].concat()).success();
    wait_until("the second log", || path(2).exists());
    let refused = iotrace(&[&control[..], &["list"]].concat()).stderr();
    assert!(refused.contains("this recording keeps a ring"), "{refused}");
    wait_until("the report", || said(dir.path()).matches("\niotrace-perf: wrote").count() == 2);
    recorder.kill().and_then(|()| recorder.wait()).expect("it can be killed");
    let logs: Vec<String> =
        names(dir.path()).into_iter().filter(|name| name.starts_with("inc-")).collect();
    assert_eq!(logs, ["inc-1.iocap", "inc-2.iocap"]);
    for (number, trigger) in [(1, "SIGUSR2"), (2, "ctl dump")] {
        let log = path(number);
        let recording = Recording::open(&log);
        assert_eq!(recording.info["end_reason"], "incident");
        assert_eq!(recording.number("damaged_bytes"), 0);
        assert_eq!(recording.info["excerpt"]["triggers"][0]["trigger"], trigger);
        for verb in ["summary", "files", "disk", "latency", "info"] {
            iotrace(&[verb, text(&log)]).success();
        }
        iotrace(&["convert", text(&log), "-o", text(&log.with_extension("otf2"))]).success();
    }
}

/// Fails if a log of a rotation is not whole, if more than two stay, or if one is missing between.
#[test]
fn rotation_keeps_the_last_logs() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("rotation");
    let mut command = Command::new(BINARY);
    command
        .args(["record", "--rotate", "100K", "--keep", "2", "-o"])
        .arg(dir.path().join("part-{N}/"));
    let program = "for i in $(seq 1 40); do dd if=/dev/zero of=f bs=1 count=5003 status=none; sleep 0.1; done";
    command.args(["--", "bash", "-c", program]).current_dir(dir.path());
    let said = process::run(&mut command, TIMEOUT).expect("it ends").success().stderr();
    let all = said.matches("wrote ").count();
    assert!(all > 3, "{said}");
    let parts: Vec<String> =
        names(dir.path()).into_iter().filter(|name| name.starts_with("part-")).collect();
    let mut expected = [all - 1, all].map(|number| format!("part-{number}"));
    expected.sort();
    assert_eq!(parts, expected, "{said}");
    let part =
        |number: usize| Recording::open(&dir.path().join(format!("part-{number}/traces.iocap")));
    let mut end = 0;
    for number in [all - 1, all] {
        let recording = part(number);
        recording.assert_whole();
        assert_eq!(recording.info["end_reason"], "rotation");
        assert_eq!(recording.info["excerpt"]["number"].as_u64(), Some(number as u64));
        let start = recording.number("start_ns");
        assert!(end == 0 || start <= end, "between the logs: {end} to {start}");
        end = start + recording.number("duration_ns");
        let writes = recording.operations().into_iter().filter(|call| call.name == "write");
        // The last part ends with the program, however short it is.
        assert!(number == all || writes.count() > 100, "part {number}");
    }
}

/// Fails if a full disk has a line for each log that it has no room for, if their number is not
/// said, or if the logs before are not whole.
#[test]
fn full_disk_has_one_line() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("rotation-full");
    let small = Mounted::of_kernel(dir.path(), "tmpfs", "size=640K");
    let mut command = Command::new(BINARY);
    command.args(["record", "--rotate", "100K", "-o"]).arg(small.path().join("part-{N}/"));
    let program = "for i in $(seq 1 70); do dd if=/dev/zero of=/dev/null bs=1 count=5003 status=none; sleep 0.1; done";
    command.args(["--", "bash", "-c", program]);
    let said = process::run(&mut command, TIMEOUT).expect("it ends").stderr();
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("error: ")).collect();
    let [error] = errors.as_slice() else { panic!("{said}") };
    assert!(error.contains("No space left on device; the recording goes on"), "{error}");
    let number = |before: &str, after: &str| -> u64 {
        let line = said.lines().find(|line| line.contains(before) && line.contains(after));
        let text = line.unwrap_or_else(|| panic!("{said}"));
        let rest = text.split_once(before).expect("there").1;
        rest.split_once(after).expect("there").0.parse().unwrap_or_else(|_| panic!("{text}"))
    };
    let times = number("No space left on device: ", " times in all");
    let failed = number("(--keep), ", " logs could not be written");
    assert!(times == failed && times > 1, "{said}");
    let written = said.matches("wrote ").count();
    assert!(written > 0, "{said}");
    for part in 1..=written {
        let recording = Recording::open(&small.path().join(format!("part-{part}/traces.iocap")));
        recording.assert_whole();
        assert_eq!(recording.info["end_reason"], "rotation");
    }
}
