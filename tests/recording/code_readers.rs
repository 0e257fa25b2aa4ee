//! Programs that read the instructions of others, as valgrind does: a probe in a library would be
//! an instruction to them, and kill what they run.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::driver::process::iotrace_perf;
use crate::support::driver::recording::{BINARY, can_record, record, wait_until};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::alone;
use crate::support::{scratch_dir, text};

/// Fails if probes are in libraries while such a program runs, or if the command names one.
#[test]
fn probes_are_left_out_beside_valgrind() {
    if !can_record(&[]) {
        return;
    }
    let _turn = alone();
    let dir = scratch_dir("code-readers");
    let tool = dir.path().join("box64");
    fs::copy("/bin/sleep", &tool).expect("a copy");
    let reason = |name: &str, command: &[&str]| {
        let (_, recording) = record(&dir.path().join(name), &[], command);
        recording.assert_whole();
        let names = recording.info["names"].as_str().expect("a source").to_owned();
        assert!(!names.contains("uprobe"), "{names}");
        recording.info["names_reason"].as_str().expect("a reason").to_owned()
    };
    let named = reason("named", &[text(&tool), "0.1"]);
    assert!(named.contains("box64 reads the instructions"), "{named}");
    let mut running = Command::new(&tool).arg("60").spawn().expect("it starts");
    let beside = reason("beside", &["true"]);
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    assert!(beside.contains("box64 (process "), "{beside}");
}

/// Bytes of the C library's code in the memory of a process that differ from its file: breakpoints.
/// Waits until the library is there: the process may have begun its program just now.
fn breakpoints(pid: u32) -> usize {
    let mut code = None;
    wait_until("the C library is loaded", || {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("its mappings");
        let is_code = |line: &&str| line.contains(" r-xp ") && line.contains("/libc.so");
        code = maps.lines().find(is_code).map(str::to_owned);
        code.is_some()
    });
    let code = code.expect("a C library");
    let words: Vec<&str> = code.split_whitespace().collect();
    let [range, _, offset, _, _, path] = words.as_slice() else { panic!("{words:?}") };
    let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    let (begin, end) = range.split_once('-').expect("a range");
    let mut running = vec![0; usize::try_from(number(end) - number(begin)).expect("a length")];
    let mut stored = running.clone();
    let memory = File::open(format!("/proc/{pid}/mem")).expect("its memory");
    memory.read_exact_at(&mut running, number(begin)).expect("its code");
    let library = File::open(path).expect("the C library");
    library.read_exact_at(&mut stored, number(offset)).expect("its code");
    running.iter().zip(&stored).filter(|(running, stored)| running != stored).count()
}

/// Fails if probes stay in libraries when such a program starts during a recording.
#[test]
fn probes_are_taken_out_when_valgrind_starts() {
    if !can_record(&[Need::Uprobes]) {
        return;
    }
    let _turn = alone();
    let dir = scratch_dir("code-readers-later");
    let [tool, plain] = ["box64", "plain"].map(|name| dir.path().join(name));
    fs::copy("/bin/sleep", &tool).expect("a copy");
    fs::copy("/bin/sleep", &plain).expect("a copy");
    let log = dir.path().join("later");
    let script = format!("{} 1; {} 1; cat /no/such/file; true", text(&plain), text(&tool));
    let tracing = Command::new(BINARY)
        .args(["record", "--names", "uprobe+fanotify", "-o"])
        .arg(&log)
        .args(["--", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    assert!(breakpoints(running(text(&plain))) > 0, "there are no probes");
    // The kernel takes some time to remove the probes of all events.
    let emulator = running(text(&tool));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(breakpoints(emulator), 0, "they are still there");
    let finished = tracing.wait_with_output().expect("it ends");
    assert!(finished.status.success());
    let info = iotrace_perf(BINARY, &["info", "--json", text(&log)]).output().expect("it runs");
    let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
    let warnings = info["warnings"].as_array().expect("warnings");
    let is_named = |it: &Value| it.as_str().is_some_and(|it| it.contains("box64 (process "));
    assert!(warnings.iter().any(is_named), "{warnings:?}");
}

/// Waits for a process that runs this program, and returns its number.
fn running(program: &str) -> u32 {
    let program = fs::canonicalize(program).expect("a program");
    let mut found = None;
    wait_until("a program runs", || {
        let all = fs::read_dir("/proc").expect("procfs").flatten();
        let mut all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        found = all
            .find(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program));
        found.is_some()
    });
    found.expect("a process")
}
