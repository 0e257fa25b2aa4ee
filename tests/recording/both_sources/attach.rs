//! Processes that run already: their threads, files and positions are taken over, and they are not
//! disturbed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::driver::process;
use crate::support::driver::recording::{
    Recording, Source, TIMEOUT, can_record, compile, size, wait_until,
};
use crate::support::machine::turns::{alone, beside_others};
use crate::support::oracle::offset_oracle::{self, OffsetDemand};
use crate::support::scratch_dir;

for_each_source! {
    four_threads_in_the_middle_of_their_work,
    whole_tree_is_recorded,
    process_goes_on_when_the_tracer_ends,
    recording_ends_after_its_duration,
    recording_ends_at_the_size_of_its_log,
    program_runs_on_after_its_recording,
    missing_process_is_refused,
    several_processes_until_the_last_ends,
}

/// Bytes of a log that has more in it than the header and a snapshot: the recording is on.
const SOME_RECORDS_BYTES: u64 = 32 << 10;

/// Attaches to these processes.
fn attach(source: Source, output: &Path, pids: &str, options: &[&str]) -> Child {
    let mut command = source.recorder(output, options, &[]);
    command.args(["-p", pids]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().expect("a pid"))
}

/// A shell script that runs in the background. Killed when dropped.
struct Script(Child);

impl Script {
    fn start(script: &str) -> Self {
        let mut shell = Command::new("sh");
        let child = shell.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Self(child.expect("it starts"))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // The script may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program with four threads that read and write files in a directory until the file
/// `stop` is there. Returns when they work.
pub(super) fn started_worker(directory: &Path) -> Child {
    offset_oracle::make_words(directory);
    let program = compile("offsets.c", directory);
    let mut worker = Command::new(program)
        .arg("attach")
        .arg(directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let output = worker.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("it prints a line");
    assert_eq!(line, "ready\n");
    worker
}

/// Fails if a thread is not recorded, a file that was open before has no name, a call is missing or
/// made up, or an offset is reported that is not right; if offsets stay unknown after a seek.
fn four_threads_in_the_middle_of_their_work(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    // The moment of the attach decides what can go wrong.
    for _ in 0..4 {
        let dir = scratch_dir("attach");
        let mut worker = started_worker(dir.path());
        let trace = dir.path().join("trace");
        let log = trace.join("traces.iocap");
        let mut tracer = attach(source, &trace, &worker.id().to_string(), &[]);
        wait_until("records are in the log", || size(&log) > SOME_RECORDS_BYTES);
        fs::write(dir.path().join("stop"), "").expect("tell it to stop");
        process::wait(&mut worker, TIMEOUT)
            .and_then(|_| process::wait(&mut tracer, TIMEOUT))
            .expect("both end");
        let recording = Recording::open(&log);
        recording.assert_whole();
        let mut operations = recording.operations();
        let all_on_ns = recording.all_on_ns();
        operations.retain(|it| it.start_ns > all_on_ns);
        let compared = offset_oracle::compare(dir.path(), &operations, OffsetDemand::AfterSeeks);
        assert_eq!(compared.threads, 4, "{compared:?}");
        assert!(compared.compared > 500 && compared.known > 0, "{compared:?}");
        let on_data = operations.iter().filter(|it| {
            it.path.as_deref().is_some_and(|it| it.contains("/data.")) && it.name != "openat"
        });
        // Files that the program opens at its end, to look at its writes, are not from before.
        let sources: BTreeSet<&str> = on_data
            .filter(|it| it.name.contains("read") || it.name.contains("write"))
            .filter_map(|it| it.path_source.as_deref())
            .collect();
        assert_eq!(sources.into_iter().collect::<Vec<_>>(), ["snapshot"]);
    }
}

/// Fails if children that were there before, or come later, are missing, or if others are recorded.
fn whole_tree_is_recorded(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("attach");
    let stranger = Script::start("while :; do echo x > /dev/null; sleep 0.02; done");
    let (go, log) = (dir.path().join("go"), dir.path().join("trace/traces.iocap"));
    // An old child and a later one (each `sleep` and subshell is a process of its own).
    let out = dir.path().join("out");
    let script = format!(
        "(while ! [ -e {go} ]; do sleep 0.02; done; echo old >> {out}) & \
         while ! [ -e {go} ]; do sleep 0.02; done; (echo new >> {out}); wait; exit 0",
        go = go.display(),
        out = out.display()
    );
    let mut tree = Script::start(&script);
    let mut tracer = attach(source, &dir.path().join("trace"), &tree.0.id().to_string(), &[]);
    // Each turn of the loops is a process: soon there is more than the header.
    let start = || size(&log);
    wait_until("the log begins", || start() > 0);
    let first = start();
    wait_until("records are in the log", || start() > first + 4096);
    fs::write(&go, "").expect("tell them to go on");
    process::wait(&mut tree.0, TIMEOUT).expect("it ends");
    let status = process::wait(&mut tracer, TIMEOUT).expect("it ends");
    assert_eq!(status.code(), Some(0));
    let recording = Recording::open(&log);
    recording.assert_whole();
    let operations = recording.operations();
    // A process that is gone before its name could be read has none, and that is counted.
    let writes = operations.iter().filter(|it| {
        it.name == "write" && (it.path.is_none() || it.path.as_deref() == out.to_str())
    });
    let pids: BTreeSet<i32> = writes.filter(|it| it.result == Some(4)).map(|it| it.pid).collect();
    let all: Vec<_> = operations.iter().filter(|it| it.name == "write").collect();
    assert_eq!(pids.len(), 2, "the old child and the new one: {pids:?} of {all:?}");
    let stranger = i32::try_from(stranger.0.id()).expect("a pid");
    assert!(!operations.iter().any(|it| it.pid == stranger), "a process that is not of the tree");
}

/// Fails if the end of the recording is the end of the process, or if a signal reaches it.
fn process_goes_on_when_the_tracer_ends(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let dir = scratch_dir("attach");
        let out = dir.path().join("out");
        let script = format!("while :; do echo x >> {}; sleep 0.01; done", out.display());
        let mut process = Script::start(&script);
        let log = dir.path().join("trace/traces.iocap");
        let mut tracer =
            attach(source, &dir.path().join("trace"), &process.0.id().to_string(), &[]);
        wait_until("the log begins", || size(&log) > 0);
        let first = size(&log);
        wait_until("the snapshot is in the log", || size(&log) > first + 4096);
        let then = size(&out);
        wait_until("the process writes", || size(&out) > then + 10);
        kill(pid_of(&tracer), signal).expect("it runs");
        let status = process::wait(&mut tracer, TIMEOUT).expect("it ends");
        assert_eq!(status.code(), Some(0), "a recording that was stopped is no failure");
        let before = size(&out);
        wait_until("the process goes on", || size(&out) > before);
        assert!(process.0.try_wait().expect("it is ours").is_none());
        let recording = Recording::open(&log);
        recording.assert_whole();
        assert_eq!(recording.info["end_reason"], "interrupt");
        assert!(recording.calls("write") > 0);
    }
}

/// Fails if a recording does not end by itself when its time is over.
fn recording_ends_after_its_duration(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("attach");
    let process = Script::start("while :; do echo x > /dev/null; sleep 0.01; done");
    let trace = dir.path().join("trace");
    let mut tracer = attach(source, &trace, &process.0.id().to_string(), &["-D", "300ms"]);
    let status = process::wait(&mut tracer, TIMEOUT).expect("it ends");
    assert_eq!(status.code(), Some(0));
    let recording = Recording::open(&trace.join("traces.iocap"));
    recording.assert_whole();
    assert_eq!(recording.info["end_reason"], "duration");
    assert!(recording.number("duration_ns") >= 300_000_000);
}

/// Fails if a recording does not end by itself when its log has the wanted size.
fn recording_ends_at_the_size_of_its_log(source: Source) {
    const WANTED_BYTES: u64 = 100 << 10;
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("attach");
    // The pauses leave the tracer the time to read each record: none is lost on a busy machine.
    let mut process = Script::start("while :; do echo x > /dev/null; sleep 0.001; done");
    let trace = dir.path().join("trace");
    let mut tracer = attach(source, &trace, &process.0.id().to_string(), &["--max-log", "100K"]);
    let status = process::wait(&mut tracer, TIMEOUT).expect("it ends");
    assert_eq!(status.code(), Some(0));
    let log = trace.join("traces.iocap");
    assert!(std::fs::metadata(&log).expect("a log").len() >= WANTED_BYTES);
    let recording = Recording::open(&log);
    recording.assert_whole();
    assert_eq!(recording.info["end_reason"], "log size");
    assert!(process.0.try_wait().expect("a state").is_none(), "the process runs on");
}

/// Fails if the last lines claim that a program that runs on has ended with its recording.
fn program_runs_on_after_its_recording(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("attach");
    for (duration, line) in [("300ms", "recorded sleep for"), ("1h", "sleep ran")] {
        let trace = dir.path().join(duration);
        let mut command = source.recorder(&trace, &["-D", duration], &["sleep", "1"]);
        let finished = command.stdin(Stdio::null()).output().expect("it starts");
        let printed = String::from_utf8_lossy(&finished.stderr);
        assert!(finished.status.success() && printed.contains(line), "{printed}");
    }
}

/// Fails if a missing process is not reported, or leaves files.
fn missing_process_is_refused(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("attach");
    let mut gone = Script::start("exit 0");
    process::wait(&mut gone.0, TIMEOUT).expect("it ends");
    for pid in [gone.0.id().to_string(), "999999999".to_owned()] {
        let output = dir.path().join("trace");
        let mut command = source.recorder(&output, &[], &[]);
        let finished = process::run(command.args(["-p", &pid]), TIMEOUT).expect("it ends");
        assert_eq!(finished.status.code(), Some(125));
        let said = finished.stderr();
        assert!(
            said.contains(&format!("there is no process {pid}")) && said.contains("ps -e"),
            "{said}"
        );
        assert!(!output.exists(), "leaves nothing");
    }
}

/// Fails if the recording of several ends with the first of them.
fn several_processes_until_the_last_ends(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("attach");
    let (go, out) = (dir.path().join("go"), dir.path().join("out"));
    let first = Script::start(&format!("while ! [ -e {} ]; do sleep 0.02; done", go.display()));
    let script = format!(
        "while kill -0 {} 2>/dev/null; do sleep 0.02; done; sleep 0.3; echo last > {}",
        first.0.id(),
        out.display()
    );
    let mut second = Script::start(&script);
    let log = dir.path().join("trace/traces.iocap");
    let pids = format!("{},{}", first.0.id(), second.0.id());
    let mut tracer = attach(source, &dir.path().join("trace"), &pids, &[]);
    wait_until("the log begins", || size(&log) > 0);
    let begun = size(&log);
    wait_until("records are in the log", || size(&log) > begun + 4096);
    fs::write(&go, "").expect("tell the first to end");
    drop(first);
    process::wait(&mut second.0, TIMEOUT)
        .and_then(|_| process::wait(&mut tracer, TIMEOUT))
        .expect("both end");
    let recording = Recording::open(&log);
    recording.assert_whole();
    let operations = recording.operations();
    let last =
        operations.iter().find(|it| it.name == "write" && it.path.as_deref() == out.to_str());
    assert_eq!(last.and_then(|it| it.result), Some(5), "the second's last word is recorded");
}
