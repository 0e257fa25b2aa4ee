//! Events on the machine during a recording: very many processes, processors that come and go, file
//! systems without an answer, other tracers, a process that changes our tracefs instance. After
//! each the program has ended as it would have, and what is not in the log is reported.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime, clock_settime};

use crate::support::driver::process::{self, Finished};
use crate::support::driver::recording::{
    BINARY, Recording, TIMEOUT, can_record, compile, record, recorder, wait_until,
};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::Need;
use crate::support::machine::turns::{alone, tracer_instances};
use crate::support::scratch_dir;

/// Reads and writes 200,000 bytes, one by one, and ends with 5.
const WORK: [&str; 3] =
    ["sh", "-c", "dd if=/dev/zero of=/dev/null bs=1 count=200000 2>/dev/null; exit 5"];

/// Records work that ends with 5; when it is under way, `meanwhile` happens.
#[track_caller]
fn disturbed(
    dir: &Path,
    options: &[&str],
    work: &[&str],
    meanwhile: impl FnOnce() + Send,
) -> (Finished, Recording) {
    let log = dir.join("traces.iocap");
    let (finished, recording) = std::thread::scope(|it| {
        it.spawn(|| {
            // Some of it has been written.
            wait_until("it is recorded", || fs::metadata(&log).is_ok_and(|it| it.len() > 1 << 17));
            meanwhile();
        });
        record(dir, options, work)
    });
    assert_eq!(finished.status.code(), Some(5), "{}", finished.stderr());
    recording.assert_books_balance();
    assert_eq!(recording.number("damaged_bytes"), 0);
    (finished, recording)
}

/// `many WHAT COUNT FILE`; where it wrote.
fn many(dir: &Path, what: &str, count: &str) -> (Finished, Recording) {
    let program = compile("many_writers.c", dir);
    let file = dir.join("file");
    record(dir, &[], &[&program, what, count, file.to_str().expect("text")])
}

/// Fails if a process or thread is left out, or if one that is reported may be.
#[test]
fn all_of_very_many_processes_and_threads_are_recorded() {
    if !can_record(&[Need::Program("cc")]) {
        return;
    }
    let _alone = alone();
    for (what, count, call) in [("forks", "10000", "write"), ("threads", "4096", "pwrite64")] {
        let dir = scratch_dir("disturbances");
        let (finished, recording) = many(dir.path(), what, count);
        finished.success();
        recording.assert_whole();
        assert_eq!(recording.calls(call).to_string(), count, "{what}");
    }
}

/// Fails if a process is taken for another that had its number, or if a process that may have been
/// missed is not reported.
#[test]
fn reused_pids_are_other_processes() {
    let needs = [Need::Program("cc"), Need::KernelFile("/proc/sys/kernel/ns_last_pid")];
    if !can_record(&needs) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("disturbances");
    let (finished, recording) = many(dir.path(), "pids", "53");
    finished.success();
    recording.assert_books_balance();
    let mut seen = 0;
    // The cut off ones have no result.
    for it in recording.operations().iter().filter(|it| it.name == "write") {
        let (Some(path), Some(result)) = (it.path(), it.result) else { continue };
        let path = String::from_utf8(path).expect("text");
        let number = path.rsplit_once("/file.").and_then(|it| it.1.parse::<i64>().ok());
        if let Some(number) = number {
            assert_eq!(result, number % 100 + 1, "{path}");
            seen += 1;
        }
    }
    let reused = recording.number("reused_numbers");
    if recording.info["source"] == "perf" {
        assert!(seen >= 53 && reused == 0, "{seen} {reused}");
    } else {
        assert!(reused >= 52, "{seen} {reused}");
        assert!(recording.text_info().contains(&format!("the recording may lack {reused} task")));
    }
}

/// Fails if one recording takes something from another.
#[test]
fn several_tracers_do_not_disturb_each_other() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("disturbances");
    let one = |number: u32, source: &str| {
        let place = dir.path().join(number.to_string());
        let (finished, recording) = record(&place, &["--source", source], &WORK);
        assert_eq!(finished.status.code(), Some(5));
        recording.assert_books_balance();
        // Rings may run over with so many at work on few processors.
        let (reads, lost) = (recording.calls("read"), recording.number("lost"));
        let all = 200_000..=200_010;
        assert!(lost > 0 && reads < 200_010 || all.contains(&reads), "{source}: {reads} {lost}");
    };
    std::thread::scope(|it| {
        for (number, source) in (0..).zip(["tracefs", "perf", "tracefs"]) {
            it.spawn(move || one(number, source));
        }
    });
    wait_until("all instances are removed", || tracer_instances().is_empty());
}

/// Fails if a change of our instance by another process is not reported, or if it ends the
/// recording.
#[test]
fn foreign_change_of_the_instance_is_reported() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let options = ["--source", "tracefs"];
    for (file, value, reported) in [
        ("events/enable", "0", "another process has switched off or changed the tracefs instance"),
        ("tracing_on", "0", "another process has switched off or changed the tracefs instance"),
        (
            "trace_clock",
            "local",
            "another process has switched off or changed the tracefs instance",
        ),
        ("trace", "1", "another process reset the trace buffers"),
    ] {
        let dir = scratch_dir("disturbances");
        // The program reads and writes until the change has been made, however fast it is.
        let changed = dir.path().join("changed");
        let copy = "dd if=/dev/zero of=/dev/null bs=1 count=2003 2>/dev/null; sleep 0.02";
        let script = format!("until [ -e {} ]; do {copy}; done; {copy}; exit 5", changed.display());
        let (finished, recording) = disturbed(dir.path(), &options, &["sh", "-c", &script], || {
            let are_kept = tracer_instances().iter().all(|path| {
                let is_in_use = fs::remove_dir(path).is_err();
                fs::write(path.join(file), value).is_ok() && is_in_use
            });
            fs::write(&changed, "").expect("the program ends");
            assert!(are_kept, "instances are in use and can be changed");
        });
        let (said, text) = (finished.stderr(), recording.text_info());
        assert!(said.contains(reported) || text.contains(reported), "{file}: {said}\n{text}");
        wait_until("all instances are removed", || tracer_instances().is_empty());
    }
}

/// True for the ring of a tracer that this test has started: others may record at the same time.
fn is_main_of_our_child(instance: &Path) -> bool {
    let name = instance.to_string_lossy();
    let pid = name.strip_suffix("-main").and_then(|it| it.rsplit_once('-'));
    let status = pid.map(|it| fs::read_to_string(format!("/proc/{}/status", it.1)));
    let parent = format!("\nPPid:\t{}\n", std::process::id());
    status.is_some_and(|it| it.is_ok_and(|it| it.contains(&parent)))
}

/// Fails if no message reports that a ring was switched off and on again.
#[test]
fn switched_off_ring_is_reported() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("disturbances");
    let options = ["-a", "--source", "tracefs"];
    // For three seconds the log grows, whatever other programs do.
    let script = "for i in $(seq 30); do dd if=/dev/zero of=/dev/null bs=1 count=2003 2>&-; sleep 0.1; done; exit 5";
    let (finished, recording) = disturbed(dir.path(), &options, &["sh", "-c", script], || {
        let switch = |value: &str| {
            for it in tracer_instances().iter().filter(|it| is_main_of_our_child(it)) {
                fs::write(it.join("tracing_on"), value).expect("we may");
            }
        };
        std::thread::sleep(Duration::from_millis(300));
        switch("0");
        std::thread::sleep(Duration::from_millis(1000));
        switch("1");
    });
    let reported = "off and on again: main between ";
    assert!(finished.stderr().contains(reported), "{}", finished.stderr());
    let warnings = recording.info["warnings"].to_string();
    assert!(warnings.contains(reported), "{warnings}");
}

/// Fails if a processor that goes offline takes the recording, or what it had recorded, with it, or
/// if that is not reported.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn offline_processor_is_reported() {
    // It must not be over before the CPU is off.
    const LONG: [&str; 3] =
        ["sh", "-c", "dd if=/dev/zero of=/dev/null bs=1 count=2000000 2>/dev/null; exit 5"];
    const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";
    if !can_record(&[Need::KernelFile(ONLINE)]) {
        return;
    }
    // The CPU is online, so nothing happens yet.
    if let Err(error) = fs::write(ONLINE, "1") {
        eprintln!("skipped: processors cannot be switched off here: {error}");
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("disturbances");
    let (finished, recording) = disturbed(dir.path(), &[], &LONG, || {
        fs::write(ONLINE, "0").expect("we may");
        std::thread::sleep(Duration::from_millis(200));
        fs::write(ONLINE, "1").expect("it comes back");
    });
    assert!(finished.stderr().contains("went offline: CPU 1"), "{}", finished.stderr());
    assert!(recording.calls("read") > 1000);
    // The next one has all.
    let again = scratch_dir("disturbances");
    let (finished, recording) =
        record(again.path(), &[], &["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1009"]);
    finished.success();
    recording.assert_whole();
    assert!((1009..1020).contains(&recording.calls("read")));
}

/// A wall clock that was set: until this is dropped, whatever happens, and as far as possible at
/// once.
struct WallClock {
    /// Times of the wall clock and the monotonic clock.
    before: (Duration, Duration),
}

impl WallClock {
    /// Sets it back by so much; `None`: we may not.
    fn set_back(by: Duration) -> Option<Self> {
        let before = (read(ClockId::CLOCK_REALTIME), read(ClockId::CLOCK_MONOTONIC));
        set(before.0 - by).ok().map(|()| Self { before })
    }
}

impl Drop for WallClock {
    fn drop(&mut self) {
        let (wall, then) = self.before;
        set(wall + (read(ClockId::CLOCK_MONOTONIC) - then)).expect("we could before");
    }
}

fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).expect("it is there").into()
}

fn set(wall: Duration) -> nix::Result<()> {
    clock_settime(ClockId::CLOCK_REALTIME, wall.into())
}

/// Fails if anything that is recorded depends on the wall clock, or if no message reports that it
/// was set.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn wall_clock_change_is_reported() {
    const BY: Duration = Duration::from_secs(90);
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    if WallClock::set_back(Duration::ZERO).is_none() {
        eprintln!("skipped: the clock cannot be set here");
        return;
    }
    for is_restored in [true, false] {
        let dir = scratch_dir("disturbances");
        let began = read(ClockId::CLOCK_REALTIME);
        let tracer = dir.path().join("tracer");
        let set_back = dir.path().join("set");
        let script = format!(
            "echo $PPID > {}; dd if=/dev/zero of=/dev/null bs=1 count=200000 2>/dev/null; \
             while ! [ -e {} ]; do :; done; dd if=/dev/zero of=/dev/null bs=1 count=1009 2>/dev/null; exit 5",
            tracer.display(),
            set_back.display()
        );
        let (_, recording) = disturbed(dir.path(), &[], &["sh", "-c", &script], || {
            let pid = fs::read_to_string(&tracer).expect("it is written first");
            let tracer = Path::new("/proc").join(pid.trim());
            let clock = WallClock::set_back(BY).expect("we could before");
            std::thread::sleep(Duration::from_millis(100));
            let clock = (!is_restored).then_some(clock);
            // The program comes to its end, and the clock is looked at. Others use this machine:
            // not for ever.
            fs::write(&set_back, "").expect("write it");
            (0..100).take_while(|_| clock.is_some() && tracer.exists()).for_each(|_| {
                std::thread::sleep(Duration::from_millis(20));
            });
            drop(clock);
        });
        let (reads, lost) = (recording.calls("read"), recording.number("lost"));
        assert!(lost > 0 || (201_009..201_029).contains(&reads), "{reads} {lost}");
        assert_eq!(recording.number("unmatched"), 0);
        // No time of another clock is in it: none is outside of the recording, or ends before it
        // has begun.
        let (whole, operations) = (recording.number("duration_ns"), recording.operations());
        for it in &operations {
            let end = it.start_ns + it.duration_ns.unwrap_or(0).cast_signed();
            assert!(it.start_ns <= end && end.unsigned_abs() <= whole, "{it:?} {whole}");
        }
        let start = Duration::from_nanos(recording.number("start_realtime_ns"));
        assert!(start >= began && start < began + TIMEOUT, "{start:?} {began:?}");
        let moved = recording.info["wall_moved_ns"].as_i64().expect("it was looked at");
        let expected = if is_restored { 0 } else { -90_000_000_000 };
        assert!((moved - expected).abs() < 50_000_000, "{moved}");
        let reported = recording.text_info().contains("the wall clock was set meanwhile");
        assert_eq!(reported, !is_restored);
    }
}

/// Fails if the program waits for the disk of its log, or if what was lost meanwhile is not
/// counted.
#[test]
fn frozen_file_system_does_not_block_the_program() {
    if !can_record(&[Need::Loop, Need::Program("fsfreeze")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("disturbances");
    let disk = Mounted::new(dir.path(), "ext4", 64 << 20);
    let freeze = |how: &str| {
        let mut command = Command::new("fsfreeze");
        process::run(command.arg(how).arg(disk.path()), TIMEOUT).expect("it ends").success();
    };
    let (place, frozen) = (disk.path().join("t"), dir.path().join("frozen"));
    let ended = dir.path().join("ended");
    // Most calls are made while the file system is frozen.
    let script = format!(
        "until [ -e {} ]; do dd if=/dev/zero of=/dev/null bs=1 count=2003; sleep 0.02; done; \
         dd if=/dev/zero of=/dev/null bs=1 count=200000; touch {}; exit 5",
        frozen.display(),
        ended.display()
    );
    let (_, recording) = disturbed(&place, &["-m", "256K"], &["sh", "-c", &script], || {
        freeze("--freeze");
        fs::write(&frozen, "").expect("the program goes on");
        // Nothing of its log can be written, and it comes to its end all the same.
        wait_until("the program ends", || ended.exists());
        freeze("--unfreeze");
    });
    let (reads, lost) = (recording.calls("read"), recording.number("lost"));
    assert!(lost > 0 || reads >= 202_003, "{reads} {lost}");
}

/// Fails if a disk that is full when the archive is written costs the log, or leaves half an
/// archive.
#[test]
fn full_disk_during_the_archive_costs_no_log() {
    if !can_record(&[Need::Program("unshare"), Need::Program("mount")]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("disturbances");
    let (finished, recording) = record(dir.path(), &[], &WORK);
    assert_eq!(finished.status.code(), Some(5));
    let (small, log) = (dir.path().join("small"), dir.path().join("traces.iocap"));
    fs::create_dir(&small).expect("make it");
    let (small, log) = (small.display(), log.display());
    let script = format!(
        "mount -t tmpfs -o size=1m none {small} || exit 77; {BINARY} convert {log} -o {small}/x/; code=$?; \
         find {small}/x -type f | grep . && exit 78; exit $code"
    );
    let mut command = Command::new("unshare");
    let finished = process::run(command.args(["-m", "sh", "-c", &script]), TIMEOUT).expect("ends");
    assert_eq!(finished.status.code(), Some(125), "{}", finished.stderr());
    for part in ["No space left on device", "convert"] {
        assert!(finished.stderr().contains(part), "{}", finished.stderr());
    }
    assert_eq!(Recording::open(Path::new(&log.to_string())).info, recording.info);
}

/// Fails if the log of a program that is killed does not state it, or is not whole.
#[test]
fn killed_program_is_reported() {
    if !can_record(&[]) {
        return;
    }
    let _alone = alone();
    let dir = scratch_dir("disturbances");
    let script = "dd if=/dev/zero of=/dev/null bs=1 count=1009 2>/dev/null; kill -9 $$";
    let (finished, recording) = record(dir.path(), &[], &["sh", "-c", script]);
    // The caller of the tracer sees the same status.
    assert_eq!(finished.status.signal(), Some(9), "{}", finished.stderr());
    recording.assert_whole();
    assert_eq!(recording.info["exit_signal"], 9);
    assert!((1009..1020).contains(&recording.calls("write")));
}

/// Fails if a tracer without enough memory harms the program, or records less than it reports.
#[test]
fn tracer_without_memory_does_not_harm_the_program() {
    if !can_record(&[Need::Program("prlimit")]) {
        return;
    }
    let _alone = alone();
    for mebibytes in [24, 32, 40, 48, 64, 96] {
        let dir = scratch_dir("disturbances");
        let tracer = recorder(dir.path(), &[], &["sh", "-c", "echo ran; exit 5"]);
        let mut command = Command::new("prlimit");
        command.arg(format!("--as={}", mebibytes << 20)).arg(tracer.get_program());
        let finished = process::run(command.args(tracer.get_args()), TIMEOUT).expect("it ends");
        let log = dir.path().join("traces.iocap");
        if finished.stdout().is_empty() {
            assert_ne!(finished.status.code(), Some(5), "{mebibytes}: it has not run");
            // Without memory the program may have been killed (SIGABRT), as by any signal.
            let is_killed = finished.status.signal().is_some();
            assert!(is_killed || !log.exists(), "{mebibytes}: nothing is left");
        } else {
            let recording = Recording::open(&log);
            recording.assert_books_balance();
            // If that killed it while it recorded, the log says that it has no end; of more than it
            // needs there is an end.
            let is_killed = finished.status.signal() == Some(libc::SIGABRT) && mebibytes < 64;
            let is_reported = is_killed && recording.info["complete"] == false;
            let is_whole = finished.status.code() == Some(5);
            assert!(is_whole || is_reported, "{mebibytes}: {}", finished.stderr());
        }
    }
    // The next one removes what the killed ones left.
    let dir = scratch_dir("disturbances");
    record(dir.path(), &[], &["true"]).0.success();
    wait_until("all instances are removed", || tracer_instances().is_empty());
}
