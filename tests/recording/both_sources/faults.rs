//! When something goes wrong: what has been recorded is kept, the program goes on, and the message
//! names the remedy.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::support::driver::process::{self, Finished};
use crate::support::driver::recording::{
    BINARY, Recording, Source, TIMEOUT, can_record, compile, now_ns, size, wait_until,
};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::subreaper::Subreaper;
use crate::support::machine::turns::{alone, beside_others, tracer_instances};
use crate::support::{copy_program, public_scratch_dir, scratch_dir};

for_each_source! {
    killed_tracer_loses_at_most_half_a_second,
    nothing_is_overwritten,
    impossible_outputs_are_refused,
    losses_are_reported,
    tracer_killed_before_the_start_runs_nothing,
    failed_log_writeback_is_reported,
}

/// Duration that `kill -9` of the tracer may lose.
const LOSS_NS_MAX: u64 = 500_000_000;

/// Kills the tracer in the middle of the program's work. How long before it the last recorded write
/// was made, ns.
fn loss_by_kill(source: Source, dir: &Path) -> u64 {
    let program = compile("clock_appender.c", dir);
    let out = dir.join("written");
    let out_text = out.to_str().expect("text");
    let log = dir.join("trace/traces.iocap");
    let mut command = source.recorder(&dir.join("trace"), &[], &[&program, out_text, "3"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut tracer = command.spawn().expect("it starts");
    wait_until("the program has worked for a while", || size(&out) > 8 * 2000);
    let killed = now_ns();
    tracer.kill().and_then(|()| tracer.wait()).expect("it can be killed");
    let recording = Recording::open(&log);
    assert_eq!(recording.info["complete"], false);
    recording.assert_books_balance();
    // The program lives on, and ends as it would have.
    let pid = recording.info["roots"][0].as_i64().and_then(|it| i32::try_from(it).ok());
    let pid = Pid::from_raw(pid.expect("the program's number"));
    assert_eq!(waitpid(pid, None), Ok(WaitStatus::Exited(pid, 7)));
    let stamps: Vec<u64> = fs::read(&out)
        .expect("the program wrote it")
        .chunks_exact(8)
        .map(|it| u64::from_ne_bytes(it.try_into().expect("eight bytes")))
        .collect();
    assert!(stamps.last().is_some_and(|&it| it > killed), "it wrote on");
    let operations = recording.operations();
    let recorded = operations
        .iter()
        .filter(|it| it.name == "write" && it.path.as_deref() == Some(out_text))
        .filter(|it| it.result == Some(8))
        .count();
    assert!(recorded > 0 && recorded <= stamps.len());
    recording.assert_archive(&dir.join("archive"));
    // The first that is missing.
    stamps.get(recorded).map_or(0, |&it| killed.saturating_sub(it))
}

/// Fails if a killed tracer takes the program with it, or leaves a log that cannot be read, or of
/// which more is missing than half a second.
fn killed_tracer_loses_at_most_half_a_second(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    // The program becomes our child when its parent is gone.
    let _orphans = Subreaper::new();
    // On a machine that is busy with other things, the log may come to its turn late: the best of
    // three counts.
    let mut losses = Vec::new();
    for _ in 0..3 {
        let dir = scratch_dir("faults");
        losses.push(loss_by_kill(source, dir.path()));
        if losses.last().is_some_and(|&it| it <= LOSS_NS_MAX) {
            return;
        }
    }
    panic!("more is missing than {LOSS_NS_MAX} ns: {losses:?}");
}

/// The message names the fault and the remedy, the exit code is our own, and nothing was run.
#[track_caller]
fn assert_refused(finished: &Finished, said: &[&str]) {
    assert_eq!(finished.status.code(), Some(125), "{}", finished.stderr());
    assert!(finished.stdout.is_empty());
    let text = finished.stderr();
    assert!(text.lines().all(|it| it.starts_with("iotrace-perf: ")), "{text}");
    for part in said {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
}

/// Fails if anything that is there already is written over, or the program runs although nothing
/// can be recorded.
fn nothing_is_overwritten(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("faults");
    let output = dir.path().join("trace");
    let ran = dir.path().join("ran");
    let target = dir.path().join("target");
    fs::create_dir(&output).expect("make it");
    for name in ["traces.iocap", "traces.otf2", "traces.def", "traces"] {
        for is_link in [false, true] {
            let there = output.join(name);
            if is_link {
                symlink(&target, &there).expect("make a link to nothing");
            } else {
                fs::write(&there, "precious").expect("write it");
            }
            let mut command =
                source.recorder(&output, &[], &["touch", ran.to_str().expect("text")]);
            let finished = process::run(&mut command, TIMEOUT).expect("it ends");
            assert_refused(&finished, &[name, "there already", "-o"]);
            assert!(!ran.exists() && !target.exists());
            if !is_link {
                assert_eq!(fs::read_to_string(&there).expect("still there"), "precious");
            }
            fs::remove_file(&there).expect("remove it");
            assert_eq!(fs::read_dir(&output).expect("a directory").count(), 0, "{name}");
        }
    }
}

/// Fails if what the program itself makes at the archive's place is removed or written over, or if
/// that goes unsaid.
#[test]
fn file_of_the_program_at_the_archive_path_stays() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("faults");
    let script = "mkdir trace; echo precious > trace/result; exit 3";
    let mut command = Command::new(BINARY);
    command.args(["-o", "trace.otf2", "--", "sh", "-c", script]).current_dir(dir.path());
    let finished = process::run(&mut command, TIMEOUT).expect("it ends");
    assert_eq!(finished.status.code(), Some(3), "the program's own");
    assert!(finished.stderr().contains("is there already"), "{}", finished.stderr());
    let result = fs::read_to_string(dir.path().join("trace/result")).expect("it is still there");
    assert_eq!(result, "precious\n");
    assert_eq!(fs::read_dir(dir.path().join("trace")).expect("a directory").count(), 1);
}

/// Fails if an output that cannot be created is not reported, or the program runs.
fn impossible_outputs_are_refused(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("faults");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("write it");
    for output in [file.join("trace"), dir.path().join("no/such/place")] {
        let mut command = source.recorder(&output, &[], &["true"]);
        let finished = process::run(&mut command, TIMEOUT).expect("it ends");
        assert_refused(&finished, &["cannot make"]);
    }
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
}

/// Fails if a full disk ends the program, changes its exit code, or makes the log unreadable.
#[test]
fn full_disk_leaves_a_readable_log() {
    if !can_record(&[Need::Program("unshare"), Need::Program("mount")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("faults");
    let (small, kept) = (dir.path().join("small"), dir.path().join("kept.iocap"));
    fs::create_dir(&small).expect("make it");
    let ran = dir.path().join("ran");
    // A mount that only these processes see, and that goes with them.
    let script = format!(
        "mount -t tmpfs -o size=2m none {small} || exit 77; \
         {BINARY} --no-archive -o {small}/trace/ -- sh -c '\
         dd if=/dev/zero of=/dev/null bs=1 count=1000000 2>/dev/null; touch {ran}; exit 9'; \
         code=$?; cp {small}/trace/traces.iocap {kept}; exit $code",
        small = small.display(),
        ran = ran.display(),
        kept = kept.display()
    );
    let mut command = Command::new("unshare");
    let finished = process::run(command.args(["-m", "sh", "-c", &script]), TIMEOUT).expect("ends");
    assert_eq!(finished.status.code(), Some(9), "{}", finished.stderr());
    assert!(ran.exists(), "the program ran to its end");
    let said = finished.stderr();
    for part in ["error: cannot write", "No space left on device", "-o"] {
        assert!(said.contains(part), "`{part}` is not in {said}");
    }
    let recording = Recording::open(&kept);
    recording.assert_books_balance();
    assert_eq!(recording.number("lost"), 0);
    assert_eq!(recording.number("damaged_bytes"), 0, "the log ends with a whole frame");
    // The log has the beginning of the program, and not all of it.
    let reads = recording.calls("read");
    assert!((100_000..1_000_000).contains(&reads), "{reads}");
    let all = recording.info["complete"] == true && recording.info["unwritten"] == 0;
    assert!(!all, "it says that something is missing: {:#}", recording.info);
}

/// In a mount namespace of its own: no process keeps the format files of tracefs there.
const NOTHING_KEPT: &str = "mount -t tmpfs tmpfs /var/cache";

/// Fails if a user without the right to trace gets anything but a clear message.
#[test]
fn without_the_right_to_trace() {
    if !can_record(&[Need::Program("setpriv"), Need::Program("unshare")]) {
        return;
    }
    let _turn = beside_others();
    // A directory that others may enter and write.
    let place = public_scratch_dir("iotrace");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("open it");
    let binary = place.path().join("iotrace-perf");
    copy_program(BINARY, &binary);
    let (output, ran) = (format!("{}/trace/", place.path().display()), place.path().join("ran"));
    // With what tracefs says of the kernel kept for them they could
    // (tests/recording/unprivileged.rs).
    let script = format!(
        "{NOTHING_KEPT} && exec setpriv --reuid 65534 --regid 65534 --clear-groups {} --no-archive -o {output} -- touch {}",
        binary.display(),
        ran.display()
    );
    let mut command = Command::new("unshare");
    let finished = process::run(command.args(["-m", "sh", "-c", &script]), TIMEOUT).expect("ends");
    assert_refused(&finished, &["tracefs is for root only", "sudo iotrace-perf doctor --cache"]);
    assert!(!ran.exists() && !Path::new(&output).exists(), "runs nothing, leaves nothing");
}

/// Fails if a machine without tracefs gets anything but the command that mounts it.
#[test]
fn without_tracefs() {
    if !can_record(&[Need::Program("unshare"), Need::Program("umount")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("faults");
    let script = format!(
        "{NOTHING_KEPT} && umount -a -t tracefs || exit 77; exec {BINARY} --no-archive -o {}/trace/ -- true",
        dir.path().display()
    );
    let mut command = Command::new("unshare");
    let finished = process::run(command.args(["-m", "sh", "-c", &script]), TIMEOUT).expect("ends");
    assert_refused(&finished, &["tracefs", "mount -t tracefs tracefs /sys/kernel/tracing"]);
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0, "leaves nothing");
}

/// Fails if a wrong command line is not reported, or something is recorded all the same.
#[test]
fn wrong_command_lines_are_refused() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("faults");
    for (arguments, said) in [
        (["-e", "reed", "--", "true"].as_slice(), "unknown event reed"),
        (&["-o", "trace.json", "--", "true"], "JSON is made from a log"),
        (&["-o", "{NONE}.otf2", "--", "true"], "unknown {NONE}"),
        (&["-m", "7X", "--", "true"], "there is no unit X"),
        (&[], "nothing to record"),
    ] {
        let mut command = Command::new(BINARY);
        let finished = process::run(command.args(arguments).current_dir(dir.path()), TIMEOUT);
        let finished = finished.expect("it ends");
        assert_eq!(finished.status.code(), Some(125), "{arguments:?}");
        assert!(finished.stderr().contains(said), "{}", finished.stderr());
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0, "{arguments:?}");
    }
}

/// Fails if rings that are too small for a program lose records without a word, or with books that
/// do not balance.
fn losses_are_reported(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("faults");
    // The reader of the rings is stopped: they must run over.
    let script = "kill -STOP $PPID; dd if=/dev/zero of=/dev/null bs=1 count=100000 2>/dev/null; kill -CONT $PPID; exit 0";
    let (finished, recording) =
        source.record(&dir.path().join("trace"), &["-m", "64K"], &["sh", "-c", script]);
    recording.assert_books_balance();
    let lost = recording.number("lost");
    assert!(lost > 0, "{:#}", recording.info);
    let said = finished.success().stderr();
    assert!(said.contains(&format!("lost {lost},")) && said.contains("--buffer-size"), "{said}");
    let reported: u64 =
        recording.anomalies().iter().filter(|it| it.what == "lost").map(|it| it.count).sum();
    assert!(reported > 0 && reported <= lost, "{reported} of {lost}");
    // At the moment of switching off, a hit of each CPU may be counted and neither written nor lost
    // (`assert_whole`); it is reported, too.
    let missing = recording.info["missing"].as_object().expect("a map");
    for (name, count) in missing.iter().filter(|it| !it.0.starts_with("block:")) {
        assert!(said.contains(&format!("{count} {name}")), "{said}");
        let is_one_each = count.as_u64().is_some_and(|it| it <= recording.number("cpus"));
        assert!(is_one_each, "{missing:?}");
    }
}

/// Fails if signals that the tracer gets in a bad moment leave a program that never started.
fn tracer_killed_before_the_start_runs_nothing(source: Source) {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let orphans = Subreaper::new();
    for _ in 0..5 {
        let dir = scratch_dir("faults");
        let ran = dir.path().join("ran");
        let mut command = source.recorder(
            &dir.path().join("trace"),
            &[],
            &["touch", ran.to_str().expect("text")],
        );
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut tracer = command.spawn().expect("it starts");
        let log = dir.path().join("trace/traces.iocap");
        wait_until("it has begun", || log.exists() || ran.exists());
        let tracer_pid = Pid::from_raw(tracer.id().try_into().expect("a pid"));
        // The tracer may have got further already; the test is that no child waits for ever.
        let _ = kill(tracer_pid, Signal::SIGKILL);
        tracer.wait().expect("it is ours");
        orphans.reap_all();
    }
}

/// Fails if what a killed tracer leaves in the kernel is still there after the next recording, or
/// if that removes what a living tracer needs.
#[test]
fn remains_of_a_killed_tracer_are_removed() {
    if !can_record(&[Need::KernelFile("/sys/kernel/tracing/instances")]) {
        return;
    }
    // Alone: no free instance has the name of another tracer.
    let _turn = alone();
    let dir = scratch_dir("faults");
    let all = Path::new("/sys/kernel/tracing/instances");
    let of = |tracer: u32| {
        let entries = fs::read_dir(all).expect("instances").flatten();
        let prefix = format!("iotrace-{tracer}-");
        entries.filter(|it| it.file_name().to_string_lossy().starts_with(&prefix)).count()
    };
    let begin = |name: &str| {
        let place = dir.path().join(name);
        let mut command = Command::new(BINARY);
        command
            .args(["--source", "tracefs", "--no-archive", "-o"])
            .arg(format!("{}/", place.display()));
        // The program outlives its tracer.
        command.args(["--", "sleep", "30"]).stdout(Stdio::null()).stderr(Stdio::null());
        let tracer = command.spawn().expect("it starts");
        wait_until("it records", || size(&place.join("traces.iocap")) > 0);
        tracer
    };
    let (mut dead, mut alive) = (begin("dead"), begin("alive"));
    wait_until("both have theirs", || of(dead.id()) > 1 && of(alive.id()) > 1);
    dead.kill().expect("it runs");
    dead.wait().expect("it is ours");
    assert!(of(dead.id()) > 1, "they are not removed yet");
    let mut next = Command::new(BINARY);
    let said = process::run(next.arg("doctor"), TIMEOUT).expect("it ends").stdout();
    assert_eq!(of(dead.id()), 0, "{said}");
    assert!(of(alive.id()) > 1, "{said}");
    kill(Pid::from_raw(alive.id().try_into().expect("a pid")), Signal::SIGTERM).expect("it runs");
    alive.wait().expect("it is ours");
    wait_until("its instances are removed or free", || tracer_instances().is_empty());
}

/// Fails if a limit on the size of files ends the tracer without a word, or if the program does not
/// die by it as it does without us.
#[test]
fn a_limit_on_the_size_of_files() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("faults");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let script = format!(
        "ulimit -f 40; exec {BINARY} --no-archive -o {}/ -- sh -c '\
         dd if=/dev/zero of={} bs=65536 count=1 2>/dev/null; echo $?; \
         dd if=/dev/zero of=/dev/null bs=1 count=300000 2>/dev/null'",
        at("trace"),
        at("large")
    );
    let finished =
        process::run(Command::new("sh").args(["-c", &script]), TIMEOUT).expect("it ends");
    let said = finished.stderr();
    assert!(said.contains("File too large") && said.contains("ulimit -f unlimited"), "{said}");
    // 128 and SIGXFSZ.
    assert_eq!(finished.stdout(), "153\n", "{said}");
    assert_eq!(
        finished.status.code(),
        Some(125),
        "the program's 0 does not say that the log is short"
    );
    Recording::open(&dir.path().join("trace/traces.iocap")).assert_books_balance();
}

/// Fails if limits that are too low are not raised and given back to the program, or if the
/// message does not name those that cannot be.
#[test]
fn too_low_limits_are_refused() {
    if !can_record(&[Need::Program("setpriv")]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("faults");
    for (limit, number, help) in [("-s", "64", "ulimit -s 8192"), ("-n", "8", "ulimit -n 1024")] {
        let at = dir.path().join(limit);
        let script = format!(
            "ulimit -S {limit} {number}; exec {BINARY} --no-archive -o {}/ -- sh -c 'ulimit {limit}'",
            at.display()
        );
        let run = |command: &mut Command| process::run(command, TIMEOUT).expect("it ends");
        let finished = run(Command::new("sh").args(["-c", &script])).success();
        assert_eq!(finished.stdout(), format!("{number}\n"), "{}", finished.stderr());
        let script = format!("ulimit {limit} {number}; exec {BINARY} list");
        let bare = ["--bounding-set=-all", "--inh-caps=-all", "sh", "-c", &script];
        assert_refused(&run(Command::new("setpriv").args(bare)), &[help]);
    }
}

/// Fails if a log that the disk has not taken counts as written.
fn failed_log_writeback_is_reported(source: Source) {
    let needs = [Need::Loop, Need::Program("mkfs.ext2"), Need::Program("mount")];
    if !can_record(&needs) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("faults");
    let below = dir.path().join("below");
    fs::create_dir(&below).expect("space");
    // The file system has room for a log that its disk has not.
    let kernel = Mounted::of_kernel(&below, "tmpfs", "size=8m");
    let disk = Mounted::new(kernel.path(), "ext2", 64 << 20);
    process::run(&mut Command::new("sync"), TIMEOUT).expect("it ends");
    let filler = format!("cat /dev/zero > {}/filler", below.display());
    process::run(Command::new("sh").args(["-c", &filler]), TIMEOUT).expect("it ends");
    let program = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=200003"];
    let mut command = source.recorder(&disk.path().join("trace"), &[], &program);
    let finished = process::run(&mut command, TIMEOUT).expect("it ends");
    let said = finished.stderr();
    assert!(said.contains("cannot flush the log"), "{said}");
    assert!(!said.contains("iotrace-perf: wrote "), "{said}");
    assert_eq!(finished.status.code(), Some(125), "{said}");
}
