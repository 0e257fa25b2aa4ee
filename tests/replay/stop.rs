//! Whatever ends a replay, the next command knows how far it had come: signals, calls that wait for
//! ever, a kill at any moment, a full disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::driver::process::{Finished, run, wait};
use crate::support::driver::recording::{BINARY, TIMEOUT, iotrace, plan_of_strace};
use crate::support::machine::mount::Mounted;
use crate::support::machine::requirements::{Need, require_all};
use crate::support::machine::turns::beside_others;
use crate::support::{scratch_dir, text};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

/// A plan, and a directory for its replay.
struct Replay {
    plan: PathBuf,
    root: PathBuf,
}

impl Replay {
    /// Of a program of one thread that strace has seen: times in ms, and calls with their results.
    fn new(dir: &Path, calls: &[(u32, &str)]) -> Self {
        let line = |(ms, call): &(u32, &str)| {
            format!("7 17000000{:02}.{:03}000 {call} <0.000010>\n", ms / 1000, ms % 1000)
        };
        let plan = plan_of_strace(&calls.iter().map(line).collect::<String>(), dir, "p");
        Self { plan, root: dir.join("root") }
    }

    fn init(&self, options: &[&str]) -> Finished {
        let first = ["replay", "init", text(&self.plan), "--root", text(&self.root)];
        iotrace(&[&first, options].concat())
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(["replay", "run", text(&self.plan), "--root", text(&self.root), "--json"]);
        command.args(options).stdin(Stdio::null());
        command
    }

    fn run(&self) -> Finished {
        run(&mut self.command(&["--speed", "max"]), TIMEOUT).expect("it ends")
    }

    fn purge(&self) -> Finished {
        iotrace(&["replay", "purge", "--root", text(&self.root)])
    }

    /// The words for how far it is.
    fn state(&self) -> String {
        fs::read_to_string(self.root.join("iotrace-perf.state")).unwrap_or_default()
    }
}

/// Waits until a condition holds.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..TIMEOUT.as_millis() / 10 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// True if a thread of it waits inside an open.
fn is_in_open(child: &Child) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).expect("it runs");
    let call =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
    let number = format!("{} ", nix::libc::SYS_openat);
    tasks.flatten().any(|it| call(it).starts_with(&number))
}

/// Fails if one Ctrl-C does not end a replay of which a thread waits inside the kernel: for a pipe
/// that was put in the place of a file, and whose other end is closed.
#[test]
fn blocked_call_is_interrupted() {
    if !require_all(&[Need::Root]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("stop");
    let calls = [
        (0, r#"openat(AT_FDCWD, "/d/y", O_RDONLY) = 4</d/y>"#),
        (1, r#"read(4</d/y>, ""..., 23) = 23"#),
        (4000, r#"openat(AT_FDCWD, "/d/x", O_RDONLY) = 3</d/x>"#),
        (4001, r#"read(3</d/x>, ""..., 4099) = 4099"#),
    ];
    let replay = Replay::new(dir.path(), &calls);
    replay.init(&[]).success();
    let reported = fs::File::create_new(dir.path().join("reported")).expect("space");
    let mut running = replay.command(&[]).stdout(reported).spawn().expect("it starts");
    until("it runs", || replay.state().contains("running"));
    let pipe = dir.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).expect("space");
    fs::rename(&pipe, replay.root.join("files/d/x")).expect("made");
    until("it waits", || is_in_open(&running));
    let pid = Pid::from_raw(i32::try_from(running.id()).expect("a number"));
    kill(pid, Signal::SIGINT).expect("it is there");
    let status = wait(&mut running, TIMEOUT);
    if status.is_err() {
        running.kill().expect("ours");
    }
    assert_eq!(status.expect("it ends").code(), Some(1));
    let reported = fs::read(dir.path().join("reported")).expect("ours");
    let report: Value = serde_json::from_slice(&reported).expect("a report");
    assert_eq!(report["is_whole"], false);
    assert!(report["notes"].to_string().contains("was stopped before its end"), "{report:#}");
    assert!(replay.state().contains("done"), "{}", replay.state());
    replay.purge().success();
    assert!(!replay.root.exists());
}

/// Runs a command that is killed before the call of this number; false: the command has made fewer
/// calls, and has ended well.
fn is_killed(arguments: &[&str], call: &str, number: usize) -> bool {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    strace.args(["-e", &format!("inject={call}:signal=SIGKILL:when={number}")]);
    strace.arg(BINARY).arg("replay").args(arguments);
    let finished = run(&mut strace, TIMEOUT).expect("it ends");
    match (finished.status.code(), std::os::unix::process::ExitStatusExt::signal(&finished.status))
    {
        (Some(0), _) => false,
        (Some(137), _) | (_, Some(9)) => true,
        other => panic!("{other:?}: {call} {number}: {}", finished.stderr()),
    }
}

/// Fails if a command that is killed anywhere leaves what the next one does not know: `run`
/// names the remedy, or the files are ready; `init` makes them again; `purge` removes all.
#[test]
fn killed_replay_leaves_a_state_that_the_next_command_knows() {
    if !require_all(&[Need::Root, Need::Strace]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("stop");
    let calls = [
        (0, r#"openat(AT_FDCWD, "/d/y", O_RDONLY) = 4</d/y>"#),
        (1, r#"read(4</d/y>, ""..., 23) = 23"#),
        (2, r#"openat(AT_FDCWD, "/e/x", O_RDONLY) = 3</e/x>"#),
        (3, r#"read(3</e/x>, ""..., 4099) = 4099"#),
        (4, r#"mkdir("/e/new", 0700) = 0"#),
    ];
    let replay = Replay::new(dir.path(), &calls);
    let (plan, root, part) = (text(&replay.plan), text(&replay.root), dir.path().join("part"));
    let map = format!("--map=/e={}", text(&part));
    let init = ["init", plan, "--root", root, &map];
    let run = ["run", plan, "--root", root, "--speed", "max"];
    let purge = ["purge", "--root", root];
    // Calls that make directories, that write the state, and that remove.
    let commands: [(&[&str], &[&str]); 3] = [
        (&init, &["mkdir", "mkdirat", "renameat", "fsync", "unlinkat", "chmod"]),
        (&run, &["renameat", "fsync"]),
        (&purge, &["unlinkat"]),
    ];
    let mut kills = 0;
    for (command, calls) in commands {
        for call in calls {
            for number in 1.. {
                if command[0] != "init" {
                    replay.init(&[&map]).success();
                }
                if !is_killed(command, call, number) {
                    break;
                }
                kills += 1;
                let what = format!("{} killed at {call} {number}, {}", command[0], replay.state());
                // Every second time nothing is done between.
                if number % 2 == 0 {
                    let finished = replay.run();
                    let says = finished.stderr();
                    assert!(
                        finished.status.success() || says.contains("replay init"),
                        "{what}: {says}"
                    );
                    let finished = replay.init(&[&map]);
                    assert!(finished.status.success(), "{what}: {}", finished.stderr());
                }
                let finished = replay.purge();
                let is_gone =
                    |it: &Path| fs::read_dir(it).map_or(true, |mut it| it.next().is_none());
                assert!(is_gone(&replay.root) && is_gone(&part), "{what}: {}", finished.stderr());
                let _ = (fs::remove_dir(&replay.root), fs::remove_dir(&part));
            }
            replay.purge();
        }
    }
    assert!(kills > 20, "{kills}");
}

/// Fails if a disk that is full in the middle of `init` is not reported, or leaves files that the
/// next command does not know.
#[test]
fn full_disk_during_init_is_reported() {
    if !require_all(&[Need::Root]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("stop");
    let names: Vec<String> = (0..31).map(|it| format!("/d/{it}")).collect();
    let calls: Vec<String> =
        names.iter().map(|it| format!(r#"openat(AT_FDCWD, "{it}", O_RDONLY) = 4<{it}>"#)).collect();
    let calls: Vec<(u32, &str)> = (0..).zip(calls.iter().map(|it| &**it)).collect();
    let mut replay = Replay::new(dir.path(), &calls);
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).expect("space");
    let disk = Mounted::of_kernel(&disk, "tmpfs", "size=1m,nr_inodes=23");
    replay.root = disk.path().join("root");
    let finished = replay.init(&[]);
    assert_eq!(finished.status.code(), Some(125), "{}", finished.stderr());
    let says = finished.stderr();
    assert!(says.contains("cannot make /d/") && says.contains("No space left"), "{says}");
    let finished = replay.run();
    assert!(finished.stderr().contains("(beginning); make them again"), "{}", finished.stderr());
    replay.purge().success();
    assert_eq!(fs::read_dir(disk.path()).expect("there").count(), 0);
}

/// Fails if a disk that is full in the middle of `run` is not reported, ends the replay, or leaves
/// files that the next command does not know.
#[test]
fn full_disk_during_run_is_counted() {
    if !require_all(&[Need::Root]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("stop");
    let calls = [
        (0, r#"openat(AT_FDCWD, "/d/x", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3</d/x>"#),
        (1, r#"write(3</d/x>, ""..., 700000) = 700000"#),
        (2, r#"write(3</d/x>, ""..., 700000) = 700000"#),
        (3, r#"write(3</d/x>, ""..., 700000) = 700000"#),
        (4, r#"mkdir("/d/new", 0700) = 0"#),
    ];
    let mut replay = Replay::new(dir.path(), &calls);
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).expect("space");
    let disk = Mounted::of_kernel(&disk, "tmpfs", "size=1m");
    replay.root = disk.path().join("root");
    replay.init(&[]).success();
    let finished = replay.run();
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr());
    let report: Value = serde_json::from_str(&finished.stdout()).expect("a report");
    assert_eq!(
        (&report["operations"], &report["mismatches"]),
        (&5.into(), &2.into()),
        "{report:#}"
    );
    let replayed = &report["first_mismatches"][1]["replayed"];
    assert_eq!(*replayed, -nix::libc::ENOSPC, "{report:#}");
    assert!(finished.stderr().contains("could not be listed"), "{}", finished.stderr());
    let finished = replay.run();
    assert!(finished.stderr().contains("(running); make them again"), "{}", finished.stderr());
    // Each round reports it, and the loop passes it on once.
    replay.init(&[]).success();
    let finished = run(&mut replay.command(&["--speed", "max", "--loop", "2"]), TIMEOUT);
    let says = finished.expect("it ends").stderr();
    assert_eq!(says.matches("could not be listed").count(), 1, "{says}");
    assert!(!says.contains("replay run"), "what is next is no more than the next round: {says}");
    replay.purge().success();
    assert_eq!(fs::read_dir(disk.path()).expect("there").count(), 0);
}

/// The process that is this one's child and does this, stopped there.
fn stopped_child(parent: &Child, verb: &str) -> Option<Pid> {
    let tasks = format!("/proc/{0}/task/{0}/children", parent.id());
    let children = fs::read_to_string(tasks).ok()?;
    let does = |pid: &&str| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|it| *it == 0).any(|it| it == verb.as_bytes())
    };
    let child = children.split_whitespace().find(does)?;
    let pid = Pid::from_raw(child.parse().expect("a number"));
    kill(pid, Signal::SIGSTOP).ok()?;
    // One that has ended meanwhile has no arguments any more.
    does(&child).then_some(pid)
}

/// Fails if Ctrl-C between two rounds loses what was done, or is reported as a failure.
#[test]
fn finished_rounds_are_reported() {
    if !require_all(&[Need::Root, Need::KernelFile("/proc/1/task/1/children")]) {
        return;
    }
    let _turn = beside_others();
    let calls = [(0, r#"mkdir("/new", 0700) = 0"#)];
    let check = |signal: Signal| {
        let dir = scratch_dir("stop");
        let replay = Replay::new(dir.path(), &calls);
        replay.init(&[]).success();
        let mut command = replay.command(&["--loop", "100003", "--speed", "max"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn().expect("it starts");
        let mut init = None;
        until("a round begins", || {
            init = stopped_child(&running, "init");
            init.is_some()
        });
        let init = init.expect("found");
        if signal == Signal::SIGINT {
            // The terminal signals all of them.
            kill(Pid::from_raw(running.id().try_into().expect("a number")), signal).expect("ours");
        }
        kill(init, signal).expect("a child of ours");
        let _ = kill(init, Signal::SIGCONT);
        let code = wait(&mut running, TIMEOUT).expect("it ends").code();
        let reported = |mut from: Box<dyn std::io::Read>| {
            let mut reported = String::new();
            from.read_to_string(&mut reported).expect("text");
            reported
        };
        let stdout = reported(Box::new(running.stdout.take().expect("a pipe")));
        (code, stdout, reported(Box::new(running.stderr.take().expect("a pipe"))))
    };
    let (code, stdout, stderr) = check(Signal::SIGINT);
    let report: Value = serde_json::from_str(&stdout).expect(&stderr);
    assert_eq!((code, &report["rounds_wanted"]), (Some(1), &100_003.into()), "{report:#}");
    assert!(report["rounds"].as_u64() >= Some(1) && report["operations"] == report["rounds"]);
    assert!(
        report["notes"].to_string().contains("stopped before the end of its last round"),
        "{report:#}"
    );
    // A signal from outside that ends a round is reported.
    let (code, stdout, stderr) = check(Signal::SIGKILL);
    assert_eq!((code, &*stdout), (Some(125), ""));
    assert!(stderr.contains("replay init of a round was killed (signal: 9"), "{stderr}");
}
