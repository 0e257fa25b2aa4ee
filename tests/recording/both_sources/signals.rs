//! A launched program cannot tell that it is traced, and neither can its caller: same status,
//! output, signals, environment, limits.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::driver::process::{self, Finished};
use crate::support::driver::recording::{
    Recording, Source, TIMEOUT, can_record, compile, size, wait_until,
};
use crate::support::machine::requirements::{Need, require, require_all};
use crate::support::machine::turns::{alone, beside_others, tracer_instances};
use crate::support::{public_scratch_dir, scratch_dir};

for_each_source! {
    exit_code_is_the_programs_and_its_child_lives_on,
    output_and_status_are_the_programs_own,
    closed_reader_ends_the_program_with_sigpipe,
    unrunnable_programs_are_refused,
    signals_to_the_tracer_are_forwarded,
    interrupt_sent_to_the_tracer_is_forwarded,
    gdb_works,
    setuid_programs_work,
    daemons_live_on,
    recording_leaves_no_remains,
    end_is_seen_when_the_caller_ignores_sigchld,
}

/// Everything that the program did not write.
fn ours(finished: &Finished) -> Vec<String> {
    let lines = finished.stderr();
    lines.lines().filter(|it| it.starts_with("iotrace-perf: ")).map(str::to_owned).collect()
}

/// Everything that it did write to standard error.
fn theirs(finished: &Finished) -> String {
    let text = finished.stderr();
    text.split_inclusive('\n').filter(|it| !it.starts_with("iotrace-perf: ")).collect()
}

/// Runs a program as it is and traced; it must end and write the same. What the traced one did is
/// given.
#[track_caller]
fn same_with_and_without(source: Source, dir: &Path, program: &[&str]) -> (Finished, Recording) {
    let [name, arguments @ ..] = program else { panic!("a program") };
    let mut plain = Command::new(name);
    let untraced = process::run(plain.args(arguments).current_dir(dir), TIMEOUT).expect("it ends");
    let (traced, recording) = source.record(&dir.join("trace"), &[], program);
    assert_eq!(traced.status, untraced.status, "{}", traced.stderr());
    assert_eq!(traced.stdout(), untraced.stdout());
    assert_eq!(theirs(&traced), untraced.stderr());
    assert!(!ours(&traced).is_empty(), "says what it wrote");
    recording.assert_whole();
    (traced, recording)
}

fn is_running(pid: i32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().expect("a pid"))
}

/// Fails if the exit code is not the program's, or if what it left running is stopped or waited
/// for.
fn exit_code_is_the_programs_and_its_child_lives_on(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("signals");
    let child = dir.path().join("child");
    // Without our pipes: the child would keep them open.
    let script = format!("sleep 1000 <&- >&- 2>&- & echo $! > {}; exit 3", child.display());
    let (finished, recording) =
        source.record(&dir.path().join("trace"), &[], &["sh", "-c", script.as_str()]);
    let pid: i32 = fs::read_to_string(&child).expect("written").trim().parse().expect("a pid");
    let lives = is_running(pid);
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is ours to end");
    assert!(lives, "the child was stopped");
    assert_eq!(finished.status.code(), Some(3));
    recording.assert_whole();
    assert_eq!(recording.number("exit_code"), 3);
}

/// Fails if the program's bytes are changed, mixed with ours on standard output, or its status is
/// not passed on.
fn output_and_status_are_the_programs_own(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    for script in [
        r"printf 'out\0\377'; printf 'err\n' >&2; exit 255",
        "kill -TERM $$",
        "kill -KILL $$",
        "kill -SEGV $$",
        // A real-time signal, which few libraries can name.
        "kill -40 $$",
        "exit 0",
        "cat /dev/null | sh -c 'exit 5'",
        "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo done >&2",
    ] {
        let dir = scratch_dir("signals");
        same_with_and_without(source, dir.path(), &["sh", "-c", script]);
    }
}

/// Fails if the program runs in another environment than it would without us: signals (a mask,
/// ignored ones, SIGPIPE), limits (we raise our own), scheduling (we have real-time threads),
/// variables, open files.
#[test]
fn environment_of_the_program_is_unchanged() {
    if !can_record(&[]) {
        return;
    }
    // A descriptor that another test has just opened would be inherited.
    let _alone = alone();
    let script = "grep -E '^(Sig|Shd|Cap|NoNew|Seccomp|Cpus_allowed|Groups|Uid|Gid|Umask|FDSize)' /proc/self/status \
                  | grep -v SigQ; \
                  ulimit -a; ulimit -Ha; env | grep -v '^_='; pwd; nice; \
                  cut -d' ' -f18,19,40,41 /proc/self/stat; cat /proc/self/oom_score_adj /proc/self/timerslack_ns; \
                  ls /proc/self/fd; cat /proc/self/cgroup";
    for wrap in [
        "%",
        "trap '' PIPE INT; %",
        "ulimit -n 100; ulimit -Sl 64; nice -n 5 %",
        "nohup %",
        "chrt -b 0 %",
        "env -i A=1 PATH=/usr/bin:/bin:/usr/sbin %",
        "exec 7</dev/null; %",
    ] {
        let dir = scratch_dir("signals");
        let inner = dir.path().join("script");
        fs::write(&inner, script).expect("write the script");
        let show = format!("sh {}", inner.display());
        let binary = crate::support::driver::recording::BINARY;
        let traced = format!("{binary} --no-archive -o {}/trace/ -- {show}", dir.path().display());
        let run = |program: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &wrap.replace('%', program)]).current_dir(dir.path());
            process::run(&mut shell, TIMEOUT).expect("it ends").success()
        };
        assert_eq!(run(&traced).stdout(), run(&show).stdout(), "{wrap}");
    }
}

/// Fails if `yes` does not die by SIGPIPE when its reader goes away, or if we hang or fail then.
fn closed_reader_ends_the_program_with_sigpipe(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("signals");
    let mut tracer = source
        .recorder(&dir.path().join("trace"), &[], &["yes"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = [0; 2];
    let mut pipe = tracer.stdout.take().expect("a pipe");
    pipe.read_exact(&mut line).expect("yes writes");
    drop(pipe);
    let status = process::wait(&mut tracer, TIMEOUT).expect("it ends");
    assert_eq!((&line, status.signal()), (b"y\n", Some(13)));
    let recording = Recording::open(&dir.path().join("trace/traces.iocap"));
    recording.assert_whole();
    assert_eq!(recording.number("exit_signal"), 13);
}

/// Fails if a program that cannot be run is reported otherwise than shells do, or files
/// remain.
fn unrunnable_programs_are_refused(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("signals");
    let plain = dir.path().join("plain");
    fs::write(&plain, "no program").expect("write it");
    let plain = plain.to_str().expect("text");
    let executable = format!("cannot run {plain}: it is not executable; try: chmod +x {plain}");
    for (program, code, message) in [
        ("/no/such/program", 127, "there is no program /no/such/program"),
        (plain, 126, &executable),
    ] {
        let output = dir.path().join("trace");
        let finished =
            process::run(&mut source.recorder(&output, &[], &[program]), TIMEOUT).expect("ends");
        assert_eq!(finished.status.code(), Some(code), "{}", finished.stderr());
        assert!(finished.stderr().contains(message), "{}", finished.stderr());
        assert!(finished.stdout.is_empty() && !output.exists());
    }
}

/// Starts a traced shell script that prints "ready"; waits for that.
fn started(source: Source, dir: &Path, script: &str) -> Child {
    let ready = dir.join("ready");
    let script = script.replace("READY", &format!("touch {}", ready.display()));
    let mut command = source.recorder(&dir.join("trace"), &[], &["sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let child = command.spawn().expect("it starts");
    wait_until("the script is ready", || ready.exists());
    child
}

/// Fails if SIGTERM or SIGHUP to the tracer does not reach the program, or if the program's answer
/// is not its status.
fn signals_to_the_tracer_are_forwarded(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    for (signal, script, expected) in [
        (Signal::SIGTERM, "trap 'exit 9' TERM; READY; while :; do sleep 0.1; done", Ok(9)),
        (Signal::SIGTERM, "READY; exec sleep 1000", Err(15)),
        (Signal::SIGHUP, "READY; exec sleep 1000", Err(1)),
        (Signal::SIGTERM, "trap '' TERM; READY; sleep 0.5; exit 4", Ok(4)),
    ] {
        let dir = scratch_dir("signals");
        let mut tracer = started(source, dir.path(), script);
        kill(pid_of(&tracer), signal).expect("it runs");
        let status = process::wait(&mut tracer, TIMEOUT).expect("it ends");
        assert_eq!(status.code().ok_or(status.signal().unwrap_or(0)), expected, "{script}");
        Recording::open(&dir.path().join("trace/traces.iocap")).assert_whole();
    }
}

/// Fails if a SIGINT that a process sends to the tracer alone does not reach the program, or if
/// what the program does after it is not recorded. (One of a terminal reaches it by itself: see
/// `ctrl_c_at_a_terminal`.)
fn interrupt_sent_to_the_tracer_is_forwarded(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("signals");
    let script = "trap 'echo still; exit 6' INT; READY; while :; do sleep 0.1; done";
    let mut tracer = started(source, dir.path(), script);
    kill(pid_of(&tracer), Signal::SIGINT).expect("it runs");
    let status = process::wait(&mut tracer, TIMEOUT).expect("it ends");
    assert_eq!(status.code(), Some(6));
    let recording = Recording::open(&dir.path().join("trace/traces.iocap"));
    recording.assert_whole();
    let last = recording.operations().into_iter().rev().find(|it| it.name == "write");
    assert_eq!(last.and_then(|it| it.result), Some(6), "what came after the signal is recorded");
}

/// Runs a program at a terminal of its own, types Ctrl-C when `ready` is there, and waits for its
/// end.
fn typed_ctrl_c(program: &[&str], ready: &Path) -> (ExitStatus, String) {
    let terminal = openpty(None, None).expect("a terminal");
    let side = || Stdio::from(terminal.slave.try_clone().expect("a descriptor"));
    // A shell would make this terminal the controlling one; `setsid --ctty` does, too.
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).args(program).stdin(side()).stdout(side()).stderr(side());
    let mut child = command.spawn().expect("it starts");
    let reader = read_terminal(&terminal.master);
    drop(command);
    drop(terminal.slave);
    wait_until("the program is ready", || ready.exists());
    let mut keyboard = fs::File::from(terminal.master);
    keyboard.write_all(b"\x03").expect("type");
    let status = process::wait(&mut child, TIMEOUT).expect("it ends");
    drop(keyboard);
    (status, reader.join().expect("it reads to the end"))
}

fn read_terminal(master: &OwnedFd) -> std::thread::JoinHandle<String> {
    let mut screen = fs::File::from(master.try_clone().expect("a descriptor"));
    std::thread::spawn(move || {
        let mut text = Vec::new();
        // Ends with an error when the last program has closed the terminal.
        let _ = screen.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Fails if Ctrl-C at a terminal ends in another status than without us, or is not the end of the
/// recording.
#[test]
fn ctrl_c_at_a_terminal() {
    if !can_record(&[Need::Program("setsid")]) {
        return;
    }
    let _turn = beside_others();
    // A loop, not one long sleep: a shell that has just forked may lose the signal in its child.
    for (script, code) in [
        ("touch READY; exec sleep 1000", 130),
        ("trap 'exit 7' INT; touch READY; while :; do sleep 0.05; done", 7),
    ] {
        let mut statuses = Vec::new();
        for traced in [false, true] {
            let dir = scratch_dir("signals");
            let ready = dir.path().join("ready");
            let script = script.replace("READY", ready.to_str().expect("text"));
            let output = format!("{}/trace/", dir.path().display());
            let plain = ["sh", "-c", &script];
            let tracer =
                [crate::support::driver::recording::BINARY, "--no-archive", "-o", &output, "--"];
            let program: Vec<&str> = tracer.into_iter().filter(|_| traced).chain(plain).collect();
            let (status, screen) = typed_ctrl_c(&program, &ready);
            statuses.push(status.code().unwrap_or(128 + status.signal().unwrap_or(0)));
            if traced {
                assert!(screen.contains("iotrace-perf: wrote "), "{screen}");
                Recording::open(&dir.path().join("trace/traces.iocap")).assert_whole();
            }
        }
        assert_eq!(statuses, [code, code], "{script}");
    }
}

/// Fails if the tracer hinders a debugger: it must be able to trace the program itself.
fn gdb_works(source: Source) {
    if !can_record(&[Need::Program("gdb")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("signals");
    let program = compile("clock_appender.c", dir.path());
    let out = dir.path().join("out");
    let run = format!("run {} 0", out.display());
    let arguments =
        ["gdb", "-batch", "-ex", "break write", "-ex", &run, "-ex", "info inferiors", &program];
    let (finished, recording) = source.record(&dir.path().join("trace"), &[], &arguments);
    assert!(finished.stdout().contains("exited with code 07"), "{}", finished.stdout());
    recording.assert_whole();
    let opened = recording.operations().into_iter().any(|it| {
        it.name == "openat"
            && it.path.as_deref() == out.to_str()
            && it.comm.as_deref() == Some("clock_appender")
    });
    assert!(opened, "the debugged program is recorded");
}

/// Fails if a set-user-id program loses its rights under us: no ptrace, no `no_new_privs`.
fn setuid_programs_work(source: Source) {
    if !can_record(&[Need::Program("setpriv"), Need::Program("su")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("signals");
    // A copy of `id` that anybody runs as its owner; from a place that others may enter.
    let place = public_scratch_dir("suid");
    let id = place.path().join("id");
    let script = format!(
        "cp /usr/bin/id {0}; chown 65534 {0}; chmod 4755 {0}; \
         setpriv --reuid 12345 --regid 12345 --clear-groups {0} -u; su -s /bin/sh -c 'id -u' {1}",
        id.display(),
        "nobody"
    );
    let (finished, recording) = same_with_and_without(source, dir.path(), &["sh", "-c", &script]);
    assert_eq!(
        finished.stdout().lines().next(),
        Some("65534"),
        "its file system allows set-user-id"
    );
    let recorded =
        recording.operations().iter().filter(|it| it.comm.as_deref() == Some("id")).count();
    assert!(recorded > 0, "programs of other users are recorded");
}

/// Fails if we wait for a daemon that the program left, or stop it.
fn daemons_live_on(source: Source) {
    if !can_record(&[Need::Program("setsid")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("signals");
    let log = dir.path().join("log");
    let script = format!(
        "setsid sh -c 'echo $$ > {0}; while :; do echo x >> {0}; sleep 0.05; done' <&- >&- 2>&- & \
         while ! [ -s {0} ]; do sleep 0.02; done",
        log.display()
    );
    let (finished, recording) =
        source.record(&dir.path().join("trace"), &[], &["sh", "-c", &script]);
    finished.success();
    let pid = fs::read_to_string(&log).expect("the daemon writes");
    let pid: i32 = pid.lines().next().and_then(|it| it.parse().ok()).expect("its pid");
    let before = size(&log);
    wait_until("the daemon writes on", || size(&log) > before);
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is ours to end");
    recording.assert_whole();
    assert!(recording.operations().iter().any(|it| it.pid == pid), "it is recorded");
}

/// Fails if a thread, process, or file of ours is left when the recording is over.
fn recording_leaves_no_remains(source: Source) {
    if !can_record(&[]) {
        return;
    }
    // The probes of all tracers are in one file.
    let _alone = alone();
    let dir = scratch_dir("signals");
    let (place, output) = (dir.path().join("place"), dir.path().join("trace"));
    fs::create_dir(&place).expect("make it");
    let mut command = source.recorder(&output, &[], &["true"]);
    let environment = ("IOTRACE_TEST", dir.path().as_os_str());
    command.current_dir(&place).env(environment.0, environment.1);
    process::run(&mut command, TIMEOUT).expect("it ends").success();
    let names = |it: &Path| -> Vec<_> {
        fs::read_dir(it).expect("a directory").flatten().map(|it| it.file_name()).collect()
    };
    assert_eq!(names(&place), Vec::<std::ffi::OsString>::new());
    assert_eq!(names(&output), ["traces.iocap"]);
    let marked = |pid: &str| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mark = dir.path().as_os_str().as_encoded_bytes();
        environment.windows(mark.len()).any(|it| it == mark)
    };
    let is_marked = |entry: fs::DirEntry| entry.file_name().to_str().is_some_and(marked);
    wait_until("no process is left", || {
        !fs::read_dir("/proc").expect("proc").flatten().any(is_marked)
    });
    // A process without our environment removes the probes after the end of the tracer, and keeps
    // its instances.
    wait_until("no instance is in use", || tracer_instances().is_empty());
    if require(Need::KernelFile("/sys/kernel/tracing/instances")) && require_all(&[Need::Root]) {
        let probes = fs::read_to_string("/sys/kernel/tracing/dynamic_events").unwrap_or_default();
        assert!(!probes.contains("iotrace"), "{probes}");
    }
}

/// Fails if a caller that ignores how its children end (SIGCHLD) does not learn how the program
/// ended, or if the program does not ignore it, too.
fn end_is_seen_when_the_caller_ignores_sigchld(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("signals");
    // Not a shell: some set back what they ignore.
    let program = ["awk", "/^SigIgn/ { print } END { exit 7 }", "/proc/self/status"];
    let tracer = source.recorder(&dir.path().join("out"), &[], &program);
    let mut command = Command::new("env");
    command.arg("--ignore-signal=CHLD").arg(tracer.get_program());
    let finished = process::run(command.args(tracer.get_args()), TIMEOUT).expect("it ends");
    assert_eq!(finished.status.code(), Some(7), "{}", finished.stderr());
    let ignored = finished.stdout();
    let mask = ignored.split_whitespace().nth(1).and_then(|it| u64::from_str_radix(it, 16).ok());
    assert!(mask.is_some_and(|it| it >> 16 & 1 == 1), "SIGCHLD is 17: {ignored}");
    let recording = Recording::open(&dir.path().join("out/traces.iocap"));
    recording.assert_whole();
    assert_eq!(recording.info["exit_code"], 7, "{}", recording.info);
}
