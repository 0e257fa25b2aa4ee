//! Scopes of recordings: without children, of some threads, of process groups, without some
//! processes, and up to a number of operations.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::attach::started_worker;
use crate::support::driver::process;
use crate::support::driver::recording::{
    Recording, Source, TIMEOUT, can_record, default_calls, iotrace, size, wait_until,
};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::oracle::strace::{Log, names};
use crate::support::{scratch_dir, text};

for_each_source! {
    calls_without_those_of_children_are_those_of_strace,
    children_of_a_running_process_are_left_out,
    chosen_threads_are_shown_with_names,
    ends_of_the_chosen_threads_end_the_recording,
    processes_of_a_group_are_recorded,
    excluded_process_is_not_recorded,
    recording_ends_at_its_number_of_operations,
}

/// A process that runs in the background, in a process group of its own. Killed when dropped.
struct Background(Child);

impl Background {
    fn start(script: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).process_group(0);
        let child = shell.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Self(child.expect("it starts"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The script may have ended.
        let group = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Records running processes for half a second.
#[track_caller]
fn record_running(source: Source, output: &Path, options: &[&str]) -> Recording {
    let options = [options, &["-D", "500ms"]].concat();
    let (finished, recording) = source.record(output, &options, &[]);
    finished.success();
    recording
}

/// Fails if a call of the program itself is missing, or one of its children is recorded.
fn calls_without_those_of_children_are_those_of_strace(source: Source) {
    const SCRIPT: &str = "cat /etc/hostname > /dev/null; cat /etc/passwd > /dev/null & wait; \
        read x < /etc/hostname; (read y < /etc/passwd); sh -c 'cat /etc/group' > /dev/null";
    if !can_record(&[Need::Strace]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("no-follow");
    let truth = dir.path().join("strace");
    let mut strace = Command::new("strace");
    strace.args(["-o", text(&truth), "sh", "-c", SCRIPT]);
    process::run(&mut strace, TIMEOUT).expect("it ends").success();
    let (finished, recording) =
        source.record(&dir.path().join("trace"), &["--no-follow"], &["sh", "-c", SCRIPT]);
    let said = finished.success().stderr();
    recording.assert_whole();
    let calls = Log::read(&truth).expect("a log");
    let mut compared = 0;
    // The first exec is not a call of the program.
    for name in default_calls().into_iter().filter(|name| *name != "execve") {
        let of_name = calls.all().filter(|(_, call)| names::kernel_name(&call.name) == name);
        let truth = of_name.count() as u64;
        assert_eq!(recording.calls(name), truth, "{name}");
        compared += truth;
    }
    assert!(compared > 20, "{compared} calls");
    let pids: BTreeSet<i32> = recording.operations().iter().map(|call| call.pid).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    // Two shells and two programs; the second program of the last shell is not its child.
    let children = calls.all().filter(|(_, call)| {
        let ret = call.ret.is_some_and(|ret| ret > 0);
        ret && matches!(call.name.as_str(), "fork" | "vfork" | "clone" | "clone3")
    });
    let children = children.count() as u64;
    assert_eq!(recording.number("children_left_out"), children);
    let line = format!("{children} children were not followed (--no-follow)");
    assert!(said.contains(&line), "{said}");
}

/// Fails if a child that was there before, or comes later, is recorded.
fn children_of_a_running_process_are_left_out(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("no-follow");
    let script = "(while :; do read x < /etc/passwd; sleep 0.01; done) & \
        while :; do read x < /etc/hostname; cat /etc/group; sleep 0.01; done";
    let running = Background::start(script);
    let options = ["-p", &running.pid(), "--no-follow"];
    let recording = record_running(source, &dir.path().join("trace"), &options);
    recording.assert_whole();
    let operations = recording.operations();
    let pids: BTreeSet<i32> = operations.iter().map(|call| call.pid).collect();
    assert_eq!(pids, BTreeSet::from([running.0.id().cast_signed()]));
    let has = |path: &str| operations.iter().any(|call| call.path.as_deref() == Some(path));
    assert!(has("/etc/hostname") && !has("/etc/passwd") && !has("/etc/group"));
    assert!(recording.number("children_left_out") > 0);
}

/// Fails if another thread is shown, a chosen one is not, or a descriptor that threads share has no
/// name.
fn chosen_threads_are_shown_with_names(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("threads");
    let mut worker = started_worker(dir.path());
    let tasks = fs::read_dir(format!("/proc/{}/task", worker.id())).expect("threads");
    let mut tids: Vec<i32> = tasks
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_str().and_then(|name| name.parse().ok()).expect("a number"))
        .collect();
    tids.sort_unstable();
    let chosen = [tids[1], tids[3]];
    let words = format!("{},{}", chosen[0], chosen[1]);
    let recording = record_running(source, &dir.path().join("trace"), &["-t", &words]);
    fs::write(dir.path().join("stop"), "").expect("tell it to stop");
    process::wait(&mut worker, TIMEOUT).expect("it ends");
    recording.assert_whole();
    let operations = recording.operations();
    let shown: BTreeSet<i32> = operations.iter().map(|call| call.tid).collect();
    assert_eq!(shown, BTreeSet::from(chosen));
    let all_on_ns = recording.all_on_ns();
    let on_data = operations.iter().filter(|call| {
        let moves = call.name.contains("read") || call.name.contains("write");
        moves && call.start_ns > all_on_ns
    });
    let sources: BTreeSet<&str> = on_data.filter_map(|call| call.path_source.as_deref()).collect();
    assert_eq!(sources, BTreeSet::from(["snapshot"]));
    assert_eq!(recording.info["threads"], serde_json::json!(chosen));
    // Both the archive and the reports are about the same calls.
    let archive = recording.assert_archive(&dir.path().join("archive"));
    assert!(archive.is_none_or(|archive| !archive.operations.is_empty()));
}

/// Fails if a recording goes on after the ends of its threads, or loses a thread that executes
/// another program.
fn ends_of_the_chosen_threads_end_the_recording(source: Source) {
    const SCRIPT: &str = "\
import os, sys, threading, time
def work():
    open(sys.argv[1], 'w').write(str(threading.get_native_id()))
    while not os.path.exists(sys.argv[2]):
        open('/etc/hostname').close()
        time.sleep(0.01)
    if sys.argv[3] == 'exec':
        os.execv('/bin/sh', ['sh', '-c', 'read x < /etc/group'])
thread = threading.Thread(target=work)
thread.start()
thread.join()
time.sleep(600)
";
    if !can_record(&[Need::Program("python3")]) {
        return;
    }
    let _turn = beside_others();
    for (end, shown) in [("return", "/etc/hostname"), ("exec", "/etc/group")] {
        let dir = scratch_dir("thread-ends");
        let [number, stop] = ["number", "stop"].map(|name| dir.path().join(name));
        let mut python = Command::new("python3");
        python.args(["-c", SCRIPT, text(&number), text(&stop), end]).process_group(0);
        let running = Background(python.stdin(Stdio::null()).spawn().expect("it starts"));
        let tid = || fs::read_to_string(&number).unwrap_or_default();
        wait_until("the thread runs", || !tid().is_empty());
        let trace = dir.path().join("trace");
        let mut recorder = source.recorder(&trace, &["-t", &tid()], &[]);
        let mut recorder = recorder.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(recorder.stderr.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        assert!(line.contains("recording thread "), "{line}");
        fs::write(&stop, "").expect("tell it to end");
        let status = process::wait(&mut recorder, TIMEOUT).expect("it ends by itself");
        assert!(status.success(), "{end}: {status}");
        let recording = Recording::open(&trace.join("traces.iocap"));
        assert_eq!(recording.info["end_reason"], "exit");
        let operations = recording.operations();
        let has = |path: &str| operations.iter().any(|call| call.path.as_deref() == Some(path));
        assert!(has("/etc/hostname") && has(shown), "{end}: {}", operations.len());
        drop(running);
    }
}

/// Fails if a process of the group is not recorded, or another one is.
fn processes_of_a_group_are_recorded(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("group");
    let repeat = |file: &str| format!("while :; do read x < {file}; sleep 0.01; done");
    let both = format!("({}) & {}", repeat("/etc/passwd"), repeat("/etc/hostname"));
    let [wanted, other] = [both, repeat("/etc/group")].map(|script| Background::start(&script));
    let options = ["--pgid", &wanted.pid()];
    let recording = record_running(source, &dir.path().join("trace"), &options);
    let operations = recording.operations();
    let has = |path: &str| operations.iter().any(|call| call.path.as_deref() == Some(path));
    assert!(has("/etc/hostname") && has("/etc/passwd") && !has("/etc/group"));
    let stranger = other.0.id().cast_signed();
    assert!(!operations.iter().any(|call| call.pid == stranger));
}

/// Fails if an excluded process, or a child of it, is shown, or if another process is not.
fn excluded_process_is_not_recorded(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("exclude");
    let files = ["wanted", "parent", "child"].map(|name| dir.path().join(name));
    for file in &files {
        fs::write(file, "line\n").expect("space");
    }
    let [wanted, parent, child] = files.each_ref().map(|file| text(file));
    let other = Background::start(&format!("while :; do read x < {wanted}; sleep 0.01; done"));
    let excluded = Background::start(&format!(
        "while :; do read x < {parent}; cat {child}; sh -c 'cat {child}; :'; done"
    ));
    let options = ["-a", "--exclude-pid", &excluded.pid()];
    let recording = record_running(source, &dir.path().join("trace"), &options);
    recording.assert_books_balance();
    let operations = recording.operations();
    // The tracer of another test looks at the files of all processes.
    let is_tracer =
        |comm: &Option<String>| comm.as_ref().is_some_and(|comm| comm.starts_with("iotrace"));
    let others = || operations.iter().filter(|call| !is_tracer(&call.comm));
    let first = |path: &str| others().find(|call| call.path.as_deref() == Some(path));
    assert!(first(wanted).is_some());
    assert!(first(parent).is_none(), "{:?}", first(parent));
    assert!(first(child).is_none(), "{:?}", first(child));
    assert!(operations.iter().any(|call| call.pid == other.0.id().cast_signed()));
    // Kernels before 5.7 have no such list.
    let has_list = Path::new("/sys/kernel/tracing/set_event_notrace_pid").exists();
    let in_kernel = source == Source::Tracefs && has_list;
    assert_eq!(recording.info["excluded_in_kernel"], in_kernel);
    let named = &recording.info["excluded"];
    assert!(named.as_array().is_some_and(|all| all.contains(&excluded.0.id().into())), "{named}");
}

/// Fails if a recording does not end by itself at its number of operations.
fn recording_ends_at_its_number_of_operations(source: Source) {
    const WANTED: u64 = 3001;
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("operations");
    let mut running = Background::start("while :; do echo x > /dev/null; done");
    let trace = dir.path().join("trace");
    let wanted = WANTED.to_string();
    // `--max-events` is another name.
    let options = ["-p", &running.pid(), "--max-events", &wanted];
    let (finished, recording) = source.record(&trace, &options, &[]);
    let said = finished.success().stderr();
    recording.assert_whole();
    assert_eq!(recording.info["end_reason"], "operations");
    assert!(recording.number("operations") >= WANTED, "{:#}", recording.info);
    assert!(said.contains("until the log had the operations of --max-operations"), "{said}");
    assert!(running.0.try_wait().expect("a state").is_none(), "the process runs on");
    assert!(size(&trace.join("traces.iocap")) > 0);
}

/// Fails if a target that does not exist is not named.
#[test]
fn missing_targets_are_named() {
    let none = "999999999";
    let group = "no process is in the process group 999999999; list groups: ps -eo pgid,pid,comm";
    let thread = "there is no thread 999999999; list threads: ps -eLo pid,tid,comm";
    let process = "there is no process 999999999; list processes: ps -e";
    for (options, message) in [
        (&["record", "--pgid", none][..], group),
        (&["record", "-t", none], thread),
        (&["summary", "-D", "1s", "-t", none], thread),
        (&["record", "-a", "--exclude-pid", none], process),
    ] {
        let finished = iotrace(options);
        assert_eq!(finished.status.code(), Some(125), "{options:?}");
        let said = finished.stderr();
        assert!(said.contains(message), "{said}");
        assert!(!said.contains("recording"), "{said}");
    }
}

/// Fails if a recording that waits for Ctrl-C does not say so when it has begun.
#[test]
fn recording_says_that_it_has_begun() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("begun");
    let log = dir.path().join("log.iocap");
    let running = Background::start("sleep 100");
    let mut command = Command::new(crate::support::driver::recording::BINARY);
    command.args(["record", "-o", text(&log), "-p", &running.pid()]);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut tracer = command.spawn().expect("it starts");
    let mut line = String::new();
    let said = tracer.stderr.take().expect("a pipe");
    let mut said = BufReader::new(said);
    while !line.contains("stop with Ctrl-C") {
        line.clear();
        assert!(said.read_line(&mut line).expect("a pipe") > 0, "it did not say that it records");
    }
    wait_until("the header is in the log", || size(&log) > 0);
    let pid = nix::unistd::Pid::from_raw(tracer.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
    process::wait(&mut tracer, TIMEOUT).expect("it ends");
}
