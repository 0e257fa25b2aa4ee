//! Signals after a recording, while its end is worked out or its archive is written: the first one
//! cuts that short, the second one ends us. The log has all that was recorded, what is left out is
//! counted, and nothing under the archive's name is half an archive.

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::driver::process;
use crate::support::driver::recording::{
    BINARY, Recording, TIMEOUT, can_record, now_ns, record, wait_until,
};
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, beside_others};
use crate::support::scratch_dir;

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().expect("a pid"))
}

fn send(to: Pid, signals: &[Signal]) {
    for signal in signals {
        kill(to, *signal).expect("it runs");
    }
}

fn is_stopped(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|it| it.contains(") T "))
}

/// The process that unwinds stacks for this tracer, stopped at its work.
#[track_caller]
fn stopped_helper(tracer: Pid) -> Pid {
    let is_helper = |pid: &Pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(14).any(|it| it == b"unwind-stacks\0")
    };
    let until = now_ns() + u64::try_from(TIMEOUT.as_nanos()).expect("short");
    // Each lives for some hundredths of a second.
    while now_ns() < until {
        let children = fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/children"));
        let children = children.unwrap_or_default();
        let pids = children.split_whitespace().filter_map(|it| it.parse().ok()).map(Pid::from_raw);
        for helper in pids.filter(is_helper) {
            if kill(helper, Signal::SIGSTOP).is_ok() {
                // The process may have ended at this moment.
                std::thread::sleep(Duration::from_millis(1));
                if is_stopped(helper) {
                    return helper;
                }
            }
        }
    }
    panic!("no helper was met at its work");
}

/// Records some thousand stacks; when they are unwound, one unwinder is stopped, and with it the
/// end of the recording.
fn at_the_end(dir: &Path, options: &[&str], program: &[&str]) -> (Child, Pid) {
    let stacks = ["--stacks", "calls", "--call-graph", "dwarf,16384", "-e", "%data", "-m", "64M"];
    let mut command = Command::new(BINARY);
    command.args(stacks).args(options).arg("-o").arg(format!("{}/", dir.display()));
    if !program.is_empty() {
        command.arg("--").args(program);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let tracer = command.spawn().expect("it starts");
    let helper = stopped_helper(pid_of(&tracer));
    (tracer, helper)
}

const WORK: &str = "dd if=/dev/zero of=/dev/null bs=1 count=5000 2>/dev/null";

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    let mut names: Vec<String> =
        entries.map(|it| it.file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// Fails, or takes a minute more for each helper, if the first signal does not cut the end short;
/// if what was recorded is not all in the log; or if it is not reported what is unknown.
#[test]
fn signal_shortens_the_end() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let script = format!("{WORK}; exit 5");
    let launched: &[&str] = &["sh", "-c", &script];
    for (options, program, signal, status) in [
        // The program's own.
        (&[][..], launched, Signal::SIGINT, Ok(5)),
        (&[], launched, Signal::SIGTERM, Ok(5)),
        // No process has a status.
        (&["-a", "-D", "1s"], &[], Signal::SIGTERM, Err(15)),
    ] {
        let dir = scratch_dir("endings");
        let mut load = program.is_empty().then(|| {
            let forever =
                "while :; do dd if=/dev/zero of=/dev/null bs=1 count=999 2>/dev/null; done";
            let mut command = Command::new("sh");
            command.args(["-c", forever]).process_group(0).spawn().expect("it starts")
        });
        let (tracer, _) = at_the_end(dir.path(), options, program);
        if let Some(load) = &mut load {
            send(Pid::from_raw(-pid_of(load).as_raw()), &[Signal::SIGKILL]);
            load.wait().expect("it is ours");
        }
        send(pid_of(&tracer), &[signal]);
        let finished = tracer.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&finished.stderr);
        let ended = finished.status;
        assert_eq!(ended.code().ok_or(ended.signal().unwrap_or(0)), status, "{said}");
        let recording = Recording::open(&dir.path().join("traces.iocap"));
        assert!(recording.info["end_reason"].is_string(), "{said}");
        recording.assert_books_balance();
        assert!(!program.is_empty() || recording.calls("read") > 0);
        // So many stacks at once may be too much for the rings.
        let is_all = |it: &Recording| it.calls("read") >= 5000 || it.number("lost") > 0;
        assert!(program.is_empty() || is_all(&recording), "{:#}", recording.info);
        let unknown = recording.info["user_stacks"]["not_unwound"].as_u64().expect("a number");
        let text = recording.text_info();
        assert!(unknown > 0 && text.contains(&format!("{unknown} not unwound")), "{text}");
        for part in
            ["stacks of programs were not unwound: cancelled by a signal", "no archive was made"]
        {
            assert!(said.contains(part), "`{part}` is not in {said}");
        }
        assert_eq!(names(dir.path()), ["traces.iocap"]);
        // Nothing that is missing is needed for it.
        recording.assert_archive(&dir.path().join("archive"));
    }
}

/// Fails if a second signal does not end us, or leaves what cannot be read, or what is still there
/// after the next verb.
#[test]
fn second_signal_ends_the_tracer() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("endings");
    let (mut tracer, helper) = at_the_end(dir.path(), &[], &["sh", "-c", WORK]);
    let pid = pid_of(&tracer);
    // Both at once: between them it has no time to end by itself.
    send(pid, &[Signal::SIGSTOP]);
    wait_until("it stands still", || is_stopped(pid));
    send(pid, &[Signal::SIGINT, Signal::SIGTERM, Signal::SIGCONT]);
    let status = process::wait(&mut tracer, TIMEOUT).expect("it ends");
    assert!(matches!(status.signal(), Some(2 | 15)), "{status}");
    wait_until("its helper is gone", || kill(helper, None).is_err());
    let recording = Recording::open(&dir.path().join("traces.iocap"));
    assert_eq!(recording.info["complete"], false);
    recording.assert_books_balance();
    assert!(recording.calls("read") > 0);
    let mut next = Command::new(BINARY);
    process::run(next.arg("doctor"), TIMEOUT).expect("it ends");
    let instances = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    let ours = format!("iotrace-{pid}-");
    let is_ours = |it: fs::DirEntry| it.file_name().to_string_lossy().starts_with(&ours);
    assert!(!instances.into_iter().any(is_ours), "it is removed");
    assert_eq!(names(dir.path()), ["traces.iocap"]);
}

/// Fails, or prints all of it, if a signal does not end what is printed of a recording that is
/// over.
#[test]
fn signal_ends_printing() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("endings");
    let socket = dir.path().join("socket");
    let control = format!("--control={}", socket.display());
    let file = dir.path().join("file");
    fs::write(&file, vec![b'x'; 1_000_003]).expect("write it");
    let file = file.to_str().expect("text");
    for verb in [&["live", "-e", "read"][..], &["watch", &control, file]] {
        printed_and_cut_short(&scratch_dir("endings"), verb, file);
        assert!(!socket.exists());
    }
}

fn printed_and_cut_short(dir: &tempfile::TempDir, verb: &[&str], file: &str) {
    let program = dir.path().join("program");
    let script = format!(
        "echo $$ > {}; dd if={file} of=/dev/null bs=1 2>/dev/null; exit 5",
        program.display()
    );
    let mut command = Command::new(BINARY);
    command.args(verb).args(["--", "sh", "-c", &script]).stderr(Stdio::piped());
    let tracer = command.spawn().expect("it starts");
    // The output of the tracer has no reader; the program comes to its end all the same.
    let its = || fs::read_to_string(&program).unwrap_or_default();
    wait_until("the program starts", || its().ends_with('\n'));
    wait_until("the program is gone", || !Path::new("/proc").join(its().trim()).exists());
    send(pid_of(&tracer), &[Signal::SIGTERM]);
    let finished = tracer.wait_with_output().expect("it ends");
    let shown = String::from_utf8_lossy(&finished.stderr);
    assert_eq!(finished.status.code(), Some(5), "{verb:?}");
    let reported: Vec<&str> = shown.lines().filter(|it| it.contains("iotrace-perf: ")).collect();
    let is_reported = shown.contains("interrupted: the output is incomplete");
    assert!(is_reported, "{verb:?} {} {reported:?}", shown.len());
    assert!(shown.lines().count() < 1_000_003, "{verb:?}");
    assert!(shown.ends_with('\n'));
}

/// Begins to convert the log of this directory, and is stopped.
fn converting(dir: &Path) -> Child {
    let mut command = Command::new(BINARY);
    command.arg("convert").arg(dir.join("traces.iocap"));
    let converting = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let pid = pid_of(&converting);
    wait_until("it has begun", || dir.join("traces.otf2.part/traces").exists());
    send(pid, &[Signal::SIGSTOP]);
    wait_until("it stands still", || is_stopped(pid));
    converting
}

/// Fails if a process that outlives the program is lost without a report, or if one is
/// reported that ended before.
#[test]
fn surviving_processes_are_reported() {
    if !can_record(&[Need::Program("setsid")]) {
        return;
    }
    let _turn = beside_others();
    for (script, alive) in [("(setsid sleep 4 >/dev/null 2>&1 </dev/null &)", 1), ("sleep 0.1", 0)]
    {
        let dir = scratch_dir("endings");
        let (finished, recording) =
            record(dir.path(), &[], &["sh", "-c", &format!("{script}; true")]);
        let said = finished.success().stderr();
        let line = "the recording: 1 process that it started; their later operations";
        assert_eq!(said.contains(line), alive == 1, "{said}");
        assert_eq!(recording.number("processes_alive_at_end"), alive, "{script}");
    }
}

/// Fails if half an archive is left under its name by whatever ends us; or anything at all by a
/// signal that asks us to end, or by the next writer.
#[test]
fn partial_archive_is_removed() {
    if !can_record(&[Need::Program("dd")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("endings");
    let work = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=200000"];
    let (finished, recording) = record(dir.path(), &[], &work);
    finished.success();
    // The second signal does not wait for an end in order.
    let twice = converting(dir.path());
    send(pid_of(&twice), &[Signal::SIGINT, Signal::SIGTERM, Signal::SIGCONT]);
    let finished = twice.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&finished.stderr);
    assert!(matches!(finished.status.signal(), Some(2 | 15)), "{said}");
    let is_told = said.contains("removed the unfinished ") || said.contains("no archive was made");
    assert!(is_told, "{said}");
    assert_eq!(names(dir.path()), ["traces.iocap"], "{said}");
    for (signals, status, left) in [
        (&[Signal::SIGINT][..], 2, &["traces.iocap"][..]),
        (&[Signal::SIGTERM], 15, &["traces.iocap"]),
        (&[Signal::SIGHUP], 1, &["traces.iocap"]),
        (&[Signal::SIGKILL], 9, &["traces.iocap", "traces.otf2.part"]),
    ] {
        let converting = converting(dir.path());
        send(pid_of(&converting), signals);
        send(pid_of(&converting), &[Signal::SIGCONT]);
        let finished = converting.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&finished.stderr);
        assert_eq!(finished.status.signal(), Some(status), "{said}");
        assert_eq!(said.contains("no archive was made"), status != 9, "{status} {said}");
        assert_eq!(names(dir.path()), left);
    }
    // A file that another process created under that name stays.
    let other = dir.path().join("other.otf2.part");
    fs::create_dir(&other).and_then(|()| fs::write(other.join("result"), "")).expect("make it");
    let mut convert = Command::new(BINARY);
    convert.arg("convert").arg(dir.path().join("traces.iocap"));
    convert.arg("-o").arg(dir.path().join("other.otf2"));
    let refused = process::run(&mut convert, TIMEOUT).expect("it ends");
    assert_eq!(refused.status.code(), Some(125));
    assert!(refused.stderr().contains("other.otf2.part is there already"), "{}", refused.stderr());
    assert!(other.join("result").exists());
    fs::remove_dir_all(&other).expect("it is ours");
    recording.assert_archive(dir.path());
    assert_eq!(names(dir.path()), ["traces", "traces.def", "traces.iocap", "traces.otf2"]);
}
